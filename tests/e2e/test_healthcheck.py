# SPDX-License-Identifier: GPL-2.0-only
"""scripts/healthcheck.py: the doctor's parts and its own, as a table and as JSON. Foreign programs are fakes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from bigos.config import Config, load_config
from command_line import REPO, Home
from processes import PATIENCE

SCRIPT = REPO / "scripts" / "healthcheck.py"


@pytest.fixture(scope="module")
def healthcheck() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("healthcheck", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_config({"HOME": str(tmp_path)})


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts shell scripts on a PATH that has nothing else."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)

    return put


def run(home: Home, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(
        command, env=home.environment(**variables), cwd=home.path, capture_output=True, text=True, timeout=PATIENCE
    )


def test_a_working_installation_is_well_in_every_part(home: Home) -> None:
    file = home.path / "note.txt"
    file.write_text("The clock divider is set before the transfer.", encoding="utf-8")
    assert home.ingest(file).code == 0
    result = run(home, "--json", "--warmup")
    assert result.returncode == 0, result.stdout
    document = json.loads(result.stdout)
    assert document["schema"] == "bigos.doctor.v1"
    assert document["ok"] is True
    parts = {check["name"].lower(): check for check in document["checks"]}
    expected = {"python", "packages", "configuration", "disk space", "model file", "tokenizer", "embedder", "store",
                "ocr", "inbox", "fingerprint"}  # fmt: skip
    assert expected <= parts.keys()
    assert "multilingual-e5-small" in parts["fingerprint"]["detail"]
    doctor = home.bigos("doctor", "--json").json
    assert [check["name"] for check in document["checks"]][: len(doctor["checks"])] == [
        check["name"] for check in doctor["checks"]
    ]


def test_what_failed_stands_in_the_table_with_its_cure(home: Home) -> None:
    result = run(home, BIGOS_MODELS_DIR=str(home.path / "none"), COLUMNS="80")
    assert result.returncode == 4
    assert "Traceback" not in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["part", "state", "what", "was", "seen"]
    (row,) = (number for number, line in enumerate(lines) if line.startswith("model file "))
    assert "FAILED" in lines[row]
    hints = [line.strip() for line in lines[row + 1 : row + 5]]
    assert "hint: ./setup.sh" in hints
    assert lines[-1].endswith("parts failed")
    assert max(len(line) for line in lines if str(home.path) not in line and " /" not in line) <= 80


def test_a_configuration_that_cannot_be_read_leaves_one_part_to_mend(home: Home) -> None:
    file = home.path / "broken.toml"
    file.write_text("stor = 1\n", encoding="utf-8")
    result = run(home, "--json", "--config", str(file))
    assert result.returncode == 4
    failed = [check for check in json.loads(result.stdout)["checks"] if check["state"] == "failed"]
    assert [check["name"] for check in failed] == ["configuration"]
    assert "stor" in failed[0]["detail"]


LANGUAGES = (
    'case $1 in --version) echo "tesseract 5.5.0" ;; *) echo "List of available languages (3):"; echo {} ;; esac'
)


@pytest.mark.parametrize(
    ("programs", "state", "seen", "fix"),
    [
        ({}, "warning", "not installed: tesseract, pdftoppm", "./setup.sh --with-ocr"),
        ({"pdftoppm": "", "tesseract": LANGUAGES.format("eng; echo osd; echo pol")}, "ok", "eng, pol; pdftoppm", None),
        (
            {"pdftoppm": "", "tesseract": LANGUAGES.format("eng")},
            "failed",
            "tesseract 5.5.0 has no data for pol, only eng",
            "./setup.sh --with-ocr",
        ),
        ({"pdftoppm": "", "tesseract": "exit 127"}, "failed", "exit code 127", "./setup.sh --with-ocr"),
    ],
)
def test_the_ocr_tools_are_looked_at_with_the_configured_languages(
    *,
    healthcheck: ModuleType,
    config: Config,
    program: Callable[[str, str], None],
    programs: dict[str, str],
    state: str,
    seen: str,
    fix: str | None,
) -> None:
    for name, text in programs.items():
        program(name, text)
    check = healthcheck.ocr(config)
    assert (check.state, check.fix) == (state, fix)
    assert seen in check.detail


@pytest.mark.parametrize(
    ("systemctl", "state", "seen", "fix"),
    [
        (None, "ok", "no systemd here", None),
        ("echo not-found >&2; exit 4", "ok", "no folder is watched", None),
        ("echo disabled; exit 1", "ok", "bigos-ingest.path is disabled", None),
        ("case $2 in is-enabled) echo enabled ;; *) echo active ;; esac", "ok", "bigos-ingest.path watches", None),
        (
            "case $2 in is-enabled) echo enabled ;; *) echo failed; exit 3 ;; esac",
            "failed",
            "bigos-ingest.path is failed",
            "systemctl --user restart bigos-ingest.path",
        ),
    ],
)
def test_the_inbox_is_well_unless_it_is_wanted_and_does_not_watch(
    *,
    healthcheck: ModuleType,
    config: Config,
    program: Callable[[str, str], None],
    systemctl: str | None,
    state: str,
    seen: str,
    fix: str | None,
) -> None:
    if systemctl:
        program("systemctl", systemctl)
    check = healthcheck.inbox(config)
    assert (check.state, check.fix) == (state, fix)
    assert seen in check.detail


def test_a_program_that_does_not_come_back_is_left(
    healthcheck: ModuleType, config: Config, program: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("pdftoppm", "")
    program("tesseract", "while :; do :; done")
    monkeypatch.setattr(healthcheck, "PATIENCE", 0.2)
    assert healthcheck.ocr(config).state == "failed"

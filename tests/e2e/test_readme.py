# SPDX-License-Identifier: GPL-2.0-only
"""The README tells the truth: its commands run, in its order, and do what it says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bigos.config import user_environment
from processes import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (\S.*)$", README, re.MULTILINE)
RUN_BY_CI = {
    "./setup.sh --yes": "scripts/test.sh",
    "./scripts/test.sh": ".ci/run",
    "./setup.sh --server --enable-linger": "tests/e2e/test_setup_server.py",
    "./setup.sh --with-inbox-watcher": "tests/e2e/test_setup_inbox.py",
}
"""Commands that run these tests, and so cannot be run by them: the file that runs each."""


COMMANDS_OF_BIGOS = ("ingest", "watch", "search", "show", "doctor", "migrate", "calibrate", "eval")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    inherited = {name: value for name, value in user_environment().items() if not name.startswith(("BIGOS_", "XDG_"))}
    return inherited | {"HOME": str(home)}


@pytest.fixture(scope="module")
def output(environment: dict[str, str]) -> dict[str, str]:
    """What each command printed, run in the README's order on one index."""
    printed: dict[str, str] = {}
    for command in COMMANDS:
        if command in RUN_BY_CI:
            continue
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed[command] = done.stdout
    return printed


def test_the_readme_has_commands() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("command", "file"), RUN_BY_CI.items())
def test_what_cannot_run_inside_a_test_is_run_by_ci(command: str, file: str) -> None:
    assert command in COMMANDS
    words = command.removeprefix("./").split()
    assert all(word in (ROOT / file).read_text(encoding="utf-8") for word in words)


def test_the_commands_run_and_the_first_question_crosses_the_language(output: dict[str, str]) -> None:
    question = next(command for command in COMMANDS if "dzielnik zegara SPI" in command)
    assert "english/spi-clock-notes.md" in output[question]
    shown = re.search(r"```text\n\S+ (\[.*?\]) …(.*?)```", README, re.DOTALL)
    assert shown, "the README shows a hit"
    assert shown[1] in output[question]
    lines = [line for line in shown[2].splitlines() if line and line != "…"]
    assert len(lines) > 2
    assert [line for line in lines if line not in output[question]] == []


def test_every_flag_of_the_readme_exists() -> None:
    flags = set(re.findall(r"`(--[a-z-]+)", README))
    help_text = subprocess.run(
        f"{ROOT}/setup.sh --help; "
        + "; ".join(f"{ROOT}/.venv/bin/bigos {command} --help" for command in COMMANDS_OF_BIGOS),
        shell=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    ).stdout
    assert flags
    assert [flag for flag in flags if flag not in help_text] == []


def test_every_setting_of_the_configuration_is_in_the_readme() -> None:
    from bigos.config import setting_kinds

    missing = [name for name in setting_kinds() if f"`{name}`" not in README]
    assert missing == []


def test_every_format_has_its_row_in_the_readme() -> None:
    from bigos.loaders import FORMATS

    table = README[README.index("| format | how it is known") : README.index("## Search")]
    named = {extension for cell in re.findall(r"`([^`]+)`", table) for extension in cell.replace(".", " ").split()}
    missing = [spec.name for spec in FORMATS if spec.kind == "document" and not spec.extensions & named]
    assert missing == []

# SPDX-License-Identifier: GPL-2.0-only
"""scripts/setup/configuration.py: two keys of config.toml change and nothing else, ever."""

from __future__ import annotations

import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fake_checkout import ROOT, sentence_and_hint
from fake_machine import PAIR
from processes import PATIENCE


def configuration(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "setup" / "configuration.py"), *arguments]
    return subprocess.run(
        command,
        env={"HOME": str(home), "LC_ALL": "C.UTF-8", **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'embedder = "ollama"\nstore = "server"\n'),
        ('collection = "work"', 'collection = "work"\nembedder = "ollama"\nstore = "server"\n'),
        (
            '# mine\nembedder = "onnx"  # small\n\nexclude = [\n  "a", # not ]\n]\nstore=\'embedded\'\n',
            '# mine\nembedder = "ollama"  # small\n\nexclude = [\n  "a", # not ]\n]\nstore = "server"\n',
        ),
        ("store = 3\n", 'store = "server"\nembedder = "ollama"\n'),
        ('\r\n"store" = "embedded"\r\n', '\r\nstore = "server"\r\nembedder = "ollama"\r\n'),
        ('a = 1\n[x]\nstore = "mine"\n', 'a = 1\nembedder = "ollama"\nstore = "server"\n[x]\nstore = "mine"\n'),
    ],
)
def test_two_keys_of_the_configuration_change_and_nothing_else(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / ".config" / "bigos" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_bytes(before.encode())
    file.chmod(0o640)
    result = configuration(tmp_path, "install")
    assert result.returncode == 0, result.stderr
    assert file.read_bytes() == after.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    (kept,) = file.parent.glob("config.toml.before-*")
    assert kept.read_bytes() == before.encode()
    assert configuration(tmp_path, "install").stderr == ""  # nothing to do
    assert configuration(tmp_path, "check").returncode == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("embedder = \n", "is not TOML"),
        ('exclude = """\nstore = "x"\n"""\nembedder = "onnx"\n', "cannot be changed safely"),
        ("[store]\na = 1\n", "cannot be changed safely"),
    ],
)
def test_a_configuration_that_cannot_be_changed_safely_is_left_as_it_is(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "elsewhere.toml"
    file.write_text(text, encoding="utf-8")
    result = configuration(tmp_path, "install", BIGOS_CONFIG=str(file))
    assert result.returncode == 1
    told, _ = sentence_and_hint(result.stderr)
    assert told.startswith(f"{file} ")
    assert sentence in told
    assert file.read_text("utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere.toml"]


def test_a_configuration_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    kept = tmp_path / "dotfiles" / "bigos.toml"
    kept.write_text("max_files = 9\n", encoding="utf-8")
    link = tmp_path / "config.toml"
    link.symlink_to(kept)
    assert configuration(tmp_path, "install", BIGOS_CONFIG=str(link)).returncode == 0
    assert link.is_symlink()
    assert tomllib.loads(kept.read_text("utf-8")) == {"max_files": 9, **PAIR}


def test_the_candidate_may_be_read_by_nobody_else(tmp_path: Path) -> None:
    candidate = tmp_path / "candidate"
    result = configuration(tmp_path, "candidate", str(candidate))
    assert result.stdout.splitlines() == ["http://127.0.0.1:6333", "http://127.0.0.1:11434", "bge-m3"]
    assert stat.S_IMODE(candidate.stat().st_mode) == 0o600
    assert not (tmp_path / ".config").exists()

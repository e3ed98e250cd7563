# SPDX-License-Identifier: GPL-2.0-only
"""A checkout in a folder of its own, and a PATH with nothing on it but what a test put there.

Where a real Python would download for minutes, a fake one records what it was asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from processes import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("bash", "cat", "cp", "date", "df", "dirname", "env", "find", "grep", "head", "id", "mkdir", "mktemp", "mv",
         "rm", "sed", "sleep", "tail", "timeout", "touch")  # fmt: skip

FAKE_PYTHON = r"""#!/usr/bin/env bash
# Answers as a Python would that makes environments and installs packages at once. CALLS is where it notes its calls.
echo "PYTHONPATH=${PYTHONPATH-} PIP_TARGET=${PIP_TARGET-} $*" >>"$CALLS"
case "$*" in
"-c import sys; sys.exit(sys.version_info < "*) exit "${FAKE_OLD:-0}" ;;
"-c import ensurepip, venv") exit "${FAKE_NO_VENV:-0}" ;;
"-c import pip") [[ -e .venv/pip ]] ;;
"-c import sys; print(\"%d.%d\""*) echo 3.11 ;;
"-c import sys; print("*) echo "${FAKE_BASE:-3.11 /usr}" ;;
"-m venv --clear .venv")
    rm -rf .venv/* && mkdir -p .venv/bin && touch .venv/pyvenv.cfg .venv/pip && cp "$0" .venv/bin/python ;;
"-m pip install "*)
    if [[ -n ${FAKE_PIP_SLEEP-} ]]; then sleep "$FAKE_PIP_SLEEP"; fi
    if [[ -n ${FAKE_PIP_FAILURE-} ]]; then echo "$FAKE_PIP_FAILURE" >&2 && exit 1; fi
    touch .venv/installed ;;
"scripts/check_environment.py "*)
    [[ -e .venv/installed ]] && echo whole && exit
    echo "the package bigos is not installed" && exit 1 ;;
"scripts/build_model.py --check") [[ -e models/built ]] ;;
"scripts/build_model.py")
    [[ -z ${FAKE_MODEL_FAILURE-} ]] || { echo "error: $FAKE_MODEL_FAILURE" >&2 && exit 1; }
    touch models/built ;;
"scripts/smoke_test.py") echo "hits" ;;
--version) echo "Python 3.11.0" ;;
*) echo "the fake python was not told about: $*" >&2 && exit 99 ;;
esac
"""


class Tree:
    """A checkout in a folder of its own, and a PATH with nothing on it but what a test put there."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a folder with spaces" / "bigos"
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.bin.mkdir()
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        # What is tracked, as it is in the work tree; a test never sees another's .venv or models.
        for name in filter(None, listed.split("\0")):
            if not name.startswith("tests/") and (ROOT / name).is_file():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.path / name)
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)

    def executable(self, name: str, text: str) -> None:
        file = self.bin / name
        file.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        return {"PATH": str(self.bin), "HOME": str(self.bin), "CALLS": str(self.calls), "LC_ALL": "C.UTF-8", **more}

    def setup(self, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run from a folder that is not the checkout, without a terminal."""
        return subprocess.run(
            [str(self.path / "setup.sh"), *flags], cwd="/", env=self.variables(variables), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip

    def called(self) -> list[str]:
        """The commands that did something, in order."""
        lines = self.calls.read_text("utf-8").splitlines() if self.calls.exists() else []
        words = ("-m venv", "-m pip", "scripts/build_model.py", "scripts/smoke_test.py")
        commands = [line.split(" ", 2)[2] for line in lines]
        return [command for command in commands if command.startswith(words) and "--check" not in command]

    def snapshot(self) -> dict[str, int]:
        return {str(path.relative_to(self.path)): path.lstat().st_mtime_ns for path in self.path.rglob("*")}


def link_or_copy(source: str, target: str) -> None:
    """A link where one can be: a test that changes such a file has to put another in its place."""
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


def sentence_and_hint(stderr: str) -> tuple[str, str]:
    """The two lines that every failure is; nothing may follow them."""
    *_, sentence, hint = stderr.splitlines()
    assert sentence.startswith(("error: ", "missing: "))
    assert hint.startswith("hint: ")
    assert "Traceback" not in stderr
    return sentence.split(": ", 1)[1], hint.removeprefix("hint: ")

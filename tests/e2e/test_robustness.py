# SPDX-License-Identifier: GPL-2.0-only
"""What a hostile machine does to a command: it ends with a sentence and an exit code of its own, never as a bug."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from command_line import Home
from processes import is_running, until

STRANGE = ["~nobody-here/notes.md", "x" * 300, "x" * 300 + ":12", "a/" * 3000, "loop", "loop/deeper:3", "-", "a:b:3"]


@pytest.mark.parametrize("name", STRANGE, ids=range(len(STRANGE)))
def test_a_path_that_can_name_nothing_is_not_indexed_and_no_bug(home: Home, name: str) -> None:
    (home.path / "loop").symlink_to("loop2")
    (home.path / "loop2").symlink_to("loop")

    shown = home.bigos("show", name)

    assert (shown.code, shown.stdout) == (1, "")
    assert "is not indexed" in shown.stderr and "hint: " in shown.stderr
    if name in ("loop", STRANGE[0]):
        assert home.ingest(name).code == 2


@pytest.mark.parametrize("command", [("ingest", "."), ("show", "a.md"), ("status",)])
def test_a_current_folder_that_is_gone_is_told(home: Home, command: tuple[str, ...]) -> None:
    gone = home.path / "gone"
    gone.mkdir()
    program = "import os, sys; from bigos import cli; os.rmdir(os.getcwd()); cli.entry_point()"
    done = subprocess.run(
        [sys.executable, "-c", program, *command], cwd=gone, env=home.environment(), capture_output=True, text=True
    )

    if command == ("status",):  # needs no folder
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 2
        assert "the current folder has been deleted" in done.stderr


@pytest.mark.parametrize(("setting", "code"), [("BIGOS_DATA_DIR", 4), ("BIGOS_MODELS_DIR", 4), ("BIGOS_CONFIG", 2)])
def test_a_folder_that_cannot_be_looked_at_is_told_and_no_bug(home: Home, setting: str, code: int) -> None:
    # As root sees it, too: one of the few paths that even root may not ask about.
    found = home.bigos("search", "zegar", **{setting: "/" + "x" * 300})

    assert (found.code, found.stdout) == (code, "")
    assert "File name too long" in found.stderr and "a bug" not in found.stderr


def test_status_tells_a_file_that_became_a_folder_as_deleted(home: Home) -> None:
    note = home.path / "note.md"
    note.write_text("# Notatka\n\nSterownik dzieli zegar.\n", encoding="utf-8")
    assert home.ingest(note).code == 0
    note.unlink()
    note.mkdir()

    assert home.bigos("status", "--json").json["drift"]["deleted"] == [str(note)]


_PARENT_OF_A_FILE_THAT_HANGS = """
import multiprocessing, os, re, signal
from bigos.worker import start_worker

def hang(pipe):
    start_worker(4096)
    pipe.send(os.getpid())
    re.match("(a|a)*b", "a" * 40)  # for hours, with the interpreter's lock

here, there = multiprocessing.get_context("fork").Pipe()
multiprocessing.get_context("fork").Process(target=hang, args=[there]).start()
print(here.recv(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_hangs_does_not_outlive_a_killed_ingest(home: Home) -> None:
    command = [sys.executable, "-c", _PARENT_OF_A_FILE_THAT_HANGS]
    with subprocess.Popen(command, env=home.environment(), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())

    assert parent.returncode == -signal.SIGKILL
    until(lambda: not is_running(worker))

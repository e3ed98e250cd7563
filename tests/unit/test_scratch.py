# SPDX-License-Identifier: GPL-2.0-only
"""Temporary files of a run: gone when it ends, gone with the next one after a kill, never another run's."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from bigos.scratch import run_folder

HOLD = """
import sys, time
from pathlib import Path
from bigos.scratch import run_folder
with run_folder(Path(sys.argv[1])) as folder:
    (folder / "page.pgm").write_text("half a page")
    print(folder, flush=True)
    time.sleep(60)
"""


def hold(base: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(base)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_nothing_stays_when_the_run_ends(tmp_path: Path) -> None:
    base = tmp_path / "cache" / "scratch"
    with run_folder(base) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
        assert folder.parent == base
        assert folder.stat().st_mode & 0o777 == base.stat().st_mode & 0o777 == 0o700
    assert list(base.iterdir()) == []


def test_a_killed_run_is_cleaned_up_after_and_a_living_one_left_alone(tmp_path: Path) -> None:
    killed, of_killed = hold(tmp_path)
    living, of_living = hold(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait(10)
        assert (of_killed / "page.pgm").exists()
        with run_folder(tmp_path) as ours:
            assert not of_killed.exists()
            assert (of_living / "page.pgm").exists()
            assert ours.exists()
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate(timeout=10)


def test_a_folder_that_is_just_being_made_is_not_taken_for_a_left_over(tmp_path: Path) -> None:
    (tmp_path / "run-new").mkdir()
    with run_folder(tmp_path):
        assert (tmp_path / "run-new").exists()


def test_a_place_that_cannot_be_written_to_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with run_folder(tmp_path / "file" / "scratch") as folder:
        assert folder == tmp_path / "file" / "scratch"

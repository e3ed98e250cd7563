# SPDX-License-Identifier: GPL-2.0-only
"""Temporary files: gone when their work is done, gone with the next run after a kill, never another's."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bigos.scratch import remove_left_over, temporary_folder
from processes import PATIENCE, python_environment

HOLD = """
import sys, time
from pathlib import Path
from bigos.scratch import temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder:
    (folder / "page.pgm").write_text("half a page")
    print(folder, flush=True)
    time.sleep(600)
"""


def hold(base: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(base)], stdout=subprocess.PIPE, text=True, env=python_environment()
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_nothing_stays_when_the_work_is_done(tmp_path: Path) -> None:
    base = tmp_path / "cache" / "scratch"
    with temporary_folder(base) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
        assert folder.parent == base
        assert folder.stat().st_mode & 0o777 == base.stat().st_mode & 0o777 == 0o700
    assert list(base.iterdir()) == []


def test_what_a_kill_left_goes_and_what_is_in_use_stays(tmp_path: Path) -> None:
    killed, of_killed = hold(tmp_path)
    living, of_living = hold(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait(PATIENCE)
        assert (of_killed / "page.pgm").exists()
        remove_left_over(tmp_path)
        assert not of_killed.exists()
        assert (of_living / "page.pgm").exists()
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate(timeout=PATIENCE)


def test_a_folder_that_is_just_being_made_is_not_taken_for_a_left_over(tmp_path: Path) -> None:
    (tmp_path / "bigos-new").mkdir()
    remove_left_over(tmp_path)
    assert (tmp_path / "bigos-new").exists()


def test_what_is_not_ours_stays_and_a_place_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to ala.txt").write_text("x")
    remove_left_over(tmp_path)
    assert (tmp_path / "letters" / "to ala.txt").exists()
    remove_left_over(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError), temporary_folder(tmp_path / "file" / "scratch"):
        pass

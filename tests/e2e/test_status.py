# SPDX-License-Identifier: GPL-2.0-only
"""`bigos status` beyond its counts: what failed and why, and the state again and again on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import Home
from processes import until

NOTE = "The watchdog is fed every two seconds; when the main loop hangs, the board resets and writes the cause down.\n"


def test_errors_are_what_failed_and_what_a_user_can_cure(home: Home) -> None:
    pot = home.path / "pot"
    pot.mkdir()
    (pot / "good.txt").write_text(NOTE)
    (pot / "bad.docx").write_bytes(b"PK\x03\x04 and then nothing that a ZIP file has")
    (pot / "big.txt").write_text(NOTE * 1000)
    (pot / "program").write_bytes(b"\x7fELF" + bytes(3000))
    assert home.ingest(pot, BIGOS_MAX_FILE_BYTES="50000").code == 3
    status = home.bigos("status", "--json").json
    found = [(error["path"], error["status"], error["reason"]) for error in status["errors"]]
    assert found == [(str(pot / "bad.docx"), "failed", "damaged"), (str(pot / "big.txt"), "skipped", "too large")]
    assert all(error["since"].startswith("20") for error in status["errors"])
    shown = home.bigos("status", "--errors")
    assert (shown.code, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert (lines[0], lines[2]) == ("failed, damaged: 1", "skipped, too large: 1")
    assert lines[1].endswith(f"  {pot / 'bad.docx'}")
    assert lines[-1].startswith("hint: bigos ingest --retry-failed")
    assert "not indexed, and could be: 2 (bigos status --errors)" in home.bigos("status").stdout
    # A run that finds nothing to write is a run all the same, as `last_ingest` means it.
    written = max(error["since"] for error in status["errors"])
    assert status["last_ingest"] > written
    assert home.ingest(pot, "--dry-run", BIGOS_MAX_FILE_BYTES="50000").code == 3
    assert home.bigos("status", "--json").json["last_ingest"] == status["last_ingest"]
    assert home.ingest(pot, BIGOS_MAX_FILE_BYTES="50000").code == 3
    assert home.bigos("status", "--json").json["last_ingest"] > status["last_ingest"]
    (pot / "bad.docx").unlink()
    (pot / "big.txt").unlink()
    assert home.ingest("--forget", pot / "bad.docx", pot / "big.txt").code == 0
    assert home.bigos("status", "--errors").stdout == "nothing failed\n"


@pytest.mark.parametrize(("options", "words"), [((), "--watch needs a terminal"), (("--json",), "--watch never ends")])
def test_watching_the_state_is_refused_where_nobody_could_see_it(
    home: Home, options: tuple[str, ...], words: str
) -> None:
    ran = home.bigos("status", "--watch", *options)
    assert (ran.code, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert "\nhint: " in ran.stderr


@dataclass
class Screen:
    """A command on a terminal of its own; everything it has drawn."""

    process: subprocess.Popen[bytes]
    terminal: int
    drawn: str = ""

    def wait(self, condition: Callable[[str], bool]) -> None:
        """Look at what is drawn until it is so. Nobody could draw on for ever where nobody looks."""

        def looked() -> bool:
            with contextlib.suppress(OSError):  # nothing new, or nobody draws any more
                self.drawn += os.read(self.terminal, 65536).decode("utf-8", "replace")
            return condition(self.drawn)

        until(looked, shown=lambda: self.drawn)


@pytest.fixture
def screen(home: Home) -> Iterator[Screen]:
    with watching(home, "xterm-256color") as found:
        yield found


@contextlib.contextmanager
def watching(home: Home, term: str) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    os.set_blocking(ours, False)
    command = [sys.executable, "-m", "bigos.cli", "status", "--watch"]
    environment = home.environment(TERM=term)
    process = subprocess.Popen(
        command, env=environment, cwd=home.path, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Screen(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_on_a_terminal_the_state_is_drawn_anew_until_it_is_ended(
    screen: Screen, home: Home, ends: signal.Signals
) -> None:
    screen.wait(lambda drawn: "there is no index" in drawn)
    (home.path / "note.txt").write_text(NOTE)
    assert home.ingest("note.txt").code == 0  # the store is lent to the other command
    screen.wait(lambda drawn: "1 documents, 1 chunks" in drawn)
    screen.process.send_signal(ends)
    screen.wait(lambda _: screen.process.poll() is not None)
    assert screen.process.returncode == 0
    screen.wait(lambda drawn: drawn.rstrip().endswith("\x1b[?25h") or "\x1b[?1049l" in drawn)
    assert "Traceback" not in screen.drawn


def test_a_terminal_that_cannot_be_drawn_on_is_none(home: Home) -> None:
    """Nothing at all would be shown there, for ever."""
    with watching(home, "dumb") as screen:
        screen.wait(lambda drawn: "--watch needs a terminal to draw on" in drawn)
        screen.wait(lambda _: screen.process.poll() is not None)
        assert screen.process.returncode == 2


def test_a_hit_says_that_its_file_has_changed_or_gone_since(home: Home) -> None:
    pot = home.path / "pot"
    pot.mkdir()
    files = [pot / "same.txt", pot / "edited.txt", pot / "gone.txt", Path(os.fsdecode(bytes(pot) + b"/b\xffd.txt"))]
    for number, file in enumerate(files):
        file.write_text(f"{NOTE}Note number {number}.\n")
    assert home.ingest(pot).code == 0
    files[1].write_text(f"{NOTE}It was fed more often once.\n")
    files[2].unlink()
    hits = home.bigos("search", "watchdog", "--json").json["hits"]
    marks = {hit["source_name"]: hit["stale"] for hit in hits}
    assert marks == {"same.txt": None, "edited.txt": "changed", "gone.txt": "gone", "b\\xffd.txt": None}
    headers = [line for line in home.bigos("search", "watchdog").stdout.splitlines() if str(pot) in line]
    marked = {line.split(str(pot))[1] for line in headers}
    assert marked == {
        "/same.txt:1-2",
        "/edited.txt:1-2 (changed since it was indexed)",
        "/gone.txt:1-2 (file is gone)",
        "/b\\xffd.txt:1-2",
    }
    assert home.ingest(pot).code == 0
    assert "changed since" not in home.bigos("search", "watchdog").stdout

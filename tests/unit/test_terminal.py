# SPDX-License-Identifier: GPL-2.0-only
"""What becomes of an exception at the edge, and what is written there."""

from __future__ import annotations

import io
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigos.errors import FingerprintMismatch, UsageError
from bigos.terminal import StopSignal, Terminal, guarded, set_up_logging


def run(error: BaseException) -> tuple[int, str]:
    stderr = io.StringIO()

    def command() -> int:
        raise error

    return guarded(command, Terminal(io.StringIO(), stderr)), stderr.getvalue()


def test_a_known_failure_is_a_sentence_a_hint_and_its_exit_code() -> None:
    assert run(UsageError("no.", fix="yes")) == (2, "error: no.\nhint: yes\n")
    assert run(FingerprintMismatch("other.", fix="mv")) == (5, "error: other.\nhint: mv\n")
    assert run(KeyboardInterrupt()) == (130, "stopped.\n")
    assert run(MemoryError())[0] == 4


def test_a_bug_is_one_line_and_its_traceback_goes_to_a_private_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, text = run(ValueError("kłopot\nmore"))
    (log,) = (tmp_path / "bigos").glob("crash-*.log")
    assert code == 70
    assert text == f"error: a bug in Bigos: ValueError: kłopot\nhint: please report it with {log}\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_a_state_folder_that_cannot_be_made_does_not_hide_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bigos").write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "bigos"))
    code, text = run(ValueError("the real error"))
    assert code == 70
    assert "ValueError: the real error\nhint: no crash log could be written" in text


def test_a_machine_without_room_for_any_file_does_not_hide_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "gettempdir", full)
    code, text = run(ValueError("first"))
    assert code == 70
    assert text.startswith("error: a bug in Bigos: ValueError: first\nhint: no crash log could be written (")


def test_nothing_on_stderr_steers_the_terminal() -> None:
    stderr = io.StringIO()
    terminal = Terminal(io.StringIO(), stderr)
    terminal.say("name\x1b[2J.md\ttab\nline")
    set_up_logging(terminal, quiet=False, verbose=False)
    logging.getLogger("bigos.test").warning("%s", "name\x9b2J\r.md")
    assert stderr.getvalue() == ("name\\x1b[2J.md\ttab\nline\n" + "WARNING bigos.test: name\\x9b2J\\x0d.md\n")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT as the interpreter starts with it; afterwards as it was."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_signal_asks_and_the_second_stops(interruptible: None) -> None:
    with StopSignal(Terminal(io.StringIO(), io.StringIO())) as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL, "a third one in the last moments must show no traceback"


def test_a_run_that_nobody_stopped_leaves_signals_as_they_were(interruptible: None) -> None:
    with StopSignal(Terminal(io.StringIO(), io.StringIO())) as stop:
        assert not stop()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

# SPDX-License-Identifier: GPL-2.0-only
"""The edge that every command stands on: streams, logs, signals, and what becomes of an exception.

stdout carries the result and nothing else; everything else goes to stderr. Whatever a command raises ends as a sentence
with its exit code, never as a traceback.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, TextIO

from bigos.config import Config, load_config, user_environment
from bigos.errors import BigosError, ExitCode
from bigos.files import expanded
from bigos.private import private_files

READER_GONE = 128 + signal.SIGPIPE
"""Exit code when whoever read our stdout has left (`| head`): what a shell shows for any program."""
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def _tame(text: str) -> str:
    """Control characters as escapes: neither an indexed text nor a file's name may steer the user's terminal."""
    return text.translate(_CONTROLS)


class OutputError(BigosError):
    """The result cannot be written where it was sent (a full disk)."""

    exit_code = ExitCode.UNAVAILABLE


class ReaderGone(Exception):
    """Nobody reads our stdout any more. Not a BrokenPipeError, which a worker's pipe may raise too."""


class Terminal:
    """A command's two streams. Missing ones (closed by the caller) swallow what is written."""

    def __init__(self, stdout: TextIO | None, stderr: TextIO | None) -> None:
        self.stdout = stdout or io.StringIO()
        self.stderr = stderr or io.StringIO()
        for stream in (self.stdout, self.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # Whatever the locale: Polish in a C locale, and names that are not UTF-8, must not end a command.
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")

    def result(self, text: str) -> None:
        """Write to stdout. Raises ReaderGone or OutputError."""
        if self.stdout.isatty():
            text = _tame(text)
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except BrokenPipeError as error:
            self._silence()
            raise ReaderGone from error
        except OSError as error:
            self._silence()
            raise OutputError(
                f"the result cannot be written: {error.strerror}.", fix="send it elsewhere, e.g. > /tmp/result"
            ) from error

    def document(self, document: dict[str, Any]) -> None:
        """Write one JSON document to stdout; Polish letters as they are."""
        self.result(json.dumps(document, ensure_ascii=False, indent=None, separators=(", ", ": ")) + "\n")

    def say(self, text: str) -> None:
        """A line on stderr; a stderr that cannot be written to is no reason to fail."""
        with contextlib.suppress(OSError, ValueError):
            self.stderr.write(_tame(text) + "\n")
            self.stderr.flush()

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there who reads a question and can type the answer."""
        return self.stderr.isatty() and sys.stdin is not None and sys.stdin.isatty()

    def agrees(self, question: str) -> bool:
        """Ask on stderr; whether the answer is yes. Anything else is no."""
        with contextlib.suppress(OSError, ValueError):
            self.stderr.write(_tame(question) + " [y/N] ")
            self.stderr.flush()
            return sys.stdin.readline().strip().lower() in ("y", "yes")
        return False

    def _silence(self) -> None:
        """Point stdout to nowhere: the interpreter would try to flush the rest at its end, and complain."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stdout.fileno())
            os.close(nowhere)


def guarded(command: Callable[[], int], terminal: Terminal) -> int:  # noqa: PLR0911 - one return a kind of end
    """Run a command; the exit code. Lets no exception out, and nobody else look at what it writes."""
    try:
        with private_files():
            return command()
    except BigosError as error:
        terminal.say(f"error: {error}")
        return int(error.exit_code)
    except SystemExit as stop:  # argparse after --help
        return stop.code if isinstance(stop.code, int) else int(ExitCode.OK)
    except KeyboardInterrupt:
        terminal.say("stopped.")
        return int(ExitCode.INTERRUPTED)
    except ReaderGone:
        return READER_GONE
    except MemoryError:
        terminal.say("error: there is not enough memory.\nhint: BIGOS_WORKERS=1 and the same command again")
        return int(ExitCode.UNAVAILABLE)
    except BaseException as error:  # BaseException: a panic in a native library arrives as one
        terminal.say(f"error: a bug in Bigos: {_first_line(error)}\nhint: {_written_down(error)}")
        return int(ExitCode.BUG)


def leave(code: int) -> NoReturn:
    """End the process. Ctrl-C while the interpreter tidies up ends it at once, without the interpreter's complaints."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _written_down(error: BaseException) -> str:
    """Write the crash log; where it is, or why there is none. A full disk must not hide the error itself."""
    text = "".join([f"{' '.join(sys.argv)}\nPython {sys.version}\n\n", *traceback.format_exception(error)])
    name = f"crash-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"
    problem = ""
    # Asked inside: with no room anywhere there is no folder for temporary files either.
    for place in (_state_dir, tempfile.gettempdir):
        file = Path(name)
        try:
            folder = Path(place())
            file = folder / name
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
        except OSError as failure:
            problem = f"{file}: {failure.strerror}"
        else:
            return f"please report it with {file}"
    return f"no crash log could be written ({problem})"


def _state_dir() -> str:
    try:
        return str(load_config(user_environment()).state_dir)
    except Exception:  # whatever is wrong with it may be the very error that has to be written down
        return tempfile.gettempdir()


def read_config(config_file: Path | None, **flags: object) -> Config:
    """The configuration as the environment, the file and the command line say. Raises ConfigError."""
    return load_config(user_environment(), flags, expanded(config_file) if config_file else None)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _tame(super().format(record))


def set_up_logging(terminal: Terminal, *, quiet: bool, verbose: bool) -> None:
    """Send our log records to stderr: warnings, or everything, or errors alone."""
    logger = logging.getLogger("bigos")
    handler = logging.StreamHandler(terminal.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
    for old in list(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING)
    logging.raiseExceptions = False  # a log line that cannot be written must not hide what happened


class StopSignal:
    """Ctrl-C or SIGTERM as a question to ask: False until the first; the second stops at once. A context manager."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._asked = False
        self.number: int | None = None
        """Which signal asked first."""
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        """Whether the user has asked to stop."""
        return self._asked

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in self.SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # Whoever has asked to stop may press again in the last moments, where no KeyboardInterrupt is caught.
            now = self._asked and handler is signal.default_int_handler
            signal.signal(number, signal.SIG_DFL if now else handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked, self.number = True, number
        text = "\nfinishing what is in hand; press again to stop at once\n"
        # Past the stream's buffer: the signal may have come in the middle of a write to it.
        with contextlib.suppress(OSError, ValueError):
            os.write(self._terminal.stderr.fileno(), text.encode())

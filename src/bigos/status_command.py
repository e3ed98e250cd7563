# SPDX-License-Identifier: GPL-2.0-only
"""`bigos status`: the state of the index, once or again and again, whole or only what failed."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bigos.arguments import Parser, add_common
from bigos.errors import BigosError, ExitCode, UsageError
from bigos.terminal import Terminal, read_config

if TYPE_CHECKING:
    from bigos.library import Library
    from bigos.status import IndexStatus

DESCRIPTION = "Tell what is in the index and which files have changed since."
REFRESH_SECONDS = 2.0


def add_arguments(parser: Parser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "--errors", action="store_true", help="only what failed, and what was left out that you can cure, with reasons"
    )
    parser.add_argument("--watch", action="store_true", help="on a terminal: again every 2 s, until Ctrl-C")
    add_common(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Tell what parsed arguments ask for; the exit code."""
    from bigos import status
    from bigos.library import SHORT_PATIENCE, open_library
    from bigos.render_state import errors_text, status_document, status_text

    if args.watch and args.json:
        raise UsageError("--json is one document, and --watch never ends.", fix="bigos status --json")
    if args.watch and not _can_be_drawn_on(terminal):
        raise UsageError("--watch needs a terminal to draw on.", fix="bigos status, or run it in a terminal")

    def text(found: IndexStatus) -> str:
        return errors_text(found.errors) if args.errors else status_text(found)

    with open_library(read_config(args.config), SHORT_PATIENCE) as library:
        if args.watch:
            _again_and_again(library, text, terminal)
            return int(ExitCode.OK)
        found = status.look(library)
    if args.json:
        terminal.document(status_document(found))
    else:
        terminal.result(text(found))
    return int(ExitCode.OK)


def _can_be_drawn_on(terminal: Terminal) -> bool:
    """Whether it is a terminal, and one that can move its cursor (TERM=dumb, as an editor's shell, cannot)."""
    from rich.console import Console

    return terminal.stdout.isatty() and not Console(file=terminal.stdout).is_dumb_terminal


def _again_and_again(library: Library, text: Callable[[IndexStatus], str], terminal: Terminal) -> None:
    """Draw the state over itself until Ctrl-C or SIGTERM, which are the way to end it and no failure."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from bigos import status

    with _ended_by_signals(), Live(console=Console(file=terminal.stdout), screen=True, auto_refresh=False) as screen:
        while True:
            started = time.monotonic()
            try:
                shown = text(status.look(library))
            except BigosError as error:  # a store that is busy now may be free in two seconds
                shown = f"error: {error}\n"
            screen.update(Text(f"{time.strftime('%H:%M:%S')}, every {REFRESH_SECONDS:g} s; Ctrl-C ends\n\n{shown}"))
            screen.refresh()
            # A look at a very large index takes its time: it must not keep a core busy.
            time.sleep(max(REFRESH_SECONDS, 4 * (time.monotonic() - started)))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)

# SPDX-License-Identifier: GPL-2.0-only
"""`bigos watch`: keep the index as some folders are, in the foreground, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bigos.arguments import EXIT_CODES, Parser, add_common, seconds
from bigos.errors import ExitCode, UsageError
from bigos.paths import canonical, expanded, given
from bigos.settling import SETTLE_SECONDS
from bigos.terminal import StopSignal, Terminal, read_config

if TYPE_CHECKING:
    from bigos.config import Config

DESCRIPTION = (
    "Keep the index as folders are, in the foreground: what comes, changes or goes in them does so in the index. "
    "One line a change on stderr; Ctrl-C ends it."
)


def add_arguments(parser: Parser) -> None:
    """Describe the command's arguments."""
    parser.epilog = EXIT_CODES
    parser.add_argument("folders", nargs="+", metavar="DIR", help="a folder, with all below it")
    parser.add_argument(
        "--settle",
        type=seconds,
        default=SETTLE_SECONDS,
        metavar="S",
        help=f"seconds without a change after which a file is taken for whole ({SETTLE_SECONDS:g})",
    )
    parser.add_argument(
        "--poll", action="store_true", help="look every few seconds, for drives where the system tells of no changes"
    )
    add_common(parser, json=False)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Watch what parsed arguments ask for; the exit code: 0 after SIGTERM, as a service ends, 130 after Ctrl-C."""
    config = read_config(args.config)
    roots = _roots(args.folders, config)
    with StopSignal(terminal) as stop:
        from bigos.watch import Watcher

        def say(line: str) -> None:
            if not args.quiet:
                terminal.say(line)

        Watcher(config, lambda: read_config(args.config), roots, args.settle, args.poll, say, terminal.say, stop).run()
        return int(ExitCode.OK if stop.number == signal.SIGTERM else ExitCode.INTERRUPTED)


def _roots(names: Sequence[str], config: Config) -> list[Path]:
    """The folders, those left out that lie in another one. One that is not there has to be known to the index.

    A link stays one: it may lead elsewhere by and by.
    """
    from bigos.library import SHORT_PATIENCE, open_library

    places: dict[Path, Path] = {}
    for name in names:
        root = canonical(given(name))
        places.setdefault(root, Path(os.path.abspath(expanded(given(name)))))  # noqa: PTH100 - no link followed
        if root.is_dir():
            continue
        if root.exists():
            raise UsageError(f"{name} is no folder.", fix=f"bigos watch {root.parent}")
        with open_library(config, SHORT_PATIENCE) as library:
            known = library.reading_store.known(root)
        if not known:  # a typing mistake would be waited for without end
            raise UsageError(f"{name} does not exist.", fix=f"mkdir -p {root}, or name another folder")
    return [named for root, named in places.items() if places.keys().isdisjoint(root.parents)]

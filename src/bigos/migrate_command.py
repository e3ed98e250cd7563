# SPDX-License-Identifier: GPL-2.0-only
"""`bigos migrate`: copy the index from the embedded store to the server or back, without the model."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from bigos.arguments import EXIT_CODES, Parser, add_common
from bigos.errors import ExitCode, FingerprintMismatch
from bigos.terminal import StopSignal, Terminal, read_config

if TYPE_CHECKING:
    from bigos.library import Library
    from bigos.migrate import Event, MigrationReport
    from bigos.render_migrate import Route, StoreKind

DESCRIPTION = (
    "Copy the index to the other store without embedding anything again. The index that is copied stays as it is; "
    "a run that was stopped goes on where it was, and what was copied is verified."
)
LINE_SECONDS = 5.0


def add_arguments(parser: Parser) -> None:
    """Describe the command's arguments."""
    parser.epilog = EXIT_CODES
    parser.add_argument("--to", choices=("server", "embedded"), required=True, help="the store to copy to")
    parser.add_argument("--dry-run", action="store_true", help="count what would be copied, write nothing")
    add_common(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Migrate as parsed arguments ask for; the exit code."""
    config = read_config(args.config)
    with StopSignal(terminal) as stop:
        from bigos import migrate
        from bigos.library import SHORT_PATIENCE, open_library
        from bigos.render_migrate import migrate_document, migrate_text

        with open_library(config, SHORT_PATIENCE if args.dry_run else None) as library:
            route = _route(library, args.to)
            listener = migrate.ignore if args.quiet else _Lines(terminal)
            report = _migrated(library, route, listener, stop, dry_run=args.dry_run)
            advice = _way_clear(library, route.target)
        if args.json:
            terminal.document(migrate_document(report, route))
        elif report.fingerprint is not None:
            terminal.result(migrate_text(report, route))
        return int(_ending(report, route, advice, terminal))


def _route(library: Library, target: StoreKind) -> Route:
    from bigos.render_migrate import Route

    source: StoreKind = "embedded" if target == "server" else "server"
    return Route(source, library.place(source), target, library.place(target), library.config.store)


def _migrated(
    library: Library, route: Route, listener: Callable[[Event], None], stop: Callable[[], bool], *, dry_run: bool
) -> MigrationReport:
    from bigos import migrate

    # Neither is opened with the configuration's fingerprint: the configured model may be another, or not answer.
    with closing(library.open_store(route.source, None, None)) as ours:
        identity = migrate.identity(ours)
        if identity is None:
            return migrate.MigrationReport(dry_run=dry_run)
        fingerprint, dimension = identity
        with closing(library.open_store(route.target, None, None)) as looking:
            there = looking.stats().fingerprint
        if there not in (None, fingerprint):
            raise FingerprintMismatch(
                f"{route.target_place} holds an index made with {there}; the one to copy was made with {fingerprint}.",
                fix=f"if that one is not wanted any more: {_way_clear(library, route.target)}, then this again",
            )
        with closing(library.open_store(route.target, fingerprint, dimension)) as theirs:
            return migrate.migrate(ours, theirs, on_event=listener, stop=stop, dry_run=dry_run)


def _way_clear(library: Library, kind: StoreKind) -> str:
    """How to put away what the target holds, for somebody who does not want it any more."""
    if kind == "embedded":
        return f"mv {library.store_dir} {library.store_dir}.old"
    url = re.sub("//[^/]*@", "//", library.config.qdrant_url.rstrip("/"))
    key = ' -H "api-key: $BIGOS_QDRANT_API_KEY"' if library.config.qdrant_api_key else ""
    return f"curl -X DELETE{key} {url}/collections/{library.config.collection}"


def _ending(report: MigrationReport, route: Route, advice: str, terminal: Terminal) -> ExitCode:
    """Say what is left to do; the exit code."""
    again = f"bigos migrate --to {route.target}"
    if report.fingerprint is None:
        terminal.say(f"nothing to copy: there is no index with text in {route.source_place}.\nhint: bigos status")
        return ExitCode.NOTHING_FOUND
    if report.interrupted:
        return ExitCode.INTERRUPTED
    if report.differences:
        number = f"{len(report.differences):,} of {report.documents:,} documents"
        terminal.say(
            f"error: {number} in {route.target_place} are not as they are in the source.\n"
            f"hint: {again}, once more; if it ends like this again: {advice}, then {again}"
        )
        return ExitCode.UNAVAILABLE
    if report.damaged:
        terminal.say(
            f"{len(report.damaged):,} documents are not whole in the source and were not copied.\n"
            f"hint: bigos ingest {report.damaged[0].path} --reindex, and so each of them; then {again}"
        )
        return ExitCode.SOME_FILES_FAILED
    return ExitCode.OK


class _Lines:
    """A line on stderr at the start, then one every LINE_SECONDS while something happens."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._chunks = self._total = 0
        self._started = self._told = time.monotonic()

    def __call__(self, event: Event) -> None:
        from bigos.migrate import GroupVerified, MigrationStarted

        if isinstance(event, MigrationStarted):
            self._total = event.chunks
            self._say(f"{event.documents:,} documents to copy ({event.chunks:,} chunks), {event.already_there:,} there")
            return
        if isinstance(event, GroupVerified):
            text = f"verified {event.documents:,} of {event.total:,} documents"
        else:
            self._chunks += event.chunks
            rate = self._chunks / max(time.monotonic() - self._started, 1e-3)
            text = f"copied {self._chunks:,} of {self._total:,} chunks, {rate:,.0f} chunks/s"
        if time.monotonic() - self._told >= LINE_SECONDS:
            self._say(text)

    def _say(self, text: str) -> None:
        self._told = time.monotonic()
        self._terminal.say(text)

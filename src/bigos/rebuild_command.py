# SPDX-License-Identifier: GPL-2.0-only
"""`bigos ingest --rebuild`: everything that is known is embedded anew, beside the index that serves until then."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from bigos.config import Config
from bigos.errors import ExitCode, UsageError
from bigos.terminal import StopSignal, Terminal

if TYPE_CHECKING:
    from bigos.library import Library
    from bigos.pipeline import Event, IngestReport, IngestRequest
    from bigos.rebuild import RebuildReport


def run(args: argparse.Namespace, request: IngestRequest, config: Config, terminal: Terminal) -> int:
    """Rebuild, then ingest the request's paths, if it has any; the exit code."""
    if args.include or args.exclude or args.reindex or args.prune:
        raise UsageError(
            "--rebuild takes everything that is known.",
            fix="the same command without --reindex, --prune, --include and --exclude",
        )
    with StopSignal(terminal) as stop:
        from bigos.library import open_library
        from bigos.progress import watching
        from bigos.render_rebuild import rebuild_document, rebuild_text

        with open_library(config) as library, watching(terminal, quiet=args.quiet, verbose=args.verbose) as listener:
            made_with = library.stats().fingerprint
            library.close()
            if made_with is None:
                terminal.say("there is no index to rebuild.\nhint: bigos ingest FOLDER --recursive")
                return int(ExitCode.NOTHING_FOUND)
            report = _rebuilt(library, request, listener, stop, accept_losses=args.yes)
            if report.swapped and request.paths:
                _add(report.ingest, library.ingest(request, listener, stop))
    if args.json:
        terminal.document(rebuild_document(report))
    else:
        terminal.result(rebuild_text(report))
    return int(_ending(report, terminal))


def _rebuilt(
    library: Library,
    request: IngestRequest,
    listener: Callable[[Event], None],
    stop: Callable[[], bool],
    *,
    accept_losses: bool,
) -> RebuildReport:
    from bigos import rebuild, rebuild_preview

    settings = replace(library.preparation_settings(request.ocr), allow_secrets=request.allow_secrets)
    if request.dry_run:
        with closing(library.open_store(library.config.store, None, None)) as old:
            return rebuild_preview.look(
                old,
                embedder=library.embedder,
                settings=settings,
                fingerprint=library.fingerprint,
                workers=library.config.workers,
                on_event=listener,
                stop=stop,
            )
    with library.succession.successor(library.fingerprint, library.embedder.dimension) as successor:
        return rebuild.rebuild(
            successor,
            embedder=library.embedder,
            settings=settings,
            fingerprint=library.fingerprint,
            workers=library.config.workers,
            accept_losses=accept_losses,
            on_event=listener,
            stop=stop,
        )


def _add(report: IngestReport, more: IngestReport) -> None:
    """What an ingest behind a rebuild found besides: what the rebuild has just made it finds unchanged."""
    told = {outcome.path for outcome in report.outcomes}
    for outcome in more.outcomes:
        if outcome.path not in told:
            report.add(outcome)
    report.warnings += more.warnings
    report.chunks_written += more.chunks_written
    report.chunks_removed += more.chunks_removed
    report.embedded += more.embedded
    report.files_read += more.files_read
    report.seconds += more.seconds
    report.interrupted = report.interrupted or more.interrupted


def _ending(report: RebuildReport, terminal: Terminal) -> ExitCode:
    """Say what is left to do; the exit code."""
    if report.ingest.interrupted:
        return ExitCode.INTERRUPTED
    if report.losses and not report.swapped:
        chunks = sum(loss.chunks for loss in report.losses)
        would = "are in the way of a new index" if not report.ingest.dry_run else "would be in its way"
        terminal.say(
            f"{len(report.losses):,} documents ({chunks:,} chunks) {would}: their source cannot be read, and they "
            "would be lost.\nhint: bring the files back and run the same command again, or give them up: "
            "bigos ingest --rebuild --yes"
        )
        return ExitCode.OK if report.ingest.dry_run else ExitCode.SOME_FILES_FAILED
    return ExitCode.SOME_FILES_FAILED if report.ingest.files["failed"] else ExitCode.OK

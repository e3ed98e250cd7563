# SPDX-License-Identifier: GPL-2.0-only
"""Ingest: plan what a run has to do, then do it. Emits events, prints nothing.

    walk --> known? --> prepare (workers) --> embed (across files) --> replace (in large upserts)

Files become durable in groups; whatever stops a run (Ctrl-C, a full disk, SIGKILL) costs at most the group under way,
and each document is in the store in its old or its new version.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from bigos import gone
from bigos.embedders.calibration import NeutralEmbedder
from bigos.estimate import measure
from bigos.forgetting import PageCache, drop_pages
from bigos.plan import IngestRequest, plan
from bigos.preparation import INLINE_BYTES, INLINE_FILES, Preparation, PreparationPool, PreparationSettings, Task
from bigos.report import ChunksEmbedded, Event, FileFinished, IngestReport, RunStarted, ignore
from bigos.stores import Store, points
from bigos.timestamps import settled
from bigos.types import Record
from bigos.versions import Versions
from bigos.writer import DocumentWriter

__all__ = [
    "ChunksEmbedded",
    "Event",
    "FileFinished",
    "IngestReport",
    "IngestRequest",
    "RunStarted",
    "ignore",
    "plan",
    "run",
]


def run(
    request: IngestRequest,
    *,
    store: Store,
    embedder: NeutralEmbedder,
    settings: PreparationSettings,
    fingerprint: str,
    workers: int | None = None,
    pages: PageCache | None = None,
    on_event: Callable[[Event], None] = ignore,
    stop: Callable[[], bool] = lambda: False,
) -> IngestReport:
    """Ingest the request's files.

    Args:
        fingerprint: the collection's.
        workers: processes that prepare files; None chooses, 0 is this process.
        pages: loses what was recognised in files that changed, or are gone in a run that prunes; None: no cache.
        stop: asked between files and between groups of passages; True ends the run after the file in hand.

    Raises:
        UsageError: see `plan`.
        StoreError, EmbedderError: the run cannot go on; what was written before stays.
    """
    started = time.monotonic()
    versions = _versions(fingerprint, settings)
    report = IngestReport(dry_run=request.dry_run)
    with store.hold():
        todo = plan(request, store, versions)
        contents: set[str] = set()
        report.chunks_unchanged = todo.chunks_unchanged
        if todo.files_unchanged:
            report.files["unchanged"] += todo.files_unchanged
        for outcome in todo.settled:
            report.add(outcome)
        total = sum(task.source.size for task in todo.tasks)
        on_event(RunStarted(len(todo.tasks), total, report.files["unchanged"]))
        if not request.dry_run:
            for page in points.pages(todo.refreshed):  # so that others get at the store between two of them
                store.refresh(page)
        with PreparationPool(settings, _worker_count(workers, len(todo.tasks), total), stop) as pool:
            prepared = pool.run(_until(todo.tasks, stop))
            if request.dry_run:
                contents = measure(prepared, embedder, report, todo.known, on_event)
            else:

                def superseded(old: Mapping[str, Record]) -> None:
                    if pages is not None:
                        drop_pages(old, store, pages)

                writer = DocumentWriter(
                    store=store,
                    embedder=embedder,
                    report=report,
                    known=todo.known,
                    versions=versions,
                    on_event=on_event,
                    reuse=not request.reindex,
                    on_superseded=superseded,
                )
                _write_all(prepared, writer, stop)
        report.interrupted = stop()
        if request.prune and not report.interrupted:
            if request.dry_run:
                gone.preview(todo.walked, store, contents, report, agreed=request.yes)
            else:
                gone.prune(todo.walked, store, pages, report, agreed=request.yes)
    report.seconds = time.monotonic() - started
    return report


def write_files(
    tasks: Sequence[Task],
    *,
    store: Store,
    known: dict[str, Record],
    embedder: NeutralEmbedder,
    settings: PreparationSettings,
    fingerprint: str,
    report: IngestReport,
    workers: int | None = None,
    on_event: Callable[[Event], None] = ignore,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Read, embed and write these files, whatever the store says of them; `report` is told. As in `run` otherwise.

    Args:
        known: what the store has of them, by document id.
    """
    writer = DocumentWriter(
        store=store,
        embedder=embedder,
        report=report,
        known=known,
        versions=_versions(fingerprint, settings),
        on_event=on_event,
    )
    count = _worker_count(workers, len(tasks), sum(task.source.size for task in tasks))
    with PreparationPool(settings, count, stop) as pool:
        _write_all(pool.run(_until(tasks, stop)), writer, stop)


def measure_files(
    tasks: Sequence[Task],
    *,
    known: Mapping[str, Record],
    embedder: NeutralEmbedder,
    settings: PreparationSettings,
    report: IngestReport,
    workers: int | None = None,
    on_event: Callable[[Event], None] = ignore,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Read and cut these files as `write_files` does, and write nothing; see `estimate.measure`."""
    count = _worker_count(workers, len(tasks), sum(task.source.size for task in tasks))
    with PreparationPool(settings, count, stop) as pool:
        measure(pool.run(_until(tasks, stop)), embedder, report, known, on_event)


def _versions(fingerprint: str, settings: PreparationSettings) -> Versions:
    recogniser = settings.options.recogniser
    if recogniser is None:
        return Versions(fingerprint, None)
    never = settings.options.ocr == "never"
    return Versions(fingerprint, recogniser.fingerprint, lambda: not never and recogniser.ready())


def _write_all(prepared: Iterator[Preparation], writer: DocumentWriter, stop: Callable[[], bool]) -> None:
    for preparation in prepared:
        writer.take(preparation)
        writer.embed(stop)
        if stop():
            break
    writer.finish(stopping=stop())


def _until(tasks: Sequence[Task], stop: Callable[[], bool]) -> Iterator[Task]:
    """The tasks as they are given out to be read."""
    for task in tasks:
        if stop():
            return
        yield replace(task, source=settled(task.source, time.time_ns()))


def _worker_count(workers: int | None, tasks: int, total_bytes: int) -> int:
    if workers is not None:
        return workers
    if tasks <= INLINE_FILES and total_bytes <= INLINE_BYTES:
        return 0
    # Preparing takes a tenth of what embedding does, and each worker holds the vocabulary (300 MB).
    return max(1, min(4, (os.cpu_count() or 1) // 4))

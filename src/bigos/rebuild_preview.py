# SPDX-License-Identifier: GPL-2.0-only
"""`bigos ingest --rebuild --dry-run`: every known file is read and cut as a rebuild would, and nothing is written."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

from bigos import pipeline
from bigos.embedders import PassagesRejected
from bigos.embedders.calibration import NeutralEmbedder
from bigos.plan import LACKS
from bigos.preparation import PreparationSettings
from bigos.rebuild import Loss, RebuildReport, other_windows, outcome_without_text, stored_passages
from bigos.rebuild_plan import plan
from bigos.report import Event, IngestReport, RunStarted, ignore
from bigos.stores import Store
from bigos.types import FileOutcome, Record

SAMPLE_DOCUMENTS = 8
SAMPLE_PASSAGES = 32


def look(
    old: Store,
    *,
    embedder: NeutralEmbedder,
    settings: PreparationSettings,
    fingerprint: str,
    workers: int | None = None,
    on_event: Callable[[Event], None] = ignore,
    stop: Callable[[], bool] = lambda: False,
) -> RebuildReport:
    """What there is to do: files, chunks, losses, and a guess at how long it takes. Arguments as of `rebuild`.

    Raises StoreError, EmbedderError.
    """
    started = time.monotonic()
    report = RebuildReport(old.stats().fingerprint, fingerprint, ingest=IngestReport(dry_run=True))
    with old.hold():
        known = old.known()
        todo = plan(known, {}, fingerprint, report.made_with)
        report.documents, report.chunks = len(known), sum(record.chunk_count for record in known.values())
        on_event(RunStarted(len(todo.tasks), sum(task.source.size for task in todo.tasks), 0))
        pipeline.measure_files(
            todo.tasks,
            known=known,
            embedder=embedder,
            settings=settings,
            report=report.ingest,
            workers=workers,
            on_event=on_event,
            stop=stop,
        )
        stored = [(item.before, item.why) for item in todo.stored] + _without_text_now(report.ingest, known)
        for record in todo.carried:
            report.ingest.add(outcome_without_text(record))
        told = {outcome.path for outcome in report.ingest.outcomes}
        kept = []
        for record, why in stored:
            problem = other_windows(record, report.made_with, settings)
            if problem:
                report.losses.append(Loss(record.source_path, record.chunk_count, why, problem))
                continue
            kept.append(record)
            report.from_stored_text.append(record.source_path)
            if record.source_path not in told:
                report.ingest.add(FileOutcome(record.source_path, "updated", chunks=record.chunk_count))
        report.ingest.chunks_written += sum(record.chunk_count for record in kept)
        report.ingest.estimated_seconds = (report.ingest.estimated_seconds or 0.0) + _estimate(
            old, kept, embedder, settings
        )
    report.ingest.interrupted = stop()
    report.ingest.seconds = time.monotonic() - started
    return report


def _without_text_now(report: IngestReport, known: dict[str, Record]) -> list[tuple[Record, str]]:
    """Documents that have text in the index, and whose file gives none any more, though it is the same or has failed.

    What became something that is rightly left out is no loss.
    """
    by_path = {record.source_path: record for record in known.values() if record.chunk_count}
    found = []
    for outcome in report.outcomes:
        record = by_path.get(outcome.path)
        reason = outcome.reason or "gives no text"
        if record is None or outcome.chunks:
            continue
        if outcome.outcome != "skipped" or reason.startswith(LACKS):
            found.append((record, reason))
    return found


def _estimate(old: Store, kept: Sequence[Record], embedder: NeutralEmbedder, settings: PreparationSettings) -> float:
    """Seconds for the stored chunks of these documents, by a sample of them."""
    some = sorted((record for record in kept if record.chunk_count), key=lambda record: record.doc_id)
    items = old.documents([record.doc_id for record in some[:SAMPLE_DOCUMENTS]])
    sample = [text for item in items for text in stored_passages(item, settings)[: SAMPLE_PASSAGES // SAMPLE_DOCUMENTS]]
    if not sample:
        return 0.0
    embedder.embed_query("clock", None)  # the first text loads the model
    started = time.monotonic()
    with contextlib.suppress(PassagesRejected):  # a text that the model cannot take costs its time too
        embedder.embed_passages(sample, [None] * len(sample))
    return (time.monotonic() - started) / len(sample) * sum(record.chunk_count for record in kept)

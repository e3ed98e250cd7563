# SPDX-License-Identifier: GPL-2.0-only
"""A dry run: what an ingest would write, and how long the model would take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from bigos.embedders import PassagesRejected
from bigos.embedders.calibration import NeutralEmbedder
from bigos.preparation import Preparation, Rejected, Same
from bigos.report import Event, FileFinished, IngestReport
from bigos.types import FileOutcome, Record, path_text
from bigos.writer import EMBED_GROUP


def measure(
    prepared: Iterator[Preparation],
    embedder: NeutralEmbedder,
    report: IngestReport,
    known: Mapping[str, Record],
    on_event: Callable[[Event], None],
) -> set[str]:
    """Count what would be written, and time the embedder on a sample of it; the content hashes of the documents."""
    sample: list[str] = []
    contents: set[str] = set()
    for preparation in prepared:
        report.files_read += not isinstance(preparation, Rejected) or preparation.content_hash is not None
        name = path_text(preparation.source.path)
        if isinstance(preparation, Rejected):
            outcome = FileOutcome(
                name, "skipped" if preparation.skipped else "failed", preparation.reason, preparation.message
            )
        elif isinstance(preparation, Same):
            outcome = FileOutcome(name, "unchanged", chunks=known[preparation.source.doc_id].chunk_count)
            report.chunks_unchanged += outcome.chunks
        else:
            contents.add(preparation.content_hash)
            before = known.get(preparation.source.doc_id)
            report.chunks_written += len(preparation.chunks)
            outcome = FileOutcome(
                name,
                "updated" if before is not None and before.chunk_count else "added",
                chunks=len(preparation.chunks),
            )
            if len(sample) < 2 * EMBED_GROUP:
                sample += preparation.passages[:4]
        report.add(outcome)
        on_event(FileFinished(outcome, preparation.source.size))
    sample = sample[:: max(1, len(sample) // 32)][:32]
    if sample:
        embedder.embed_query("clock", None)  # the first text loads the model
        started = time.monotonic()
        with contextlib.suppress(PassagesRejected):  # a text that the model cannot take costs its time too
            embedder.embed_passages(sample, [None] * len(sample))
        report.estimated_seconds = (time.monotonic() - started) / len(sample) * report.chunks_written
    else:
        report.estimated_seconds = 0.0
    return contents

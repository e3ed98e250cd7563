# SPDX-License-Identifier: GPL-2.0-only
"""Rebuild: every known document is read and embedded anew, into a collection beside the one that serves.

    Records of the old one --> read again (pipeline) --> the new one --> compare once more --> the new one serves

The new one's own Records tell what is done, so a run that was stopped goes on where it was. A document whose source
is gone or cannot be read is embedded from its stored text, if its windows are the ones that are wanted now; if not, it
would be lost, and the new one waits until that is agreed to. What an ordinary ingest writes into the old one meanwhile
is seen when both are compared: again and again while much differs, and then once more with everybody kept out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bigos import passages, pipeline
from bigos.embedders import PassagesRejected, Vectors, Window
from bigos.embedders.calibration import CODE, NeutralEmbedder
from bigos.fingerprint import windows
from bigos.preparation import PreparationSettings
from bigos.rebuild_plan import GROUP_CHUNKS, Stored, Todo, groups, plan
from bigos.report import ChunksEmbedded, Event, FileFinished, IngestReport, RunStarted, ignore
from bigos.stores import Replacement, Successor
from bigos.tokenizer import Tokenizer
from bigos.types import Document, FileOutcome, Outcome, Record, SourceFile
from bigos.writer import EMBED_GROUP, NOT_EMBEDDABLE

FEW = 32
"""So many documents are brought up to date with everybody kept out."""
TURNS = 5
"""Comparisons that are made before everybody is kept out all the same."""
LAST_TURNS = 3
OTHER_WINDOWS = "its stored chunks are of another length than those that are wanted now"
TELL_SECONDS = 2.0
"""How often others are told how far it is."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A document that the new collection would not have, and why: its source, and its stored text."""

    path: str
    chunks: int
    source: str
    reason: str


@dataclass(slots=True)
class RebuildReport:
    """What a run found and did; `ingest` tells of the files as an ingest does, "updated" for those made anew."""

    made_with: str | None
    fingerprint: str
    documents: int = 0
    chunks: int = 0
    ingest: IngestReport = field(default_factory=IngestReport)
    resumed: bool = False
    from_stored_text: list[str] = field(default_factory=list)
    """Paths of documents that were embedded from the text that the old collection had of them."""
    losses: list[Loss] = field(default_factory=list)
    swapped: bool = False


def rebuild(
    successor: Successor,
    *,
    embedder: NeutralEmbedder,
    settings: PreparationSettings,
    fingerprint: str,
    workers: int | None = None,
    accept_losses: bool = False,
    on_event: Callable[[Event], None] = ignore,
    stop: Callable[[], bool] = lambda: False,
) -> RebuildReport:
    """Build the successor from what the old collection knows, and let it take over when it is complete.

    Args:
        fingerprint: the new collection's.
        workers: as `pipeline.run` has it.
        accept_losses: let it take over though documents are lost (`RebuildReport.losses`).
        on_event: told what goes on.
        stop: asked between files and between groups of passages; what was built then stays for the next run.

    Raises:
        StoreError, EmbedderError: the run cannot go on. The old collection serves as before.
    """
    started = time.monotonic()
    run = _Rebuild(
        successor,
        embedder=embedder,
        settings=settings,
        fingerprint=fingerprint,
        workers=workers,
        on_event=on_event,
        stop=stop,
    )
    with successor.old.hold(), successor.new.hold():
        successor.require_room()
        run.build(accept_losses)
    run.report.ingest.seconds = time.monotonic() - started
    return run.report


class _Rebuild:
    """One run."""

    def __init__(
        self,
        successor: Successor,
        *,
        embedder: NeutralEmbedder,
        settings: PreparationSettings,
        fingerprint: str,
        workers: int | None,
        on_event: Callable[[Event], None],
        stop: Callable[[], bool],
    ) -> None:
        self._successor = successor
        self._old, self._new = successor.old, successor.new
        self._embedder = embedder
        self._settings = settings
        self._fingerprint = fingerprint
        self._workers = workers
        self._on_event = on_event
        self._stop = stop
        self._made = 0
        self._told_at = float("-inf")
        self._losses: dict[str, tuple[Record, Loss]] = {}
        self._carried: dict[str, Record] = {}
        self.report = RebuildReport(self._old.stats().fingerprint, fingerprint, resumed=successor.resumed)

    def build(self, accept_losses: bool) -> None:
        """Until nothing differs; then the new one takes over, unless documents would be lost."""
        for turn in range(TURNS):
            todo = self._compared(first=not turn)
            if turn and len(todo) <= FEW:
                break
            self._do(todo)
            if self._interrupted():
                return self._finish()
        with self._successor.undisturbed():
            for _ in range(LAST_TURNS):
                todo = self._compared()
                if not len(todo):
                    break
                self._do(todo)
                if self._interrupted():
                    return self._finish()
            if accept_losses or not self._losses:
                self._successor.take_over()
                self.report.swapped = True
        return self._finish()

    def _emit(self, event: Event) -> None:
        self._on_event(event)
        self._made += isinstance(event, FileFinished)
        if time.monotonic() - self._told_at > TELL_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self._successor.tell(min(self._made, self.report.documents), self.report.documents)
        self._told_at = time.monotonic()

    def _compared(self, *, first: bool = False) -> Todo:
        """What is to be done; what is only in the new one leaves it."""
        before, after = self._old.known(), self._new.known()
        obsolete = [record for doc_id, record in after.items() if doc_id not in before]
        if obsolete:
            for record in obsolete:
                self._new.forget(Path(record.source_path))
            self.report.ingest.remains = self._new.compact()
            after = self._new.known()  # of a file that was a folder, what is below it has gone too
        todo = plan(before, after, self._fingerprint, self.report.made_with)
        self._losses = {doc_id: item for doc_id, item in self._losses.items() if before.get(doc_id) == item[0]}
        todo.stored = [item for item in todo.stored if item.before.doc_id not in self._losses]
        self.report.documents = len(before)
        self.report.chunks = sum(record.chunk_count for record in before.values())
        self._made = len(before) - len(todo) - len(self._losses)
        self._tell()
        if first:
            done = [after[doc_id] for doc_id in before if doc_id in after]
            done = [record for record in done if record.chunk_count and record.doc_id not in todo.known]
            self.report.ingest.files["unchanged"] = len(done)
            self.report.ingest.chunks_unchanged = sum(record.chunk_count for record in done)
            self._emit(RunStarted(len(todo.tasks), sum(task.source.size for task in todo.tasks), len(done)))
        return todo

    def _do(self, todo: Todo) -> None:
        self._carry(todo.carried)
        pipeline.write_files(
            todo.tasks,
            store=self._new,
            known=todo.known,
            embedder=self._embedder,
            settings=self._settings,
            fingerprint=self._fingerprint,
            report=self.report.ingest,
            workers=self._workers,
            on_event=self._emit,
            stop=self._stop,
        )
        for group in groups(todo.stored):
            if self._stop():
                return
            self._embed_stored(group)

    def _carry(self, records: Sequence[Record]) -> None:
        """What failed or was left out is so in the new one too."""
        for start in range(0, len(records), GROUP_CHUNKS):
            page = records[start : start + GROUP_CHUNKS]
            self._new.replace([Replacement(record, (), self._no_vectors()) for record in page])
        self._carried |= {record.doc_id: record for record in records}
        self._made += len(records)

    def _embed_stored(self, group: Sequence[Stored]) -> None:
        items = {item.record.doc_id: item for item in self._old.documents([each.before.doc_id for each in group])}
        for before, after, why in group:
            item = items.get(before.doc_id)
            if item is None or item.record != before:
                continue  # it has changed since: the next comparison sees to it
            made = self._made_of_stored(item)
            if isinstance(made, str):
                self._losses[before.doc_id] = before, Loss(before.source_path, before.chunk_count, why, made)
                continue
            self._new.replace([Replacement(after, item.chunks, made)])
            self.report.from_stored_text.append(before.source_path)
            self.report.ingest.chunks_written += len(item.chunks)
            failed = after.status == "failed"
            outcome = FileOutcome(
                before.source_path, "failed" if failed else "updated", after.reason, None, len(item.chunks)
            )
            self.report.ingest.add(outcome)
            self._emit(FileFinished(outcome, before.size))

    def _made_of_stored(self, item: Replacement) -> Vectors | str:
        """New vectors of a document's stored chunks, or why there can be none."""
        problem = other_windows(item.record, self.report.made_with, self._settings)
        if problem:
            return problem
        if len(item.chunks) != item.record.chunk_count:
            return f"the index has {len(item.chunks)} of its {item.record.chunk_count} chunks"
        texts = stored_passages(item, self._settings)
        rows: list[Vectors] = []
        for start in range(0, len(texts), EMBED_GROUP):
            chunks = item.chunks[start : start + EMBED_GROUP]
            labels = [
                CODE if chunk.kind == "code" else chunk.chunk_language or item.record.language for chunk in chunks
            ]
            try:
                rows.append(self._embedder.embed_passages(texts[start : start + EMBED_GROUP], labels))
            except PassagesRejected:
                return NOT_EMBEDDABLE
            self.report.ingest.embedded += len(chunks)
            self._emit(ChunksEmbedded(len(chunks)))
        return np.concatenate(rows) if rows else self._no_vectors()

    def _no_vectors(self) -> Vectors:
        return np.empty((0, self._embedder.dimension), np.float32)

    def _interrupted(self) -> bool:
        self.report.ingest.interrupted = self.report.ingest.interrupted or self._stop()
        return self.report.ingest.interrupted

    def _finish(self) -> None:
        """The report as one of the whole run: each file once, as it ended."""
        report = self.report
        if not report.swapped:
            self._tell()
        last: dict[str, FileOutcome] = {
            record.source_path: outcome_without_text(record) for record in self._carried.values()
        }
        for outcome in report.ingest.outcomes:
            last[outcome.path] = replace(outcome, outcome="updated") if outcome.outcome == "added" else outcome
        report.losses = [loss for _, loss in self._losses.values()]
        for loss in report.losses if report.swapped else ():
            last[loss.path] = FileOutcome(loss.path, "forgotten", loss.source, loss.reason, loss.chunks)
            report.ingest.chunks_removed += loss.chunks
        unchanged = report.ingest.files["unchanged"]
        report.ingest.files.clear()
        report.ingest.files["unchanged"] = unchanged
        report.ingest.outcomes = []
        for outcome in last.values():
            report.ingest.add(outcome)


def other_windows(record: Record, made_with: str | None, settings: PreparationSettings) -> str | None:
    """Why the stored chunks of a document are not those that its text would be cut into now; None when they are."""
    were = windows(made_with or "")
    is_code = record.kind == "code"
    wanted: Window = settings.code_window if is_code else settings.window
    return None if were is not None and were[is_code] == wanted else OTHER_WINDOWS


def stored_passages(item: Replacement, settings: PreparationSettings) -> list[str]:
    """What the embedder reads of a document's stored chunks."""
    record = item.record
    document = Document(
        source=SourceFile(Path(record.source_path), record.size, record.mtime_ns, record.inode),
        title=record.title,
        format=record.format or "",
        kind=record.kind or "document",
        code_language=record.code_language,
        text="",
        blocks=(),
        content_hash=record.content_hash,
        language=record.language,
    )
    tokenizer = Tokenizer.load(settings.tokenizer_file)
    return [passages.passage_text(document, chunk, tokenizer, settings.header_tokens) for chunk in item.chunks]


def outcome_without_text(record: Record) -> FileOutcome:
    """What is said of a document that has no text, as an ingest says it."""
    outcome: Outcome = "failed" if record.status == "failed" else "skipped"
    if record.status == "indexed":  # without text, and its source is gone
        outcome = "updated"
    return FileOutcome(record.source_path, outcome, record.reason)

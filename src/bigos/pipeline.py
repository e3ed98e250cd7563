# SPDX-License-Identifier: GPL-2.0-only
"""Ingest: plan what a run has to do, then do it. Emits events, prints nothing.

    walk --> known? --> prepare (workers) --> embed (across files) --> replace (in large upserts)

Files become durable in groups; whatever stops a run (Ctrl-C, a full disk, SIGKILL) costs at most the group under way,
and each document is in the store in its old or its new version.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bigos import files
from bigos.embedders import Vectors
from bigos.embedders.calibration import CODE, NeutralEmbedder
from bigos.errors import UsageError
from bigos.preparation import (
    INLINE_BYTES,
    INLINE_FILES,
    Preparation,
    PreparationPool,
    PreparationSettings,
    Prepared,
    Rejected,
    Same,
    Task,
)
from bigos.stores import Replacement, Store
from bigos.types import FileOutcome, Outcome, Record, SourceFile, path_text

EMBED_GROUP = 128
"""Passages that go to the embedder at once: enough to sort by length, few enough to stop soon."""
STORE_CHUNKS = 1024
STORE_SECONDS = 5.0
"""Finished documents are written when so many chunks or so much time has gathered."""
WALK_FAILURES = frozenset({"unreadable directory", "unreadable", "vanished"})
"""What the walk leaves out though it was asked for; the rest it leaves out rightly."""
LOADERS_VERSION = 1
"""Part of every Record: a change of what loaders or the chunker give makes known files be read again."""


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What to ingest, as the command line or a tool call says it. Paths may be relative."""

    paths: tuple[Path, ...]
    recursive: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_files: int = 5000
    reindex: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The walk is over: so many files to read, of so many bytes; the others are known."""

    files: int
    bytes: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class FileFinished:
    """One file has its outcome; an indexed one is durable by now."""

    outcome: FileOutcome
    bytes: int


@dataclass(frozen=True, slots=True)
class ChunksEmbedded:
    """So many more passages went through the model."""

    count: int


Event = RunStarted | FileFinished | ChunksEmbedded


def ignore(_event: Event) -> None:
    """For a caller that does not watch."""


@dataclass(slots=True)
class IngestReport:
    """What a run did. `outcomes` holds every file that was not simply unchanged; `files` counts all by outcome."""

    files: Counter[str] = field(default_factory=Counter)
    outcomes: list[FileOutcome] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    chunks_written: int = 0
    chunks_unchanged: int = 0
    chunks_removed: int = 0
    embedded: int = 0
    files_read: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    estimated_seconds: float | None = None
    interrupted: bool = False

    def add(self, outcome: FileOutcome) -> None:
        """Count a file; list it unless it is unchanged."""
        self.files[outcome.outcome] += 1
        if outcome.outcome != "unchanged":
            self.outcomes.append(outcome)


@dataclass(slots=True)
class Plan:
    """What the walk and the store's Records say has to be done."""

    tasks: list[Task] = field(default_factory=list)
    known: dict[str, Record] = field(default_factory=dict)
    settled: list[FileOutcome] = field(default_factory=list)
    chunks_unchanged: int = 0


def plan(request: IngestRequest, store: Store, fingerprint: str) -> Plan:
    """Walk the paths and ask the store once what it knows.

    Raises UsageError for a path that does not exist or for more than `max_files` files.
    """
    result = Plan()

    def left_out(item: files.LeftOut) -> None:
        outcome: Outcome = "failed" if item.reason in WALK_FAILURES else "skipped"
        result.settled.append(FileOutcome(path_text(item.path), outcome, item.reason, item.detail))

    found = list(
        files.walk(
            request.paths,
            recursive=request.recursive,
            include=request.include,
            exclude=request.exclude,
            on_left_out=left_out,
        )
    )
    if len(found) > request.max_files:
        raise UsageError(
            f"{len(found):,} files are more than --max-files {request.max_files:,}.",
            fix=f"name fewer folders, leave some out with --exclude, or say --max-files {len(found)}",
        )
    for path in request.paths:
        result.known.update(store.known(path.resolve()))
    for source in found:
        record = result.known.get(source.doc_id)
        if record is None or request.reindex or record.fingerprint != fingerprint:
            result.tasks.append(Task(source))
        elif (record.size, record.mtime_ns, record.inode) == (source.size, source.mtime_ns, source.inode):
            result.settled.append(_settled(record))
            result.chunks_unchanged += record.chunk_count
        else:
            result.tasks.append(Task(source, record.content_hash if record.status == "indexed" else None))
    return result


def _settled(record: Record) -> FileOutcome:
    """The outcome of a file that has not changed: what became of it last time still holds, and is said again."""
    outcome: Outcome = "unchanged" if record.status == "indexed" else record.status
    return FileOutcome(record.source_path, outcome, record.reason, None, record.chunk_count)


def run(
    request: IngestRequest,
    *,
    store: Store,
    embedder: NeutralEmbedder,
    settings: PreparationSettings,
    fingerprint: str,
    workers: int | None = None,
    on_event: Callable[[Event], None] = ignore,
    stop: Callable[[], bool] = lambda: False,
) -> IngestReport:
    """Ingest the request's files.

    Args:
        fingerprint: the collection's; goes with LOADERS_VERSION into every Record.
        workers: processes that prepare files; None chooses, 0 is this process.
        stop: asked between files and between groups of passages; True ends the run after the file in hand.

    Raises:
        UsageError: see `plan`.
        StoreError, EmbedderError: the run cannot go on; what was written before stays.
    """
    started = time.monotonic()
    record_fingerprint = f"{fingerprint}/loaders-{LOADERS_VERSION}"
    report = IngestReport(dry_run=request.dry_run)
    with store.hold():
        todo = plan(request, store, record_fingerprint)
        report.chunks_unchanged = todo.chunks_unchanged
        for outcome in todo.settled:
            report.add(outcome)
        total = sum(task.source.size for task in todo.tasks)
        on_event(RunStarted(len(todo.tasks), total, report.files["unchanged"]))
        count = _worker_count(workers, len(todo.tasks), total)
        writer = _Writer(
            store=store,
            embedder=embedder,
            report=report,
            known=todo.known,
            record_fingerprint=record_fingerprint,
            on_event=on_event,
        )
        with PreparationPool(settings, count) as pool:
            prepared = pool.run(_until(todo.tasks, stop))
            if request.dry_run:
                _measure(prepared, embedder, report, todo.known, on_event)
            else:
                for preparation in prepared:
                    writer.take(preparation)
                    writer.embed(stop)
                    if stop():
                        break
                writer.finish(stopping=stop())
        report.interrupted = stop()
    report.seconds = time.monotonic() - started
    return report


def _until(tasks: Sequence[Task], stop: Callable[[], bool]) -> Iterator[Task]:
    for task in tasks:
        if stop():
            return
        yield task


def _worker_count(workers: int | None, tasks: int, total_bytes: int) -> int:
    if workers is not None:
        return workers
    if tasks <= INLINE_FILES and total_bytes <= INLINE_BYTES:
        return 0
    return max(1, min(4, os.cpu_count() or 1))


class _Waiting:
    """A document whose vectors are being made."""

    def __init__(self, prepared: Prepared, dimension: int) -> None:
        self.prepared = prepared
        self.vectors: Vectors = np.empty((len(prepared.chunks), dimension), np.float32)
        self.embedded = 0

    @property
    def complete(self) -> bool:
        return self.embedded == len(self.prepared.chunks)


class _Writer:
    """Gathers prepared documents, embeds their passages across documents, writes the finished ones."""

    def __init__(
        self,
        *,
        store: Store,
        embedder: NeutralEmbedder,
        report: IngestReport,
        known: dict[str, Record],
        record_fingerprint: str,
        on_event: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._report = report
        self._known = known
        self._fingerprint = record_fingerprint
        self._emit = on_event
        self._waiting: deque[_Waiting] = deque()
        self._pending = 0
        self._replacements: list[tuple[Replacement, FileOutcome]] = []
        self._refreshes: list[tuple[Record, FileOutcome]] = []
        self._written_at = time.monotonic()

    def take(self, preparation: Preparation) -> None:
        """Accept what a worker made of a file."""
        if isinstance(preparation, Prepared):
            self._report.files_read += 1
            name = path_text(preparation.source.path)
            self._report.warnings += [(name, warning) for warning in preparation.warnings]
            self._waiting.append(_Waiting(preparation, self._embedder.dimension))
            self._pending += len(preparation.chunks)
        elif isinstance(preparation, Same):
            self._report.files_read += 1
            self._refresh(preparation)
        else:
            self._report.files_read += preparation.content_hash is not None
            self._reject(preparation)

    def embed(self, stop: Callable[[], bool]) -> None:
        """Embed whole groups; write what is complete when enough has gathered."""
        while self._pending >= EMBED_GROUP and not stop():
            self._embed_group(EMBED_GROUP)
            self._write_if_due()
        self._write_if_due()

    def finish(self, *, stopping: bool) -> None:
        """Embed what is left, or only the document in hand when stopping; write everything complete."""
        if stopping:
            in_hand = [item for item in self._waiting if item.embedded]
            self._waiting = deque(in_hand)
            self._pending = sum(len(item.prepared.chunks) - item.embedded for item in in_hand)
        while self._waiting:
            self._embed_group(EMBED_GROUP)
            self._write_if_due()
        self._write()

    def _embed_group(self, size: int) -> None:
        """The next `size` passages, in document order, of as many documents as they come from."""
        slices: list[tuple[_Waiting, int, int]] = []
        for item in self._waiting:
            room = size - sum(end - begin for _, begin, end in slices)
            if not room:
                break
            slices.append((item, item.embedded, min(len(item.prepared.chunks), item.embedded + room)))
        passages = [text for item, begin, end in slices for text in item.prepared.passages[begin:end]]
        if passages:
            labels = [
                CODE if chunk.kind == "code" else chunk.chunk_language or item.prepared.language
                for item, begin, end in slices
                for chunk in item.prepared.chunks[begin:end]
            ]
            vectors = self._embedder.embed_passages(passages, labels)
            at = 0
            for item, begin, end in slices:
                item.vectors[begin:end] = vectors[at : at + end - begin]
                item.embedded = end
                at += end - begin
            self._pending -= len(passages)
            self._report.embedded += len(passages)
            self._emit(ChunksEmbedded(len(passages)))
        while self._waiting and self._waiting[0].complete:
            self._complete(self._waiting.popleft())

    def _complete(self, item: _Waiting) -> None:
        prepared = item.prepared
        record = self._record(prepared.source, prepared.content_hash)
        record = replace(
            record,
            chunk_count=len(prepared.chunks),
            title=prepared.title,
            kind=prepared.kind,
            format=prepared.format,
            language=prepared.language,
            code_language=prepared.code_language,
        )
        before = self._known.get(record.doc_id)
        outcome: Outcome = "updated" if before is not None and before.status == "indexed" else "added"
        self._replacements.append(
            (
                Replacement(record, prepared.chunks, item.vectors),
                FileOutcome(record.source_path, outcome, chunks=len(prepared.chunks)),
            )
        )

    def _refresh(self, same: Same) -> None:
        """A touched file: its Record gets the new stat, nothing else changes."""
        before = self._known[same.source.doc_id]
        record = replace(
            before, size=same.source.size, mtime_ns=same.source.mtime_ns, inode=same.source.inode,
        )  # fmt: skip
        self._refreshes.append((record, FileOutcome(record.source_path, "unchanged", chunks=record.chunk_count)))
        self._report.chunks_unchanged += record.chunk_count

    def _reject(self, rejected: Rejected) -> None:
        """Remember why, so that the file is reported every run and read again only when it changes.

        A broken new version leaves the old one searchable; a file that rightly gives no text any more leaves nothing.
        """
        record = replace(
            self._record(rejected.source, rejected.content_hash or ""),
            status="skipped" if rejected.skipped else "failed",
            reason=rejected.reason,
        )
        before = self._known.get(record.doc_id)
        outcome = FileOutcome(record.source_path, "skipped", rejected.reason, rejected.message)
        if rejected.skipped:
            self._replacements.append((Replacement(record, (), self._no_vectors()), outcome))
            return
        outcome = replace(outcome, outcome="failed")
        if before is not None and before.chunk_count:
            record = replace(record, content_hash=before.content_hash, chunk_count=before.chunk_count)
            self._refreshes.append((record, outcome))
        else:
            self._replacements.append((Replacement(record, (), self._no_vectors()), outcome))

    def _no_vectors(self) -> Vectors:
        return np.empty((0, self._embedder.dimension), np.float32)

    def _record(self, source: SourceFile, content_hash: str) -> Record:
        return Record(
            doc_id=source.doc_id,
            source_path=path_text(source.path),
            content_hash=content_hash,
            size=source.size,
            mtime_ns=source.mtime_ns,
            inode=source.inode,
            fingerprint=self._fingerprint,
            chunk_count=0,
            status="indexed",
            reason=None,
            title=None,
            kind=None,
            format=None,
            language=None,
            code_language=None,
            ingested_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _write_if_due(self) -> None:
        chunks = sum(len(item.chunks) for item, _ in self._replacements)
        if chunks >= STORE_CHUNKS or time.monotonic() - self._written_at >= STORE_SECONDS:
            self._write()

    def _write(self) -> None:
        replacements, self._replacements = self._replacements, []
        refreshes, self._refreshes = self._refreshes, []
        if replacements:
            written = self._store.replace([item for item, _ in replacements])
            self._report.chunks_written += written.written
            self._report.chunks_removed += written.removed
        if refreshes:
            self._store.refresh([record for record, _ in refreshes])
        self._written_at = time.monotonic()
        for record, outcome in [*((item.record, done) for item, done in replacements), *refreshes]:
            self._report.add(outcome)
            self._emit(FileFinished(outcome, record.size))


def _measure(
    prepared: Iterator[Preparation],
    embedder: NeutralEmbedder,
    report: IngestReport,
    known: dict[str, Record],
    on_event: Callable[[Event], None],
) -> None:
    """A dry run: count what would be written, and time the embedder on a sample of it."""
    sample: list[str] = []
    for preparation in prepared:
        report.files_read += not isinstance(preparation, Rejected) or preparation.content_hash is not None
        name = path_text(preparation.source.path)
        if isinstance(preparation, Rejected):
            outcome = FileOutcome(
                name, "skipped" if preparation.skipped else "failed", preparation.reason, preparation.message
            )
        elif isinstance(preparation, Same):
            outcome = FileOutcome(name, "unchanged", chunks=known[preparation.source.doc_id].chunk_count)
        else:
            before = known.get(preparation.source.doc_id)
            report.chunks_written += len(preparation.chunks)
            outcome = FileOutcome(
                name,
                "updated" if before is not None and before.status == "indexed" else "added",
                chunks=len(preparation.chunks),
            )
            if len(sample) < 2 * EMBED_GROUP:
                sample += preparation.passages[:4]
        report.add(outcome)
        on_event(FileFinished(outcome, preparation.source.size))
    sample = sample[:: max(1, len(sample) // 32)][:32]
    if sample:
        embedder.embed_passages(sample[:1], [None])  # the first one loads the model
        started = time.monotonic()
        embedder.embed_passages(sample, [None] * len(sample))
        report.estimated_seconds = (time.monotonic() - started) / len(sample) * report.chunks_written
    else:
        report.estimated_seconds = 0.0

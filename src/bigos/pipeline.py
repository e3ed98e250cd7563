# SPDX-License-Identifier: GPL-2.0-only
"""Ingest: plan what a run has to do, then do it. Emits events, prints nothing.

    walk --> known? --> prepare (workers) --> embed (across files) --> replace (in large upserts)

Files become durable in groups; whatever stops a run (Ctrl-C, a full disk, SIGKILL) costs at most the group under way,
and each document is in the store in its old or its new version.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bigos import files
from bigos.embedders import PassagesRejected
from bigos.embedders.calibration import NeutralEmbedder
from bigos.errors import UsageError
from bigos.loaders import OcrPolicy
from bigos.preparation import (
    INLINE_BYTES,
    INLINE_FILES,
    Preparation,
    PreparationPool,
    PreparationSettings,
    Rejected,
    Same,
    Task,
)
from bigos.report import ChunksEmbedded, Event, FileFinished, IngestReport, RunStarted, ignore
from bigos.stores import Store, stamp_state
from bigos.types import FileOutcome, Outcome, Record, document_id, path_text
from bigos.writer import EMBED_GROUP, DocumentWriter

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

WALK_FAILURES = frozenset({"unreadable directory", "unreadable", "unreadable ignore file", "vanished"})
"""What the walk leaves out though it was asked for; the rest it leaves out rightly."""
UNREADABLE = "unreadable"
"""A file that could not be opened is tried again each run: leave to read it changes nothing that stat compares."""
LACKS = "needs "
"""How reasons begin that a program which is installed later takes away ("needs OCR"), all but one."""
NEEDS_PASSWORD = "needs a password"
PAGE_IMAGES = frozenset({"pdf", "djvu", "image"})
"""Formats whose pages may be recognised from their image."""
LOADERS_VERSION = 2
"""Part of every Record: a change of what loaders or the chunker give makes known files be read again."""


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What to ingest, as the command line or a tool call says it. Paths may be relative."""

    paths: tuple[Path, ...]
    recursive: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    ignore_files: bool = True
    """Whether .gitignore, .git/info/exclude and .bigosignore hold."""
    max_files: int = 5000
    reindex: bool = False
    retry_failed: bool = False
    """Whether files that failed or were left out are tried again, though they have not changed."""
    dry_run: bool = False
    ocr: OcrPolicy | None = None
    """Which pages are recognised from their image; None is as the configuration says."""


@dataclass(slots=True)
class Plan:
    """What the walk and the store's Records say has to be done."""

    tasks: list[Task] = field(default_factory=list)
    known: dict[str, Record] = field(default_factory=dict)
    """Of the files that had to be looked at: not of those that are unchanged, nor of files that are gone."""
    settled: list[FileOutcome] = field(default_factory=list)
    """Of files that are left out, or were found wanting before and have not changed since."""
    files_unchanged: int = 0
    chunks_unchanged: int = 0


def plan(request: IngestRequest, store: Store, fingerprint: str) -> Plan:
    """Walk the paths and ask the store what it knows: of all files whether they are as they were, of the others more.

    Raises UsageError for a path that does not exist or for more than `max_files` files.
    """
    result = Plan()

    def left_out(item: files.LeftOut) -> None:
        outcome: Outcome = "failed" if item.reason in WALK_FAILURES else "skipped"
        result.settled.append(FileOutcome(path_text(item.path), outcome, item.reason, item.detail))

    with _collector_paused():
        found = _found(request, left_out)
        if not request.reindex and request.ocr != "always":
            found = _without_unchanged(found, request, store, fingerprint, result)
        by_id = {document_id(Path(item[0])): item for item in found}
        result.known = store.records(list(by_id))
        _triage(by_id, request, fingerprint, result)
    return result


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the search for cycles, which looks again and again through lists that only grow: a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _without_unchanged(
    found: list[files.Found], request: IngestRequest, store: Store, fingerprint: str, result: Plan
) -> list[files.Found]:
    """Count the files that are as the store's stamps say; return the others, whose Records have to be looked at."""
    chunk_counts: dict[str, str] = {}
    for path in request.paths:
        for stamp in store.stamps(path.resolve()):
            count, _, seen = stamp.partition(" ")
            chunk_counts[seen] = count
    state = stamp_state(fingerprint, "indexed")
    others = []
    for item in found:
        name, size, mtime_ns, inode = item
        known = chunk_counts.get(f"{size} {mtime_ns} {inode} {state} {name}")
        # A backslash in a stored path may stand for a byte, see path_text: the document's id tells.
        if known is None or "\\" in name:
            others.append(item)
        else:
            result.chunks_unchanged += int(known)
    result.files_unchanged += len(found) - len(others)
    return others


def _triage(by_id: Mapping[str, files.Found], request: IngestRequest, fingerprint: str, result: Plan) -> None:
    """Compare what the walk saw of each document with the Record that the store has of it."""
    for doc_id, item in by_id.items():
        _, size, mtime_ns, inode = item
        record = result.known.get(doc_id)
        if record is None or record.fingerprint != fingerprint or _again(record, request):
            result.tasks.append(Task(files.source_file(item)))
        elif record.size == size and record.mtime_ns == mtime_ns and record.inode == inode:
            result.chunks_unchanged += record.chunk_count
            if record.status == "indexed":
                result.files_unchanged += 1
            else:  # what became of it last time still holds, and is said again
                result.settled.append(
                    FileOutcome(record.source_path, record.status, record.reason, None, record.chunk_count)
                )
        else:
            result.tasks.append(
                Task(files.source_file(item), record.content_hash if record.status == "indexed" else None)
            )


def _again(record: Record, request: IngestRequest) -> bool:
    """Whether a file is read though it has not changed: because that was asked for, or what it lacked may be there."""
    if request.reindex or record.reason == UNREADABLE:
        return True
    if request.ocr == "always" and record.format in PAGE_IMAGES:
        return True
    if record.status == "indexed":
        return False
    return request.retry_failed or ((record.reason or "").startswith(LACKS) and record.reason != NEEDS_PASSWORD)


def _found(request: IngestRequest, left_out: Callable[[files.LeftOut], None]) -> list[files.Found]:
    """The files to look at. Above the limit they are only counted: there may be any number of them."""
    scan = files.scan(
        request.paths,
        recursive=request.recursive,
        include=request.include,
        exclude=request.exclude,
        ignore_files=request.ignore_files,
        on_left_out=left_out,
    )
    found = list(itertools.islice(scan, min(request.max_files + 1, sys.maxsize)))
    if len(found) <= request.max_files:
        return found
    folders = Counter(item[0].rpartition("/")[0] for item in itertools.chain(found, scan))
    largest = _largest_folders(folders)
    told = ", ".join(f"{count:,} in {path_text(Path(folder))}" for folder, count in largest)
    total = folders.total()
    raise UsageError(
        f"{total:,} files are more than --max-files {request.max_files:,}.",
        fix=f"name fewer folders ({told}), leave some out with --exclude, or say --max-files {total}",
    )


def _largest_folders(folders: Counter[str], most: int = 5) -> list[tuple[str, int]]:
    """The folders with the most files in and below them, beside each other, where the tree first branches."""
    below: Counter[str] = Counter()
    for folder, count in folders.items():
        above = folder
        while above:
            below[above] += count
            above = above.rpartition("/")[0]
    children: dict[str, list[str]] = {}
    for folder in below:
        children.setdefault(folder.rpartition("/")[0], []).append(folder)
    shown = children.get("", [])
    # Down to where a choice can be made: nobody is helped by "90,000 in /home".
    while shown and below[max(shown, key=below.__getitem__)] > 0.9 * folders.total():
        largest = max(shown, key=below.__getitem__)
        if largest not in children:
            break
        shown = children[largest]
    return sorted(((folder, below[folder]) for folder in shown), key=lambda item: (-item[1], item[0]))[:most]


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
        if todo.files_unchanged:
            report.files["unchanged"] += todo.files_unchanged
        for outcome in todo.settled:
            report.add(outcome)
        total = sum(task.source.size for task in todo.tasks)
        on_event(RunStarted(len(todo.tasks), total, report.files["unchanged"]))
        with PreparationPool(settings, _worker_count(workers, len(todo.tasks), total)) as pool:
            prepared = pool.run(_until(todo.tasks, stop))
            if request.dry_run:
                _measure(prepared, embedder, report, todo.known, on_event)
            else:
                writer = DocumentWriter(
                    store=store,
                    embedder=embedder,
                    report=report,
                    known=todo.known,
                    record_fingerprint=record_fingerprint,
                    on_event=on_event,
                )
                _write_all(prepared, writer, stop)
        report.interrupted = stop()
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
        record_fingerprint=f"{fingerprint}/loaders-{LOADERS_VERSION}",
        on_event=on_event,
    )
    count = _worker_count(workers, len(tasks), sum(task.source.size for task in tasks))
    with PreparationPool(settings, count) as pool:
        _write_all(pool.run(_until(tasks, stop)), writer, stop)


def _write_all(prepared: Iterator[Preparation], writer: DocumentWriter, stop: Callable[[], bool]) -> None:
    for preparation in prepared:
        writer.take(preparation)
        writer.embed(stop)
        if stop():
            break
    writer.finish(stopping=stop())


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
    # Preparing takes a tenth of what embedding does, and each worker holds the vocabulary (300 MB).
    return max(1, min(4, (os.cpu_count() or 1) // 4))


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
            report.chunks_unchanged += outcome.chunks
        else:
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

# SPDX-License-Identifier: GPL-2.0-only
"""What an ingest has to do: the walk against the store's Records. Nothing is read, nothing is written."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from bigos import files
from bigos.credentials import HOLDS_A_SECRET
from bigos.denied import Denied
from bigos.errors import UsageError
from bigos.findings import ReadFolders, Walked
from bigos.loaders import OcrPolicy
from bigos.preparation import Task
from bigos.stores import Store
from bigos.timestamps import changed_before
from bigos.types import UNSETTLED, FileOutcome, Outcome, Record, SourceFile, document_id, path_text
from bigos.versions import Versions, let_in

WALK_FAILURES = frozenset({"unreadable directory", "unreadable", "unreadable ignore file", "vanished"})
"""What the walk leaves out though it was asked for; the rest it leaves out rightly."""
UNREADABLE = "unreadable"
"""A file that could not be opened is tried again each run: leave to read it changes nothing that stat compares."""
LACKS = "needs "
"""How reasons begin that a program which is installed later takes away ("needs OCR"), all but one."""
NEEDS_PASSWORD = "needs a password"
PAGE_IMAGES = frozenset({"pdf", "djvu", "image"})
"""Formats whose pages may be recognised from their image."""


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
    allow_secrets: bool = False
    """Whether files that hold keys or tokens are taken too."""
    denied: Denied | None = None
    """Names that are never read."""
    own: Mapping[Path, str] | None = None
    """What Bigos keeps for itself, with the name of each place."""
    prune: bool = False
    """Whether documents under the paths go whose source is gone, see gone.py."""
    yes: bool = False
    """Whether what would be asked first is done."""
    keep: bool = False
    """Whether a document that is there may hold a secret as long as it is the same, whoever let it in."""
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
    refreshed: list[Record] = field(default_factory=list)
    """Records of files that are as they were, in today's words: they were written before there were such."""
    walked: Walked = field(default_factory=Walked)
    """For a run that prunes."""
    files_unchanged: int = 0
    chunks_unchanged: int = 0


def plan(request: IngestRequest, store: Store, versions: Versions) -> Plan:
    """Walk the paths and ask the store what it knows: of all files whether they are as they were, of the others more.

    Raises UsageError for a path that does not exist or for more than `max_files` files.
    """
    result = Plan()

    def left_out(item: files.LeftOut) -> None:
        outcome: Outcome = "failed" if item.reason in WALK_FAILURES else "skipped"
        result.settled.append(FileOutcome(path_text(item.path), outcome, item.reason, item.detail))

    with _collector_paused():
        found = _found(request, left_out, result.walked.read if request.prune else None)
        if request.prune:
            result.walked.roots = [os.path.realpath(path) for path in request.paths]
            result.walked.seen = {item[0] for item in found}
        if not request.reindex and request.ocr != "always":
            found = _without_unchanged(found, request, store, versions, result)
        by_id = {document_id(Path(item[0])): item for item in found}
        result.known = store.records(list(by_id))
        _triage(by_id, request, versions, result)
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
    found: list[files.Found], request: IngestRequest, store: Store, versions: Versions, result: Plan
) -> list[files.Found]:
    """Count the files that are as the store's stamps say; return the others, whose Records have to be looked at."""
    chunk_counts: dict[str, str] = {}
    states = versions.indexed_states()
    for path in request.paths:
        for stamp in store.stamps(path.resolve()):
            count, state, seen = stamp.split(" ", 2)
            if state in states:
                chunk_counts[seen] = count
    others = []
    for item in found:
        name, size, mtime_ns, inode, ctime_ns = item
        known = chunk_counts.get(f"{size} {mtime_ns} {inode} {ctime_ns} {name}")
        # A backslash in a stored path may stand for a byte, see path_text: the document's id tells.
        if known is None or "\\" in name:
            others.append(item)
        else:
            result.chunks_unchanged += int(known)
    result.files_unchanged += len(found) - len(others)
    return others


def _triage(by_id: Mapping[str, files.Found], request: IngestRequest, versions: Versions, result: Plan) -> None:
    """Compare what the walk saw of each document with the Record that the store has of it."""
    for doc_id, item in by_id.items():
        source = files.source_file(item)
        stored = result.known.get(doc_id)
        record = None if stored is None else versions.renewed(stored)
        if record is None or _again(record, request):
            result.tasks.append(Task(source, let_in=_let_in(stored, request)))
        elif _is_unchanged(record, source):
            if record.ctime_ns is None:
                record = replace(record, ctime_ns=source.ctime_ns)
            if record != stored:
                result.refreshed.append(record)
            result.chunks_unchanged += record.chunk_count
            if record.status == "indexed":
                result.files_unchanged += 1
            else:  # what became of it last time still holds, and is said again
                result.settled.append(
                    FileOutcome(record.source_path, record.status, record.reason, None, record.chunk_count)
                )
        else:
            same = record.content_hash if record.status == "indexed" else None
            result.tasks.append(Task(source, same, _let_in(record, request)))


def _let_in(record: Record | None, request: IngestRequest) -> str | None:
    """The content that a file may have though it holds a secret."""
    if request.keep and record is not None and record.chunk_count:
        return record.content_hash
    return let_in(record)


def _is_unchanged(record: Record, source: SourceFile) -> bool:
    """Whether the file is the one that the Record tells of, as far as stat knows."""
    if (record.size, record.mtime_ns, record.inode) != (source.size, source.mtime_ns, source.inode):
        return False
    if record.ctime_ns is None:
        return changed_before(source.ctime_ns, record.ingested_at)
    return record.ctime_ns == source.ctime_ns != UNSETTLED


def _again(record: Record, request: IngestRequest) -> bool:
    """Whether a file is read though it has not changed: because that was asked for, or what it lacked may be there."""
    if request.reindex or record.reason == UNREADABLE:
        return True
    if request.ocr == "always" and record.format in PAGE_IMAGES:
        return True
    if record.status == "indexed":
        return False
    if request.allow_secrets and record.reason == HOLDS_A_SECRET:
        return True
    return request.retry_failed or ((record.reason or "").startswith(LACKS) and record.reason != NEEDS_PASSWORD)


def _found(
    request: IngestRequest, left_out: Callable[[files.LeftOut], None], read: ReadFolders | None
) -> list[files.Found]:
    """The files to look at. Above the limit they are only counted: there may be any number of them."""
    scan = files.scan(
        request.paths,
        recursive=request.recursive,
        include=request.include,
        exclude=request.exclude,
        ignore_files=request.ignore_files,
        denied=request.denied,
        own=request.own,
        on_left_out=left_out,
        read=read,
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

# SPDX-License-Identifier: GPL-2.0-only
"""Documents whose source is gone from the disk (`--prune`): which may go, and which stay because it cannot be told.

A file is gone when the walk read the folder that it was in, or the nearest one above that is still there, did not find
it, and a look at its own path finds nothing either. Whatever may mean that a disk is away keeps its documents.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

from bigos import file_system
from bigos.findings import Walked
from bigos.forgetting import PageCache, forget_documents
from bigos.report import IngestReport
from bigos.stores import Store
from bigos.types import FileOutcome, Record, document_path

SOURCE_GONE = "source is gone"
NOT_LOOKED_FOR = "is there, not looked for"
"""Ignored, excluded, below a folder that was not entered: the file exists."""
UNREAD = "folder was not read"
EMPTY = "folder is empty"
UNMOUNTED = "not mounted"
LINK = "behind a link"
UNREACHABLE = "cannot be looked at"
TOO_MANY = "more than half is gone"
PLACES_BY_USER = ("/media", "/run/media")
PLACES_OF_DISKS = ("/mnt", "/Volumes", *PLACES_BY_USER)
"""Where systems mount what is plugged in, in a folder of its own, below one of its user in the first two."""


@dataclass(slots=True)
class Missing:
    """Known documents that the walk did not find."""

    known: int = 0
    """Documents under the roots in all; a file of which it is only known why it is none does not count."""
    gone: dict[str, Record] = field(default_factory=dict)
    moved: dict[str, Record] = field(default_factory=dict)
    """Gone too, and another document has the same content."""
    kept: list[tuple[str, str]] = field(default_factory=list)
    """Path and why."""

    @property
    def too_many(self) -> bool:
        """Whether so much is lost that somebody has to agree first."""
        return 2 * self.lost > self.known

    @property
    def lost(self) -> int:
        """How many of the gone are documents."""
        return _documents(self.gone.values())


def missing(walked: Walked, store: Store, contents: Collection[str] = ()) -> Missing:
    """Compare what the store knows under the walk's folders with what the walk saw and what is there now.

    Args:
        walked: of folders; a root that is a file has nothing below it.
        store: asked for all Records under the roots.
        contents: further content hashes that are there, of files that a dry run read and did not write.
    """
    known: dict[str, Record] = {}
    for root in walked.roots:
        if root in walked.read:
            known |= store.known(Path(root))
    result = Missing(_documents(known.values()))
    staying: set[str] = set(contents)
    lost: dict[str, Record] = {}
    disk = _Disk(walked)
    for doc_id, record in known.items():
        path = _path(record, walked.seen)
        if path not in walked.seen:
            why = UNREACHABLE if path is None else disk.why_kept(path, record.ingested_at)
            if why is None:
                lost[doc_id] = record
                continue
            result.kept.append((record.source_path, why))
        if record.chunk_count:
            staying.add(record.content_hash)
    for doc_id, record in lost.items():
        (result.moved if record.content_hash in staying else result.gone)[doc_id] = record
    result.kept.sort()
    return result


def prune(walked: Walked, store: Store, pages: PageCache | None, report: IngestReport, *, agreed: bool) -> None:
    """Forget what is gone, and tell it and what was kept in the report.

    `agreed`: whether more than half may go. Without that such a loss is left, and `report.prune_refused` says so.
    Raises what the store does.
    """
    found = missing(walked, store)
    going = dict(found.moved)
    if found.too_many and not agreed:
        refuse(found, report)
    else:
        going |= found.gone
        report.kept = found.kept
    if going:
        gone = store.remove(list(going)) if pages is None else forget_documents(going, store, pages)
        report.chunks_removed += gone.chunks
    tell(going.values(), report)


def refuse(found: Missing, report: IngestReport) -> None:
    """Tell that so much is gone that somebody has to agree."""
    report.prune_refused = (found.lost, found.known)
    report.kept = sorted(found.kept + [(record.source_path, TOO_MANY) for record in found.gone.values()])


def tell(going: Iterable[Record], report: IngestReport) -> None:
    """Count documents that went, or would go."""
    for record in sorted(going, key=lambda record: record.source_path):
        report.add(FileOutcome(record.source_path, "forgotten", SOURCE_GONE, chunks=record.chunk_count))


def preview(walked: Walked, store: Store, contents: Collection[str], report: IngestReport, *, agreed: bool) -> None:
    """As `prune`, and nothing is forgotten."""
    found = missing(walked, store, contents)
    report.kept = found.kept
    if found.too_many and not agreed:
        report.prune_refused = (found.lost, found.known)
    tell([*found.gone.values(), *found.moved.values()], report)


def _documents(records: Iterable[Record]) -> int:
    """How many of the Records tell of a document that a search may find, be it in its last good version."""
    return sum(record.status == "indexed" or record.chunk_count > 0 for record in records)


def _path(record: Record, seen: Collection[str]) -> str | None:
    """The file that a Record is about, as the walk writes it; None when its name cannot be told."""
    # A backslash may stand for a byte, and then the id has to tell; that takes longer than to look.
    if "\\" not in record.source_path and record.source_path in seen:
        return record.source_path
    path = document_path(record.source_path, record.doc_id)
    return None if path is None else os.fspath(path)


class _Disk:
    """Looks at what is there now; each folder once."""

    def __init__(self, walked: Walked) -> None:
        self._read = walked.read
        self._roots = set(walked.roots)
        self._unmounted = file_system.unmounted()
        self._why_folder: Callable[[str], str | None] = cache(self._look_at_folder)
        self._there: Callable[[str], str] = cache(_there)
        self._empty_since: Callable[[str], float | None] = cache(_empty_since)
        self._names: Callable[[str], frozenset[str]] = cache(_names)

    def why_kept(self, path: str, ingested_at: str) -> str | None:
        """Why the document of a file that was not found stays all the same; None when the file is gone.

        `ingested_at` is the Record's: ISO 8601, with a zone.
        """
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return UNREACHABLE
        else:
            # What stands there now may be a folder: the file is gone then. A link may lead to it, or to a disk. And
            # where upper and lower case are one, a renamed file answers to its old name, too.
            if not stat.S_ISDIR(mode) and not self._under_another_name(path):
                return LINK if stat.S_ISLNK(mode) else NOT_LOOKED_FOR
        for place in self._unmounted:
            if path.startswith(place.rstrip("/") + "/"):
                return UNMOUNTED
        folder = _folder_of(path)
        return self._why_folder(folder) or self._why_away(self._there(folder), ingested_at)

    def _under_another_name(self, path: str) -> bool:
        """Whether a file that is there has another name in its folder, which the walk has read."""
        folder = _folder_of(path)
        try:
            return folder in self._read and path.rpartition("/")[2] not in self._names(folder)
        except OSError:
            return False

    def _why_away(self, there: str, ingested_at: str) -> str | None:
        """Whether what is left of a path, its nearest folder that is there, looks like the place of a disk."""
        # A disk's own folder comes and goes with it there: /mnt/LABEL, /media/LABEL, /media/USER/LABEL.
        if not os.path.ismount(there) and (there in PLACES_OF_DISKS or _folder_of(there) in PLACES_BY_USER):
            return UNMOUNTED
        # Whoever takes files out of a folder changes the folder; the bare place of a disk is as it was before.
        empty_since = None if there in self._roots else self._empty_since(there)
        if empty_since is not None and empty_since < datetime.fromisoformat(ingested_at).timestamp():
            return EMPTY
        return None

    def _look_at_folder(self, folder: str) -> str | None:
        """Why nothing can be said of a name that is not in a folder, or would be in it if it were there."""
        try:
            status = os.lstat(folder)
        except (FileNotFoundError, NotADirectoryError):
            return UNREAD if folder in self._roots else self._why_folder(_folder_of(folder))
        except OSError:
            return UNREACHABLE
        if stat.S_ISREG(status.st_mode) and folder not in self._roots:
            return self._why_folder(_folder_of(folder))  # a file stands where a folder was
        if stat.S_ISLNK(status.st_mode):
            return LINK
        # Another device or inode under the old name: a disk was taken away, or put there, since the walk.
        if self._read.get(folder) != (status.st_dev, status.st_ino):
            return UNREAD
        return EMPTY if folder in self._roots and _is_empty(folder) else None


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _there(folder: str) -> str:
    """The folder, or the nearest one above it that is there."""
    while not os.path.isdir(folder) and folder != "/":  # noqa: PTH112 - no Path for each of very many
        folder = _folder_of(folder)
    return folder


def _empty_since(folder: str) -> float | None:
    """When a folder without any entry was changed last, in seconds since 1970; None when it has one."""
    try:
        return os.stat(folder).st_mtime if _is_empty(folder) else None  # noqa: PTH116
    except OSError:
        return 0.0


def _names(folder: str) -> frozenset[str]:
    return frozenset(os.listdir(folder))  # noqa: PTH208 - the names alone


def _is_empty(folder: str) -> bool:
    """Whether it has no entry at all, as the place of a disk that is away. An inbox has its marker file in it."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return True

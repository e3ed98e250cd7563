# SPDX-License-Identifier: GPL-2.0-only
"""What a rebuild has to do: the old collection's Records against the new one's, and the files as stat sees them."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bigos.plan import LACKS
from bigos.preparation import Task
from bigos.types import UNSETTLED, Record, SourceFile, document_path
from bigos.versions import let_in
from bigos.writer import NOT_EMBEDDABLE

GONE = "source is gone"
UNREACHABLE = "source cannot be looked at"
GROUP_CHUNKS = 1024
GROUP_DOCUMENTS = 64


class Stored(NamedTuple):
    """A document to make of its stored text: the old Record, the one that it gets, why its source does not do."""

    before: Record
    after: Record
    why: str


@dataclass(slots=True)
class Todo:
    """In which documents the new collection is not yet what it should be."""

    tasks: list[Task] = field(default_factory=list)
    known: dict[str, Record] = field(default_factory=dict)
    """What the new collection has of the files to read."""
    carried: list[Record] = field(default_factory=list)
    """Records without text, as they should be."""
    stored: list[Stored] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tasks) + len(self.carried) + len(self.stored)


def plan(
    known: dict[str, Record],
    built: dict[str, Record],
    fingerprint: str,
    made_with: str | None,
) -> Todo:
    """Compare what the old collection knows with what the new one has."""
    todo = Todo()
    for doc_id, before in known.items():
        after = built.get(doc_id)
        source, why = _source(before)
        as_before = replace(before, fingerprint=_renewed(before.fingerprint, made_with, fingerprint))
        of_no_model = before.status != "indexed" and before.reason != NOT_EMBEDDABLE
        if not before.chunk_count and (of_no_model or source is None):
            if after != as_before:
                todo.carried.append(as_before)
        elif source is None:
            if after is None or not _same_version(after, before):
                todo.stored.append(Stored(before, as_before, why))
        elif after is None or not after.fingerprint.startswith(fingerprint) or not _is_of(after, source):
            todo.tasks.append(Task(source, let_in=let_in(before)))
            if after is not None:
                todo.known[doc_id] = after
        elif before.chunk_count and not after.chunk_count and not _rightly_empty(before, after):
            todo.stored.append(Stored(before, _kept(as_before, after), after.reason or "gives no text"))
    return todo


def _source(record: Record) -> tuple[SourceFile | None, str]:
    """The file as it is now; None, and why, when it cannot be read."""
    path = document_path(record.source_path, record.doc_id)
    try:
        if path is None:
            return None, UNREACHABLE
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None, GONE
    except OSError:
        return None, UNREACHABLE
    if not stat.S_ISREG(status.st_mode):
        return None, GONE
    return SourceFile(path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns), ""


def _is_of(record: Record, source: SourceFile) -> bool:
    """Whether a Record tells of the file as it is now."""
    there = (source.size, source.mtime_ns, source.inode, source.ctime_ns)
    return record.ctime_ns != UNSETTLED and (record.size, record.mtime_ns, record.inode, record.ctime_ns) == there


def _same_version(after: Record, before: Record) -> bool:
    """Whether a document of the new collection was made of the stored text that the old one has now."""
    versions = [(one.content_hash, one.ingested_at, one.chunk_count) for one in (after, before)]
    return versions[0] == versions[1]


def _same_content(before: Record, after: Record) -> bool:
    """Whether the file is still what the old collection's text came from; one that was not read has no hash."""
    if after.content_hash:
        return after.content_hash == before.content_hash
    return (after.size, after.mtime_ns) == (before.size, before.mtime_ns)


def _rightly_empty(before: Record, after: Record) -> bool:
    """Whether a file that had text and was read again has none by now: one that changed, into what is left out."""
    lacks = (after.reason or "").startswith(LACKS)
    return after.status != "failed" and not lacks and not _same_content(before, after)


def _kept(as_before: Record, after: Record) -> Record:
    """The Record of a document whose source was read again in vain, and whose stored text is kept.

    As in an ingest it fails, and is tried again when it changes; but what was taken once is not left out now.
    """
    kept = replace(as_before, size=after.size, mtime_ns=after.mtime_ns, inode=after.inode, ctime_ns=after.ctime_ns)
    if after.status != "failed" and _same_content(as_before, after):
        return kept
    return replace(kept, fingerprint=after.fingerprint, status="failed", reason=after.reason)


def _renewed(record_fingerprint: str, made_with: str | None, fingerprint: str) -> str:
    """A Record's fingerprint with the new collection's in it: the versions of what read the file stay."""
    if made_with is None or not record_fingerprint.startswith(made_with):
        return record_fingerprint
    return fingerprint + record_fingerprint.removeprefix(made_with)


def groups(stored: Sequence[Stored]) -> Iterator[list[Stored]]:
    """In pieces of GROUP_DOCUMENTS documents and GROUP_CHUNKS chunks at most; one that is longer comes alone."""
    group: list[Stored] = []
    chunks = 0
    for item in stored:
        if group and (len(group) >= GROUP_DOCUMENTS or chunks + item.before.chunk_count > GROUP_CHUNKS):
            yield group
            group, chunks = [], 0
        group.append(item)
        chunks += item.before.chunk_count
    if group:
        yield group

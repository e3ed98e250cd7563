# SPDX-License-Identifier: GPL-2.0-only
"""The port that every store fits: documents in whole, chunks out.

A store holds one collection. A document is there in its old or its new version, never in between: `replace` writes the
new chunks, then the Record, then removes what is old; a reader that comes in the middle sees only chunks whose content
hash is the Record's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bigos.embedders import Vectors
from bigos.lexical import TermVector
from bigos.types import Chunk, Hit, Kind, Record, Status

MOST_TWINS = 8
"""One will do to take vectors from, if it was made the same way; an empty file may have thousands."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A document's new version: its Record, all of its chunks, and one unit vector a chunk, shape (n, dimension)."""

    record: Record
    chunks: Sequence[Chunk]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """A search by meaning or by words, and the filters there are.

    `by` is a unit vector, shape (dimension,), or the terms of a question. `paths` are absolute prefixes, any of which
    fits. With `chunk_ids` only these chunks are ranked.
    """

    by: Vectors | TermVector
    limit: int
    kind: Kind | None = None
    paths: tuple[Path, ...] = ()
    chunk_ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as the store gives it back, with its id and its place."""

    chunk_id: str
    source_path: str
    source_name: str
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """A point as it lies in the store, whatever is wrong with it. A Record has no vector."""

    point_id: str
    payload: Mapping[str, Any]
    vector: Vectors | None


@dataclass(frozen=True, slots=True)
class MadeWith:
    """What a collection's vectors were made with, and how many numbers each has."""

    fingerprint: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A `Successor` that has not taken over yet, as anybody sees it.

    `documents` of `known` were made when it was last told, `heard_at` (ISO 8601). None is what is not known: a rebuild
    that has only just begun has told nothing, and only where all processes are on one machine is it always known
    whether one is at it (`running`), and which (`process`).
    """

    place: str
    fingerprint: str | None
    documents: int | None = None
    known: int | None = None
    heard_at: str | None = None
    running: bool | None = None
    process: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a `replace` changed, in chunks."""

    written: int
    removed: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a `forget` removed. Two hosts that forget the same on a server at once may both count it."""

    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Remains:
    """That bytes of what was forgotten are still in the store's own files: where and until when, and what ends it."""

    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Stats:
    """What is in the collection.

    `documents` are those with status "indexed"; `by_status` counts every Record. `chunks` and the other maps count
    chunks of current versions, by the document's kind, language (code has none) and code language; "unknown" where a
    document has no such value, so that each map adds up.
    """

    documents: int
    chunks: int
    by_status: Mapping[str, int]
    by_kind: Mapping[str, int]
    by_language: Mapping[str, int]
    by_code_language: Mapping[str, int]
    fingerprint: str | None


def stamp_state(fingerprint: str, status: Status) -> str:
    """The word of a stamp that says what the document was made with and what became of it."""
    return f"{status}:{hashlib.blake2b(fingerprint.encode(), digest_size=8).hexdigest()}"


class Store(Protocol):
    """One collection of documents."""

    in_flight_seconds: float
    """How long after it was written a chunk may be without its Record because somebody is at it."""

    def hold(self) -> AbstractContextManager[None]:
        """Keep the store open over several calls, for speed. It may still be lent to another process between calls."""
        ...

    def turn(self) -> AbstractContextManager[None]:
        """Several quick reads between which no other process has its turn, so that they are waited for once."""
        ...

    def known(self, root: Path | None = None) -> dict[str, Record]:
        """Every Record under `root` (or all), by doc_id. One call a run."""
        ...

    def stamps(self, root: Path | None = None) -> list[str]:
        """What tells whether a file has changed, of the Records under `root` (or all), in any order.

        Much quicker than `known`, for a run that finds nearly all as it was. One text a Record, without anything but
        its current values: "CHUNK_COUNT STATE SIZE MTIME_NS INODE CTIME_NS SOURCE_PATH", STATE as `stamp_state` has it.
        A Record that was written before there were stamps, or with others, has none of these until it is written again:
        what has no stamp has to be looked at with `records`.
        """
        ...

    def records(self, doc_ids: Sequence[str]) -> dict[str, Record]:
        """The Records of these documents by doc_id; what is not there, or no document's id, is left out."""
        ...

    def twins(self, content_hashes: Sequence[str]) -> dict[str, list[Record]]:
        """Records of documents that have chunks of these contents, by content; at most MOST_TWINS of each, any of them.

        Quick however many documents there are. A content that no document has is left out.
        """
        ...

    def replace(self, items: Sequence[Replacement]) -> Written:
        """Write the new version of each document: new chunks, then Records, then old chunks go.

        Durable when it returns. Raises StoreError (disk full, unreachable), FingerprintMismatch, and ValueError, before
        anything is written, for a vector that is not finite, not of unit length or not of the store's dimension.
        """
        ...

    def refresh(self, records: Sequence[Record]) -> int:
        """Rewrite Records whose chunks stay as they are (a touched file with the same content); how many were.

        A Record whose stored content_hash or chunk_count is another by now, or that is not there, is left alone.
        """
        ...

    def forget(self, path: Path) -> Forgotten:
        """Remove a file, or every file below a directory, whether or not it still exists on the disk.

        `path` is absolute and canonical as far as it exists; "/a/b" does not touch "/a/bc". Chunks that a crash left
        over go too and are counted.
        """
        ...

    def remove(self, doc_ids: Sequence[str]) -> Forgotten:
        """Remove documents by their ids, however many.

        Unlike after `forget` the store's own files may go on holding the text: `compact` is not asked to rewrite them.
        """
        ...

    def compact(self, *, at_once: int | None = ...) -> Remains | None:
        """Have what was forgotten leave the store's own files; None when it has, or there was nothing.

        With more points than `at_once` (None: however many) it is not done, and what remains is told.
        """
        ...

    def search(self, query: StoreQuery) -> list[Hit]:
        """The nearest chunks, best first, each of a complete, current version.

        By a vector, the score is the cosine, from -1 to 1. By terms, it is the BM25 score, above zero, and a chunk that
        has none of them is not found. `ranks` has score and place (from 1) of that one leg.
        """
        ...

    def chunk(self, chunk_id: str) -> StoredChunk | None:
        """One chunk by its id, None when there is none (or it is of an old version)."""
        ...

    def chunks(self, doc_id: str, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        """A document's chunks with first <= index <= last, in order."""
        ...

    def documents(self, doc_ids: Sequence[str]) -> list[Replacement]:
        """These documents as they could be given to `replace`: Record, current chunks in order, their vectors.

        A document that is not there is left out; one whose chunks are not complete has those that are.
        """
        ...

    def record(self, doc_id: str) -> Record | None:
        """A document's Record."""
        ...

    def made_with(self) -> MadeWith | None:
        """What the collection was made with; None when there is none yet."""
        ...

    def points(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredPoint]:
        """Every point (of these documents) as it lies there, a page at a time and in no order that means anything."""
        ...

    def discard(self, point_ids: Sequence[str]) -> None:
        """Delete single points; what is not there is no matter. For `points` that have no business to be there."""
        ...

    def stats(self) -> Stats:
        """Counts; does not touch vectors."""
        ...

    def close(self) -> None:
        """Give back what the store holds, the lock first of all."""
        ...


class Successor(Protocol):
    """A collection in the making, beside the one that serves, whose place it takes when it is complete.

    It may have been begun by a run that was stopped. Nobody finds anything in it before its turn.
    """

    @property
    def old(self) -> Store:
        """The one that serves, opened without a fingerprint."""
        ...

    @property
    def new(self) -> Store:
        """The one in the making."""
        ...

    @property
    def resumed(self) -> bool:
        """Whether there was something of it already."""
        ...

    def require_room(self) -> None:
        """Raises StoreError when the disk, as far as it is ours to look at, cannot hold both."""
        ...

    def tell(self, documents: int, known: int) -> None:
        """Let others know how far it is (`Unfinished`); makes the collection. What cannot be told is no failure."""
        ...

    def undisturbed(self) -> AbstractContextManager[None]:
        """Nobody writes into the old one inside, as far as the store can see to that; keep it short."""
        ...

    def take_over(self) -> None:
        """The new one serves from now on, for every process; the old one is gone. Called inside `undisturbed`.

        Raises StoreError, with the old one serving as before.
        """
        ...

    def close(self) -> None:
        """Give both back; what was built stays for the next run."""
        ...

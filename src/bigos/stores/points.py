# SPDX-License-Identifier: GPL-2.0-only
"""Chunk and Record <-> point payload: the one place that knows the names under which a store keeps them.

Plain dicts, no engine: every store writes the same payload, so that an index can be copied from one to another.
A document is one Record point (no vector, its id is the doc_id) and its chunk points (one vector each).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from bigos.embedders import Vectors
from bigos.lexical import TermVector, passage_vector
from bigos.source.definitions import defined_names
from bigos.stores import Replacement, Stats, StoredChunk, StoredPoint, StoreQuery, stamp_state
from bigos.types import UNSETTLED, Chunk, Hit, Ranks, Record, chunk_id

SCHEMA_VERSION = 2
"""Goes up when points written before can no longer be searched or written beside by the functions below."""
READABLE = (1, SCHEMA_VERSION)
"""Schemas whose Records and chunks can be read all the same: for a look, for forgetting, and to rebuild from."""

VECTOR_NAME = "dense"
LEXICAL_NAME = "lexical"
"""The sparse vector of a chunk. It follows from what is stored beside it, so a copy of an index makes it anew."""
PATH_PARTS = 4
"""How much of a source file's path belongs to the words of its chunks: "linux/drivers/spi/spi-imx.c"."""

CHUNK = "chunk"
RECORD = "record"

KEYWORD_INDEXES = ("point", "doc_id", "path_tree", "kind")
"""Payload keys that filters use. Each one costs files to flush and load, so only what is filtered on is here."""

STAMP = "stamp"
"""The payload key of a Record's `Store.stamps` text. It is no field of a Record: Records older than it have none."""

DIGEST = "digest"
"""A Record's content_hash under a name that no chunk uses: an index over Records alone. Older Records lack it."""

RECORD_INDEXES = (STAMP, DIGEST)

CURRENCY_KEYS = ["content_hash", "chunk_count"]
"""What has to be fetched of a Record to tell whether a chunk is of the current version."""

NORM_TOLERANCE = 1e-3

SLICE_POINTS = 1024
SLICE_BYTES = 8 << 20
"""Bounds of one write. A store applies a write whole or not at all, so documents are kept in one as far as they fit."""

PAGE = 1000

STATS_KEYS = ["status", "chunk_count", "kind", "language", "code_language"]
"""What has to be fetched of every Record for `stats`."""

Payload = dict[str, Any]
_T = TypeVar("_T")


class NewPoint(NamedTuple):
    """A chunk point as it is written."""

    point_id: str
    vector: Vectors
    terms: TermVector
    payload: Payload


def path_tree(source_path: str) -> list[str]:
    """The path and every directory above it, "/" first: equality with one of them is a prefix match by whole names.

    >>> path_tree("/a/b.txt")
    ['/', '/a', '/a/b.txt']
    """
    path = PurePosixPath(source_path)
    return [*(str(parent) for parent in reversed(path.parents)), str(path)]


def chunk_point_id(record: Record, index: int) -> str:
    """The point id of a document's current chunk number `index`."""
    return chunk_id(record.doc_id, record.content_hash, index)


def chunk_payload(record: Record, chunk: Chunk) -> Payload:
    """What is stored beside a chunk's vector."""
    return {
        "point": CHUNK,
        "doc_id": chunk.doc_id,
        "kind": chunk.kind,
        "code_language": chunk.code_language,
        "language": chunk.language,
        "chunk_language": chunk.chunk_language,
        "source_path": record.source_path,
        "source_name": PurePosixPath(record.source_path).name,
        "path_tree": path_tree(record.source_path),
        "page": chunk.page,
        "page_end": chunk.page_end,
        "line_start": chunk.line_start,
        "line_end": chunk.line_end,
        "heading_path": list(chunk.heading_path),
        "chunk_index": chunk.index,
        "char_start": chunk.char_start,
        "char_end": chunk.char_end,
        "token_count": chunk.token_count,
        "content_hash": record.content_hash,
        "ingested_at": record.ingested_at,
        "text": chunk.text,
    }


def lexical_vector(record: Record, chunk: Chunk) -> TermVector:
    """The words of a chunk: its own, its headings', those of its document's name and title; and what it defines."""
    path = PurePosixPath(record.source_path)
    place = "/".join(path.parts[-PATH_PARTS:]) if chunk.kind == "code" else path.name
    names = defined_names(chunk.text, chunk.code_language)
    return passage_vector((place, record.title or "", *chunk.heading_path, chunk.text), names)


def chunk_from_payload(payload: Mapping[str, Any]) -> Chunk:
    """The chunk that `chunk_payload` was given."""
    return Chunk(
        doc_id=payload["doc_id"],
        index=payload["chunk_index"],
        text=payload["text"],
        char_start=payload["char_start"],
        char_end=payload["char_end"],
        line_start=payload["line_start"],
        line_end=payload["line_end"],
        page=payload["page"],
        page_end=payload["page_end"],
        heading_path=tuple(payload["heading_path"]),
        token_count=payload["token_count"],
        language=payload["language"],
        chunk_language=payload["chunk_language"],
        kind=payload["kind"],
        code_language=payload["code_language"],
    )


def stored_chunk(point_id: str, payload: Mapping[str, Any]) -> StoredChunk:
    """A chunk with its id and place."""
    return StoredChunk(point_id, payload["source_path"], payload["source_name"], chunk_from_payload(payload))


def stored_point(point_id: str, payload: Mapping[str, Any] | None, vectors: Any) -> StoredPoint:
    """A point as a store's client gives it: `vectors` by their names, where it has any."""
    there = vectors.get(VECTOR_NAME) if isinstance(vectors, Mapping) else None
    return StoredPoint(point_id, payload or {}, None if there is None else np.asarray(there, np.float32))


class ScoredPoint(Protocol):
    """A point that a search found, as both engines give it, with its payload and the vector `LEXICAL_NAME`."""

    @property
    def id(self) -> object: ...  # noqa: D102 - the engines' own names
    @property
    def payload(self) -> Mapping[str, Any] | None: ...  # noqa: D102
    @property
    def score(self) -> float: ...  # noqa: D102
    @property
    def vector(self) -> Any: ...  # noqa: D102


def hit(point: ScoredPoint, rank: int, *, lexical: bool) -> Hit:
    """A chunk that one leg of a search found, the lexical one or that of vectors; see `Store.search`."""
    payload, score = point.payload or {}, float(point.score)
    ranks = Ranks(lexical=rank, lexical_score=score) if lexical else Ranks(dense=rank, dense_score=score)
    sparse = (point.vector or {}).get(LEXICAL_NAME)
    return Hit(
        chunk_id=str(point.id),
        score=score,
        source_path=payload["source_path"],
        source_name=payload["source_name"],
        chunk=chunk_from_payload(payload),
        content_hash=payload["content_hash"],
        ingested_at=payload["ingested_at"],
        ranks=ranks,
        terms=frozenset(sparse.indices if sparse else ()),
    )


_RECORD_FIELDS = tuple(Record.__dataclass_fields__)


def record_payload(record: Record) -> Payload:
    """What is stored of a Record: its own fields by their names, and where it is in the tree."""
    payload: Payload = {name: getattr(record, name) for name in _RECORD_FIELDS}
    return payload | {
        "point": RECORD,
        "source_name": PurePosixPath(record.source_path).name,
        "path_tree": path_tree(record.source_path),
        STAMP: stamp(record),
        DIGEST: record.content_hash,
    }


def stamp(record: Record) -> str:
    """A Record's `Store.stamps` text."""
    state = stamp_state(record.fingerprint, record.status)
    seen = f"{record.size} {record.mtime_ns} {record.inode} {record.ctime_ns or UNSETTLED} {record.source_path}"
    return f"{record.chunk_count} {state} {seen}"


def record_from_payload(payload: Mapping[str, Any]) -> Record:
    """The Record that `record_payload` was given."""
    return Record(**{name: payload[name] for name in _RECORD_FIELDS if name in payload})


def whole_documents(
    records: Sequence[Record],
    read: Callable[[list[str]], Mapping[str, tuple[Chunk, Vectors]]],
    dimension: int,
    page: int = PAGE,
) -> list[Replacement]:
    """The documents of these Records, each with its current chunks in order.

    Args:
        records: of the documents that are wanted.
        read: the chunks and vectors that the store has under point ids, by id.
        dimension: numbers a vector.
        page: ids that are asked for at once.
    """
    # Ids follow from document, content and position: a chunk of an old version is not even asked for.
    places = [(at, index) for at, record in enumerate(records) for index in range(record.chunk_count)]
    found: list[list[tuple[Chunk, Vectors]]] = [[] for _ in records]
    for start in range(0, len(places), page):
        asked = [(at, chunk_point_id(records[at], index)) for at, index in places[start : start + page]]
        there = read([point_id for _, point_id in asked])
        for at, point_id in asked:
            if point_id in there:
                found[at].append(there[point_id])
    return [
        Replacement(
            record,
            tuple(chunk for chunk, _ in chunks),
            np.stack([vector for _, vector in chunks]) if chunks else np.empty((0, dimension), np.float32),
        )
        for record, chunks in zip(records, found, strict=True)
    ]


def is_current(chunk: Mapping[str, Any], record: Mapping[str, Any] | None) -> bool:
    """Whether a chunk's payload is of the version that the document's Record names.

    A crash in the middle of a replace leaves chunks that are not; they stay hidden until they are removed.
    """
    return (
        record is not None
        and bool(chunk["content_hash"] == record["content_hash"])
        and bool(chunk["chunk_index"] < record["chunk_count"])
    )


def point_id_or_none(text: str) -> str | None:
    """`text` as a point id in its canonical spelling; None when no point can have that id."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None


def valid_ids(doc_ids: Iterable[str]) -> list[str]:
    """Those that a point can have, in their canonical spelling, each once."""
    return list(dict.fromkeys(point_id for doc_id in doc_ids if (point_id := point_id_or_none(doc_id))))


def records(payloads: Mapping[str, Payload]) -> dict[str, Record]:
    """The Records among the payloads of some points, by their ids."""
    ours = {point_id: payload for point_id, payload in payloads.items() if payload["point"] == RECORD}
    return {point_id: record_from_payload(payload) for point_id, payload in ours.items()}


def stats(records: Iterable[Mapping[str, Any]], fingerprint: str | None) -> Stats:
    """Counts from the Records' payloads alone, so that chunks which a crash left over are not counted."""
    status, kind, language, code_language = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for record in records:
        status[record["status"]] += 1
        count = record["chunk_count"]
        if not count:
            continue
        kind[record["kind"] or "unknown"] += count
        if record["kind"] == "code":
            code_language[record["code_language"] or "unknown"] += count
        else:
            language[record["language"] or "unknown"] += count
    return Stats(
        documents=status["indexed"],
        chunks=kind.total(),
        by_status=dict(status),
        by_kind=dict(kind),
        by_language=dict(language),
        by_code_language=dict(code_language),
        fingerprint=fingerprint,
    )


def byte_size(item: Replacement) -> int:
    """About how many bytes a document's points are."""
    return item.vectors.nbytes + sum(1024 + len(chunk.text.encode()) for chunk in item.chunks)


def slices(items: Iterable[Replacement]) -> Iterator[list[NewPoint]]:
    """The documents' chunk points in writes of bounded length."""
    batch: list[NewPoint] = []
    size = 0
    for item in items:
        document = byte_size(item)
        if batch and (len(batch) + len(item.chunks) > SLICE_POINTS or size + document > SLICE_BYTES):
            yield batch
            batch, size = [], 0
        size += document
        for chunk, vector in zip(item.chunks, item.vectors, strict=True):
            if len(batch) >= SLICE_POINTS:
                yield batch
                batch, size = [], 0
            point_id, terms = chunk_point_id(item.record, chunk.index), lexical_vector(item.record, chunk)
            batch.append(NewPoint(point_id, vector, terms, chunk_payload(item.record, chunk)))
    if batch:
        yield batch


def pages(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """`values` in pieces that one request takes."""
    for start in range(0, len(values), PAGE):
        yield values[start : start + PAGE]


def check_replacements(items: Sequence[Replacement], dimension: int) -> None:
    """The last door before the store. Raises ValueError naming the document; nothing of the call may be stored then."""
    if len({item.record.doc_id for item in items}) != len(items):
        raise ValueError("a document is replaced twice in one call")
    for item in items:
        _check_replacement(item, dimension)


def _check_replacement(item: Replacement, dimension: int) -> None:
    record, count, where = item.record, len(item.chunks), item.record.source_path
    check_record(record)
    if record.chunk_count != count:
        raise ValueError(f"{where}: the Record says {record.chunk_count} chunks, there are {count}")
    for index, chunk in enumerate(item.chunks):
        if chunk.doc_id != record.doc_id or chunk.index != index:
            raise ValueError(f"{where}: chunk {index} is chunk {chunk.index} of document {chunk.doc_id}")
        _check_text(where, (chunk.text, *chunk.heading_path))
    check_vectors(item.vectors, (count, dimension), where)


def check_record(record: Record) -> None:
    """Raises ValueError for a Record that no store can keep."""
    if not PurePosixPath(record.source_path).is_absolute():
        raise ValueError(f"{record.source_path!r}: the path of a Record must be absolute")
    if point_id_or_none(record.doc_id) != record.doc_id:
        raise ValueError(f"{record.source_path}: {record.doc_id!r} is not a document id")
    _check_text(record.source_path, (record.source_path, record.title or "", record.reason or ""))


def _check_text(where: str, texts: Sequence[str]) -> None:
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where!a}: text with a lone surrogate cannot be stored ({error})") from error


def check_query(query: StoreQuery, dimension: int) -> bool:
    """Whether a search is by terms. Raises ValueError for a vector that no search can be made by."""
    if isinstance(query.by, TermVector):
        return True
    check_vectors(query.by, (dimension,), "the query")
    return False


def check_vectors(vectors: Vectors, shape: Sequence[int], where: str) -> None:
    """Raises ValueError unless `vectors` has this shape and every row is finite and of unit length (within 1e-3)."""
    if vectors.shape != tuple(shape):
        # A document without chunks may come with any empty array.
        if vectors.size == 0 and 0 in shape:
            return
        raise ValueError(f"{where}: vectors of shape {vectors.shape} where {tuple(shape)} is wanted")
    if not np.isfinite(vectors).all():
        raise ValueError(f"{where}: a vector is not finite")
    norms = np.linalg.norm(vectors, axis=-1)
    if (np.abs(norms - 1.0) > NORM_TOLERANCE).any():
        raise ValueError(f"{where}: a vector is not of unit length (norms {norms.min():.4f} to {norms.max():.4f})")

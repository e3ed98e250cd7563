# SPDX-License-Identifier: GPL-2.0-only
"""A shard of the in-process engine: how it is made, opened, and read a page at a time.

Called with the store's lock held. What the engine raises goes up as it is; the store translates it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigos.lexical import TermVector
from bigos.stores import Forgotten, Replacement, StoredPoint, StoreQuery, collection, faults, generations, points, twins
from bigos.stores.collection import FIRST, Collection
from bigos.types import path_text

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, Filter, Query, ScoredPoint, SparseVector
    from qdrant_edge import Record as EdgeRecord

    from bigos.types import Chunk, Record

# Kilobytes of vectors in a segment from which `optimize` builds an HNSW graph. Below it every search is an exact scan:
# 1.4 ms for 20,000 x 384, 25 ms for 200,000 x 384 on two busy cores, so recall is not worth giving up.
_EXACT_UP_TO_KB = 750_000

_ALL = 1 << 31
"""A limit that is none. The engine takes a sample of a key's values only where they are many more than the limit."""


def open_shard(directory: Path, fingerprint: str | None, dimension: int | None, *, create: bool) -> EdgeShard | None:
    """Load the shard in `directory`, or make it when `create`; None when there is none.

    Raises FingerprintMismatch, StoreError for a damaged or full place, and whatever the engine does.
    """
    from qdrant_edge import EdgeShard

    made_with = collection.read(directory)
    data = directory / (FIRST if made_with is None else made_with.data)
    if data.exists():
        if made_with is None:
            raise faults.damaged(directory, f"{collection.FILE} is missing")
        made_with.require(fingerprint, dimension, directory)
        # The engine takes a segment without its version file for an unfinished one and drops it without a word.
        if not any((data / "segments").glob("*/version.info")):
            raise faults.damaged(directory, "its segments are missing")
    elif made_with is not None and made_with.data != FIRST:  # what has taken another's place was there
        raise faults.damaged(directory, f"{made_with.data} is missing")
    elif create and fingerprint is not None and dimension is not None:
        _create(directory, Collection(fingerprint, dimension), made_with)
    else:
        return None
    shard = EdgeShard.load(str(data))
    generations.sweep(directory)
    return shard


def _create(directory: Path, ours: Collection, made_with: Collection | None) -> None:
    import qdrant_edge as engine

    faults.require_room(directory, 0)
    if made_with != ours:
        collection.write(directory, ours)
    data = directory / FIRST
    unfinished = data.with_name(f"{FIRST}.new")
    if unfinished.exists():  # a creation was interrupted; documents only ever go into `data`
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    config = engine.EdgeConfig(
        vectors={points.VECTOR_NAME: engine.EdgeVectorParams(ours.dimension, engine.Distance.Cosine)},
        sparse_vectors={points.LEXICAL_NAME: engine.EdgeSparseVectorParams(modifier=engine.Modifier.Idf)},
        optimizers=engine.EdgeOptimizersConfig(
            indexing_threshold=_EXACT_UP_TO_KB, deleted_threshold=0.0, vacuum_min_vector_number=1
        ),
    )
    shard = engine.EdgeShard.create(str(unfinished), config)
    for key in (*points.KEYWORD_INDEXES, *points.RECORD_INDEXES):
        shard.update(engine.UpdateOperation.create_field_index(key, engine.PayloadSchemaType.Keyword))
    shard.flush()
    shard.close()
    unfinished.rename(data)
    collection.sync_directory(directory)


def vectors_of(point: points.NewPoint) -> dict[str, list[float] | SparseVector | list[list[float]]]:
    """A chunk point's vectors as the engine takes them; a chunk without any word has no sparse one."""
    from qdrant_edge import SparseVector

    vectors: dict[str, list[float] | SparseVector | list[list[float]]] = {points.VECTOR_NAME: point.vector.tolist()}
    if point.terms:
        vectors[points.LEXICAL_NAME] = SparseVector(list(point.terms.indices), list(point.terms.values))
    return vectors


def _nearest_to(by: NDArray[np.float32] | TermVector) -> Query:
    """The engine's query for a unit vector or for terms."""
    from qdrant_edge import Query, SparseVector

    if isinstance(by, TermVector):
        return Query.Nearest(SparseVector(list(by.indices), list(by.values)), using=points.LEXICAL_NAME)
    return Query.Nearest(by.astype(np.float32).tolist(), using=points.VECTOR_NAME)


def nearest(shard: EdgeShard, query: StoreQuery, limit: int) -> list[ScoredPoint]:
    """The nearest chunk points, current or not, best first."""
    from qdrant_edge import QueryRequest

    paths = [path_text(path) for path in query.paths]
    which = match(ids=query.chunk_ids, kind=query.kind, path_tree=paths or None)
    return shard.query(
        QueryRequest(
            limit=limit,
            query=_nearest_to(query.by),
            filter=which,
            with_payload=True,
            with_vector=[points.LEXICAL_NAME],
        )
    )


def match(*, ids: Sequence[str] | None = None, **values: str | list[str] | None) -> Filter:
    """All of these payload keys have this value (or one of these), and the id is one of `ids`; None leaves one out."""
    from qdrant_edge import FieldCondition, Filter, HasIdCondition, MatchAny, MatchValue

    conditions: list[Any] = [] if ids is None else [HasIdCondition(set(ids))]
    for key, value in values.items():
        if value is not None:
            wanted = MatchAny(value) if isinstance(value, list) else MatchValue(value)
            conditions.append(FieldCondition(key, match=wanted))
    return Filter(must=conditions)


def scroll(shard: EdgeShard, which: Filter, keys: list[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every point of a filter, a page at a time: its id and the payload keys asked for (None: all of them)."""
    offset = None
    while True:
        page, offset = _read(shard, which, keys, offset)
        yield from page
        if offset is None:
            return


def read_records(
    shard: EdgeShard, tree: str | None, keys: list[str] | None, offset: Any
) -> tuple[list[tuple[str, dict[str, Any]]], Any]:
    """A page of Records below a path, or of all, from `offset` on, as of `scroll`; the next page's offset or None."""
    return _read(shard, match(point=points.RECORD, path_tree=tree), keys, offset)


def _read(
    shard: EdgeShard, which: Filter, keys: list[str] | None, offset: Any
) -> tuple[list[tuple[str, dict[str, Any]]], Any]:
    from qdrant_edge import ScrollRequest

    wanted = True if keys is None else keys or False
    page, following = shard.scroll(ScrollRequest(offset=offset, limit=points.PAGE, filter=which, with_payload=wanted))
    return [(str(point.id), point.payload or {}) for point in page], following


def record_payloads(
    shard: EdgeShard, doc_ids: Sequence[str], keys: list[str] | None = None
) -> dict[str, dict[str, Any]]:
    """The payloads, or these keys of them, of the points that have these ids."""
    found: dict[str, dict[str, Any]] = {}
    for page in points.pages(doc_ids):
        for point in shard.retrieve(list(page), with_payload=keys or True, with_vector=False):
            found[str(point.id)] = point.payload or {}
    return found


def write_records(shard: EdgeShard, records: Sequence[Record]) -> None:
    """Write Records over those of the same ids."""
    from qdrant_edge import Point, UpdateOperation

    for page in points.pages(records):
        # No vector: legal where vectors are named, and no search can find it.
        batch = [Point(record.doc_id, {}, points.record_payload(record)) for record in page]
        shard.update(UpdateOperation.upsert_points(batch))


def delete(shard: EdgeShard, **which: str | list[str]) -> Forgotten:
    """Delete all points with these payload values; what there was."""
    from qdrant_edge import CountRequest, UpdateOperation

    these = match(**which)
    everything = shard.count(CountRequest(exact=True, filter=these))
    documents = shard.count(CountRequest(exact=True, filter=match(**which, point=points.RECORD)))
    if everything:
        shard.update(UpdateOperation.delete_points_by_filter(these))
        shard.flush()
    return Forgotten(documents, everything - documents)


def delete_documents(shard: EdgeShard, doc_ids: Sequence[str]) -> Forgotten:
    """Delete all points that name these documents; what there was."""
    gone = [delete(shard, doc_id=list(page)) for page in points.pages(points.valid_ids(doc_ids))]
    return Forgotten(sum(each.documents for each in gone), sum(each.chunks for each in gone))


def delete_points(shard: EdgeShard, point_ids: Sequence[str]) -> None:
    """Delete points by their ids."""
    from qdrant_edge import UpdateOperation

    for batch in points.pages(point_ids):
        shard.update(UpdateOperation.delete_points([*batch]))


def read_points(shard: EdgeShard, doc_ids: Sequence[str] | None, offset: Any) -> tuple[list[StoredPoint], Any]:
    """A page of points as they are, of these documents or of all, from `offset` on; the next page's offset or None."""
    from qdrant_edge import ScrollRequest

    which = None if doc_ids is None else match(doc_id=[*doc_ids])
    page, following = shard.scroll(
        ScrollRequest(offset=offset, limit=points.PAGE, filter=which, with_payload=True, with_vector=True)
    )
    return [points.stored_point(str(point.id), point.payload, point.vector) for point in page], following


def read_twins(shard: EdgeShard, content_hashes: Sequence[str]) -> dict[str, list[Record]]:
    """See `Store.twins`."""
    from qdrant_edge import ScrollRequest

    # A shard of the first schema may have no index by content alone.
    key = points.DIGEST if points.DIGEST in shard.info().payload_schema else "content_hash"

    def read(contents: list[str], limit: int) -> list[points.Payload]:
        which = match(**{key: contents}, point=points.RECORD)
        page, _ = shard.scroll(ScrollRequest(limit=limit, filter=which, with_payload=True))
        return [point.payload or {} for point in page]

    return twins.find(content_hashes, read)


def read_stamps(shard: EdgeShard, which: Filter) -> list[str]:
    """The stamps of the Records that a filter fits."""
    from qdrant_edge import FacetRequest

    if points.STAMP not in shard.info().payload_schema:  # one of the first schema
        found = scroll(shard, which, [points.STAMP])
        return [payload[points.STAMP] for _, payload in found if points.STAMP in payload]
    # Which values there are is wanted, and not how often each occurs, which is once: so not exact, which finds the same
    # values and takes ten times as long to count them.
    values: list[Any] = [hit.value for hit in shard.facet(FacetRequest(points.STAMP, limit=_ALL, filter=which))]
    return values


def remove_stale(shard: EdgeShard, items: Sequence[Replacement]) -> int:
    """Delete every chunk of these documents that is not of the version just written; how many."""
    removed = 0
    for page in points.pages(items):
        new = {points.chunk_point_id(item.record, chunk.index) for item in page for chunk in item.chunks}
        ours = match(doc_id=[item.record.doc_id for item in page], point=points.CHUNK)
        stale = [point_id for point_id, _ in scroll(shard, ours, []) if point_id not in new]
        delete_points(shard, stale)
        removed += len(stale)
    return removed


def read_documents(shard: EdgeShard, doc_ids: Sequence[str], dimension: int) -> list[Replacement]:
    """The documents of these ids that are there, each with its current chunks in order; a page of points at a time."""
    wanted = points.valid_ids(doc_ids)
    there = points.records(record_payloads(shard, wanted))
    records = [there[doc_id] for doc_id in wanted if doc_id in there]

    def read(ids: list[str]) -> dict[str, tuple[Chunk, NDArray[np.float32]]]:
        found = shard.retrieve([*ids], with_payload=True, with_vector=True)
        return {str(point.id): _chunk_and_vector(point) for point in found}

    return points.whole_documents(records, read, dimension)


def _chunk_and_vector(point: EdgeRecord) -> tuple[Chunk, NDArray[np.float32]]:
    assert isinstance(point.vector, dict)  # vectors are named in every shard that we make
    vector = np.asarray(point.vector[points.VECTOR_NAME], np.float32)
    return points.chunk_from_payload(point.payload or {}), vector

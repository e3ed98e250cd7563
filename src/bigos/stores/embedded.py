# SPDX-License-Identifier: GPL-2.0-only
"""The store in this process: Qdrant's engine as a library (qdrant-edge), in one directory, without any server.

    <directory>/collection.json   fingerprint, dimension, schema
    <directory>/shard/            the engine's own files, until a rebuild or a restore (generations.py)
    <directory>/lock, wait        see lease.py
    <directory>/replacing-now     what a replace that is under way writes (interrupted.py)
    <directory>/compact           that bytes of the forgotten are still in the files (compaction.py)
    <directory>/replacing         held by a rebuild or a restore (generations.py)

Reading a directory that does not exist gives empty answers and creates nothing; the first write makes it, 0700.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bigos.stores import (
    Forgotten,
    MadeWith,
    Remains,
    Replacement,
    Stats,
    StoredChunk,
    StoredPoint,
    StoreQuery,
    Written,
    collection,
    compaction,
    faults,
    interrupted,
    memory,
    points,
)
from bigos.stores import shard as shards
from bigos.stores.lease import Lease
from bigos.types import Hit, Record, path_text

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, ScoredPoint

# A crash hides at most the chunks of one batch; so a few extra hits nearly always make up for them.
_SPARE_HITS = 16

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class EmbeddedStore:
    """A `Store` in one directory. Threads may share it; processes take turns (lease.py).

    Args:
        directory: the collection's own directory, usually data_dir/collection.
        fingerprint: of the vectors that will be written and searched with; None opens any collection, but only to look
            at it or to forget: `replace` and `search` raise ValueError.
        dimension: their length; None with fingerprint None.
        lock_timeout: seconds to wait for another process.
        idle_timeout: seconds after which an unused store is closed, though nobody asked.

    Every method may raise StoreError, StoreLocked and FingerprintMismatch.
    """

    in_flight_seconds = 0.0  # whoever writes has the lock

    def __init__(
        self,
        directory: Path,
        fingerprint: str | None,
        dimension: int | None,
        lock_timeout: float = 60.0,
        idle_timeout: float = 300.0,
    ) -> None:
        self._directory = directory
        self._fingerprint = fingerprint
        self._dimension = dimension
        self._shard: EdgeShard | None = None
        self._lease = Lease(
            directory, timeout=lock_timeout, on_release=self._close_shard, after=memory.give_back, idle=idle_timeout
        )

    def hold(self) -> AbstractContextManager[None]:
        """Keep the store open over several calls. Another process that asks still gets it between two of them."""
        return self._lease.kept()

    def turn(self) -> AbstractContextManager[None]:
        """See `Store.turn`."""
        return self._lease.exclusive() if collection.exists(self._directory) else nullcontext()

    def close(self) -> None:
        """Close the shard and let the lock go at once. A later call opens it again."""
        self._lease.release()

    # --- writing ---------------------------------------------------------------------------------------------------

    def replace(self, items: Sequence[Replacement]) -> Written:
        """See `Store.replace`. All items are checked first; one bad vector and nothing of the call is written."""
        if self._fingerprint is None or self._dimension is None:
            raise ValueError("a store opened without a fingerprint cannot be written")
        points.check_replacements(items, self._dimension)
        if not items:
            return Written(0, 0)
        with self._writing() as shard:
            faults.require_room(self._directory, sum(points.byte_size(item) for item in items))
            data = collection.data(self._directory)
            interrupted.clean_up(shard, data)  # again, if it was put off: our list takes the place of that one
            interrupted.begin(data, [item.record.doc_id for item in items])
            self._write_chunks(shard, items)
            shards.write_records(shard, [item.record for item in items])
            removed = shards.remove_stale(shard, items)
            shard.flush()
            interrupted.done(data)
        return Written(sum(len(item.chunks) for item in items), removed)

    def refresh(self, records: Sequence[Record]) -> int:
        """See `Store.refresh`."""
        for record in records:
            points.check_record(record)
        with self._using() as shard:
            if shard is None or not records:
                return 0
            faults.require_room(self._directory, 4096 * len(records))
            stored = shards.record_payloads(shard, [record.doc_id for record in records], points.CURRENCY_KEYS)
            same = [
                record
                for record in records
                if (old := stored.get(record.doc_id)) is not None
                and (old["content_hash"], old["chunk_count"]) == (record.content_hash, record.chunk_count)
            ]
            shards.write_records(shard, same)
            shard.flush()
            return len(same)

    def forget(self, path: Path) -> Forgotten:
        """See `Store.forget`. The text leaves the engine's files with the next `compact`."""
        if not path.is_absolute():
            raise ValueError(f"{path} is not absolute")
        with self._using() as shard:
            if shard is None:
                return Forgotten(0, 0)
            faults.require_room(self._directory, 0, faults.DELETE_RESERVE)
            compaction.demand(collection.data(self._directory))
            return shards.delete(shard, path_tree=path_text(path))

    def remove(self, doc_ids: Sequence[str]) -> Forgotten:
        """See `Store.remove`."""
        with self._using() as shard:
            if shard is None:
                return Forgotten(0, 0)
            faults.require_room(self._directory, 0, faults.DELETE_RESERVE)
            return shards.delete_documents(shard, doc_ids)

    def discard(self, point_ids: Sequence[str]) -> None:
        """See `Store.discard`."""
        with self._using() as shard:
            if shard is not None and point_ids:
                faults.require_room(self._directory, 0, faults.DELETE_RESERVE)
                shards.delete_points(shard, point_ids)
                shard.flush()

    def compact(self, *, at_once: int | None = compaction.AT_ONCE) -> Remains | None:
        """See `Store.compact`. 4 s for 20,000 chunks, 35 s for 200,000, and the lock all the while."""
        if not compaction.pending(collection.data(self._directory)):
            return None
        with self._using() as shard:
            remains = None if shard is None else compaction.compact(shard, collection.data(self._directory), at_once)
            self._close_shard()  # the files of what was rewritten go with it
            if remains is None:
                compaction.done(collection.data(self._directory))
            return remains

    def _write_chunks(self, shard: EdgeShard, items: Sequence[Replacement]) -> None:
        from qdrant_edge import Point, UpdateOperation

        for batch in points.slices(items):
            new = [Point(each.point_id, shards.vectors_of(each), each.payload) for each in batch]
            shard.update(UpdateOperation.upsert_points(new))

    # --- reading ---------------------------------------------------------------------------------------------------

    def known(self, root: Path | None = None) -> dict[str, Record]:
        """See `Store.known`. Between two pages another process may have its turn."""
        found = self._records_of(None if root is None else path_text(root))
        with faults.translated(self._directory):  # a Record may be damaged
            return {point_id: points.record_from_payload(payload) for point_id, payload in found}

    def stamps(self, root: Path | None = None) -> list[str]:
        """See `Store.stamps`. 0.2 s for 80,000 documents, whose Records take 2 s."""
        with self._using() as shard:
            if shard is None:
                return []
            return shards.read_stamps(
                shard, shards.match(point=points.RECORD, path_tree=None if root is None else path_text(root))
            )

    def records(self, doc_ids: Sequence[str]) -> dict[str, Record]:
        """See `Store.records`."""
        found: dict[str, Record] = {}
        for page in points.pages(points.valid_ids(doc_ids)):
            with self._using() as shard:
                if shard is not None:
                    found |= points.records(shards.record_payloads(shard, page))
        return found

    def twins(self, content_hashes: Sequence[str]) -> dict[str, list[Record]]:
        """See `Store.twins`."""
        with self._using() as shard:
            return {} if shard is None or not content_hashes else shards.read_twins(shard, content_hashes)

    def search(self, query: StoreQuery) -> list[Hit]:
        """See `Store.search`. Exact below some 500,000 chunks."""
        if self._dimension is None:
            raise ValueError("a store opened without a fingerprint cannot be searched")
        lexical = points.check_query(query, self._dimension)
        with self._using() as shard:
            if shard is None or query.limit <= 0:
                return []
            records: dict[str, dict[str, Any]] = {}
            fetch = query.limit + _SPARE_HITS
            while True:
                found = shards.nearest(shard, query, fetch)
                current = self._current(shard, found, records)[: query.limit]
                if len(current) == query.limit or len(found) < fetch:
                    return [points.hit(point, rank, lexical=lexical) for rank, point in enumerate(current, start=1)]
                fetch *= 4

    def chunk(self, chunk_id: str) -> StoredChunk | None:
        """See `Store.chunk`."""
        point_id = points.point_id_or_none(chunk_id)
        with self._using() as shard:
            if shard is None or point_id is None:
                return None
            for found in shard.retrieve([point_id], with_payload=True, with_vector=False):
                payload = found.payload or {}
                if payload["point"] == points.CHUNK:
                    record = shards.record_payloads(shard, [payload["doc_id"]], points.CURRENCY_KEYS)
                    if points.is_current(payload, record.get(payload["doc_id"])):
                        return points.stored_chunk(point_id, payload)
            return None

    def chunks(self, doc_id: str, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        """See `Store.chunks`. Ids follow from document, content and position, so nothing has to be searched."""
        with self._using() as shard:
            record = None if shard is None else self._record(shard, doc_id)
            if shard is None or record is None:
                return []
            end = record.chunk_count if last is None else min(last + 1, record.chunk_count)
            found: dict[str, StoredChunk] = {}
            ids = [points.chunk_point_id(record, index) for index in range(max(first, 0), end)]
            for page in points.pages(ids):
                for point in shard.retrieve(list(page), with_payload=True, with_vector=False):
                    found[str(point.id)] = points.stored_chunk(str(point.id), point.payload or {})
            return [found[point_id] for point_id in ids if point_id in found]

    def documents(self, doc_ids: Sequence[str]) -> list[Replacement]:
        """See `Store.documents`. Holds no more than the documents asked for and a page of points."""
        with self._using() as shard:
            made_with = collection.read(self._directory)
            if shard is None or made_with is None:
                return []
            return shards.read_documents(shard, doc_ids, made_with.dimension)

    def record(self, doc_id: str) -> Record | None:
        """See `Store.record`."""
        with self._using() as shard:
            return None if shard is None else self._record(shard, doc_id)

    def stats(self) -> Stats:
        """See `Store.stats`. Reads every Record, as `known` does: 0.3 s for 50,000 documents."""
        found = (payload for _, payload in self._records_of(None, points.STATS_KEYS))
        with faults.translated(self._directory):
            made_with = collection.read(self._directory)
            return points.stats(found, made_with.fingerprint if made_with is not None else None)

    def made_with(self) -> MadeWith | None:
        """See `Store.made_with`."""
        with self._using() as shard:
            there = None if shard is None else collection.read(self._directory)
            return None if there is None else MadeWith(there.fingerprint, there.dimension)

    def points(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredPoint]:
        """See `Store.points`."""
        return self._pages(lambda shard, offset: shards.read_points(shard, doc_ids, offset))

    def _records_of(self, tree: str | None, keys: list[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        return self._pages(lambda shard, offset: shards.read_records(shard, tree, keys, offset))

    def _pages(self, read: Callable[[EdgeShard, Any], tuple[list[_T], Any]]) -> Iterator[_T]:
        """What `read` gives, from one offset to the next; the store may be another process's between two pages."""
        offset: Any = None
        while True:
            with self._using() as shard:
                if shard is None:
                    return
                page, offset = read(shard, offset)
            yield from page
            if offset is None:
                return

    def _current(
        self, shard: EdgeShard, found: Sequence[ScoredPoint], records: dict[str, dict[str, Any]]
    ) -> list[ScoredPoint]:
        """Those of `found` that are of the version their Record names. `records` is filled on the way."""
        unknown = {point.payload["doc_id"] for point in found if point.payload} - records.keys()
        records.update(shards.record_payloads(shard, sorted(unknown), points.CURRENCY_KEYS))
        return [
            point
            for point in found
            if point.payload and points.is_current(point.payload, records.get(point.payload["doc_id"]))
        ]

    def _record(self, shard: EdgeShard, doc_id: str) -> Record | None:
        point_id = points.point_id_or_none(doc_id)
        payload = shards.record_payloads(shard, [point_id]).get(point_id) if point_id else None
        return points.record_from_payload(payload) if payload and payload["point"] == points.RECORD else None

    # --- another generation of the data ---------------------------------------------------------------------------

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """No other process has the store inside; calls of this object do. Makes its directory."""
        with faults.translated(self._directory):
            collection.make_directory(self._directory)
        with self._lease.exclusive():
            yield

    def make(self) -> None:
        """Make the collection, empty, where there is none yet."""
        with self._writing():
            pass

    @contextmanager
    def closed(self) -> Iterator[None]:
        """As `exclusive`, with the engine's files closed: they are whole, and nobody changes them inside."""
        with self.exclusive():
            self._close_shard()
            yield

    def serve(self, generation: collection.Collection) -> None:
        """From now on this is the collection, for every process: one rename. What was before stays on the disk.

        The caller has made sure that it is complete, and that nothing has it open.
        """
        with faults.translated(self._directory), self.closed():
            collection.write(self._directory, generation)

    # --- opening and closing ---------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Iterator[EdgeShard | None]:
        """The open shard for one call, None when there is none yet."""
        if collection.exists(self._directory):
            with self._opened(create=False) as shard:
                yield shard
        else:
            yield None

    @contextmanager
    def _writing(self) -> Iterator[EdgeShard]:
        """The open shard for one call, made when there is none yet."""
        with faults.translated(self._directory):
            if not collection.exists(self._directory):
                faults.require_room(self._directory, 0)
            collection.make_directory(self._directory)
        with self._opened(create=True) as shard:
            assert shard is not None
            yield shard

    @contextmanager
    def _opened(self, *, create: bool) -> Iterator[EdgeShard | None]:
        with faults.translated(self._directory), self._lease.held():
            try:
                if self._shard is None:
                    self._shard = shards.open_shard(self._directory, self._fingerprint, self._dimension, create=create)
                    if self._shard is not None:
                        interrupted.clean_up(self._shard, collection.data(self._directory))
                yield self._shard
            except BaseException:
                # A call that failed may have left the engine in between: the next one loads it from its log.
                self._lease.release()
                raise

    def _close_shard(self) -> None:
        shard, self._shard = self._shard, None
        if shard is None:
            return
        try:
            shard.close()
        except Exception as error:
            # What was acknowledged had been flushed; the rest comes back from the log.
            _log.warning("%s", faults.store_error(str(error), self._directory).message)

# SPDX-License-Identifier: GPL-2.0-only
"""The store on a Qdrant server, or a cluster of them, with the same points as the embedded one.

Several hosts may write to one collection at once, without any lock: see server_stale.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    points,
    server_collection,
    server_stale,
    server_succession,
)
from bigos.stores.server_collection import Identity
from bigos.stores.server_connection import Connection
from bigos.stores.server_faults import Address
from bigos.stores.server_points import Points, match, requests
from bigos.types import Hit, Record, ServiceDescription, path_text

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

# A crash hides at most the chunks of one batch; so a few extra hits nearly always make up for them.
_SPARE_HITS = 16

_ROUNDS = 12
"""Searches that one search may cost while documents change under it or a crash left very much over."""


class ServerStore:
    """A `Store` in one collection of a Qdrant server. Threads and hosts may share it.

    Args:
        url: http:// or https://, with the port of the REST interface (6333 when left out).
        collection: its name on the server.
        fingerprint: of the vectors that will be written and searched with; None opens any collection, but only to look
            at it or to forget: `replace` and `search` raise ValueError.
        dimension: their length; None with fingerprint None.
        api_key: the server's, sent with every request and shown in no message.
        ca_file: authorities to trust for https; None takes the system's.
        grpc: upload vectors by gRPC, on `grpc_port`; all else stays with REST.
        timeout: seconds to wait for one answer.
        wait: seconds to wait for a server that is not up.
        shards: of a collection that is made here.
        replicas: copies of each shard of a collection that is made here.
        client: use this one (the in-memory one, say) instead of `url`; it is not closed here.

    Every method may raise StoreError and FingerprintMismatch, the constructor ConfigError.
    """

    in_flight_seconds = server_stale.IN_FLIGHT_SECONDS

    def __init__(
        self,
        url: str,
        collection: str,
        fingerprint: str | None,
        dimension: int | None,
        *,
        api_key: str | None = None,
        ca_file: Path | None = None,
        grpc: bool = False,
        grpc_port: int = 6334,
        timeout: float = 30.0,
        wait: float = 60.0,
        shards: int = 1,
        replicas: int = 1,
        client: QdrantClient | None = None,
    ) -> None:
        self._address = Address(url, collection, timeout, api_key)
        self.connection = Connection(
            self._address, ca_file=ca_file, grpc_port=grpc_port if grpc else None, wait=wait, client=client
        )
        self.connection.when_absent = self._has_successor
        self._points = Points(self.connection)
        self._name = collection
        self._fingerprint = fingerprint
        self._dimension = dimension
        self._shards = shards
        self._replicas = replicas
        self._mutex = threading.Lock()
        self._making = threading.Lock()
        self._holds = 0
        self._made: str | None = None
        self._lost = False
        self._deleted = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """A run of calls: a collection that goes away within it stays an error to its end. Locks nothing."""
        with self._mutex:
            self._holds += 1
        try:
            yield
        finally:
            with self._mutex:
                self._holds -= 1
                if self._lost and not self._holds:
                    self._made, self._lost = None, False

    def turn(self) -> AbstractContextManager[None]:
        """See `Store.turn`. A server takes everybody at once."""
        return self.hold()

    def close(self) -> None:
        """Close the connections. A later call opens them again."""
        self.connection.close()
        with self._mutex:
            self._made, self._lost = None, False

    def describe(self) -> ServiceDescription:
        """Version, state and size of what the server has. Raises StoreError when it does not answer."""
        return server_collection.describe(self.connection)

    # --- writing ---------------------------------------------------------------------------------------------------

    def replace(self, items: Sequence[Replacement]) -> Written:
        """See `Store.replace`. All items are checked first; one bad vector and nothing of the call is written."""
        if self._fingerprint is None or self._dimension is None:
            raise ValueError("a store opened without a fingerprint cannot be written")
        points.check_replacements(items, self._dimension)
        if not items:
            return Written(0, 0)
        self._require_made(self._fingerprint, self._dimension)
        stale = server_stale.before_replace(self._points, items)
        self._points.upload(requests(items, self._dimension))
        self._write_records([item.record for item in items])
        removed = server_stale.delete_unchanged(self._points, stale)
        return Written(sum(len(item.chunks) for item in items), removed)

    def refresh(self, records: Sequence[Record]) -> int:
        """See `Store.refresh`. The server compares once more as it writes."""
        from qdrant_client import models

        for record in records:
            points.check_record(record)
        if self.identity() is None or not records:
            return 0
        stored = self._points.record_payloads([record.doc_id for record in records], points.CURRENCY_KEYS)
        same = [
            record
            for record in records
            if (old := stored.get(record.doc_id)) is not None
            and (old["content_hash"], old["chunk_count"]) == (record.content_hash, record.chunk_count)
        ]
        for page in points.pages(same):
            changes = [
                models.OverwritePayloadOperation(
                    overwrite_payload=models.SetPayload(
                        payload=points.record_payload(record),
                        filter=match(ids=[record.doc_id], content_hash=record.content_hash),
                    )
                )
                for record in page
            ]
            self._points.change(changes)
        return len(same)

    def forget(self, path: Path) -> Forgotten:
        """See `Store.forget`. The text leaves the server's files when it next optimises the segment."""
        if not path.is_absolute():
            raise ValueError(f"{path} is not absolute")
        if self.identity() is None:
            return Forgotten(0, 0)
        gone = self._delete({"path_tree": path_text(path)})
        with self._mutex:
            self._deleted = self._deleted or gone != Forgotten(0, 0)
        return gone

    def remove(self, doc_ids: Sequence[str]) -> Forgotten:
        """See `Store.remove`."""
        if self.identity() is None:
            return Forgotten(0, 0)
        gone = [self._delete({"doc_id": list(page)}) for page in points.pages(points.valid_ids(doc_ids))]
        return Forgotten(sum(each.documents for each in gone), sum(each.chunks for each in gone))

    def discard(self, point_ids: Sequence[str]) -> None:
        """See `Store.discard`."""
        if point_ids and self.identity() is not None:
            for page in points.pages(point_ids):
                self._points.delete(match(ids=page))

    def compact(self, *, at_once: int | None = None) -> Remains | None:
        """See `Store.compact`. A server rewrites its files when it thinks fit; what it was told to delete is named."""
        del at_once
        with self._mutex:
            deleted, self._deleted = self._deleted, False
        return server_collection.remains(self._address) if deleted else None

    def _delete(self, which: dict[str, str | list[str]]) -> Forgotten:
        these = match(**which)
        everything = self._points.count(these)
        documents = self._points.count(match(**which, point=points.RECORD))
        if everything:
            self._points.delete(these)
        return Forgotten(documents, everything - documents)

    def _write_records(self, records: Sequence[Record]) -> None:
        from qdrant_client import models

        for page in points.pages(records):
            # No vector: legal where vectors are named, and no search can find it. Never by gRPC, whose integers are
            # signed: an inode may be larger.
            self._points.upsert(
                [
                    models.PointStruct(id=record.doc_id, vector={}, payload=points.record_payload(record))
                    for record in page
                ],
                upload=False,
            )

    # --- reading ---------------------------------------------------------------------------------------------------

    def known(self, root: Path | None = None) -> dict[str, Record]:
        """See `Store.known`."""
        if self.identity() is None:
            return {}
        found = match(point=points.RECORD, path_tree=None if root is None else path_text(root))
        return {point_id: points.record_from_payload(payload) for point_id, payload in self._points.scroll(found)}

    def stamps(self, root: Path | None = None) -> list[str]:
        """See `Store.stamps`. Reads one key of each Record, some thousands a request."""
        if self.identity() is None:
            return []
        return self._points.stamps(match(point=points.RECORD, path_tree=None if root is None else path_text(root)))

    def records(self, doc_ids: Sequence[str]) -> dict[str, Record]:
        """See `Store.records`. A thousand a request."""
        wanted = points.valid_ids(doc_ids)
        pages = points.pages(wanted) if wanted and self.identity() else ()
        read = (points.records(self._points.record_payloads(page)) for page in pages)
        return {doc_id: record for page in read for doc_id, record in page.items()}

    def twins(self, content_hashes: Sequence[str]) -> dict[str, list[Record]]:
        """See `Store.twins`."""
        return self._points.twins(content_hashes) if content_hashes and self.identity() else {}

    def search(self, query: StoreQuery) -> list[Hit]:
        """See `Store.search`. Exact for small collections (see server_collection)."""
        if self._dimension is None:
            raise ValueError("a store opened without a fingerprint cannot be searched")
        lexical = points.check_query(query, self._dimension)
        if self.identity() is None or query.limit <= 0:
            return []
        fetch = query.limit + _SPARE_HITS
        before: dict[str, dict[str, Any] | None] = {}
        for _ in range(_ROUNDS):
            found = self._points.nearest(query, fetch)
            doc_ids = sorted({point.payload["doc_id"] for point in found if point.payload})
            stored = self._points.record_payloads(doc_ids, points.CURRENCY_KEYS)
            current = [
                point
                for point in found
                if point.payload and points.is_current(point.payload, stored.get(point.payload["doc_id"]))
            ]
            # Chunks of another version are left over, or their document was replaced since they were found, and the
            # new ones are yet to be found. Records that are the same before and after a search tell it is the former.
            settled = len(current) == len(found) or all(
                doc_id in before and before[doc_id] == stored.get(doc_id) for doc_id in doc_ids
            )
            if settled and (len(current) >= query.limit or len(found) < fetch):
                break
            before = {doc_id: stored.get(doc_id) for doc_id in doc_ids}
            fetch *= 4 if settled else 1
        return [points.hit(point, rank, lexical=lexical) for rank, point in enumerate(current[: query.limit], start=1)]

    def chunk(self, chunk_id: str) -> StoredChunk | None:
        """See `Store.chunk`."""
        point_id = points.point_id_or_none(chunk_id)
        if point_id is None or self.identity() is None:
            return None
        for found in self._points.retrieve([point_id]):
            payload = found.payload or {}
            if payload.get("point") == points.CHUNK:
                record = self._points.record_payloads([payload["doc_id"]], points.CURRENCY_KEYS)
                if points.is_current(payload, record.get(payload["doc_id"])):
                    return points.stored_chunk(point_id, payload)
        return None

    def chunks(self, doc_id: str, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        """See `Store.chunks`. Ids follow from document, content and position, so nothing has to be searched."""
        record = self.record(doc_id)
        while record is not None:
            end = record.chunk_count if last is None else min(last + 1, record.chunk_count)
            ids = [points.chunk_point_id(record, index) for index in range(max(first, 0), end)]
            found = {
                str(point.id): points.stored_chunk(str(point.id), point.payload or {})
                for page in points.pages(ids)
                for point in self._points.retrieve(page)
            }
            before, record = record, record if len(found) == len(ids) else self.record(doc_id)
            if record == before:  # else the document was replaced in between
                return [found[point_id] for point_id in ids if point_id in found]
        return []

    def documents(self, doc_ids: Sequence[str]) -> list[Replacement]:
        """See `Store.documents`. Holds no more than the documents asked for and a few megabytes of an answer."""
        identity = self.identity()
        if identity is None:
            return []
        wanted = points.valid_ids(doc_ids)
        found = {item.record.doc_id: item for item in self._points.documents(wanted, identity.dimension)}
        # What lacks chunks may have been replaced while we read; if not, it is the same once more.
        again = [doc_id for doc_id, item in found.items() if len(item.chunks) < item.record.chunk_count]
        found.update((item.record.doc_id, item) for item in self._points.documents(again, identity.dimension))
        return list(found.values())

    def record(self, doc_id: str) -> Record | None:
        """See `Store.record`."""
        point_id = points.point_id_or_none(doc_id)
        if point_id is None or self.identity() is None:
            return None
        payload = self._points.record_payloads([point_id]).get(point_id)
        return points.record_from_payload(payload) if payload and payload["point"] == points.RECORD else None

    def made_with(self) -> MadeWith | None:
        """See `Store.made_with`."""
        identity = self.identity()
        return None if identity is None else MadeWith(identity.fingerprint, identity.dimension)

    def points(self, doc_ids: Sequence[str] | None = None) -> Iterator[StoredPoint]:
        """See `Store.points`."""
        return iter(()) if self.identity() is None else self._points.whole(doc_ids)

    def stats(self) -> Stats:
        """See `Store.stats`. Reads every Record, a thousand a request."""
        identity = self.identity()
        if identity is None:
            return points.stats((), None)
        found = self._points.scroll(match(point=points.RECORD), points.STATS_KEYS)
        return points.stats((payload for _, payload in found), identity.fingerprint)

    # --- the collection --------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make the collection, empty, where there is none yet."""
        if self._fingerprint is None or self._dimension is None:
            raise ValueError("a store opened without a fingerprint cannot be written")
        self._require_made(self._fingerprint, self._dimension)

    def _has_successor(self) -> bool:
        """Whether a rebuilt collection has taken the name that stood for nothing a moment ago, and is one of ours."""
        identity = server_succession.wait_for_successor(self.connection)
        if identity is None:
            return False
        identity.require(self._fingerprint, self._dimension, self._address)
        self._remember(identity)
        return True

    def identity(self) -> Identity | None:
        """The collection as it is now, None when there is none yet. Asked for in every call: hosts come and go."""
        self.connection.tell_skew()
        identity = server_collection.read(self.connection)
        if identity is not None:
            identity.require(self._fingerprint, self._dimension, self._address)
        self._remember(identity)
        return identity

    def _require_made(self, fingerprint: str, dimension: int) -> None:
        """The collection is there and ours when this returns; it is made when nobody has yet."""
        with self._making:
            if self.identity() is None:
                made = server_collection.create(
                    self.connection, fingerprint, dimension, shards=self._shards, replicas=self._replicas
                )
                made.require(fingerprint, dimension, self._address)
                self._remember(made)

    def _remember(self, identity: Identity | None) -> None:
        """Raises StoreError when the collection that was there before is gone, or is another one."""
        with self._mutex:
            if self._made is None:
                self._made = identity.made if identity else None
            elif identity is not None and self._made in identity.replaces:
                self._made = identity.made  # it was rebuilt
            elif identity is None or identity.made != self._made:
                if self._holds:
                    self._lost = True
                else:
                    self._made = None
                raise server_collection.deleted(self._address)

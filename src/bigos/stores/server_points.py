# SPDX-License-Identifier: GPL-2.0-only
"""The points of a server's collection: requests of bounded size, pages, filters.

Writes wait until they are applied (a server that only accepted them would lose a wrong one without a word).
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bigos.embedders import Vectors
from bigos.lexical import TermVector
from bigos.stores import Replacement, StoredPoint, StoreQuery, points, server_collection, twins
from bigos.stores.server_connection import Connection
from bigos.types import Chunk, Record, path_text

if TYPE_CHECKING:
    from qdrant_client.http.models import Filter, PointStruct, ScoredPoint, SparseVector, UpdateOperation
    from qdrant_client.http.models import Record as Retrieved

REQUEST_BYTES = 8 << 20
"""Estimated JSON of one upsert; a server takes 32 MB, and JSON can make at most three times of what was estimated."""
REQUEST_POINTS = 128
UPLOADS = 2
"""Requests under way at once: the next one is written down while the server works at the one before."""
_BYTES_A_NUMBER = 13
_VECTORS_A_PAGE = 200
_STAMPS_A_PAGE = 5000
"""A stamp has some 100 bytes, with the longest of paths 4,200."""


class Points:
    """Reads and writes points. Every method may raise StoreError, NoCollection among them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = connection.address.collection

    def upsert(self, batch: list[PointStruct], *, upload: bool) -> None:
        """Write these points over those of the same ids; `upload` takes the way for much data, if there is one."""
        self._connection.call(
            lambda client: client.upsert(self._name, batch, wait=True, ordering=server_collection.ordering()),
            upload=upload,
        )

    def upload(self, batches: Iterable[list[PointStruct]]) -> None:
        """Write all of these, in any order. The first error is raised when the requests under way have ended."""
        following = iter(batches)
        ahead = list(itertools.islice(following, 2))
        if len(ahead) < 2:
            for batch in ahead:
                self.upsert(batch, upload=True)
            return
        waiting: queue.Queue[list[PointStruct] | None] = queue.Queue(maxsize=1)
        errors: list[BaseException] = []

        def send() -> None:
            while (batch := waiting.get()) is not None:
                try:
                    if not errors:
                        self.upsert(batch, upload=True)
                except BaseException as error:
                    errors.append(error)

        # Daemons: a program that is told to end does not wait for a server that does not answer.
        senders = [threading.Thread(target=send, name="bigos-upload", daemon=True) for _ in range(UPLOADS)]
        for sender in senders:
            sender.start()
        for batch in itertools.chain(ahead, following):
            if errors:
                break
            waiting.put(batch)
        for _ in senders:
            waiting.put(None)
        for sender in senders:
            sender.join()
        if errors:
            raise errors[0]

    def change(self, operations: Sequence[UpdateOperation]) -> None:
        """Apply these operations, in order."""
        self._connection.call(
            lambda client: client.batch_update_points(
                self._name, operations, wait=True, ordering=server_collection.ordering()
            )
        )

    def delete(self, which: Filter) -> None:
        """Delete what the filter fits at the moment that the server deletes."""
        from qdrant_client import models

        self._connection.call(
            lambda client: client.delete(
                self._name, models.FilterSelector(filter=which), wait=True, ordering=server_collection.ordering()
            )
        )

    def count(self, which: Filter) -> int:
        """How many points the filter fits, exactly."""
        return self._connection.call(lambda client: client.count(self._name, count_filter=which, exact=True)).count

    def retrieve(
        self, ids: Sequence[str], vectors: list[str] | None = None, keys: list[str] | None = None
    ) -> list[Retrieved]:
        """The points of these ids that are there, with the vectors and payload keys asked for (None: all keys)."""
        return self._connection.call(
            lambda client: client.retrieve(
                self._name, list(ids), with_payload=keys or True, with_vectors=vectors or False
            )
        )

    def record_payloads(self, doc_ids: Sequence[str], keys: list[str] | None = None) -> dict[str, dict[str, Any]]:
        """Payloads by id, a page a request. Absent ones are left out."""
        return {
            str(point.id): point.payload or {}
            for page in points.pages(doc_ids)
            for point in self.retrieve(page, keys=keys)
        }

    def scroll(
        self, which: Filter, keys: list[str] | None = None, page_size: int = points.PAGE
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every point of a filter, a page at a time: its id and the payload keys asked for (None: all of them)."""
        offset = None
        while True:
            page, offset = self._connection.call(
                lambda client, offset=offset: client.scroll(  # type: ignore[misc]
                    self._name, which, limit=page_size, offset=offset, with_payload=keys or True, with_vectors=False
                )
            )
            for point in page:
                yield str(point.id), point.payload or {}
            if offset is None:
                return

    def stamps(self, which: Filter) -> list[str]:
        """The stamps of the Records that the filter fits.

        Not by a facet, which would be one request: it has no pages, needs an index that older collections lack, and a
        server may refuse a limit as high as the number of Records.
        """
        found = self.scroll(which, [points.STAMP], _STAMPS_A_PAGE)
        return [payload[points.STAMP] for _, payload in found if points.STAMP in payload]

    def twins(self, content_hashes: Sequence[str]) -> dict[str, list[Record]]:
        """See `Store.twins`. One request for 250 contents."""

        def read(contents: list[str], limit: int) -> list[points.Payload]:
            which = match(content_hash=contents, point=points.RECORD)
            page, _ = self._connection.call(
                lambda client: client.scroll(self._name, which, limit=limit, with_payload=True, with_vectors=False)
            )
            return [point.payload or {} for point in page]

        return twins.find(content_hashes, read)

    def whole(self, doc_ids: Sequence[str] | None) -> Iterator[StoredPoint]:
        """The points of these documents, or all but the collection's own, with payload and vectors."""
        from qdrant_client import models

        which = match(doc_id=None if doc_ids is None else [*doc_ids])
        which.must_not = [models.HasIdCondition(has_id=[server_collection.META_ID])]
        offset = None
        while True:
            page, offset = self._connection.call(
                lambda client, offset=offset: client.scroll(  # type: ignore[misc]
                    self._name, which, limit=_VECTORS_A_PAGE, offset=offset, with_payload=True, with_vectors=True
                )
            )
            for point in page:
                yield points.stored_point(str(point.id), point.payload, point.vector)
            if offset is None:
                return

    def nearest(self, query: StoreQuery, limit: int) -> list[ScoredPoint]:
        """The nearest chunk points, current or not, best first."""
        paths = [path_text(path) for path in query.paths]
        lexical = isinstance(query.by, TermVector)
        return self._connection.call(
            lambda client: client.query_points(
                self._name,
                query=_sparse(query.by) if isinstance(query.by, TermVector) else query.by.astype(np.float32).tolist(),
                using=points.LEXICAL_NAME if lexical else points.VECTOR_NAME,
                query_filter=match(ids=query.chunk_ids, kind=query.kind, path_tree=paths or None),
                search_params=None if lexical else server_collection.search_params(),
                limit=limit,
                with_payload=True,
                with_vectors=[points.LEXICAL_NAME],
            )
        ).points

    def documents(self, doc_ids: Sequence[str], dimension: int) -> list[Replacement]:
        """The documents of these ids that are there, each with its current chunks in order."""
        known = points.records(self.record_payloads(doc_ids))
        records = [known[doc_id] for doc_id in doc_ids if doc_id in known]

        def read(ids: list[str]) -> dict[str, tuple[Chunk, NDArray[np.float32]]]:
            return {str(point.id): _chunk_and_vector(point) for point in self.retrieve(ids, [points.VECTOR_NAME])}

        return points.whole_documents(records, read, dimension, _VECTORS_A_PAGE)


def _chunk_and_vector(point: Retrieved) -> tuple[Chunk, NDArray[np.float32]]:
    assert isinstance(point.vector, dict)  # vectors are named in every collection that we make
    vector: Any = point.vector[points.VECTOR_NAME]
    return points.chunk_from_payload(point.payload or {}), np.asarray(vector, np.float32)


def requests(items: Sequence[Replacement], dimension: int) -> Iterator[list[PointStruct]]:
    """The documents' chunk points in requests of bounded length."""
    from qdrant_client import models

    batch: list[PointStruct] = []
    size = 0
    for item in items:
        around = 1024 + 2 * sum(len(part.encode()) for part in points.path_tree(item.record.source_path))
        for chunk, numbers in zip(item.chunks, _decimals(item.vectors), strict=True):
            text = len(chunk.text.encode()) + sum(len(part.encode()) for part in chunk.heading_path)
            more = _BYTES_A_NUMBER * dimension + around + 2 * text
            if batch and (len(batch) >= REQUEST_POINTS or size + more > REQUEST_BYTES):
                yield batch
                batch, size = [], 0
            size += more
            vectors: dict[str, Any] = {points.VECTOR_NAME: numbers}
            if terms := points.lexical_vector(item.record, chunk):
                vectors[points.LEXICAL_NAME] = _sparse(terms)
                size += 2 * _BYTES_A_NUMBER * len(terms.indices)
            # Not validated: check_replacements has done it, and a thousand numbers a point take most of the time.
            point = models.PointStruct.model_construct(
                id=points.chunk_point_id(item.record, chunk.index),
                vector=vectors,
                payload=points.chunk_payload(item.record, chunk),
            )
            batch.append(point)
    if batch:
        yield batch


def _sparse(terms: TermVector) -> SparseVector:
    from qdrant_client import models

    # Four decimals: the value is a frequency, and ranks by a sum of some ten of them.
    values = [round(value, 4) for value in terms.values]
    return models.SparseVector.model_construct(indices=list(terms.indices), values=values)


def _decimals(vectors: Vectors) -> list[list[float]]:
    """The vectors' numbers to nine decimals, which makes half as much JSON as a float32 written as a double.

    A number of a unit vector moves by 5e-10 at most, less than half of what float32 can tell apart above 0.016.
    """
    rounded: list[list[float]] = np.round(vectors.astype(np.float64), 9).tolist()
    return rounded


def match(*, ids: Sequence[str] | None = None, **values: str | list[str] | None) -> Filter:
    """All of these payload keys have this value (or one of these), and the id is one of `ids`; None leaves one out."""
    from qdrant_client import models

    conditions: list[Any] = [] if ids is None else [models.HasIdCondition(has_id=list(ids))]
    for key, value in values.items():
        if value is not None:
            match = models.MatchAny(any=value) if isinstance(value, list) else models.MatchValue(value=value)
            conditions.append(models.FieldCondition(key=key, match=match))
    return models.Filter(must=conditions)

# SPDX-License-Identifier: GPL-2.0-only
"""What `bigos doctor --deep` looks for, in every store, damaged for real: points are written past the port."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bigos import verification
from bigos.stores import Replacement, Store, points
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.server import ServerStore
from bigos.verification import Finding, verify
from doubles.qdrant_server import QdrantDouble
from store_documents import DIMENSION, FINGERPRINT, document, memory_directory, with_record

Write = Callable[[str, dict[str, Any], list[float] | None], None]
"""Puts a point into the store as it is: its id, payload and vector."""


@contextmanager
def embedded(tmp_path: Path) -> Iterator[tuple[Store, Write]]:
    from qdrant_edge import Point, UpdateOperation

    store = EmbeddedStore(tmp_path / "bigos", FINGERPRINT, DIMENSION, lock_timeout=60)

    def write(point_id: str, payload: dict[str, Any], vector: list[float] | None) -> None:
        with store._writing() as shard:
            vectors = {} if vector is None else {points.VECTOR_NAME: vector}
            shard.update(UpdateOperation.upsert_points([Point(point_id, vectors, payload)]))
            shard.flush()

    yield store, write
    store.close()


def into(store: ServerStore) -> Write:
    from qdrant_client import models

    def write(point_id: str, payload: dict[str, Any], vector: list[float] | None) -> None:
        vectors = {} if vector is None else {points.VECTOR_NAME: vector}
        point = models.PointStruct.model_construct(id=point_id, vector=vectors, payload=payload)
        store._points.upsert([point], upload=False)

    return write


@contextmanager
def server_memory(_: Path) -> Iterator[tuple[Store, Write]]:
    from qdrant_client import QdrantClient

    client = QdrantClient(":memory:")
    store = ServerStore("http://memory", "bigos", FINGERPRINT, DIMENSION, client=client)
    yield store, into(store)
    client.close()


@contextmanager
def server_http(_: Path) -> Iterator[tuple[Store, Write]]:
    with QdrantDouble() as double:
        store = ServerStore(double.url, "bigos", FINGERPRINT, DIMENSION, wait=5)
        yield store, into(store)
        store.close()


STORES: dict[str, Callable[[Path], AbstractContextManager[tuple[Store, Write]]]] = {
    "embedded": embedded,
    "server-memory": server_memory,
    "server-http": server_http,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
]


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Write]]:
    with memory_directory(tmp_path) as directory, STORES[request.param](directory) as opened:
        yield opened


@pytest.fixture
def store(opened: tuple[Store, Write]) -> Store:
    return opened[0]


@pytest.fixture
def write(opened: tuple[Store, Write]) -> Write:
    return opened[1]


def whole(path: str, chunks: int = 3, version: str = "v1", **more: Any) -> Replacement:
    """A document whose Record says what a run writes there."""
    return with_record(document(path, chunks, version, **more), fingerprint=f"{FINGERPRINT}/text-1")


def problems(found: tuple[Finding, ...]) -> list[tuple[str, str | None]]:
    return [(finding.problem, finding.path) for finding in found]


def chunk_point(item: Replacement, index: int) -> tuple[str, dict[str, Any], list[float]]:
    payload = points.chunk_payload(item.record, item.chunks[index])
    return points.chunk_point_id(item.record, index), payload, item.vectors[index].tolist()


def test_an_index_that_is_whole_is_found_whole(store: Store) -> None:
    assert verify(store) == verification.Verification(0, 0, 0, ())
    items = [whole(f"/a/{number}.txt", number % 4, seed=number) for number in range(30)]
    failed = with_record(whole("/a/broken.pdf", 0), status="failed", reason="encrypted", kind=None)
    was_better = with_record(whole("/a/was better.pdf", 2), status="failed", reason="damaged")
    bytes_name = whole("/a/za\udcbfółć.txt", 2)
    long = whole("/a/long.txt", 1500, seed=3)
    store.replace([*items, failed, was_better, bytes_name, long])
    store.replace([whole("/a/1.txt", 5, "v2")])
    found = verify(store)
    assert found.findings == ()
    assert (found.documents, found.chunks) == (store.stats().documents, store.stats().chunks)
    assert (found.documents, found.others) == (32, 2)


def test_points_are_read_as_they_are(store: Store) -> None:
    items = [whole(f"/a/{number}.txt", 2, seed=number) for number in range(1100)]
    store.replace(items)
    found = list(store.points())
    assert len({point.point_id for point in found}) == len(found) == 3300
    chunk = next(point for point in store.points([items[7].record.doc_id]) if point.vector is not None)
    assert points.chunk_from_payload(chunk.payload) in items[7].chunks
    assert sum(point.vector is None for point in found) == 1100
    assert {point.payload["doc_id"] for point in store.points([items[7].record.doc_id])} == {items[7].record.doc_id}
    assert list(store.points([str(uuid.uuid4())])) == []
    made_with = store.made_with()
    assert made_with is not None
    assert (made_with.fingerprint, made_with.dimension) == (FINGERPRINT, DIMENSION)


def test_chunks_that_are_gone_are_missed(store: Store) -> None:
    item, other = whole("/a/x.txt", 5), whole("/a/y.txt", 2)
    store.replace([item, other])
    store.discard([points.chunk_point_id(item.record, index) for index in (1, 4)])
    (finding,) = verify(store).findings
    assert (finding.problem, finding.path, finding.detail) == (verification.INCOMPLETE, "/a/x.txt", "3 of 5 are there")
    assert finding.points == ()


def test_a_record_without_any_chunk_is_found(store: Store, write: Write) -> None:
    item = whole("/a/x.txt", 5)
    store.replace([whole("/a/y.txt")])
    write(item.record.doc_id, points.record_payload(item.record), None)
    assert [finding.detail for finding in verify(store).findings] == ["0 of 5 are there"]


@pytest.mark.parametrize("recorded", [True, False])
def test_chunks_of_no_record_or_of_another_version_are_found_and_can_be_discarded(
    store: Store, write: Write, recorded: bool
) -> None:
    store.replace([whole("/a/x.txt", 3) if recorded else whole("/a/y.txt")])
    old = whole("/a/x.txt", 4, "v0", seed=8)
    for index in range(4):
        write(*chunk_point(old, index))
    (finding,) = verify(store).findings
    expected = verification.LEFT_OVER if recorded else verification.ORPHANED
    assert (finding.problem, finding.path) == (expected, "/a/x.txt")
    assert set(finding.points) == {points.chunk_point_id(old.record, index) for index in range(4)}
    store.discard(finding.points)
    assert verify(store).findings == ()
    assert store.stats().chunks == 3


def test_positions_beyond_the_last_are_left_over(store: Store, write: Write) -> None:
    store.replace([whole("/a/x.txt", 3)])
    write(*chunk_point(whole("/a/x.txt", 9), 7))
    (finding,) = verify(store).findings
    assert (finding.problem, len(finding.points)) == (verification.LEFT_OVER, 1)
    store.discard(finding.points)
    assert verify(store).findings == ()


def test_what_another_host_is_writing_is_not_damage(store: Store, write: Write) -> None:
    store.replace([whole("/a/y.txt")])
    now = datetime.now(UTC).isoformat()
    write(*chunk_point(with_record(whole("/a/x.txt", 3), ingested_at=now), 0))
    assert bool(verify(store).findings) == (store.in_flight_seconds == 0)


@pytest.mark.parametrize("vector", [[np.nan] * DIMENSION, [0.0] * DIMENSION, None], ids=["NaN", "zero", "none"])
def test_a_vector_of_no_use_is_found(store: Store, write: Write, vector: list[float] | None, request: Any) -> None:
    if vector is not None and "server" in request.node.name:
        pytest.skip("the server takes no such vector, or normalises it")
    item = whole("/a/x.txt", 3)
    store.replace([item, whole("/a/y.txt")])
    point_id, payload, _ = chunk_point(item, 1)
    write(point_id, payload, vector)
    (finding,) = verify(store).findings
    assert (finding.problem, finding.path, finding.points) == (verification.BAD_VECTOR, "/a/x.txt", ())
    assert finding.detail.startswith("chunk 1: ")


RECORDS: dict[str, dict[str, Any]] = {
    "a key is missing": {"chunk_count": ...},
    "no number": {"chunk_count": "3"},
    "another path": {"source_path": "/a/z.txt"},
    "another place": {"path_tree": ["/", "/b", "/b/x.txt"]},
    "another name": {"source_name": "y.txt"},
    "another stamp": {"stamp": "3 1 1 1 indexed:0 /a/x.txt"},
    "an unknown status": {"status": "lost", "stamp": ...},
    "left out, with chunks": {"status": "skipped", "stamp": ...},
}


TELLS_WHICH = ("another stamp", "an unknown status", "left out, with chunks")
"""What is wrong with a Record that still says which document it is of, and which chunks it has."""


def changed(payload: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with other values; those that are `...` are left out."""
    return {key: value for key, value in {**payload, **changes}.items() if value is not ...}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_contradicts_itself_is_found(store: Store, write: Write, name: str) -> None:
    item = whole("/a/x.txt", 3)
    store.replace([item, whole("/a/y.txt")])
    write(item.record.doc_id, changed(points.record_payload(item.record), RECORDS[name]), None)
    found = verify(store).findings
    bad = [finding for finding in found if finding.problem == verification.BAD_RECORD]
    assert [finding.points for finding in bad] == [() if name in TELLS_WHICH else (item.record.doc_id,)]
    store.discard([point_id for finding in found for point_id in finding.points])
    # A repair may not be able to read the file again: the text stays where it can be found at all.
    assert len(store.chunks(item.record.doc_id)) == (3 if name in TELLS_WHICH else 0)
    store.replace([item])
    assert verify(store).findings == ()


CHUNKS: dict[str, dict[str, Any]] = {
    "a key is missing": {"text": ...},
    "another position": {"chunk_index": 2},
    "another content": {"content_hash": "v9"},
    "another place": {"path_tree": ["/", "/b", "/b/x.txt"]},
    "no document": {"doc_id": ...},
    "of no kind": {"point": "chank"},
}


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_that_contradicts_itself_is_found(store: Store, write: Write, name: str) -> None:
    item = whole("/a/x.txt", 3)
    store.replace([item, whole("/a/y.txt")])
    point_id, payload, vector = chunk_point(item, 1)
    write(point_id, changed(payload, CHUNKS[name]), vector)
    found = verify(store).findings
    assert (verification.BAD_CHUNK, "/a/x.txt") in problems(found)
    assert (verification.INCOMPLETE, "/a/x.txt") in problems(found)
    store.discard([point_id for finding in found for point_id in finding.points])
    store.replace([item])
    assert verify(store).findings == ()


def test_a_chunk_twice_under_another_id_is_found(store: Store, write: Write) -> None:
    item = whole("/a/x.txt", 3)
    store.replace([item])
    _, payload, vector = chunk_point(item, 1)
    stray = str(uuid.uuid4())
    write(stray, payload, vector)
    (finding,) = verify(store).findings
    assert (finding.problem, finding.points) == (verification.BAD_CHUNK, (stray,))


def test_a_document_of_another_model_is_found(store: Store) -> None:
    store.replace([with_record(whole("/a/x.txt"), fingerprint="other-model/2/text-1"), whole("/a/y.txt")])
    assert problems(verify(store).findings) == [(verification.FOREIGN, "/a/x.txt")]


def test_everything_at_once_is_told_by_document(store: Store, write: Write) -> None:
    items = [whole(f"/a/{number}.txt", 3, seed=number) for number in range(4)]
    store.replace(items)
    store.discard([points.chunk_point_id(items[0].record, 0), items[1].record.doc_id])
    write(*chunk_point(whole("/a/2.txt", 1, "v0"), 0))
    expected = [
        (verification.INCOMPLETE, "/a/0.txt"), (verification.ORPHANED, "/a/1.txt"), (verification.LEFT_OVER, "/a/2.txt")
    ]  # fmt: skip
    assert problems(verify(store).findings) == expected

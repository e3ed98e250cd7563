# SPDX-License-Identifier: GPL-2.0-only
"""Two hosts replace one document at the same moment, their requests in every order: none loses the other's chunks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models

from bigos.stores import Replacement, StoreQuery, points
from bigos.stores.server import ServerStore
from doubles.qdrant_server import Fault, QdrantDouble
from store_documents import DIMENSION, FINGERPRINT, document, unit, with_record

PATIENCE = 60.0


class Turns:
    """Lets the requests of two hosts through one at a time, in the order of a schedule (0 or 1 a request)."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._schedule: list[int] = []
        self._running: set[int] = set()
        self._busy = False

    def start(self, schedule: Sequence[int]) -> None:
        self._schedule, self._running, self._busy = list(schedule), {0, 1}, False

    def enter(self, host: int) -> None:
        with self._turn:
            assert self._turn.wait_for(lambda: not self._busy and self._next() in (host, None), PATIENCE)
            self._busy = True
            if self._next() is not None:
                self._schedule.pop(0)

    def leave(self) -> None:
        with self._turn:
            self._busy = False
            self._turn.notify_all()

    def finish(self, host: int) -> None:
        with self._turn:
            self._running.discard(host)
            self._turn.notify_all()

    def _next(self) -> int | None:
        """Whose turn it is; None when it is anybody's."""
        while self._schedule and self._schedule[0] not in self._running:
            self._schedule.pop(0)
        return self._schedule[0] if self._schedule else None


class TwoHosts:
    """Two stores, each with its own way to the same engine, and somebody who looks after every single request."""

    def __init__(self) -> None:
        self.engine = QdrantClient(":memory:")
        self.turns = Turns()
        self.doubles = [QdrantDouble(engine=self.engine) for _ in range(2)]
        self.stores = []
        for double in self.doubles:
            double.start()
            self.stores.append(
                ServerStore(double.url, "bigos", FINGERPRINT, DIMENSION, wait=PATIENCE, timeout=PATIENCE)
            )
        self.broken: list[str] = []

    def close(self) -> None:
        for store in self.stores:
            store.close()
        for double in self.doubles:
            double.stop()
        self.engine.close()

    def race(self, items: Sequence[Replacement], schedule: Sequence[int]) -> None:
        """Both hosts replace at once, the first with items[0], the second with items[1]."""
        self.turns.start(schedule)
        for host, double in enumerate(self.doubles):
            double.faults = [Fault(times=None, call=self._entering(host), then=self._leaving(items[0].record.doc_id))]
        errors: list[BaseException] = []

        def work(host: int) -> None:
            try:
                self.stores[host].replace([items[host]])
            except BaseException as error:
                errors.append(error)
            finally:
                self.turns.finish(host)

        threads = [threading.Thread(target=work, args=(host,)) for host in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for double in self.doubles:
            double.faults = []
        assert not errors, errors

    def _entering(self, host: int) -> Callable[[], None]:
        return lambda: self.turns.enter(host)

    def _leaving(self, doc_id: str) -> Callable[[], None]:
        def leave() -> None:
            self._look(doc_id)
            self.turns.leave()

        return leave

    def _look(self, doc_id: str) -> None:
        """The Record's version has all of its chunks, at every moment."""
        found = self.engine.retrieve("bigos", [doc_id])
        record = points.record_from_payload(found[0].payload or {})
        wanted = [points.chunk_point_id(record, index) for index in range(record.chunk_count)]
        if len(self.engine.retrieve("bigos", wanted)) != len(wanted):
            self.broken.append(f"{record.content_hash} of {record.ingested_at} lacks chunks")


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    hosts = TwoHosts()
    yield hosts
    hosts.close()


def version(path: str, name: str, chunks: int, when: str) -> Replacement:
    return with_record(document(path, chunks, name, text=name), ingested_at=f"2026-11-30T{when}+00:00")


FIRST_ALONE_THEN_SECOND_IN_THE_MIDDLE = [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]


@settings(max_examples=30, deadline=None)
@given(
    schedule=st.lists(st.integers(0, 1), min_size=8, max_size=16),
    names=st.sampled_from([("v2", "v3"), ("v2", "v2"), ("v1", "v2"), ("v2", "v1"), ("v1", "v1")]),
)
@example(schedule=FIRST_ALONE_THEN_SECOND_IN_THE_MIDDLE, names=("v2", "v3"))
@example(schedule=FIRST_ALONE_THEN_SECOND_IN_THE_MIDDLE, names=("v2", "v1"))
@example(schedule=[0, 0, 1, 1, 1, 1, 0, 0, 0], names=("v2", "v1"))  # the first sees what the second has just written
def test_two_replaces_of_one_document_leave_one_whole_version(
    hosts: TwoHosts, schedule: list[int], names: tuple[str, str]
) -> None:
    path, hosts.broken = f"/a/{uuid.uuid4()}.txt", []
    lengths = {"v1": 3, "v2": 2, "v3": 4}
    hosts.stores[0].replace([version(path, "v1", lengths["v1"], "08:00:00")])
    items = [version(path, name, lengths[name], f"12:00:0{host}") for host, name in enumerate(names)]
    hosts.race(items, schedule)
    assert not hosts.broken

    (record,) = (record for record in hosts.stores[0].known().values() if record.source_path == path)
    assert record in [item.record for item in items]
    expected = [f"{record.content_hash} {record.content_hash} {index}" for index in range(record.chunk_count)]
    for store in hosts.stores:
        hits = store.search(StoreQuery(unit(1), 50, paths=(Path(path),)))
        assert sorted(hit.chunk.text for hit in hits) == expected

    # What is left over of the other host goes with the next change, when it is older than any replace.
    hosts.stores[1].replace([version(path, "v4", 1, "14:00:00")])
    here: Any = [
        models.FieldCondition(key="doc_id", match=models.MatchValue(value=record.doc_id)),
        models.FieldCondition(key="point", match=models.MatchValue(value="chunk")),
    ]
    assert hosts.engine.count("bigos", count_filter=models.Filter(must=here)).count == 1

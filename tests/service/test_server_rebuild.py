# SPDX-License-Identifier: GPL-2.0-only
"""A rebuild on a Qdrant server, over its protocol on a real socket: how the name passes to another collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bigos import pipeline
from bigos.embedders import Window
from bigos.errors import FingerprintMismatch, StoreError, StoreLocked
from bigos.fingerprint import compose
from bigos.pipeline import IngestRequest
from bigos.rebuild import RebuildReport, rebuild
from bigos.report import Event
from bigos.stores import StoreQuery
from bigos.stores.server import ServerStore
from bigos.stores.server_successor import forget_in_unfinished, server_successor
from doubles.qdrant_server import Fault, QdrantDouble, error
from hash_embedder import DIMENSION, HashEmbedder, LabelledEmbedder
from processes import PATIENCE
from small_index import SETTINGS

OLD, NEW, NEWER = (compose(f"words-hashed/48/{name}", Window(48, 6), Window(48, 6)) for name in ("old", "new", "newer"))


class ServedIndex:
    """A folder of files, and an index of them on a server."""

    def __init__(self, server: QdrantDouble, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.embedder = LabelledEmbedder(HashEmbedder())

    def open_store(
        self, fingerprint: str | None, dimension: int | None = DIMENSION, collection: str | None = None
    ) -> ServerStore:
        return ServerStore(self.server.url, collection or "bigos", fingerprint, dimension, wait=1)

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    def ingest(self, fingerprint: str = OLD) -> None:
        with closing(self.open_store(fingerprint)) as store:
            self.ingest_into(store, fingerprint)

    def ingest_into(self, store: ServerStore, fingerprint: str) -> None:
        pipeline.run(
            IngestRequest((self.folder,), recursive=True),
            store=store,
            embedder=self.embedder,
            settings=SETTINGS,
            fingerprint=fingerprint,
            workers=0,
        )

    def rebuild(
        self,
        fingerprint: str = NEW,
        on_event: Callable[[Event], None] = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> RebuildReport:
        with server_successor(self.open_store, fingerprint, DIMENSION) as successor:
            return rebuild(
                successor,
                embedder=self.embedder,
                settings=SETTINGS,
                fingerprint=fingerprint,
                workers=0,
                on_event=on_event,
                stop=stop,
            )

    def held(self) -> tuple[str | None, list[str]]:
        with closing(self.open_store(None, None)) as store:
            names = sorted(Path(record.source_path).name for record in store.known().values())
            return store.stats().fingerprint, names

    def collections(self) -> list[str]:
        return sorted(each.name for each in self.server.engine.get_collections().collections)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ServedIndex]:
    with QdrantDouble() as server:
        made = ServedIndex(server, tmp_path)
        made.write("a.txt", "The clock divider is computed once. " * 20)
        made.write("b.txt", "Kot śpi na dachu.")
        made.ingest()
        yield made


def test_a_collection_becomes_an_alias_of_what_was_built_and_so_on(index: ServedIndex) -> None:
    report = index.rebuild()
    assert (report.swapped, report.made_with, report.documents) == (True, OLD, 2)
    assert index.held() == (NEW, ["a.txt", "b.txt"])
    assert index.collections() == ["bigos-rebuilt-1"]
    assert index.rebuild(NEWER).swapped
    assert index.held() == (NEWER, ["a.txt", "b.txt"])
    assert index.collections() == ["bigos-rebuilt-2"]


def test_the_old_one_serves_until_then_and_a_stopped_run_goes_on(index: ServedIndex) -> None:
    for number in range(30):
        index.write(f"{number}.txt", f"Document number {number} tells of something else. " * 30)
    index.ingest()
    asked = len(index.embedder.raw.passages)
    stopped = index.rebuild(stop=lambda: len(index.embedder.raw.passages) > asked)
    assert (stopped.swapped, stopped.ingest.interrupted) == (False, True)
    assert index.held()[0] == OLD
    assert index.collections() == ["bigos", "bigos-rebuilt-1"]
    report = index.rebuild()
    assert (report.resumed, report.swapped) == (True, True)
    assert 0 < report.ingest.files["unchanged"] < 32
    assert len(index.held()[1]) == 32


def test_what_was_begun_for_another_model_is_begun_anew(index: ServedIndex) -> None:
    index.write("c.txt", "More text. " * 500)
    index.ingest()
    asked = len(index.embedder.raw.passages)
    index.rebuild(stop=lambda: len(index.embedder.raw.passages) > asked)
    report = index.rebuild(NEWER)
    assert (report.resumed, report.swapped) == (False, True)
    assert index.collections() == ["bigos-rebuilt-2"]


def test_what_another_host_is_at_for_another_model_is_not_deleted(index: ServedIndex) -> None:
    seen: list[str] = []

    def meanwhile(_: Event) -> None:
        with pytest.raises(StoreLocked, match="is being rebuilt for other settings, heard of at 20") as caught:
            index.rebuild(NEWER)
        seen.append(caught.value.fix)

    assert index.rebuild(on_event=meanwhile).swapped
    assert seen
    assert index.held()[0] == NEW


def test_hosts_that_had_the_old_one_open_go_on_or_get_the_sentence(index: ServedIndex) -> None:
    vector = index.embedder.embed_query("clock", "en")
    with closing(index.open_store(OLD)) as old, closing(index.open_store(None, None)) as reader:
        assert old.search(StoreQuery(vector, 3))
        with reader.hold():
            assert len(reader.known()) == 2
            index.rebuild()
            assert len(reader.known()) == 2
        with pytest.raises(FingerprintMismatch, match="words-hashed/48/new") as caught:
            old.search(StoreQuery(vector, 3))
        assert caught.value.fix.startswith("bigos ingest --rebuild")
    with closing(index.open_store(NEW)) as same:
        with same.hold():
            assert len(same.known()) == 2
            index.rebuild(NEW)  # of the same settings
            index.write("c.txt", "Nowa notatka.")
            index.ingest_into(same, NEW)
        assert index.held() == (NEW, ["a.txt", "b.txt", "c.txt"])


def test_a_search_in_the_moment_without_any_collection_waits_for_the_new_one(index: ServedIndex) -> None:
    seen: list[list[str]] = []

    def search() -> None:
        index.server.faults = []
        import threading

        def look() -> None:
            with closing(index.open_store(None, None)) as store:
                seen.append(sorted(Path(record.source_path).name for record in store.known().values()))

        looking.append(threading.Thread(target=look))
        looking[0].start()
        looking[0].join(0.3)

    looking: list[object] = []
    # When the old one has been deleted and the alias is about to be made.
    index.server.faults = [Fault(path=r"^POST /collections/aliases$", call=search)]
    assert index.rebuild().swapped
    looking[0].join(PATIENCE)  # type: ignore[attr-defined]
    assert seen == [["a.txt", "b.txt"]]


def test_cut_off_between_the_two_steps_whoever_comes_next_ends_it(index: ServedIndex) -> None:
    index.server.faults = [error(500, "the machine is going down", path=r"^POST /collections/aliases$", times=None)]
    with pytest.raises(StoreError):
        index.rebuild()
    assert index.collections() == ["bigos-rebuilt-1"]
    with pytest.raises(StoreError, match="cut off in its last step") as caught:
        index.held()
    assert "bigos ingest --rebuild" in caught.value.fix
    index.server.faults = []
    assert index.held() == (NEW, ["a.txt", "b.txt"])
    index.ingest(NEW)
    assert index.held() == (NEW, ["a.txt", "b.txt"])
    assert index.collections() == ["bigos-rebuilt-1"]


@pytest.mark.parametrize("step", [r"^PUT /collections/bigos-rebuilt-1$", r"/points/payload$", r"^DELETE "])
def test_a_server_that_goes_away_at_a_step_loses_nothing(index: ServedIndex, step: str) -> None:
    index.server.faults = [error(500, "no more", path=step, times=None)]
    with pytest.raises(StoreError):
        index.rebuild()
    assert index.held() == (OLD, ["a.txt", "b.txt"])
    index.server.faults = []
    assert index.rebuild().swapped
    assert index.held() == (NEW, ["a.txt", "b.txt"])
    assert index.collections() == ["bigos-rebuilt-1"]


def test_what_another_host_writes_meanwhile_is_taken_over(index: ServedIndex) -> None:
    once: list[int] = []

    def meanwhile(_: Event) -> None:
        if not once:
            once.append(1)
            index.write("c.txt", "Pies szczeka.")
            index.ingest()

    assert index.rebuild(on_event=meanwhile).swapped
    assert index.held() == (NEW, ["a.txt", "b.txt", "c.txt"])


def test_what_is_forgotten_leaves_the_unfinished_one_too(index: ServedIndex) -> None:
    index.write("c.txt", "More text. " * 500)
    index.ingest()
    asked = len(index.embedder.raw.passages)
    index.rebuild(stop=lambda: len(index.embedder.raw.passages) > asked)
    with closing(index.open_store(None, None, "bigos-rebuilt-1")) as unfinished:
        built = sorted(record.source_path for record in unfinished.known().values())
        assert built
        forget_in_unfinished(index.open_store, [Path(built[0])])
        assert sorted(record.source_path for record in unfinished.known().values()) == built[1:]
    assert index.held() == (OLD, ["a.txt", "b.txt", "c.txt"])


def test_a_name_that_was_never_there_costs_no_wait(index: ServedIndex) -> None:
    with closing(ServerStore(index.server.url, "other", NEW, DIMENSION, wait=1)) as store:
        assert store.known() == {}
    assert "bigos" in index.collections()

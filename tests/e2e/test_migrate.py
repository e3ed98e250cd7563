# SPDX-License-Identifier: GPL-2.0-only
"""`bigos migrate` as a person runs it, against a server on a socket: there and back, stopped, failed, refused.

No model is built or answers here: a migration needs none. The whole command runs in this process but where it is
killed, since a start of the server's client takes longer than what is tested.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from qdrant_client import models

from bigos import library, migrate
from bigos.stores import Replacement, points
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.server import ServerStore
from command_line import Home
from doubles.qdrant_server import Fault, QdrantDouble, error
from processes import PATIENCE
from store_documents import DIMENSION, FINGERPRINT, assert_holds, document, memory_directory, with_record

WRITES = r"^(PUT|PATCH|DELETE) |/points/(delete|batch|payload)$"
CHUNK_WRITES = r"^PUT .*/points$"
RECORDS = models.Filter(must=[models.FieldCondition(key="point", match=models.MatchValue(value=points.RECORD))])
MIXED = [
    document("/a/x.txt", 12, seed=1),
    document("/a/y.c", 3, kind="code", seed=2),
    with_record(document("/a/failed.pdf", 0), status="failed", reason="encrypted", kind=None),
    with_record(document("/a/was better.pdf", 2, seed=4), status="failed", reason="encrypted"),
]
MANY = [document(f"/a/{number:03}.txt", 10, seed=number) for number in range(110)]
"""More than is copied at once."""


@pytest.fixture
def server() -> Iterator[QdrantDouble]:
    with QdrantDouble() as double:
        yield double


@pytest.fixture
def home(tmp_path: Path, server: QdrantDouble) -> Iterator[Home]:
    with memory_directory(tmp_path) as base:
        yield Home(
            base,
            base / "no models",
            {
                "BIGOS_QDRANT_URL": server.url,
                "BIGOS_QDRANT_WAIT": "0.3",
                "BIGOS_EMBEDDER": "ollama",
                "BIGOS_OLLAMA_URL": "http://127.0.0.1:9",
            },
        )


def embedded(home: Home, data: str = ".local/share/bigos", fingerprint: str = FINGERPRINT) -> EmbeddedStore:
    return EmbeddedStore(home.path / data / "collections" / "bigos", fingerprint, DIMENSION, lock_timeout=60)


def fill(home: Home, items: list[Replacement]) -> None:
    with closing(embedded(home)) as store:
        store.replace(items)


def on_server(server: QdrantDouble, fingerprint: str = FINGERPRINT) -> ServerStore:
    return ServerStore(server.url, "bigos", fingerprint, DIMENSION, wait=1)


def test_an_index_goes_to_the_server_and_back_without_any_model(home: Home, server: QdrantDouble) -> None:
    fill(home, MIXED)
    ran = home.bigos("migrate", "--to", "server", "--json")
    assert ran.code == 0, ran.stderr
    report = ran.json
    assert report["schema"] == "bigos.migrate.v1"
    assert (report["documents"], report["chunks"]) == (4, 17)
    assert report["copied"] == {"documents": 4, "chunks": 17}
    assert report["verified"] == {"counted": 4, "compared": 3}
    assert (report["differences"], report["damaged"], report["only_in_target"]) == ([], [], [])
    assert report["fingerprint"] == FINGERPRINT
    assert_holds(on_server(server), MIXED)
    assert_holds(embedded(home), MIXED)

    shown = home.bigos("show", "/a/x.txt:1", BIGOS_STORE="server")
    assert "Zażółć gęślą jaźń v1 0" in shown.stdout, shown.stderr

    elsewhere = {"BIGOS_DATA_DIR": str(home.path / "other")}
    back = home.bigos("migrate", "--to", "embedded", **elsewhere)
    assert back.code == 0, back.stderr
    assert back.stdout.endswith('the configuration uses it already: store = "embedded"\n')
    assert_holds(embedded(home, "other"), MIXED)
    again = home.bigos("migrate", "--to", "embedded", "--json", **elsewhere).json
    assert (again["copied"]["documents"], again["already_there"]) == (0, 4)


def test_it_says_which_setting_to_change_and_changes_none(home: Home) -> None:
    fill(home, MIXED)
    file = home.path / ".config" / "bigos" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('store = "embedded"\n')
    ran = home.bigos("migrate", "--to", "server")
    assert ran.stdout.endswith('to use it, set this in config.toml: store = "server"\n')
    assert file.read_text() == 'store = "embedded"\n'
    assert home.bigos("migrate", "--to", "server", "-q").stderr == ""


def test_a_dry_run_writes_nothing_at_the_server(home: Home, server: QdrantDouble) -> None:
    fill(home, MIXED)
    ran = home.bigos("migrate", "--to", "server", "--dry-run")
    assert ran.code == 0
    assert "would copy 4 documents (17 chunks), 0 there already" in ran.stdout
    assert "config.toml" not in ran.stdout
    assert server.count(WRITES) == 0
    assert server.count(".") > 0


def test_a_server_that_is_not_there_is_one_sentence_and_the_index_stays(home: Home, server: QdrantDouble) -> None:
    fill(home, MIXED)
    server.stop()
    ran = home.bigos("migrate", "--to", "server", "--json")
    assert (ran.code, ran.stdout) == (4, "")
    assert ran.stderr.endswith("does not run (connection refused).\nhint: systemctl --user start qdrant\n")
    assert_holds(embedded(home), MIXED)


def test_a_dry_run_does_not_wait_a_minute_for_a_server_that_is_not_there(
    home: Home, server: QdrantDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, MIXED)
    server.stop()
    monkeypatch.setattr(library, "SHORT_PATIENCE", 0.3)
    started = time.monotonic()
    assert home.bigos("migrate", "--to", "server", "--dry-run", BIGOS_QDRANT_WAIT="60").code == 4
    assert time.monotonic() - started < 55


def test_a_server_that_fails_in_the_middle_keeps_what_it_has_and_the_next_run_does_the_rest(
    home: Home, server: QdrantDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "GROUP_CHUNKS", 40)
    items = MANY[:20]
    fill(home, items)
    # A making of the collection, then two groups of chunks and Records.
    server.faults = [error(507, "No space left on device", path=CHUNK_WRITES, after=5, times=None)]
    ran = home.bigos("migrate", "--to", "server", "--json")
    assert (ran.code, ran.stdout) == (4, "")
    assert "hint: " in ran.stderr
    server.faults = []
    with closing(on_server(server)) as store:
        assert len(store.known()) == 8
    report = home.bigos("migrate", "--to", "server", "--json").json
    assert (report["already_there"], report["copied"]["documents"], report["differences"]) == (8, 12, [])
    assert_holds(on_server(server), items)


def test_ctrl_c_ends_it_after_the_group_in_hand_and_the_next_run_goes_on(
    home: Home, server: QdrantDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "GROUP_CHUNKS", 40)
    items = MANY[:20]
    fill(home, items)
    server.faults = [Fault(path=CHUNK_WRITES, after=3, call=lambda: os.kill(os.getpid(), signal.SIGINT))]
    ran = home.bigos("migrate", "--to", "server", "--json")
    assert (ran.code, ran.json["interrupted"], ran.json["copied"]["documents"]) == (130, True, 8)
    assert ran.json["verified"] == {"counted": 0, "compared": 0}
    report = home.bigos("migrate", "--to", "server", "--json").json
    assert (report["already_there"], report["copied"]["documents"], report["interrupted"]) == (8, 12, False)
    assert_holds(on_server(server), items)


def test_killed_in_the_middle_it_goes_on_where_it_was(home: Home, server: QdrantDouble) -> None:
    fill(home, MANY)
    written, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        # Chunks of the second group: the first is whole when its Records are there.
        if server.engine.count("bigos", count_filter=RECORDS).count > 1:
            written.set()
            go_on.wait(PATIENCE)

    server.faults = [Fault(path=CHUNK_WRITES, times=None, call=hold_up)]
    process = home.start("migrate", "--to", "server", "--json")
    assert written.wait(PATIENCE)
    process.kill()
    process.communicate(timeout=PATIENCE)
    server.faults = []
    go_on.set()
    report = home.bigos("migrate", "--to", "server", "--json").json
    assert (report["already_there"], report["copied"]["documents"], report["differences"]) == (102, 8, [])
    assert_holds(on_server(server), MANY)


def test_an_index_of_another_model_on_the_server_is_refused_and_stays(home: Home, server: QdrantDouble) -> None:
    fill(home, MIXED)
    theirs = [document("/b/1.txt", 2)]
    with closing(on_server(server, "other-model/2")) as store:
        store.replace(theirs)
    ran = home.bigos("migrate", "--to", "server")
    assert (ran.code, ran.stdout) == (5, "")
    assert "other-model/2" in ran.stderr
    assert FINGERPRINT in ran.stderr
    assert f"curl -X DELETE {server.url}/collections/bigos, then this again" in ran.stderr
    assert_holds(on_server(server, "other-model/2"), theirs)


def test_a_server_that_loses_a_chunk_without_a_word_is_found_out(home: Home, server: QdrantDouble) -> None:
    fill(home, MIXED)
    lost = points.chunk_point_id(MIXED[0].record, 3)
    # Gone whenever anything is read.
    server.faults = [
        Fault(path=r"^POST .*/points$", times=None, call=lambda: server.engine.delete("bigos", [lost])),
    ]
    # Made before, as the engine cannot delete from a collection that it does not have.
    with closing(on_server(server)) as store:
        server.faults, faults = [], server.faults
        store.replace([document("/b/1.txt", 1)])
    server.faults = faults
    ran = home.bigos("migrate", "--to", "server", "--json")
    assert ran.code == 4
    assert ran.json["differences"] == [{"path": "/a/x.txt", "reason": "has 11 of 12 chunks there"}]
    assert ran.json["only_in_target"] == ["/b/1.txt"]
    assert "error: 1 of 4 documents" in ran.stderr
    assert "hint: bigos migrate --to server, once more" in ran.stderr
    server.faults = []
    assert home.bigos("migrate", "--to", "server").code == 0
    assert_holds(on_server(server), [*MIXED, document("/b/1.txt", 1)])


def test_a_document_that_is_torn_in_the_source_is_named_with_its_cure(home: Home, server: QdrantDouble) -> None:
    from qdrant_edge import UpdateOperation

    fill(home, MIXED)
    with closing(embedded(home)) as store, store._writing() as shard:
        shard.update(UpdateOperation.delete_points([points.chunk_point_id(MIXED[0].record, 3)]))
    ran = home.bigos("migrate", "--to", "server")
    assert ran.code == 3
    assert "/a/x.txt has 11 of 12 chunks in the source" in ran.stdout
    assert "hint: bigos ingest /a/x.txt --reindex" in ran.stderr
    assert_holds(on_server(server), MIXED[1:])


def test_nothing_to_copy_is_said_and_creates_nothing(home: Home, server: QdrantDouble) -> None:
    ran = home.bigos("migrate", "--to", "server")
    assert (ran.code, ran.stdout) == (1, "")
    assert "nothing to copy" in ran.stderr
    assert home.bigos("migrate", "--to", "embedded", "--json").json["fingerprint"] is None
    assert server.count(WRITES) == 0
    assert home.everything() == []


def test_where_to_has_to_be_said(home: Home) -> None:
    assert home.bigos("migrate").code == 2
    assert home.bigos("migrate", "--to", "elsewhere").code == 2

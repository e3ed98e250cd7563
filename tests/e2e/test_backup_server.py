# SPDX-License-Identifier: GPL-2.0-only
"""`bigos backup` and `bigos restore` against a Qdrant server on a socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from qdrant_client import models

from bigos.stores import Replacement
from bigos.stores.server import ServerStore
from command_line import Home
from doubles.qdrant_server import Fault, QdrantDouble, error
from store_documents import DIMENSION, FINGERPRINT, assert_holds, document, with_record

ITEMS = [
    document("/a/x.txt", 12, seed=1),
    document("/a/y.c", 3, kind="code", seed=2),
    with_record(document("/a/failed.pdf", 0), status="failed", reason="encrypted", kind=None),
]
LATER = [document("/b/later.txt", 5, seed=3)]


@pytest.fixture
def server() -> Iterator[QdrantDouble]:
    with QdrantDouble(api_key="s3cret-key") as double:
        yield double


@pytest.fixture
def home(tmp_path: Path, server: QdrantDouble) -> Home:
    settings = {
        "BIGOS_STORE": "server",
        "BIGOS_QDRANT_URL": server.url,
        "BIGOS_QDRANT_API_KEY": "s3cret-key",
        "BIGOS_QDRANT_WAIT": "0.3",
    }
    return Home(tmp_path, tmp_path / "no models", settings)


def opened(server: QdrantDouble) -> ServerStore:
    return ServerStore(server.url, "bigos", FINGERPRINT, DIMENSION, wait=1, api_key="s3cret-key")


def fill(server: QdrantDouble, items: list[Replacement]) -> None:
    with closing(opened(server)) as store:
        store.replace(items)


def collections(server: QdrantDouble) -> list[str]:
    return sorted(each.name for each in server.engine.get_collections().collections)


@pytest.fixture
def backup(home: Home, server: QdrantDouble) -> Path:
    fill(server, ITEMS)
    assert home.bigos("backup", home.path / "index.backup").code == 0
    return home.path / "index.backup"


def test_a_backup_brings_back_exactly_what_was_there(home: Home, server: QdrantDouble) -> None:
    fill(server, ITEMS)
    file = home.path / "index.backup"
    ran = home.bigos("backup", file, "--json")
    assert ran.code == 0, ran.stderr
    assert (ran.json["store"], ran.json["documents"], ran.json["chunks"]) == ("server", 2, 15)
    assert server.snapshots == {}  # the server keeps none
    fill(server, LATER)
    with closing(opened(server)) as elsewhere:
        assert len(elsewhere.known()) == 4
        ran = home.bigos("restore", file, "--yes", "--json")
        assert ran.code == 0, ran.stderr
        assert ran.json["replaced"] == {"documents": 3, "chunks": 20}
        assert len(elsewhere.known()) == 3  # a host that had it open goes on
    assert_holds(opened(server), ITEMS)
    assert collections(server) == ["bigos-rebuilt-1"]
    fill(server, LATER)
    assert home.bigos("restore", file, "--yes").code == 0
    assert_holds(opened(server), ITEMS)
    assert collections(server) == ["bigos-rebuilt-2"]


def test_it_is_restored_on_a_server_that_had_nothing(home: Home, server: QdrantDouble, backup: Path) -> None:
    server.engine.delete_collection("bigos")
    ran = home.bigos("restore", backup, "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["replaced"] is None
    assert_holds(opened(server), ITEMS)


def test_what_was_rebuilt_or_restored_before_is_restored_on_a_server_that_had_nothing(
    home: Home, server: QdrantDouble, backup: Path
) -> None:
    # Its snapshot says "complete", as it did when it took the place of another one.
    assert home.bigos("restore", backup, "--yes").code == 0
    again = home.path / "again.backup"
    assert home.bigos("backup", again).code == 0
    server.engine.update_collection_aliases(
        [models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name="bigos"))]
    )
    server.engine.delete_collection("bigos-rebuilt-1")
    ran = home.bigos("restore", again)
    assert ran.code == 0, ran.stderr
    assert_holds(opened(server), ITEMS)
    assert collections(server) == ["bigos-rebuilt-1"]


@pytest.mark.parametrize(
    "fault",
    [
        error(400, "Snapshot is broken", path=r"/snapshots/upload$"),
        Fault(path=r"/snapshots/upload$", reset=True),
        error(500, "no more", path=r"^POST .*rebuilt-1/points/(count|scroll)$", times=None),
        error(500, "no more", path=r"^DELETE /collections/bigos$", times=None),
    ],
)
def test_a_server_that_fails_in_the_middle_keeps_what_was_there(
    home: Home, server: QdrantDouble, backup: Path, fault: Fault
) -> None:
    fill(server, LATER)
    server.faults = [fault]
    ran = home.bigos("restore", backup, "--yes")
    server.faults = []
    assert (ran.code, ran.stdout) == (4, "")
    assert "hint: " in ran.stderr
    assert_holds(opened(server), [*ITEMS, *LATER])
    assert home.bigos("restore", backup, "--yes").code == 0
    assert_holds(opened(server), ITEMS)
    assert len(collections(server)) == 1


def test_a_snapshot_that_does_not_arrive_whole_is_no_backup(home: Home, server: QdrantDouble) -> None:
    fill(server, ITEMS)
    server.faults = [Fault(path=r"^GET .*/snapshots/", reset=True)]
    ran = home.bigos("backup", home.path / "index.backup")
    assert (ran.code, ran.stdout) == (4, "")
    assert "s3cret-key" not in ran.stderr
    assert list(home.path.glob("index*")) == []
    assert server.snapshots == {}


def test_a_snapshot_that_lacks_what_was_counted_is_not_restored(home: Home, server: QdrantDouble, backup: Path) -> None:
    fill(server, LATER)

    def lose() -> None:
        server.engine.delete("bigos-rebuilt-1", [ITEMS[0].record.doc_id])

    server.faults = [Fault(path=r"/snapshots/upload$", then=lose)]
    ran = home.bigos("restore", backup, "--yes")
    assert (ran.code, ran.stdout) == (4, "")
    assert "1 documents and 3 chunks of 2 and 15" in ran.stderr
    assert_holds(opened(server), [*ITEMS, *LATER])
    assert collections(server) == ["bigos"]


def test_a_backup_of_the_other_store_names_the_commands(home: Home, backup: Path) -> None:
    ran = home.bigos("restore", backup, "--yes", BIGOS_STORE="embedded")
    assert (ran.code, ran.stdout) == (2, "")
    assert "BIGOS_STORE=server bigos restore" in ran.stderr
    assert "bigos migrate --to embedded" in ran.stderr


def test_a_collection_that_others_write_to_is_backed_up_when_they_pause(home: Home, server: QdrantDouble) -> None:
    fill(server, ITEMS)
    server.faults = [Fault(path=r"^POST .*/snapshots$", then=lambda: fill(server, LATER))]
    ran = home.bigos("backup", home.path / "index.backup", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["documents"] == 3
    assert home.bigos("restore", home.path / "index.backup", "--yes").code == 0
    assert_holds(opened(server), [*ITEMS, *LATER])

# SPDX-License-Identifier: GPL-2.0-only
"""`bigos doctor --deep [--repair]` on an index that was damaged for real: points written and deleted in the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bigos.stores import Replacement, points
from bigos.stores.embedded import EmbeddedStore
from command_line import Home

NOTES = {
    "dog.txt": "The watchdog is fed every two seconds; when the main loop hangs, the board resets.\n",
    "cat.txt": "A cat sleeps on the warm roof all day long and comes down in the evening to eat.\n",
    # What was let in though it holds a secret stays in when it is repaired.
    "soup.txt": "The soup is too salty because the cook measured it by " + "gh" + "p_" + "aZ3kQ9vB7xLm" * 3 + ".\n",
    "clock.txt": "The clock divider is programmed before the transfer starts, from the parent's rate.\n",
}


@contextmanager
def engine(home: Home) -> Iterator[tuple[EmbeddedStore, Any]]:
    """The store of the home with the engine's shard."""
    (file,) = home.path.rglob("collection.json")
    store = EmbeddedStore(file.parent, None, None)
    with store._using() as shard:
        yield store, shard
    store.close()


@pytest.fixture
def pot(home: Home) -> Path:
    folder = home.path / "pot"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text)
    (folder / "picture.bin").write_bytes(bytes(range(256)))
    assert home.ingest(folder, "--allow-secrets").code == 0
    return folder


def whole(store: EmbeddedStore, name: str) -> Replacement:
    (item,) = [item for item in store.documents(list(store.known())) if item.record.source_path.endswith(f"/{name}")]
    return item


def damage(home: Home) -> None:
    """dog: its chunk is gone; cat: its Record; soup: its vector is not a number; and a chunk of nobody's."""
    from qdrant_edge import Point, UpdateOperation

    with engine(home) as (store, shard):
        dog, cat, soup = (whole(store, f"{name}.txt") for name in ("dog", "cat", "soup"))
        gone = [points.chunk_point_id(dog.record, 0), cat.record.doc_id]
        shard.update(UpdateOperation.delete_points(gone))
        payload = points.chunk_payload(soup.record, soup.chunks[0])
        nan = [float("nan")] * soup.vectors.shape[1]
        bad = Point(points.chunk_point_id(soup.record, 0), {points.VECTOR_NAME: nan}, payload)
        stray = Point(points.chunk_point_id(soup.record, 77), {}, {"point": "chunk", "text": "nobody's"})
        shard.update(UpdateOperation.upsert_points([bad, stray]))
        shard.flush()


def index_checks(ran: Any) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in ran.json["checks"] if check["name"].startswith(("index", "repair"))}


def test_damage_is_named_and_repaired_from_the_sources(home: Home, pot: Path) -> None:
    healthy = home.bigos("doctor", "--deep", "--json")
    assert (healthy.code, list(index_checks(healthy))) == (0, ["index"])
    told = "4 documents and 4 chunks are whole; 1 files are known and not indexed"
    assert index_checks(healthy)["index"]["detail"] == told
    with engine(home) as (store, _):
        before = {item.record.source_path: item for item in store.documents(list(store.known()))}
    damage(home)

    ran = home.bigos("doctor", "--deep", "--json")
    found = index_checks(ran)
    assert ran.code == 4
    assert {name: check["paths"] for name, check in found.items()} == {
        "index: chunks are missing": [str(pot / "dog.txt")],
        "index: chunks without a Record": [str(pot / "cat.txt")],
        "index: vectors are of no use": [str(pot / "soup.txt")],
        "index: chunks that contradict themselves or their Record": [],
    }
    assert {check["fix"] for check in found.values()} == {"bigos doctor --deep --repair"}
    assert found["index: chunks that contradict themselves or their Record"]["detail"] == "1 that name no document"

    repaired = home.bigos("doctor", "--repair", "--json")
    assert repaired.code == 0
    assert list(index_checks(repaired)) == ["repair", "index"]
    assert index_checks(repaired)["index"]["detail"] == told
    assert index_checks(repaired)["repair"]["paths"] == [str(pot / f"{name}.txt") for name in ("cat", "dog", "soup")]
    with engine(home) as (store, _):
        after = {item.record.source_path: item for item in store.documents(list(store.known()))}
        assert len(list(store.points())) == 9
    for path, item in before.items():
        assert after[path].chunks == item.chunks
        if not item.chunks:
            continue
        # The model computes in eight bits, and a little differently in other company.
        assert np.einsum("ij,ij->i", after[path].vectors, item.vectors).min() > 0.98
    assert home.ingest(pot, "--json").json["files"]["unchanged"] == 4


def test_what_has_no_source_any_more_is_named_and_its_strays_go(home: Home, pot: Path) -> None:
    damage(home)
    for name in ("dog.txt", "cat.txt", "soup.txt"):
        (pot / name).unlink()
    ran = home.bigos("doctor", "--deep", "--repair", "--json")
    found = index_checks(ran)
    assert ran.code == 4
    assert found["index: chunks are missing"]["paths"] == [str(pot / "dog.txt")]
    assert found["index: vectors are of no use"]["paths"] == [str(pot / "soup.txt")]
    assert "--forget" in found["index: chunks are missing"]["fix"]
    assert "index: chunks without a Record" not in found  # nothing is left to say what they were
    assert home.ingest("--forget", pot / "dog.txt", pot / "soup.txt").code == 0
    healthy = home.bigos("doctor", "--deep")
    assert healthy.code == 0, healthy.stdout
    assert "1 documents and 1 chunks are whole" in healthy.stdout


def test_without_an_index_there_is_nothing_to_look_at(home: Home) -> None:
    ran = home.bigos("doctor", "--deep", "--json")
    assert ran.code == 0
    assert index_checks(ran)["index"]["state"] == "ok"
    assert not list(home.path.rglob("collections"))

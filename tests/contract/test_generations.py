# SPDX-License-Identifier: GPL-2.0-only
"""The generations of an embedded collection: one rename puts another in place, and what is left over goes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bigos.errors import FingerprintMismatch, StoreError, StoreLocked
from bigos.stores import StoreQuery, collection, generations
from bigos.stores.collection import Collection
from bigos.stores.embedded import EmbeddedStore
from store_documents import DIMENSION, FINGERPRINT, document, memory_directory, unit

OTHER = "other-model/2"
OLD, NEW = document("/a/old.txt"), document("/a/new.txt", dimension=4)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    with memory_directory(tmp_path) as base:
        with closing(store(base / "bigos")) as made:
            made.replace([OLD])
        yield base / "bigos"


def store(directory: Path, fingerprint: str | None = FINGERPRINT, dimension: int | None = DIMENSION) -> EmbeddedStore:
    return EmbeddedStore(directory, fingerprint, dimension, lock_timeout=60)


def build(directory: Path, origin: generations.Origin = "rebuilt") -> str:
    name = generations.following(directory, origin)
    with closing(store(directory / name, OTHER, 4)) as made:
        made.replace([NEW])
    return name


def serve(directory: Path, name: str) -> None:
    with closing(store(directory, None, None)) as old:
        old.serve(Collection(OTHER, 4, data=f"{name}/shard"))


def entries(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir() if entry.is_dir())


def test_what_is_built_beside_serves_nobody_before_its_turn(directory: Path) -> None:
    name = build(directory)
    assert name == "rebuilt-2"
    with closing(store(directory)) as old:
        assert set(old.known()) == {OLD.record.doc_id}
    assert generations.unfinished(directory) == name
    assert entries(directory) == ["rebuilt-2", "shard"]


def test_processes_that_had_the_old_one_open_go_on_with_the_new_one_or_get_a_sentence(directory: Path) -> None:
    with closing(store(directory)) as writer, closing(store(directory, None, None)) as reader:
        assert set(reader.known()) == {OLD.record.doc_id}
        assert len(writer.search(StoreQuery(unit(1), 5))) == 3
        serve(directory, build(directory))
        assert set(reader.known()) == {NEW.record.doc_id}
        with pytest.raises(FingerprintMismatch, match=OTHER) as caught:
            writer.search(StoreQuery(unit(1), 5))
        assert caught.value.fix.startswith("bigos ingest --rebuild, or set")
    assert entries(directory) == ["rebuilt-2"]  # and the old data went when the new ones were open


def test_a_second_turn_supersedes_the_first(directory: Path) -> None:
    serve(directory, build(directory))
    name = build(directory)
    assert name == "rebuilt-3"
    serve(directory, name)
    with closing(store(directory, OTHER, 4)) as new:
        assert set(new.known()) == {NEW.record.doc_id}
    assert entries(directory) == ["rebuilt-3"]


def test_a_restore_that_was_cut_off_goes_and_a_rebuild_stays(directory: Path) -> None:
    rebuilt, restored = build(directory), build(directory, "restored")
    assert (rebuilt, restored) == ("rebuilt-2", "restored-3")
    with generations.replacing(directory), closing(store(directory)) as old:
        assert len(old.known()) == 1
        assert entries(directory) == ["rebuilt-2", "restored-3", "shard"]  # somebody is at work
    with closing(store(directory)) as old:
        assert len(old.known()) == 1
    assert entries(directory) == ["rebuilt-2", "shard"]


def test_one_process_at_a_time_makes_a_generation(directory: Path) -> None:
    with (
        generations.replacing(directory),
        pytest.raises(StoreLocked, match=f"process {os.getpid()}"),
        generations.replacing(directory),
    ):
        pass
    with generations.replacing(directory):
        pass


def test_nobody_comes_in_between_while_the_store_is_exclusive(directory: Path) -> None:
    came: list[str] = []
    with closing(store(directory)) as mine, closing(store(directory)) as other:

        def come() -> None:
            other.known()
            came.append("other")

        with mine.exclusive():
            waiting = threading.Thread(target=come)
            waiting.start()
            for _ in range(5):
                mine.known()
                waiting.join(0.05)
            came.append("mine")
        waiting.join()
    assert came == ["mine", "other"]


@pytest.mark.parametrize("data", ["../elsewhere/shard", "/tmp", "rebuilt-2/../../x", ""])
def test_data_outside_of_the_directory_are_no_data(directory: Path, data: str) -> None:
    collection.write(directory, Collection(FINGERPRINT, DIMENSION, data=data))
    with closing(store(directory)) as damaged, pytest.raises(StoreError, match="damaged"):
        damaged.known()


def test_data_that_are_gone_are_not_made_anew(directory: Path) -> None:
    collection.write(directory, Collection(FINGERPRINT, DIMENSION, data="rebuilt-9/shard"))
    with closing(store(directory)) as damaged, pytest.raises(StoreError, match="rebuilt-9/shard is missing"):
        damaged.replace([OLD])
    assert entries(directory) == ["shard"]  # nothing was deleted

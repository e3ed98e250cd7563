# SPDX-License-Identifier: GPL-2.0-only
"""What only the in-process store has: its directory, steps that a crash can part, damage, its failures' words."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bigos.errors import FingerprintMismatch, StoreError, StoreLocked
from bigos.stores import StoreQuery, Written, collection, faults, interrupted, points
from bigos.stores import shard as shard_module
from bigos.stores.embedded import EmbeddedStore
from bigos.types import Record
from store_documents import DIMENSION, FINGERPRINT, document, unit, with_record


def found(store: EmbeddedStore, limit: int = 100) -> list[str]:
    return sorted(hit.chunk.text for hit in store.search(StoreQuery(unit(1), limit)))


def chunk_points(store: EmbeddedStore) -> int:
    """Chunk points in the engine, hidden ones included."""
    from qdrant_edge import CountRequest, FieldCondition, Filter, MatchValue

    with store._using() as shard:
        assert shard is not None
        only = Filter(must=[FieldCondition("point", match=MatchValue("chunk"))])
        return shard.count(CountRequest(exact=True, filter=only))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_crash_between_the_steps_shows_the_old_or_the_new_version(store: EmbeddedStore, version: str) -> None:
    old, new = document("/a/x.txt", 5, "v1"), document("/a/x.txt", 3, version, text="nowy")
    expected = [sorted(chunk.text for chunk in item.chunks) for item in (old, new)]
    store.replace([old])
    if version == "v2":  # with the same content the chunks have the same ids, and change in one piece
        with store._writing() as shard:
            store._write_chunks(shard, [new])
        store.close()
        assert found(store) == expected[0]
        assert store.stats().chunks == 5
    with store._writing() as shard:
        store._write_chunks(shard, [new])
        shard_module.write_records(shard, [new.record])
    store.close()
    assert found(store) == expected[1]
    assert store.stats().chunks == 3
    assert chunk_points(store) > 3
    assert store.replace([new]).removed > 0
    assert found(store) == expected[1]
    assert chunk_points(store) == 3


def test_what_a_killed_replace_left_over_goes_when_the_store_is_opened_though_no_document_changes(
    store: EmbeddedStore, directory: Path
) -> None:
    # One process wrote the third version while another one, with the second in its hands, was killed.
    current, late, first = document("/a/x.txt", 4, "v3"), document("/a/x.txt", 3, "v2"), document("/a/new.txt", 2)
    store.replace([current, document("/a/y.txt", 5)])
    with store._writing() as shard:
        interrupted.begin(collection.data(directory), [item.record.doc_id for item in (late, first)])
        store._write_chunks(shard, [late, first])
    assert chunk_points(store) == 4 + 5 + 3 + 2
    store.close()
    assert len(found(store)) == chunk_points(store) == 4 + 5
    assert not (directory / interrupted.FILE).exists()
    assert store.replace([late]) == Written(3, 4)


def test_what_could_not_be_cleaned_up_when_the_store_was_opened_is_before_the_next_replace(
    store: EmbeddedStore, directory: Path
) -> None:
    left_over = document("/a/gone.txt", 3)
    store.replace([document("/a/x.txt", 4)])
    with store._writing() as shard:  # and stays open, as when there was no room to delete anything
        interrupted.begin(collection.data(directory), [left_over.record.doc_id])
        store._write_chunks(shard, [left_over])
    store.replace([document("/a/y.txt", 2)])
    assert chunk_points(store) == 4 + 2


def test_nobody_is_kept_from_searching_by_what_cannot_be_cleaned_up(
    store: EmbeddedStore, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from qdrant_edge import Point, UpdateOperation

    left_over = document("/a/x.txt", 1, "v2")
    store.replace([document("/a/x.txt", 4)])
    with store._writing() as shard:
        interrupted.begin(collection.data(directory), [left_over.record.doc_id])
        damaged = {"point": points.CHUNK, "doc_id": left_over.record.doc_id}
        shard.update(UpdateOperation.upsert_points([Point(points.chunk_point_id(left_over.record, 0), {}, damaged)]))
    store.close()
    assert len(found(store)) == 4
    assert "stays for now" in caplog.text


@pytest.mark.parametrize("content", [b"", b"not an id\n", b"\xff\x00", b"6f1a2e0c-4b0e-5d0a"])
def test_a_list_of_interrupted_documents_that_was_cut_short_harms_nothing(
    store: EmbeddedStore, directory: Path, content: bytes
) -> None:
    store.replace([document("/a/x.txt", 4)])
    store.close()
    (directory / interrupted.FILE).write_bytes(content)
    assert len(found(store)) == 4
    assert not (directory / interrupted.FILE).exists()


def test_left_over_chunks_do_not_push_current_ones_out_of_the_first_hits(store: EmbeddedStore) -> None:
    far = document("/a/far.txt", 3, vectors=np.stack([unit(-1, 1), unit(-1, 2), unit(-1, 3)]))
    left_over = document("/a/x.txt", 700, "v2", vectors=np.tile(unit(1), (700, 1)))
    orphan = document("/a/y.txt", 300, vectors=np.tile(unit(1), (300, 1)))
    store.replace([far, document("/a/x.txt", 1, "v1", vectors=unit(-1, 0.1)[None, :])])
    with store._writing() as shard:
        store._write_chunks(shard, [left_over, orphan])
    hits = store.search(StoreQuery(unit(1), 3))
    assert [hit.source_name for hit in hits] == ["far.txt"] * 3
    assert [hit.ranks.dense for hit in hits] == [1, 2, 3]
    assert len(found(store)) == 4
    assert all(store.chunk(hit.chunk_id) is not None for hit in hits)


def assert_stamps_are_the_records(store: EmbeddedStore) -> None:
    assert sorted(store.stamps()) == sorted(points.stamp(record) for record in store.known().values())


def test_all_stamps_come_of_very_many_records_and_none_is_stale(
    store: EmbeddedStore, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_module, "_EXACT_UP_TO_KB", 1)  # so that `compact` makes a segment that is only read
    items = [
        with_record(document(f"/a/{number % 9}/{number}.c", int(number % 50 == 0)), inode=number)
        for number in range(9_000)
    ]
    with store.hold():
        store.replace(items[:3000])
        store.replace(items[3000:])
        assert len(store.stamps()) == 9_000
        assert_stamps_are_the_records(store)
        store.forget(Path("/none"))
        segments = set((directory / "shard" / "segments").iterdir())
        assert store.compact() is None
        assert segments.isdisjoint((directory / "shard" / "segments").iterdir())
        assert_stamps_are_the_records(store)
        store.replace([with_record(item, size=5) for item in items[::7]])
        store.refresh([dataclasses.replace(item.record, mtime_ns=7) for item in items[1::70]])
        store.forget(Path("/a/3"))
        assert_stamps_are_the_records(store)
        assert len(store.stamps()) == len(store.known()) < 9_000
    store.close()
    assert_stamps_are_the_records(store)


def test_records_without_stamps_get_them_when_they_are_written_again(store: EmbeddedStore) -> None:
    from qdrant_edge import UpdateOperation

    items = [document(f"/a/{name}.txt", 2) for name in "xyz"]
    store.replace(items)
    with store._writing() as shard:
        shard.update(UpdateOperation.delete_field_index(points.STAMP))
        shard.update(UpdateOperation.delete_payload([item.record.doc_id for item in items], [points.STAMP]))
        shard.flush()
    store.close()
    x, y, z = (item.record for item in items)
    assert store.stamps() == []
    assert store.records([x.doc_id]) == {x.doc_id: x}
    touched = dataclasses.replace(x, mtime_ns=5)
    store.refresh([touched])
    store.replace([items[1]])
    assert sorted(store.stamps()) == sorted([points.stamp(touched), points.stamp(y)])
    assert store.known() == {touched.doc_id: touched, y.doc_id: y, z.doc_id: z}


def test_twins_are_found_in_a_collection_that_is_older_than_the_index_by_content(store: EmbeddedStore) -> None:
    from qdrant_edge import UpdateOperation

    items = [document(f"/a/{name}.txt", 2, f"hash of {name}") for name in "xyz"]
    store.replace(items)
    hashes = [item.record.content_hash for item in items]
    with store._writing() as shard:
        shard.update(UpdateOperation.delete_field_index("digest"))
        shard.update(UpdateOperation.delete_payload([item.record.doc_id for item in items], ["digest"]))
        shard.flush()
    assert store.twins(hashes).keys() == set(hashes)
    assert store.known() == {item.record.doc_id: item.record for item in items}


def test_what_it_creates_is_for_the_user_alone(store: EmbeddedStore, directory: Path) -> None:
    store.replace([document("/a/x.txt")])
    for made in (directory.parent, directory, directory / "shard"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    for file in ("lock", "wait"):
        assert stat.S_IMODE((directory / file).stat().st_mode) == 0o600
    assert json.loads((directory / "collection.json").read_text())["fingerprint"] == FINGERPRINT
    assert sorted(entry.name for entry in directory.iterdir()) == ["collection.json", "lock", "shard", "wait"]


def test_whoever_reads_every_record_lets_others_in_between_two_pages(
    store: EmbeddedStore, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "PAGE", 2)
    documents = {item.record.doc_id: item.record for item in (document(f"/a/{n}.txt", 1) for n in range(5))}
    store.replace([document(record.source_path, 1) for record in documents.values()])
    other = EmbeddedStore(directory, FINGERPRINT, DIMENSION, lock_timeout=30)
    seen = []

    def look(payload: points.Payload, real: Callable[..., Record] = points.record_from_payload) -> Record:
        seen.append(other.stats().documents)
        return real(payload)

    with monkeypatch.context() as patch:
        patch.setattr(points, "record_from_payload", look)
        assert store.known() == documents
    assert seen == [5] * 5
    assert store.records(list(documents)) == documents
    other.close()


def test_a_damaged_record_is_damage_to_whoever_reads_it(store: EmbeddedStore) -> None:
    from qdrant_edge import Point, UpdateOperation

    store.replace([document("/a/x.txt", 1)])
    with store._writing() as shard:
        damaged = {"point": points.RECORD, "path_tree": ["/"]}
        shard.update(UpdateOperation.upsert_points([Point(document("/a/y.txt").record.doc_id, {}, damaged)]))
    for read in (store.known, store.stats):
        with pytest.raises(StoreError, match="damaged"):
            read()


def test_a_directory_moved_away_is_no_longer_answered_from(store: EmbeddedStore, directory: Path) -> None:
    store.replace([document("/a/x.txt")])
    directory.rename(directory.with_name("old"))
    assert found(store) == []
    store.replace([document("/a/y.txt", 1)])
    assert len(found(store)) == 1
    moved = EmbeddedStore(directory.with_name("old"), FINGERPRINT, DIMENSION)
    assert len(found(moved)) == 3
    moved.close()


def test_several_reads_are_one_turn_that_nobody_comes_between(store: EmbeddedStore, directory: Path) -> None:
    store.replace([document("/a/x.txt")])
    other = EmbeddedStore(directory, FINGERPRINT, DIMENSION, lock_timeout=0.2)
    with store.turn():
        assert len(found(store)) == 3
        with pytest.raises(StoreLocked):
            other.known()
        assert len(store.known()) == 1
    assert len(other.known()) == 1  # and then it is let go at once
    other.close()
    assert len(found(store)) == 3


def test_an_interrupted_creation_is_begun_again(store: EmbeddedStore, directory: Path) -> None:
    (directory / "shard.new").mkdir(parents=True)
    (directory / "shard.new" / "edge_config.json").write_text("{")
    (directory / "collection.json").write_text('{"fingerprint": "other", "dimension": 3, "schema": 1}')
    assert found(store) == []  # nothing was ever stored in it: no mismatch
    store.replace([document("/a/x.txt")])
    assert len(found(store)) == 3


DAMAGES = ["collection.json", "collection gone", "segment.json", "*id_tracker.mappings", "wal", "segments gone"]


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_store_is_named_and_left_alone(store: EmbeddedStore, directory: Path, what: str) -> None:
    store.replace([document("/a/x.txt")])
    store.close()
    if what == "collection gone":
        (directory / "collection.json").unlink()
    elif what == "segments gone":
        shutil.rmtree(directory / "shard" / "segments")
    else:
        (victim,) = {
            "collection.json": [directory / "collection.json"],
            "wal": sorted((directory / "shard" / "wal").glob("open-*"))[:1],
        }.get(what) or list((directory / "shard").rglob(what))
        with victim.open("r+b") as stream:
            stream.write(b"\xff" * 64)

    # The engine folds its own journals into their tables when it loads, before it comes to what is damaged.
    def files() -> list[Path]:
        return sorted(path for path in directory.rglob("*") if path.is_file() and "_journal" not in path.name)

    before = files()
    for action in (store.known, lambda: store.replace([document("/a/y.txt")]), lambda: store.forget(Path("/a"))):
        with pytest.raises(StoreError, match=r"damaged.*nothing was deleted") as caught:
            action()
        assert not isinstance(caught.value, (StoreLocked, FingerprintMismatch))
        assert f"mv {directory} " in caught.value.fix
    assert files() == before


def test_another_schema_is_refused(store: EmbeddedStore, directory: Path) -> None:
    store.replace([document("/a/x.txt")])
    store.close()
    file = directory / "collection.json"
    file.write_text(file.read_text().replace(f'"schema": {points.SCHEMA_VERSION}', '"schema": 99'))
    with pytest.raises(FingerprintMismatch, match="schema 99"):
        store.stats()


def test_a_shard_that_a_foreign_program_has_open_is_busy_not_damaged(store: EmbeddedStore, directory: Path) -> None:
    from qdrant_edge import EdgeShard

    store.replace([document("/a/x.txt")])
    store.close()
    foreign = EdgeShard.load(str(directory / "shard"))
    with pytest.raises(StoreLocked):
        store.known()
    foreign.close()
    assert len(found(store)) == 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("Failed to save structure on disk with error: No space left on device (os error 28) at path", "no room"),
        ("IO Error: File too large (os error 27)", "no room"),
        ("Service runtime error: Permission denied (os error 13)", "permission denied"),
        ("failed to open WAL x: Can't init WAL: Kind(WouldBlock)", "in a program"),
        ("failed to build thread pool: Resource temporarily unavailable (os error 11)", "no more threads"),
        ("can't start new thread", "no more threads"),
        ("Too many open files (os error 24)", "more open files"),
        ("Cannot allocate memory (os error 12)", "not enough memory"),
        ("Unable to allocate 1.2 GiB for an array with shape (800000, 384)", "not enough memory"),
        ("[Errno 20] Not a directory: '/x/collections'", "a file stands where a folder should be"),
        ("Corrupted ID tracker mapping storage", "damaged"),
    ],
)
def test_what_the_engine_says_becomes_one_sentence_with_a_cure(words: str, sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence) as caught, faults.translated(Path("/x")):
        raise Exception(words)  # what qdrant-edge raises for everything
    assert caught.value.fix
    assert "\n" not in caught.value.message


def test_no_memory_in_our_own_code_is_not_taken_for_damage() -> None:
    with pytest.raises(StoreError, match="not enough memory"), faults.translated(Path("/x")):
        raise MemoryError


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="a C library without malloc_trim")
def test_a_closed_store_gives_back_the_memory_that_was_freed(tmp_path: Path) -> None:
    # In a process of its own, where the C library keeps 200 MB because of the last block, which is still in use.
    code = (
        "import sys, pathlib\n"
        "from bigos.stores.embedded import EmbeddedStore\n"
        "blocks = [bytes(1000) for _ in range(200_000)]; last = blocks[-1]; del blocks\n"
        "def used(): return int(pathlib.Path('/proc/self/statm').read_text().split()[1])\n"
        "store = EmbeddedStore(pathlib.Path(sys.argv[1]), None, None)\n"
        "before = used()\n"
        "with store.exclusive(): pass\n"
        "store.close(); print(before - used())"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert int(done.stdout) * os.sysconf("SC_PAGE_SIZE") > 100_000_000


def test_importing_the_store_does_not_load_the_engine() -> None:
    code = "import sys, bigos.stores.embedded as e; print('qdrant_edge' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

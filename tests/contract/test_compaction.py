# SPDX-License-Identifier: GPL-2.0-only
"""Promise 8, in the embedded store's files: after `forget` and `compact` no byte of the text is in any of them."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bigos.stores.embedded import EmbeddedStore
from processes import python_environment
from store_documents import DIMENSION, FINGERPRINT, document, texts_in

LETTERS = [chr(number) for number in range(0x4E00, 0x9FA0)]
WORKER = Path(__file__).parents[1] / "store_worker.py"


def phrase() -> str:
    """Random, and no letter twice: nothing of it repeats, so the engine's compression leaves it as it is.

    `test_every_text_that_is_stored_can_be_seen_in_the_files` proves that.
    """
    return "".join(random.SystemRandom().sample(LETTERS, 12))


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def holders(directory: Path, word: str) -> list[str]:
    """The files that have the word in them, as UTF-8 or as JSON may spell it."""
    spellings = (word.encode(), json.dumps(word).strip('"').encode())
    return sorted(name for name, data in contents(directory).items() if any(each in data for each in spellings))


def fill(store: EmbeddedStore, count: int = 30) -> list[str]:
    """Documents that stay; their texts."""
    items = [document(f"/stays/{number}.txt", 10, seed=number, text=phrase()) for number in range(count)]
    store.replace(items)
    return sorted(chunk.text for item in items for chunk in item.chunks)


def test_every_text_that_is_stored_can_be_seen_in_the_files(store: EmbeddedStore, directory: Path) -> None:
    words = [phrase() for _ in range(40)]
    store.replace([document(f"/a/{number}.txt", 1, seed=number, text=word) for number, word in enumerate(words)])
    files = contents(directory)
    for word in words:
        found = [name for name, data in files.items() if word.encode() in data]
        assert any("payload_storage" in name for name in found), found
        assert any("/wal/" in name for name in found), found


@pytest.mark.parametrize("closed", [False, True])
def test_no_byte_of_a_forgotten_text_stays_in_the_files(store: EmbeddedStore, directory: Path, closed: bool) -> None:
    word, older = phrase(), phrase()
    store.replace([document("/secret/diary.txt", 7, "v1", text=older)])
    kept = fill(store)
    store.replace([document("/secret/diary.txt", 7, "v2", text=word)])
    if closed:
        store.close()
    assert store.forget(Path("/secret")).documents == 1
    assert texts_in(store) == kept
    assert holders(directory, word)  # what `compact` is for
    assert store.compact() is None
    for needle in (word, older, "diary.txt"):
        assert holders(directory, needle) == []
    assert texts_in(store) == kept
    store.close()
    assert texts_in(store) == kept
    assert sorted(path.name for path in directory.iterdir()) == ["collection.json", "lock", "shard", "wait"]


def test_everything_can_be_forgotten_and_written_again(store: EmbeddedStore, directory: Path) -> None:
    word = phrase()
    for _ in range(3):
        store.replace([document(f"/a/{number}.txt", 5, seed=number, text=word) for number in range(5)])
        store.forget(Path("/"))
        assert store.compact() is None
        assert holders(directory, word) == []
        assert (texts_in(store), store.known()) == ([], {})
    kept = fill(store)
    store.close()
    assert texts_in(store) == kept


def test_the_log_does_not_grow_with_every_forget(store: EmbeddedStore, directory: Path) -> None:
    fill(store)
    sizes = []
    for number in range(4):
        store.replace([document("/a/x.txt", seed=number)])
        store.forget(Path("/a"))
        store.compact()
        sizes.append(sum(path.stat().st_size for path in (directory / "shard" / "wal").glob("*-[0-9]*")))
    assert len(set(sizes[1:])) == 1


def test_without_a_forget_nothing_is_rewritten(store: EmbeddedStore, directory: Path) -> None:
    assert store.compact() is None
    assert not directory.exists()
    fill(store)
    before = sorted(path.name for path in (directory / "shard" / "segments").iterdir())
    store.remove([document("/stays/1.txt").record.doc_id])
    assert store.compact() is None
    assert sorted(path.name for path in (directory / "shard" / "segments").iterdir()) == before


def test_a_large_index_is_rewritten_on_demand_and_says_so(store: EmbeddedStore, directory: Path) -> None:
    word = phrase()
    store.replace([document("/a/x.txt", text=word)])
    kept = fill(store)
    store.forget(Path("/a"))
    remains = store.compact(at_once=10)
    assert remains is not None
    assert str(directory) in remains.message
    assert remains.fix == "bigos doctor --deep --repair"
    assert holders(directory, word)
    store.close()
    other = EmbeddedStore(directory, None, None)
    assert other.compact(at_once=None) is None  # remembered, by whoever comes next
    other.close()
    assert holders(directory, word) == []
    assert texts_in(store) == kept


def test_where_a_second_copy_does_not_fit_it_is_said_what_remains(
    store: EmbeddedStore, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.replace([document("/a/x.txt")])
    store.forget(Path("/a"))
    with monkeypatch.context() as disk:
        disk.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 10**8))  # type: ignore[attr-defined]
        remains = store.compact()
    assert remains is not None
    assert remains.fix.startswith("free ")
    assert "bigos doctor --deep --repair" in remains.fix
    assert store.compact() is None


def test_a_kill_in_the_middle_loses_nothing_and_the_next_one_finishes(directory: Path) -> None:
    random.seed(11)
    finished = interrupted = 0
    with_store = EmbeddedStore(directory, FINGERPRINT, DIMENSION, lock_timeout=60)
    kept = fill(with_store)
    for kill in range(5):
        word = phrase()
        with_store.replace([document("/secret/diary.txt", 5, text=word)])
        with_store.close()
        process = subprocess.Popen(
            [sys.executable, WORKER, "forget", directory, "/secret"],
            stdout=subprocess.PIPE,
            text=True,
            env=python_environment(),
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begin\n"
            # From the first deletion to the last file: a rewrite of so few points takes some 0.4 s.
            time.sleep(random.uniform(0, 0.15 * kill))
            process.send_signal(signal.SIGKILL)
            done = "compacted\n" in process.stdout
        finished, interrupted = finished + done, interrupted + (not done)
        found = texts_in(with_store)
        left = [text for text in found if text not in kept]
        assert sorted(set(found) - set(left)) == sorted(set(kept))
        assert len(left) in (0, 5)  # all of it or nothing
        with_store.forget(Path("/secret"))
        assert with_store.compact() is None
        assert holders(directory, word) == []
        assert texts_in(with_store) == kept
    with_store.close()
    assert interrupted

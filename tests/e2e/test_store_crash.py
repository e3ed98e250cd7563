# SPDX-License-Identifier: GPL-2.0-only
"""Promise 4: whatever happens to a process or a disk, every document is there in its old or its new version, whole."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bigos.errors import StoreError, StoreLocked
from bigos.stores import StoreQuery, points
from bigos.stores.embedded import EmbeddedStore
from processes import PATIENCE, python_environment
from store_documents import DIMENSION, FINGERPRINT, document, memory_directory, unit
from store_worker import NAMES, version_of

WORKER = Path(__file__).parents[1] / "store_worker.py"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    with memory_directory(tmp_path) as memory:
        yield memory / "bigos"


@contextmanager
def opened(directory: Path, timeout: float = PATIENCE) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(directory, FINGERPRINT, DIMENSION, lock_timeout=timeout)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def worker(action: str, directory: Path, argument: object = "") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, WORKER, action, directory, str(argument)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=python_environment(),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def numbers(store: EmbeddedStore) -> set[int]:
    """The version numbers that are there; each document must be whole in search, by position and in its Record."""
    seen: set[int] = set()
    hits = store.search(StoreQuery(unit(1), 10_000))
    for record in store.known().values():
        number = int(record.content_hash[1:])
        expected = version_of(record.source_path, number)
        assert record == expected.record
        assert [stored.chunk for stored in store.chunks(record.doc_id)] == list(expected.chunks)
        of_one = sorted(hit.chunk.index for hit in hits if hit.source_path == record.source_path)
        assert of_one == list(range(record.chunk_count))
        seen.add(number)
    assert sorted(store.stamps()) == sorted(points.stamp(record) for record in store.known().values())
    return seen


def engine_points(store: EmbeddedStore) -> int:
    from qdrant_edge import CountRequest

    with store._using() as shard:
        assert shard is not None
        return shard.count(CountRequest(exact=True))


def test_a_kill_at_any_moment_leaves_every_document_old_or_new_and_whole(directory: Path) -> None:
    random.seed(7)
    begun, present, acknowledged = 0, set[int](), False
    for kill in range(12):
        with worker("ingest", directory, begun) as process:
            assert say(process) == ["begin", str(begun)]
            # The first kills hit the creation; the others wait for so many lines, so that a slow machine gets on too.
            said = [say(process) for _ in range(0 if kill < 3 else random.choice([0, 1, 2, 3]))]
            time.sleep(random.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            said += [line.split() for line in process.stdout]
        begun = max([begun, *(int(number) for word, number in said if word == "begin")])
        done = [int(number) for word, number in said if word == "done"]
        acknowledged = acknowledged or bool(done)
        with opened(directory) as store:
            # Acknowledged is kept; what was under way may have come through, a document at a time.
            before, present = present, numbers(store)
            assert present <= ({done[-1]} if done else before) | {begun}
            assert len(store.known()) == len(NAMES) or not acknowledged
        begun += 1
    assert acknowledged
    with opened(directory) as store:
        store.replace([version_of(name, begun) for name in NAMES])
        assert numbers(store) == {begun}
        assert engine_points(store) == store.stats().chunks + len(NAMES)  # nothing left over


def test_two_processes_at_once_get_along(directory: Path, record_property: pytest.FixtureRequest) -> None:
    with opened(directory) as store:
        store.replace([version_of(name, 0) for name in NAMES[:-1]])
    with (
        worker("ingest_for", directory, 4) as writer,
        worker("search_for", directory, 4) as reader,
        worker("search_for", directory, 4) as second,
    ):
        outputs = [process.communicate(timeout=PATIENCE) for process in (writer, reader, second)]
    assert [error for _, error in outputs] == ["", "", ""]
    rounds = int(outputs[0][0])
    for output, _ in outputs[1:]:
        searches, median, worst = output.split()
        print(f"{rounds} ingest rounds; {searches} searches, median {float(median):.3f} s, worst {float(worst):.3f} s")
        assert int(searches) >= 5
        assert float(worst) < 60
    assert rounds >= 1


def test_a_killed_holder_blocks_nobody(directory: Path) -> None:
    with opened(directory) as store:
        store.replace([document("/a/x.txt")])
    with worker("hold", directory) as process:
        assert say(process) == ["open"]
        process.kill()
        process.wait()
        with opened(directory) as store:
            assert len(store.known()) == 1


def test_a_stopped_holder_is_named_in_time_and_comes_back(directory: Path) -> None:
    with opened(directory) as store:
        store.replace([document("/a/x.txt")])
    with worker("hold", directory) as process:
        assert say(process) == ["open"]
        process.send_signal(signal.SIGSTOP)
        with opened(directory, timeout=0.5) as store:
            begun = time.monotonic()
            with pytest.raises(StoreLocked, match=rf"process {process.pid} \(store_worker\.py\)"):
                store.known()
            assert time.monotonic() - begun < 60
        process.send_signal(signal.SIGCONT)
        with opened(directory) as store:
            assert len(store.known()) == 1


def test_a_forked_child_does_not_keep_the_store(directory: Path) -> None:
    with opened(directory) as store:
        store.replace([document("/a/x.txt")])
    with worker("fork", directory) as process:
        word, child, known = say(process)
        try:
            assert (word, known) == ("forked", "1")
            with opened(directory) as store:
                assert len(store.known()) == 1
        finally:
            os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("largest_file", [4 << 10, 256 << 10])
def test_a_file_that_may_not_grow_is_one_sentence_and_the_old_data_stay(directory: Path, largest_file: int) -> None:
    item = document("/a/x.txt")
    with opened(directory) as store:
        store.replace([item])
    with worker("starve", directory, largest_file) as process:
        output, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert error == ""
    assert "StoreError there is no room on the disk" in output
    done = max([int(line.split()[1]) for line in output.splitlines() if line.startswith("done")], default=None)
    with opened(directory) as store:
        texts = [hit.chunk.text for hit in store.search(StoreQuery(unit(1), 10, paths=(Path("/a"),)))]
        assert sorted(texts) == sorted(chunk.text for chunk in item.chunks)
        store.forget(Path("/a"))
        assert numbers(store) <= ({done, done + 1} if done is not None else {0})
        store.replace([item])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_full_disk_is_noticed_before_anything_is_written(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        old, new = document("/a/x.txt", 3, "v1"), document("/a/x.txt", 3, "v2")
        with opened(disk / "bigos") as store:
            store.replace([old])
            filler = disk / "filler"
            with filler.open("wb") as stream:
                os.posix_fallocate(stream.fileno(), 0, shutil.disk_usage(disk).free - (100 << 20))
            with pytest.raises(StoreError, match="no room"):
                store.replace([new])
            assert [hit.content_hash for hit in store.search(StoreQuery(unit(1), 10))] == ["v1"] * 3
            filler.unlink()
            store.replace([new])
            assert [hit.content_hash for hit in store.search(StoreQuery(unit(1), 10))] == ["v2"] * 3
    finally:
        subprocess.run(["umount", disk], check=True)

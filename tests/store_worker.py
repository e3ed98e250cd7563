# SPDX-License-Identifier: GPL-2.0-only
"""A process that uses a store, for tests that kill, stop or starve it: store_worker.py ACTION DIRECTORY ARGUMENT."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bigos.errors import StoreError
from bigos.stores import Replacement, StoreQuery
from bigos.stores.embedded import EmbeddedStore
from store_documents import DIMENSION, FINGERPRINT, document, unit

NAMES = [f"/pot/{name}.txt" for name in "abcde"] + ["/pot/long.txt"]


def version_of(name: str, number: int) -> Replacement:
    """Document `name` in version `number`: each version has another number of chunks; one is several writes long."""
    size = 1100 + number % 3 * 400 if name.endswith("long.txt") else (number * 7 + NAMES.index(name)) % 13 + 1
    return document(name, size, f"v{number}", text=name, seed=number)


def say(*words: object) -> None:
    print(*words, flush=True)


def ingest(store: EmbeddedStore, first: str) -> None:
    """Replace all documents for ever, telling when a version begins and when it is acknowledged."""
    number = int(first)
    while True:
        say("begin", number)
        store.replace([version_of(name, number) for name in NAMES])
        say("done", number)
        number += 1


def ingest_for(store: EmbeddedStore, seconds: str) -> None:
    """Replace the documents, each alone, for some seconds, and once at least."""
    end, number = time.monotonic() + float(seconds), 0
    while number < 1 or time.monotonic() < end:
        for name in NAMES[:-1]:
            store.replace([version_of(name, number)])
        number += 1
    say(number)


def search_for(store: EmbeddedStore, seconds: str) -> None:
    """Search in a loop for some seconds, and five times at least; a mixture of versions is an error."""
    end, took = time.monotonic() + float(seconds), []
    while len(took) < 5 or time.monotonic() < end:
        begun = time.monotonic()
        hits = store.search(StoreQuery(unit(1), 500))
        took.append(time.monotonic() - begun)
        for name in {hit.source_path for hit in hits}:
            of_one = [hit for hit in hits if hit.source_path == name]
            whole = version_of(name, int(of_one[0].content_hash[1:]))
            assert sorted(hit.chunk.text for hit in of_one) == sorted(chunk.text for chunk in whole.chunks)
        time.sleep(0.01)
    say(len(took), statistics.median(took), max(took))


def hold(store: EmbeddedStore, _: str) -> None:
    """Open the store, then do nothing."""
    store.known()
    say("open")
    time.sleep(600)


def starve(store: EmbeddedStore, largest_file: str) -> None:
    """Write until a file may not grow any further."""
    limit = int(largest_file)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        for number in range(1000):
            store.replace([version_of(name, number) for name in NAMES])
            say("done", number)
    except StoreError as error:
        say("StoreError", error.message)


def forget(store: EmbeddedStore, path: str) -> None:
    """Forget, then have the files rewritten."""
    store.known()  # the engine is loaded
    say("begin")
    store.forget(Path(path))
    say("forgotten")
    store.compact()
    say("compacted")


def fork(store: EmbeddedStore, _: str) -> None:
    """Fork with the store open; parent and child both go on."""
    store.known()
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    before = len(store.known())
    store.close()
    say("forked", child, before)
    time.sleep(600)


ACTIONS: dict[str, Callable[[EmbeddedStore, str], None]] = {
    action.__name__: action for action in (ingest, ingest_for, search_for, hold, starve, forget, fork)
}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](EmbeddedStore(Path(sys.argv[2]), FINGERPRINT, DIMENSION, lock_timeout=300), sys.argv[3])

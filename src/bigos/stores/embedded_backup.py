# SPDX-License-Identifier: GPL-2.0-only
"""An embedded collection as files of a backup, and back: copied while nobody has it open, checked before it serves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from bigos.errors import StoreError
from bigos.stores import collection, faults, generations
from bigos.stores.collection import FIRST, Collection
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.generations import disk_bytes


@contextmanager
def files_at_rest(store: EmbeddedStore, directory: Path) -> Iterator[Path]:
    """Where the engine's files are, closed: nobody changes them inside, and whoever wants the store waits."""
    with store.closed():
        there = collection.read(directory)
        if there is None:
            raise faults.damaged(directory, f"{collection.FILE} is missing")
        yield directory / there.data


@contextmanager
def restoring(directory: Path) -> Iterator[Path]:
    """A folder for the engine's files of a backup, beside the collection in `directory`; gone again if not taken over.

    Raises StoreLocked when another process rebuilds or restores.
    """
    with generations.replacing(directory):
        folder = directory / generations.following(directory, "restored")
        try:
            with faults.translated(directory):
                collection.make_directory(folder / FIRST)
            yield folder / FIRST
        finally:
            if generations.serving(directory) != folder.name:
                shutil.rmtree(folder, ignore_errors=True)


def require_room(directory: Path, needed: int, reserve: int = faults.WRITE_RESERVE) -> None:
    """Raises StoreError when the disk cannot take `needed` bytes and the `reserve` that an engine wants beside them."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < needed + reserve:
        raise StoreError(
            f"{faults.size_text(needed + reserve)} are needed in {there}, {faults.size_text(free)} are free.",
            fix=f"free that much (df -h {there}), then run the same command again",
        )


def size(directory: Path) -> int:
    """Bytes on the disk of the collection that serves."""
    there = collection.read(directory)
    return 0 if there is None else disk_bytes(directory / there.data)


def verify(data: Path, made_with: Collection, documents: int, chunks: int) -> None:
    """Whether the files that were put into `data` open and hold so many indexed documents and chunks.

    Raises StoreError, FingerprintMismatch for a schema that is not ours to read. What serves is as it was.
    """
    folder = data.parent
    with faults.translated(folder):
        collection.write(folder, replace(made_with, data=FIRST))
    with closing(EmbeddedStore(folder, None, None, lock_timeout=5)) as store:
        stats = store.stats()
    if (stats.documents, stats.chunks) != (documents, chunks):
        raise StoreError(
            f"the backup says {documents} documents and {chunks} chunks, {stats.documents} documents and "
            f"{stats.chunks} chunks are in it; the index is as it was.",
            fix="use another backup",
        )
    with faults.translated(folder):
        sync_tree(data)


def take_over(store: EmbeddedStore, directory: Path, data: Path, made_with: Collection) -> None:
    """The verified files serve from now on. `store` is the collection's, opened without a fingerprint.

    Raises StoreError, with what was there before in place.
    """
    with closing(EmbeddedStore(data.parent, None, None)) as restored:
        stats = restored.stats()
    generation = replace(made_with, data=f"{data.parent.name}/{FIRST}")
    generations.put_in_place(store, directory, generation, stats.documents, stats.chunks)


def sync_tree(folder: Path) -> None:
    """Have every file and folder below on the disk. Raises OSError."""
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(Path(path) / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        collection.sync_directory(Path(path))

# SPDX-License-Identifier: GPL-2.0-only
"""An embedded collection's successor: the next generation beside it (generations.py)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from bigos.errors import StoreError
from bigos.stores import Unfinished, collection, faults, generations
from bigos.stores.collection import FIRST, Collection
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.generations import disk_bytes

PROGRESS = "progress.json"
"""How far a rebuild is, beside its data: for whoever asks, without the store being taken from who fills it."""


class EmbeddedSuccessor:
    """See `Successor`. Made by `embedded_successor`."""

    def __init__(self, directory: Path, name: str, made_with: Collection, lock_timeout: float) -> None:
        self._directory = directory
        self._name = name
        self._made_with = made_with
        self.resumed = (directory / name).exists()
        self.old = EmbeddedStore(directory, None, None, lock_timeout)
        self.new = EmbeddedStore(directory / name, made_with.fingerprint, made_with.dimension, lock_timeout)

    def require_room(self) -> None:
        """See `Successor.require_room`: it takes what the old one does, more where the vectors are longer."""
        there = collection.read(self._directory)
        if there is None:
            return
        chunks = self.old.stats().chunks
        longer = max(0, self._made_with.dimension - there.dimension) * 4 * chunks
        whole = disk_bytes(self._directory / there.data)
        needed = max(0, whole + longer - disk_bytes(self._directory / self._name)) + faults.WRITE_RESERVE
        free = shutil.disk_usage(self._directory).free
        if free < needed:
            raise StoreError(
                f"a new index beside the old one needs {faults.size_text(needed)} in {self._directory}, "
                f"{faults.size_text(free)} are free.",
                fix=f"free {faults.size_text(needed - free + 10**6)} (df -h {self._directory}), "
                "then run the same command again",
            )

    def tell(self, documents: int, known: int) -> None:
        """See `Successor.tell`."""
        self.new.make()
        told = {
            "documents": documents,
            "known": known,
            "heard_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "process": os.getpid(),
        }
        file = self._directory / self._name / PROGRESS
        with contextlib.suppress(OSError):
            beside = file.with_name(f"{PROGRESS}.new")
            beside.write_text(json.dumps(told), encoding="utf-8")
            beside.replace(file)

    def undisturbed(self) -> AbstractContextManager[None]:
        """See `Successor.undisturbed`: whoever wants the old one waits."""
        return self.old.exclusive()

    def take_over(self) -> None:
        """See `Successor.take_over`."""
        self.new.make()
        expected = self.new.stats()
        self.new.close()
        with contextlib.suppress(OSError):  # it is nobody's business any more
            (self._directory / self._name / PROGRESS).unlink()
        generation = Collection(self._made_with.fingerprint, self._made_with.dimension, data=f"{self._name}/{FIRST}")
        generations.put_in_place(self.old, self._directory, generation, expected.documents, expected.chunks)

    def close(self) -> None:
        """See `Successor.close`."""
        self.new.close()
        self.old.close()


@contextmanager
def embedded_successor(
    directory: Path, fingerprint: str, dimension: int, lock_timeout: float
) -> Iterator[EmbeddedSuccessor]:
    """The successor of the collection in `directory`, which exists: the one that was begun, or the next.

    What was begun for another fingerprint is thrown away.

    Raises StoreLocked when another process is at it.
    """
    made_with = Collection(fingerprint, dimension)
    with generations.replacing(directory):
        name = generations.unfinished(directory)
        if name is not None and not _goes_on(directory / name, made_with):
            with faults.translated(directory):
                shutil.rmtree(directory / name)
            name = None
        successor = EmbeddedSuccessor(
            directory, name or generations.following(directory, "rebuilt"), made_with, lock_timeout
        )
        try:
            yield successor
        finally:
            successor.close()


def _goes_on(unfinished: Path, made_with: Collection) -> bool:
    try:
        return collection.read(unfinished) in (None, made_with)
    except StoreError:
        return False


def under_way(directory: Path) -> Unfinished | None:
    """The successor that has not taken over yet, whether it is being made or was stopped. Opens no store."""
    name = generations.unfinished(directory)
    if name is None:
        return None
    try:
        made_with = collection.read(directory / name)
    except StoreError:
        made_with = None
    fingerprint = None if made_with is None else made_with.fingerprint
    at_work = generations.replacing_process(directory)
    place = str(directory / name)
    try:
        told = json.loads((directory / name / PROGRESS).read_text(encoding="utf-8"))
        documents, known, process = int(told["documents"]), int(told["known"]), int(told["process"])
        heard_at = str(told["heard_at"])
    except (OSError, ValueError, KeyError, TypeError):
        return Unfinished(place, fingerprint, running=at_work is not None, process=at_work)
    running = at_work == process  # else it is a restore that is at work
    return Unfinished(place, fingerprint, documents, known, heard_at, running, process if running else None)


def forget_in_unfinished(directory: Path, paths: Sequence[Path], lock_timeout: float) -> None:
    """Forget files and folders in a rebuild that was stopped, or goes on: it has their text as well.

    Raises what the store does.
    """
    name = generations.unfinished(directory)
    if name is None:
        return
    with closing(EmbeddedStore(directory / name, None, None, lock_timeout)) as store:
        for path in paths:
            store.forget(path)
        store.compact()

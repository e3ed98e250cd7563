# SPDX-License-Identifier: GPL-2.0-only
"""The generations of an embedded collection's data: one serves, another may be in the making beside it.

    <directory>/collection.json     names the one that serves; no name is the first, `shard`
    <directory>/shard/              the first
    <directory>/rebuilt-2/          a collection of its own (collection.json, shard/, lock), as are all later ones
    <directory>/restored-3/
    <directory>/replacing           held by the process that makes one

Another one takes the place of the one that serves when collection.json is replaced, which is one rename: there is no
moment at which a crash leaves neither or half of one. Numbers only rise. So whatever has a lower number than the one
that serves was superseded, and a `rebuilt-` with a higher one is a rebuild that was stopped and goes on some day; all
the rest is what a crash left over, and goes as soon as nobody is at work.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bigos.errors import StoreError, StoreLocked
from bigos.stores import collection, faults
from bigos.stores.collection import FIRST, Collection
from bigos.stores.lease import sign, try_lock

if TYPE_CHECKING:
    from bigos.stores.embedded import EmbeddedStore

Origin = Literal["rebuilt", "restored"]
REPLACING = "replacing"
A_LOOK = 0.5
"""Seconds for which somebody who only asks who has the right may seem to have it."""

_log = logging.getLogger(__name__)


@contextmanager
def replacing(directory: Path, patience: float = A_LOOK) -> Iterator[None]:
    """The right to make the next generation: of one process at a time, and the kernel takes it back when that dies.

    Makes `directory`. Raises StoreLocked when another process has it for longer than `patience` seconds, StoreError
    when it cannot be asked for.
    """
    with faults.translated(directory):
        collection.make_directory(directory)
        path = directory / REPLACING
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        give_up = time.monotonic() + patience
        while not try_lock(fd):
            if time.monotonic() < give_up:
                time.sleep(0.01)
                continue
            pid = _signed(path)
            who = f"process {pid}" if pid is not None else "another process"
            raise StoreLocked(
                f"the index in {directory} is being rebuilt or restored by {who}.",
                fix=f"try again when {who} has finished, or stop it",
            )
        sign(fd)
        yield
    finally:
        os.close(fd)


def replacing_process(directory: Path) -> int | None:
    """The process that has `replacing` now; None when none has, or it cannot be looked at."""
    path = directory / REPLACING
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return None if try_lock(fd, fcntl.LOCK_SH) else _signed(path)
    except OSError:
        return None
    finally:
        os.close(fd)


def _signed(path: Path) -> int | None:
    """The process that has signed a lock file."""
    try:
        pid = path.read_text(encoding="utf-8", errors="replace").partition(" ")[0]
    except OSError:
        return None
    return int(pid) if pid.isdecimal() else None


def following(directory: Path, origin: Origin) -> str:
    """The name that the next generation gets; there is nothing of that name. Call it inside `replacing`."""
    numbers = [number for _, number in _there(directory).values()]
    return f"{origin}-{max([1, *numbers]) + 1}"


def unfinished(directory: Path) -> str | None:
    """The name of the rebuild that was stopped, if there is one."""
    serving = serving_number(directory)
    found = {number: name for name, (origin, number) in _there(directory).items() if origin == "rebuilt"}
    newest = max(found, default=0)
    return found[newest] if newest > serving else None


def serving_number(directory: Path) -> int:
    """The number of the generation that serves; 1 is the first, also when there is none yet or it cannot be read."""
    name = serving(directory)
    return 1 if name is None else int(name.rpartition("-")[2])


def serving(directory: Path) -> str | None:
    """The name of the generation that serves; None for the first, and where there is none that can be read."""
    try:
        there = collection.read(directory)
    except StoreError:
        return None
    return None if there is None or there.data == FIRST else there.data.partition("/")[0]


def sweep(directory: Path) -> None:
    """Remove what was superseded or left over, unless a process is at work on the next generation.

    Called by whoever has the store open and has seen that the one which serves can be read.
    """
    if not _left_over(directory):
        return
    try:
        with replacing(directory, patience=0):
            remove_left_over(directory)
    except (StoreError, OSError) as error:  # another time, then
        _log.debug("%s is not swept now: %s", directory, error)


def remove_left_over(directory: Path) -> None:
    """As `sweep`, for who has `replacing`."""
    for path in _left_over(directory):
        _log.info("removing %s, which another generation has superseded", path)
        shutil.rmtree(path)


def put_in_place(store: EmbeddedStore, directory: Path, generation: Collection, documents: int, chunks: int) -> None:
    """Let `generation` serve, if it opens and holds so many indexed documents and chunks; then what was before goes.

    Call it inside `replacing`. `store` is the collection's, opened without a fingerprint.

    Raises StoreError, with what was there before in place.
    """
    with store.exclusive():
        before = (directory / collection.FILE).read_bytes() if (directory / collection.FILE).exists() else None
        store.serve(generation)
        try:
            stats = store.stats()
            if (stats.documents, stats.chunks) != (documents, chunks):
                raise faults.damaged(
                    directory / generation.data,
                    f"{stats.documents} documents and {stats.chunks} chunks of {documents} and {chunks}",
                )
        except BaseException:
            with store.closed():
                collection.write_back(directory, before)
            raise
        with faults.translated(directory):
            remove_left_over(directory)


def _left_over(directory: Path) -> list[Path]:
    there = _there(directory)
    if not there:
        return []
    current, serving, going_on = collection.read(directory), serving_number(directory), unfinished(directory)
    if current is None:  # nothing serves: a first restore that was stopped
        return [directory / name for name, (origin, _) in there.items() if origin == "restored"]
    old = [directory / name for name, (_, number) in there.items() if number != serving and name != going_on]
    if current.data != FIRST:
        old += [path for path in (directory / FIRST, directory / f"{FIRST}.new") if path.exists()]
    return old


def _there(directory: Path) -> dict[str, tuple[str, int]]:
    """Later generations by name: where they come from, and their number."""
    found: dict[str, tuple[str, int]] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if name := re.fullmatch(r"(rebuilt|restored)-(\d{1,9})", entry.name):
                found[entry.name] = (name[1], int(name[2]))
    return found


def disk_bytes(directory: Path) -> int:
    """What a directory takes on the disk: the store's files are sparse, so not the sum of their sizes."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_blocks * 512
            except OSError:
                continue  # gone since: the engine tidies up while we look
    return total

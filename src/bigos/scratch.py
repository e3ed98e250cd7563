# SPDX-License-Identifier: GPL-2.0-only
"""Temporary folders that go when their work is done, and, after a kill, when the next run begins.

Each is locked as long as it is used. The kernel gives the lock back whatever ends the process, so a folder whose lock
is free belongs to nobody. Nothing is made before it is needed: most files need no temporary ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "bigos-"
_BEING_MADE = 60.0  # seconds in which a new folder may still be without its lock
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def temporary_folder(base: Path | None) -> Iterator[Path]:
    """A new folder below `base` (None: the system's), for the user alone. Raises OSError when it cannot be made."""
    if base is not None:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_left_over(base: Path) -> None:
    """Remove the folders below `base` of processes that were killed."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            try:
                lock = _lock(folder)
            except BlockingIOError:
                continue  # it is at work
            try:
                if folder.stat().st_mtime < _now_in(base) - _BEING_MADE or any(folder.iterdir()):
                    shutil.rmtree(folder)
                    _log.info("removed temporary files of a run that was killed: %s", folder)
            finally:
                os.close(lock)


def _lock(folder: Path) -> int:
    """A descriptor that holds the folder's lock. Raises BlockingIOError when another has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _now_in(folder: Path) -> float:
    """The time as the folder's file system tells it, which may be another machine's."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime

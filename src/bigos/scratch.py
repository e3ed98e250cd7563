# SPDX-License-Identifier: GPL-2.0-only
"""A run's folder for temporary files: gone when the run ends, and, after a kill, when the next one begins.

Each run has a folder of its own with a lock file in it, held as long as the run lives. The kernel gives the lock back
whatever ends the process, so a folder whose lock is free belongs to nobody.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "run-"
_LOCK = "lock"
_log = logging.getLogger(__name__)


@contextmanager
def run_folder(base: Path) -> Iterator[Path]:
    """A new folder below `base`, for the user alone; what earlier runs left there is removed first.

    Where none can be made it is `base` itself: most files need no temporary ones, and those that do say what is wrong.
    """
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_left_over(base)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        _log.info("no folder for temporary files in %s: %s", base, error.strerror)
        yield base
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_left_over(base: Path) -> None:
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _owner_lives(folder):
                continue
            shutil.rmtree(folder)
            _log.info("removed temporary files of a run that was killed: %s", folder)


def _owner_lives(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        # Being made right now, or being removed: whoever does it is at it, unless it is long ago.
        return folder.stat().st_mtime > _now_of(folder.parent) - 60
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _now_of(folder: Path) -> float:
    """The time as the folder's file system tells it, which may be another machine's."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime

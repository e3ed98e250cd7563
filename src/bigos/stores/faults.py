# SPDX-License-Identifier: GPL-2.0-only
"""What the in-process engine says when it fails -> one sentence and what cures it.

qdrant-edge raises plain `Exception` with a text for everything; the texts below are its own (0.9) and the operating
system's. A busy store is never taken for a damaged one, and a damaged one is never touched.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bigos.errors import BigosError, StoreError, StoreLocked

# The engine writes through memory maps of sparse files: on a full disk the kernel answers that with SIGBUS, which
# ends the process without a word (seen on ext4 and tmpfs). So we look before we write, and leave this much: the engine
# lays out its write-ahead log, payload pages and vector chunks in pieces of 32 MB.
WRITE_RESERVE = 256 << 20
DELETE_RESERVE = 64 << 20
_WRITE_FACTOR = 3  # log, segment and index copies of what we hand over

_FULL = re.compile(r"os error (28|27|122)\b|No space left|File too large|Disk quota exceeded|\(StorageFull\)", re.I)
_DENIED = re.compile(r"os error (1|13|30)\b|Permission denied|Read-only file system", re.I)
_BUSY = re.compile(r"WouldBlock|os error 11\b|Resource temporarily unavailable", re.I)
_THREADS = re.compile(r"thread.*(?:os error 11\b|temporarily unavailable)|can't start new thread", re.I | re.S)
_FILES = re.compile(r"os error (23|24)\b|Too many open files", re.I)
_NO_FOLDER = re.compile(r"Errno (17|20)\b|os error 20\b|Not a directory", re.I)
_MEMORY = re.compile(r"os error 12\b|Cannot allocate memory|Unable to allocate|out of memory|MemoryError", re.I)


@contextmanager
def translated(directory: Path) -> Iterator[None]:
    """Let no exception of the engine or of the file system out but as a StoreError about `directory`.

    Our own errors and ValueError (a caller's bad vector, refused before anything was written) pass.
    """
    try:
        yield
    except (BigosError, ValueError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # BaseException, because a panic of the engine arrives as one (pyo3's PanicException).
        raise store_error(str(error) or type(error).__name__, directory) from error  # a MemoryError has no text


def store_error(text: str, directory: Path) -> StoreError:  # noqa: PLR0911 - one return a cause
    """The engine's words as one of our sentences."""
    if _FULL.search(text):
        return _disk_full(directory)
    if _THREADS.search(text):  # the same "os error 11" as a lock that is taken
        return StoreError(
            f"the store in {directory} cannot be opened: the system allows no more threads.",
            fix="end some programs; ps -eo nlwp,pid,args --sort=-nlwp | head names those with most threads",
        )
    if _BUSY.search(text):
        return StoreLocked(
            f"the store in {directory} is open in a program that does not take part in Bigos's locking.",
            fix=f"close that program: fuser -v {directory}/*",
        )
    if _DENIED.search(text):
        return StoreError(
            f"the store in {directory} cannot be read and written: permission denied.",
            fix=f"chown -R $USER {directory} && chmod -R u+rwX {directory}",
        )
    if _NO_FOLDER.search(text):
        return StoreError(
            f"the store cannot be in {directory}: a file stands where a folder should be.", fix="correct data_dir"
        )
    if _FILES.search(text):
        return StoreError(
            f"the store in {directory} needs more open files than this session may have.", fix="ulimit -n 8192"
        )
    if _MEMORY.search(text):
        return StoreError(f"there is not enough memory to open the store in {directory}.", fix="free some memory")
    return damaged(directory, text)


def damaged(directory: Path, text: str) -> StoreError:
    """The store is there but cannot be read. It is left as it is."""
    first_line = " ".join(text.split())[:300]
    return StoreError(
        f"the store in {directory} is damaged or not of this version ({first_line}); nothing was deleted.",
        fix=f"mv {directory} {directory}.damaged, then ingest again",
    )


def require_room(directory: Path, payload_bytes: int, reserve: int = WRITE_RESERVE) -> None:
    """Raises StoreError when the disk could not take `payload_bytes` more, before anything was written."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    if shutil.disk_usage(there).free < reserve + _WRITE_FACTOR * payload_bytes:
        raise _disk_full(directory)


def size_text(size: int) -> str:
    """Bytes for a reader; what is a little too little must not read as enough."""
    return f"{size / 1e9:,.1f} GB" if size >= 10 * 10**9 else f"{size / 1e6:,.0f} MB"


def _disk_full(directory: Path) -> StoreError:
    return StoreError(
        f"there is no room on the disk for the store in {directory}; what was acknowledged before is kept.",
        fix=f"free at least {WRITE_RESERVE >> 20} MB (df -h {directory}), then run the same command again",
    )

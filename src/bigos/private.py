# SPDX-License-Identifier: GPL-2.0-only
"""What Bigos writes is for its user alone: an index holds the text of every document, also of those that are 0600."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from bigos.config import Config

_OTHERS = 0o077
_KEPT = frozenset(("collections", "calibrations", "ocr", "scratch"))
"""Folders that hold what was read. Qdrant's is its container's affair, and models are no secret."""
_KNOWN = _KEPT | {"qdrant", "models", "calibration", "lexicon"}
_REPORTS = ("crash-", "inbox-failed", ".inbox-failed", "last-ingest-")


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Whatever is made meanwhile, by engines, workers and their programs too, is for the user alone.

    The umask is the only thing that all of them heed. It belongs to the process, so this is for its first line.
    """
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def close_to_others(config: Config) -> None:
    """Take from others what an earlier version, or a folder made by hand, has left open. A look when nothing is."""
    for top in (config.data_dir, config.cache_dir, config.state_dir):
        with contextlib.suppress(OSError):  # it is not there, or not ours
            if _is_open(top) and (top.name == "bigos" or _is_ours(top)):
                top.chmod(0o700)
                for name in _KEPT & set(os.listdir(top)):  # noqa: PTH208 - the names alone
                    _close(top / name)


def _is_open(folder: Path) -> bool:
    """Whether others may look into a folder of this user. Raises OSError when it cannot be looked at."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and bool(status.st_mode & _OTHERS)


def _is_ours(folder: Path) -> bool:
    """Whether there is nothing in it but ours: a setting may name any folder, the home itself for one."""
    names = os.listdir(folder)  # noqa: PTH208 - the names alone
    return bool(names) and all(name in _KNOWN or name.startswith(_REPORTS) for name in names)


def _close(folder: Path) -> None:
    if folder.is_symlink():
        return
    folder.chmod(0o700)
    for above, folders, files in os.walk(folder):
        for name, mode in (*((name, 0o700) for name in folders), *((name, 0o600) for name in files)):
            path = Path(above, name)
            with contextlib.suppress(OSError):  # gone since, or not ours
                if not path.is_symlink():
                    path.chmod(mode)

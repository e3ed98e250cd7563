# SPDX-License-Identifier: GPL-2.0-only
"""Which files of a folder have stopped changing: a copy or a download under way is not a document yet.

There is no event for "whole": a copy closes its file once, a download over a bad line many times, and a network drive
tells nothing. So the folder is looked at again and again; a file is taken when some seconds went by without a change.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bigos.pruning import PRUNED_DIRECTORIES

SETTLE_SECONDS = 2.0
"""Seconds without a change after which a file is taken for whole."""
PARTIAL_NAMES = (
    "*.part", "*.partial", "*.crdownload", "*.download", "*.opdownload", "*.filepart", "*.aria2", "*.!ut",
    "*~", ".~lock.*#", "~$*", "~WR*.tmp", ".#*", "#*#", ".*.sw[opx]", "*.kate-swp", "4913", ".goutputstream-*",
    "~syncthing~*.tmp", ".syncthing.*.tmp", ".nfs????*", ".fuse_hidden*",
)  # fmt: skip
"""Names, as globs, of what programs rename or remove when they are done: downloads, locks, backups and swap files."""
_PARTIAL = re.compile("|".join(map(fnmatch.translate, PARTIAL_NAMES)))
_LEAST_PAUSE = 0.25
_LOOK_SHARE = 10
"""A look may take a tenth of the time between looks: half a second's walk through 100,000 files every five."""


class Stamp(NamedTuple):
    """What changes when a file does. ctime cannot be set, so a copy that sets its mtime is seen too."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


Look = Mapping[str, Stamp]
"""The regular files below a folder that may become documents, by absolute path."""


def is_partial(name: str) -> bool:
    """Whether a file of that name is somebody's work in progress."""
    return _PARTIAL.match(name) is not None


def look(folder: Path, entered: set[int] | None = None) -> dict[str, Stamp] | None:
    """Every file below `folder` by path, without partial ones and what no ingest enters; None when it is not there.

    `entered` gets the inode of each folder below it whose names were read.
    """
    found: dict[str, Stamp] = {}
    waiting = [os.fspath(folder)]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as entries:
                if entered is not None and directory != os.fspath(folder):
                    # Not the entry's inode: something else may be mounted there.
                    entered.add(os.stat(directory).st_ino)  # noqa: PTH116
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in PRUNED_DIRECTORIES:
                            waiting.append(entry.path)
                    elif entry.is_file(follow_symlinks=False) and not is_partial(entry.name):
                        _note(entry, found)
        except OSError:
            # The folder itself has to be there. One below it that cannot be read is for the ingest to tell.
            if directory == os.fspath(folder):
                return None
    return found


def _note(entry: os.DirEntry[str], found: dict[str, Stamp]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return  # gone since it was listed
    if stat.S_ISREG(status.st_mode):
        found[entry.path] = Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True, slots=True)
class Settled:
    """A folder as it was when there was something to take."""

    seen: Look
    moving: frozenset[str]
    """Files that were still changing, or had just appeared: to be left alone for now."""

    @property
    def still(self) -> Look:
        """The files that may be taken."""
        return {path: stamp for path, stamp in self.seen.items() if path not in self.moving}

    def exclude(self, folder: Path) -> tuple[str, ...]:
        """What an ingest of the folder has to leave out, as globs."""
        root = os.fspath(folder).rstrip("/") + "/"
        return (*PARTIAL_NAMES, *(glob.escape(path.removeprefix(root)) for path in sorted(self.moving)))


class Settling:
    """A folder under observation.

    Args:
        folder: absolute.
        seconds: how long nothing may have changed.
        clock, pause: the time, and how to let some of it pass; a test has its own.
    """

    def __init__(
        self,
        folder: Path,
        seconds: float = SETTLE_SECONDS,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._seconds = seconds
        self._clock = clock
        self._pause = pause
        self._seen: dict[str, Stamp] = {}
        self._since: dict[str, float] = {}
        self._last_change = clock()
        self.entered: frozenset[int] = frozenset()
        """Inodes of the folders that the last look went through, below the folder itself."""

    def look(self) -> Settled | None:
        """The folder now, with what has changed less than `seconds` ago; None when it is not there."""
        entered: set[int] = set()
        seen = look(self._folder, entered)
        if seen is None:
            return None
        self.entered = frozenset(entered)
        now = self._clock()
        if seen.keys() != self._seen.keys():
            self._last_change = now  # files that went away, too: an editor may be about to put the new one there
        for path, stamp in seen.items():
            if self._seen.get(path) != stamp:
                self._since[path] = self._last_change = now
        for path in self._since.keys() - seen.keys():
            del self._since[path]
        self._seen = seen
        return Settled(seen, frozenset(path for path, since in self._since.items() if now - since < self._seconds))

    def wait(
        self,
        taken: Look | None = None,
        *,
        patience: float = 30.0,
        longest: float = 600.0,
        stop: Callable[[], bool] = lambda: False,
    ) -> Settled | None:
        """Wait until there is something to take: the whole folder is still, or has files that are.

        Args:
            taken: what a pass has taken already; None before the first.
            patience: seconds after which what is still is taken though the rest is not.
            longest: seconds after which files that go on changing are given up, `moving` then names them.

        Returns: None when the folder is not there, or `stop` says so. What is `still` may be what was `taken`.
        """
        began = self._clock()
        while not stop():
            started = self._clock()
            found = self.look()
            if found is None:
                return None
            now = self._clock()
            if now - self._last_change >= self._seconds or now - began >= longest:
                return found
            if now - began >= patience and found.still != (taken or {}):
                return found
            self._pause(max(_LEAST_PAUSE, min(self._seconds / 4, 1.0), _LOOK_SHARE * (now - started)))
        return None

# SPDX-License-Identifier: GPL-2.0-only
"""A folder that is watched: what there is to take from it, and which of its files have really been deleted.

Notices of the file system only say when to look. What happened follows from two looks, so a notice that was lost, came
twice or came in another order changes nothing.
"""

from __future__ import annotations

import glob
import os
import stat
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bigos.inbox import MARKER
from bigos.settling import PARTIAL_NAMES, Look, Settling, Stamp

PATIENCE = 3.0
"""Settle times after which what is still is taken, though other files go on changing."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a pass has to do. `still` are the files as they were seen; `missing` are no longer there.

    `place` is where the folder is, without links. `compare` is set when it is not known what the index has of it: at
    the start, and when the folder, or a disk in it, was away.
    """

    place: Path
    still: Look
    missing: tuple[str, ...]
    exclude: tuple[str, ...]
    compare: bool


@dataclass(frozen=True, slots=True)
class Deletions:
    """Of the missing files: those that were deleted, as few paths as cover them; and how many only seem to be."""

    real: tuple[Path, ...]
    unsure: int


class _Identity(NamedTuple):
    """A directory: where it is, without links, and which one."""

    place: str
    device: int
    inode: int


class WatchedFolder:
    """One root under observation.

    Args:
        root: absolute; need not be there. Where it is a link, what it leads to is watched, and another folder as soon
            as it leads there.
        settle: seconds without a change after which a file is taken.
        apart: folders that are none of its business though they may lie in it, such as the index itself.
        clock: the time; a test has its own.
    """

    def __init__(
        self, root: Path, settle: float, *, apart: Sequence[Path] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.root = root
        self.saw_deletions = False
        """Whether the file system has told of something deleted since the last look; whoever gets notices sets it."""
        self._settle = settle
        self._clock = clock
        self._all_apart = tuple(apart)
        self._identity: _Identity | None = None
        self._begin(None)

    def _begin(self, identity: _Identity | None) -> None:
        """Nothing is known of what the index has: the next pass compares all of it."""
        self._identity = identity
        self.place = Path(identity.place) if identity else self.root
        """Where the root is, without links: the index knows its files by that."""
        apart = map(os.path.realpath, self._all_apart)
        self._apart = tuple(f"{path}/" for path in apart if self.place in Path(path).parents)
        self._settling = Settling(self.place, self._settle, clock=self._clock)
        self._taken: dict[str, Stamp] | None = None
        self._doubted: set[str] = set()  # folders of files that only seemed to be deleted
        self._deletion_told = False
        self._devices: dict[str, int] = {}
        self._seen: dict[str, Stamp] = {}
        self._moving: frozenset[str] = frozenset()
        self._missing_since: dict[str, float] = {}
        self._due_since: float | None = None
        self._has_news = False
        self._is_back = False

    @property
    def there(self) -> bool:
        """Whether the last look found it."""
        return self._identity is not None

    @property
    def entered(self) -> Collection[int]:
        """Inodes of the folders below it that the last look went through."""
        return self._settling.entered

    @property
    def restless(self) -> bool:
        """Whether time alone brings about something to do, without any further change."""
        return self.there and (self._taken is None or self._has_news or bool(self._moving or self._missing_since))

    def is_same(self) -> bool:
        """Whether the root still is the directory of the last look (or is still away)."""
        return _identity(self.root) == self._identity

    def look(self) -> None:
        """See what is there now. A root that is away or another directory makes no file look deleted."""
        now = _identity(self.root)
        if now != self._identity:
            self._begin(now)
        if now is None:
            return
        # What is told from here on may be of what this look does not see yet: it is for the one after it.
        self._deletion_told |= self.saw_deletions
        self.saw_deletions = False
        found = self._settling.look()
        if found is None or _identity(self.root) != now:  # went away while we looked: half of it may be missing
            self._begin(None)
            return
        self._seen = {path: stamp for path, stamp in found.seen.items() if not path.startswith(self._apart)}
        self._moving = found.moving & self._seen.keys()
        taken, at = self._taken or {}, self._clock()
        gone = taken.keys() - self._seen.keys()
        self._missing_since = {path: self._missing_since.get(path, at) for path in gone}
        news = [path for path, stamp in self._seen.items() if taken.get(path) != stamp and path not in self._moving]
        self._has_news = bool(news)
        self._is_back = not self._doubted.isdisjoint(map(os.path.dirname, news))

    def work(self) -> Work | None:
        """What is to be done now; None while there is nothing, or it has not settled."""
        if not self.there:
            return None
        now = self._clock()
        gone = tuple(path for path, since in self._missing_since.items() if now - since >= self._settle)
        if self._taken is None or gone or self._has_news:
            self._due_since = now if self._due_since is None else self._due_since
        else:
            self._due_since = None
            return None
        unsettled = self._moving or len(gone) < len(self._missing_since)
        if unsettled and now - self._due_since < PATIENCE * self._settle:
            return None
        still = {path: stamp for path, stamp in self._seen.items() if path not in self._moving}
        start = os.fspath(self.place).rstrip("/") + "/"
        barred = [*sorted(self._moving), *(folder.rstrip("/") for folder in self._apart)]
        exclude = (*PARTIAL_NAMES, *(glob.escape(path.removeprefix(start)) for path in barred))
        return Work(self.place, still, gone, exclude, compare=self._taken is None or self._is_back)

    def deletions(self, work: Work) -> Deletions:
        """Which of the missing files were deleted, looked at once more.

        Not the ones of a folder that is away, of a disk below it that is no longer mounted, of a directory that cannot
        be read, or of a folder that is all empty though nothing told of a deletion: a network drive looks so when its
        server has gone. MARKER in it says that it may be empty.
        """
        if not work.missing:
            return Deletions((), 0)
        marked = (self.place / MARKER).exists()
        if not self.is_same() or not (self._seen or marked or self._deletion_told or self.saw_deletions):
            tops: list[str | None] = [None] * len(work.missing)
        else:
            tops = [self._deleted_top(path) for path in work.missing]
        in_doubt = (path for path, top in zip(work.missing, tops, strict=True) if top is None)
        self._doubted.update(map(os.path.dirname, in_doubt))
        real = sorted({top for top in tops if top is not None})
        return Deletions(tuple(map(Path, real)), tops.count(None))

    def _deleted_top(self, path: str) -> str | None:
        """The uppermost name on the way to a file that is not there any more; None unless it was deleted."""
        top, above = path, os.path.dirname(path)  # noqa: PTH120 - there may be very many
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return None  # not to be reached, which is not gone
        else:
            return None
        try:
            while not os.path.isdir(above):  # noqa: PTH112
                if above == os.fspath(self.place) or os.path.lexists(above):  # a file of that name now
                    return None
                top, above = above, os.path.dirname(above)  # noqa: PTH120
            device = os.stat(above).st_dev  # noqa: PTH116
        except OSError:
            return None
        return top if self._devices.get(os.path.dirname(path)) == device else None  # noqa: PTH120

    def done(self, work: Work) -> None:
        """A pass has taken all of `work`. What only seemed to be deleted is left to the index."""
        before = self._taken or {}
        waiting = self._missing_since.keys() - set(work.missing)
        self._taken = {path: stamp for path, stamp in before.items() if path in self._moving or path in waiting}
        self._taken |= work.still
        self._missing_since = {path: since for path, since in self._missing_since.items() if path in waiting}
        self._due_since = None
        self._has_news = False
        self._deletion_told = False
        if work.compare:
            self._is_back = False
            self._doubted.difference_update(map(os.path.dirname, work.still))
        self._devices = {}
        for folder in {os.path.dirname(path) for path in self._taken}:  # noqa: PTH120
            try:
                self._devices[folder] = os.stat(folder).st_dev  # noqa: PTH116
            except OSError:
                continue  # gone since; its files will then not be taken for deleted


def _identity(root: Path) -> _Identity | None:
    """Which directory is at the root; None when none is."""
    place = os.path.realpath(root)
    try:
        status = os.stat(place)  # noqa: PTH116
    except OSError:
        return None
    return _Identity(place, status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None

# SPDX-License-Identifier: GPL-2.0-only
"""When to look: what the file system tells of changes below some folders, and where it cannot be trusted to tell."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bigos import file_system
from bigos.pruning import PRUNED_DIRECTORIES
from bigos.render import one_line
from bigos.settling import is_partial
from bigos.types import path_text

if TYPE_CHECKING:
    from watchfiles.main import FileChange

TICK_SECONDS = 0.5
"""How long a wait lasts when nothing is told."""
_STEP_MS = 100
_DESCRIPTORS = Path("/proc/self/fdinfo")
_DEBOUNCE_MS = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """What came in: roots below which something changed, and those of them where something was deleted."""

    changed: frozenset[Path] = frozenset()
    deleted: frozenset[Path] = frozenset()


class _Asked:
    """A stop question as watchfiles asks it."""

    def __init__(self, stop: Callable[[], bool]) -> None:
        self.is_set = stop


class Notices:
    """The file system's notices of changes below `roots`. A context manager.

    Args:
        roots: absolute; those that are not there are left out until `renew`.
        stop: asked while waiting.
        warn: gets a sentence when there can be no notices, and what to do about it.
    """

    def __init__(self, roots: Sequence[Path], *, stop: Callable[[], bool], warn: Callable[[str], None]) -> None:
        self._roots = tuple(roots)
        self._asked = _Asked(stop)
        self._warn = warn
        self._past_barred = False
        self._begins = False
        self._disks: list[tuple[str, str]] = []
        self._unheard: set[int] = set()
        self._begun_for: set[int] = set()
        self._lost = False
        """Whether notices were thrown away unread: anything may have been deleted."""
        self._changes: Generator[set[FileChange], None, None] | None = None
        self.covered: frozenset[Path] = frozenset()
        """Roots whose changes are told; the others have to be looked at."""
        self.renew()

    def __enter__(self) -> Notices:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ask for no more notices."""
        if self._changes is not None:
            self._changes.close()
        self._changes = None

    def renew(self) -> None:
        """Begin anew, with the roots that are there now. The next `wait` says that all of them changed."""
        self.close()
        self.covered = frozenset(root for root in self._roots if root.is_dir() and _is_text(root))
        self._begins = True
        self._disks = self._mounted_below()
        if self.covered:
            from watchfiles import watch

            self._changes = watch(
                *self.covered,
                watch_filter=None,
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                stop_event=self._asked,
                rust_timeout=int(TICK_SECONDS * 1000),
                yield_on_timeout=True,
                debug=False,
                force_polling=False,
                recursive=True,
                ignore_permission_denied=self._past_barred,
            )

    def wait(self) -> Told:
        """Wait until something is told, at most TICK_SECONDS. A flood of notices comes as one answer a second."""
        if self._changes is None:
            time.sleep(TICK_SECONDS)
            return Told()
        if self._disks != self._mounted_below():  # a disk that came tells of nothing before it is asked to
            self.renew()
        try:
            changes = next(self._changes, set())
        except PermissionError:
            # A folder that may not be entered. The other way also hides that a limit was reached, so it comes second.
            self._past_barred = True
            self.renew()
            return Told()
        except (OSError, RuntimeError) as error:
            if "decode" in str(error):  # a name that is not UTF-8, which this watcher never gets over
                self.renew()
                self._lost = True
                return Told()
            self._give_up(error)
            return Told()
        if self._begins:
            lost, self._begins, self._lost = self._lost, False, False
            return Told(self.covered, self.covered if lost else frozenset())
        kinds = {path: kind for kind, path in changes if not self._is_noise(path)}
        deleted = [path for path, kind in kinds.items() if kind.raw_str() == "deleted"]
        told = Told(self._roots_of(kinds), self._roots_of(deleted))
        if any(Path(path) in self.covered for path in deleted):  # one of that name may be there again, but unwatched
            self.renew()
        return told

    def hears_all_of(self, root: Path, folders: Collection[int]) -> bool:
        """Whether what happens in these folders of a covered root is told. False: look once more, and ask again.

        A folder that is made later may be one more than the system watches, or its notice got lost in a flood. Nothing
        tells of either, so whoever has looked at the root says what is in it. Of folders that stay left out all is
        begun anew; when that does not help nothing is covered any more.

        Args:
            root: one of the roots.
            folders: inodes of folders below it.
        """
        watched = _watched_inodes() if root in self.covered and not self._begins else None
        if watched is None:
            return True
        missing = set(folders) - watched
        still = missing & self._unheard
        self._unheard = missing
        if still & self._begun_for:
            left_out = f"{len(still):,} folders in {one_line(path_text(root))} are left out"
            self._give_up(OSError("limit reached" if self._past_barred else left_out))
        elif still:
            self._begun_for = still
            self.renew()
        return not missing

    def _give_up(self, error: Exception) -> None:
        self._warn(_no_notices(error))
        self.close()
        self.covered = frozenset()

    def _mounted_below(self) -> list[tuple[str, str]]:
        return [disk for disk in file_system.mounts() if any(_below(disk[0], root) is not None for root in self._roots)]

    def _roots_of(self, paths: Iterable[str]) -> frozenset[Path]:
        found: set[Path] = set()
        for path in paths:
            found.update(root for root in self.covered - found if _below(path, root) is not None)
        return frozenset(found)

    def _is_noise(self, path: str) -> bool:
        """Downloads and swap files at work, and whatever goes on where no ingest enters."""
        below = next((rest for root in self.covered if (rest := _below(path, root)) is not None), "")
        *folders, name = below.split("/")
        return is_partial(name) or not PRUNED_DIRECTORIES.isdisjoint(folders)


def _watched_inodes() -> set[int] | None:
    """Inodes of all that this process watches, as the kernel tells; None where it does not tell."""
    watched: set[int] = set()
    try:
        for file in _DESCRIPTORS.iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since
                for line in file.read_text("ascii").splitlines():
                    if line.startswith("inotify ") and (inode := re.search(r"\bino:([0-9a-f]+)", line)):
                        watched.add(int(inode[1], 16))
    except OSError:
        return None
    return watched


def _no_notices(error: Exception) -> str:
    """Why there are none, and the command that helps; the limits are the usual causes."""
    if "limit reached" in str(error):
        limit, what = "max_user_watches", "there are more folders than the system may watch"
    elif "Too many open files" in str(error):
        limit, what = "max_user_instances", "too many programs watch folders"
    else:
        return f"the system tells of no changes ({error}); the folders are looked at every few seconds instead."
    now = "8192"
    with contextlib.suppress(OSError):
        now = Path("/proc/sys/fs/inotify", limit).read_text().strip()
    more = max(int(now) * 4, 524288 if limit == "max_user_watches" else 512)
    return (
        f"{what} ({limit} is {now}); they are looked at every few seconds instead.\n"
        f"hint: sudo sysctl fs.inotify.{limit}={more}, and start bigos watch again"
    )


def _is_text(path: Path) -> bool:
    """Whether watchfiles can take the path: it knows no names that are not UTF-8."""
    return path_text(path) == os.fspath(path)


def _below(path: str, root: Path) -> str | None:
    """What follows the root in a path; None when it is elsewhere."""
    start = os.fspath(root).rstrip("/")
    if path == start:
        return ""
    return path[len(start) + 1 :] if path.startswith(f"{start}/") else None

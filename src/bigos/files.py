# SPDX-License-Identifier: GPL-2.0-only
"""The walk: which regular files lie under the given roots, as stat sees them. Nothing is opened, nothing is lost.

What is seen and not yielded is told to `on_left_out` with a reason, so that a report can account for every name.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bigos.errors import UsageError
from bigos.types import SourceFile, path_text

_PRUNED = """
    .git .hg .svn .bzr CVS __pycache__ node_modules bower_components .venv venv .tox .nox .mypy_cache .pytest_cache
    .ruff_cache .hypothesis .eggs .ipynb_checkpoints .gradle .terraform .cargo .idea .vs dist build target
"""
PRUNED_DIRECTORIES = frozenset(_PRUNED.split())
"""Directory names that hold history, caches, downloads or built things; never entered, except as a root."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path that was seen and not yielded.

    `reason` is one of: "pruned directory", "excluded", "not included", "not recursive", "link outside root",
    "broken link", "special file", "unreadable directory", "unreadable", "vanished". `detail` says more: the pattern,
    the link's target, the system's words.
    """

    path: Path
    reason: str
    detail: str = ""


def walk(
    roots: Sequence[Path],
    *,
    recursive: bool,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    on_left_out: Callable[[LeftOut], None],
) -> Iterator[SourceFile]:
    """Find the files, in a fixed order: the files of a directory by name, then its subdirectories by name.

    Args:
        roots: files or directories. A root that is a file is yielded whatever the patterns say.
        recursive: whether subdirectories are entered.
        include: globs; when there are any, a file must match one.
        exclude: names or globs of files and directories. Both kinds are matched without regard to depth, against the
            name and against the path relative to the root, where `*` also matches `/`.
        on_left_out: called for what is seen and not yielded.

    Returns:
        An iterator of SourceFile with canonical paths, each file once. Links to files inside a root give their target;
        directory links are not followed (a directory inside the root is walked under its own name).

    Raises:
        UsageError: at once, before anything is yielded, when a root does not exist.
    """
    resolved = [_resolve(root) for root in roots]
    return _Walk(resolved, recursive, include, exclude, on_left_out).files()


def expanded(path: Path) -> Path:
    """`~` and `~name` put in. A name that the system does not know stays as it stands, as a shell leaves it."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for an unknown name


def canonical(path: Path) -> Path:
    """What a user's path names: absolute, without links as far as they lead somewhere, whether or not it exists.

    Not Path.resolve(), which raises RuntimeError for a loop of links. Raises UsageError when it cannot name anything.
    """
    try:
        return Path(os.path.realpath(expanded(path)))
    except ValueError as error:
        raise UsageError("a path cannot hold a NUL character.", fix="give the path without it") from error
    except OSError as error:  # from os.getcwd: realpath itself takes what cannot be reached as it stands
        raise UsageError(
            f"the current folder has been deleted, so {path_text(path)} names nothing.", fix="cd to another folder"
        ) from error


def _resolve(root: Path) -> str:
    absolute = canonical(root)
    try:
        return os.path.realpath(root, strict=True)
    except OSError as error:
        shown = path_text(Path(root))
        look = f"ls -la {shlex.quote(path_text(absolute.parent))}"
        if isinstance(error, FileNotFoundError):
            raise UsageError(f"{shown} does not exist.", fix=look) from error
        raise UsageError(f"{shown} cannot be reached: {error.strerror}.", fix=look) from error


def _pattern(globs: Sequence[str]) -> re.Pattern[str] | None:
    """One pattern for all globs; `**/` may also stand for nothing, and `/` or `/**` at the end is the directory."""
    spellings: list[str] = []
    for glob in globs:
        bare = glob.removeprefix("./").removesuffix("/**").rstrip("/")
        spellings += [bare, bare.replace("/**/", "/").removeprefix("**/")]
    wanted = [fnmatch.translate(glob) for glob in dict.fromkeys(spellings) if glob]
    return re.compile("|".join(wanted)) if wanted else None


class _Walk:
    """One walk over all roots; remembers what it has yielded and entered."""

    def __init__(
        self,
        roots: Sequence[str],
        recursive: bool,
        include: Sequence[str],
        exclude: Sequence[str],
        on_left_out: Callable[[LeftOut], None],
    ) -> None:
        self._roots = roots
        self._recursive = recursive
        self._include = _pattern([glob.removesuffix("**") + "*" if glob.endswith("/**") else glob for glob in include])
        self._exclude = _pattern(exclude)
        self._on_left_out = on_left_out
        self._yielded: set[str] = set()
        self._entered: set[str] = set()
        self._root = ""

    def files(self) -> Iterator[SourceFile]:
        for root in self._roots:
            try:
                status = Path(root).stat()
            except OSError as error:
                self._leave_out(root, "vanished" if isinstance(error, FileNotFoundError) else "unreadable", error)
                continue
            if stat.S_ISDIR(status.st_mode):
                self._root = root
                yield from self._tree(root)
            elif not stat.S_ISREG(status.st_mode):
                self._leave_out(root, "special file", _special(status.st_mode))
            elif root not in self._yielded:
                self._yielded.add(root)
                yield SourceFile(Path(root), status.st_size, status.st_mtime_ns, status.st_ino)

    def _tree(self, root: str) -> Iterator[SourceFile]:
        pending = [root]
        while pending:
            directory = pending.pop()
            if directory in self._entered:
                continue
            self._entered.add(directory)
            subdirectories: list[str] = []
            for entry in self._entries(directory):
                try:
                    if entry.is_symlink():
                        found = self._link(entry)
                    elif entry.is_dir(follow_symlinks=False):
                        if self._enters(entry):
                            subdirectories.append(entry.path)
                        continue
                    else:
                        found = self._file(entry)
                except OSError as error:
                    reason = "vanished" if isinstance(error, FileNotFoundError) else "unreadable"
                    self._leave_out(entry.path, reason, error)
                    continue
                if found is not None:
                    yield found
            pending.extend(reversed(subdirectories))

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        """A directory's entries by name; what could be read of it when reading fails in the middle."""
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(directory) as scan:
                # A loop, not list(): an error on the way must not cost the entries before it.
                entries.extend(scan)
        except FileNotFoundError as error:
            self._leave_out(directory, "vanished", error)
        except OSError as error:
            self._leave_out(directory, "unreadable directory", error)
        entries.sort(key=_name)
        return entries

    def _enters(self, entry: os.DirEntry[str]) -> bool:
        if not self._recursive:
            self._leave_out(entry.path, "not recursive")
        elif entry.name in PRUNED_DIRECTORIES:
            self._leave_out(entry.path, "pruned directory", entry.name)
        elif self._exclude and self._matches(self._exclude, entry.path, entry.name):
            self._leave_out(entry.path, "excluded")
        else:
            return True
        return False

    def _file(self, entry: os.DirEntry[str]) -> SourceFile | None:
        path = entry.path
        if not entry.is_file(follow_symlinks=False):
            self._leave_out(path, "special file", _special(entry.stat(follow_symlinks=False).st_mode))
            return None
        if path in self._yielded or not self._wanted(path, entry.name):
            return None
        status = entry.stat(follow_symlinks=False)
        self._yielded.add(path)
        return SourceFile(Path(path), status.st_size, status.st_mtime_ns, status.st_ino)

    def _wanted(self, path: str, name: str) -> bool:
        if self._exclude and self._matches(self._exclude, path, name):
            self._leave_out(path, "excluded")
            return False
        if self._include and not self._matches(self._include, path, name):
            self._leave_out(path, "not included")
            return False
        return True

    def _link(self, entry: os.DirEntry[str]) -> SourceFile | None:  # noqa: PLR0911 - one return a reason
        """The target of a link to a file inside a root; a link to a directory inside a root needs no following."""
        path = entry.path
        try:
            target = os.path.realpath(path, strict=True)
            status = Path(target).stat()
        except OSError as error:
            self._leave_out(path, "broken link", error)
            return None
        if not any(target == root or target.startswith(root.rstrip("/") + "/") for root in self._roots):
            self._leave_out(path, "link outside root", f"to {path_text(Path(target))}")
            return None
        if stat.S_ISDIR(status.st_mode):
            if not self._recursive:
                self._leave_out(path, "not recursive")
            return None
        if not stat.S_ISREG(status.st_mode):
            self._leave_out(path, "special file", _special(status.st_mode))
            return None
        if target in self._yielded or not self._wanted(path, entry.name):
            return None
        barred = self._barred(target)
        if barred:
            self._leave_out(path, *barred)
            return None
        self._yielded.add(target)
        return SourceFile(Path(target), status.st_size, status.st_mtime_ns, status.st_ino)

    def _barred(self, target: str) -> tuple[str, str] | None:
        """A link must not bring in what the walk would not enter: the target's own directories are looked at too."""
        if not target.startswith(self._root.rstrip("/") + "/"):
            return None  # inside another root, which has its own rules for it
        directory, name = os.path.split(target)
        while len(directory) > len(self._root):
            parent, part = os.path.split(directory)
            if part in PRUNED_DIRECTORIES:
                return "pruned directory", part
            if self._exclude and self._matches(self._exclude, directory, part):
                return "excluded", f"to {path_text(Path(target))}"
            directory = parent
        if self._exclude and self._matches(self._exclude, target, name):
            return "excluded", f"to {path_text(Path(target))}"
        return None

    def _matches(self, pattern: re.Pattern[str], path: str, name: str) -> bool:
        if pattern.match(name):
            return True
        start = len(self._root) + (not self._root.endswith("/"))
        return pattern.match(path, start) is not None

    def _leave_out(self, path: str, reason: str, detail: str | OSError = "") -> None:
        words = detail if isinstance(detail, str) else detail.strerror or type(detail).__name__
        self._on_left_out(LeftOut(Path(path), reason, words))


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _special(mode: int) -> str:
    names = {
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFBLK: "block device",
        stat.S_IFCHR: "character device",
    }
    return names.get(stat.S_IFMT(mode), "not a file")

# SPDX-License-Identifier: GPL-2.0-only
"""The walk: which regular files lie under the given roots, as stat sees them. Nothing is opened, nothing is lost.

What is seen and not yielded is told to `on_left_out` with a reason, so that a report can account for every name. The
only files that are read are ignore files.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from bigos.denied import Denied
from bigos.findings import Found, LeftOut, ReadFolders, source_file, special_kind
from bigos.ignore import SPECIAL_NAMES, IgnoreFiles, Scope
from bigos.own import OwnPlaces
from bigos.paths import canonical, expanded, named, resolved_root
from bigos.pruning import HISTORY, INBOX_MARKER, PRUNED_DIRECTORIES, yocto_evidence
from bigos.types import SourceFile, path_text

__all__ = ["Found", "LeftOut", "canonical", "expanded", "named", "scan", "source_file", "walk"]


def walk(
    roots: Sequence[Path],
    *,
    recursive: bool,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    ignore_files: bool = True,
    denied: Denied | None = None,
    own: Mapping[Path, str] | None = None,
    on_left_out: Callable[[LeftOut], None],
) -> Iterator[SourceFile]:
    """As `scan`, with a SourceFile a file."""
    return (
        source_file(found)
        for found in scan(
            roots,
            recursive=recursive,
            include=include,
            exclude=exclude,
            ignore_files=ignore_files,
            denied=denied,
            own=own,
            on_left_out=on_left_out,
        )
    )


def scan(
    roots: Sequence[Path],
    *,
    recursive: bool,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    ignore_files: bool = True,
    denied: Denied | None = None,
    own: Mapping[Path, str] | None = None,
    on_left_out: Callable[[LeftOut], None],
    read: ReadFolders | None = None,
) -> Generator[Found, None, None]:
    """Find the files, in a fixed order: the files of a directory by name, then its subdirectories by name.

    Args:
        roots: files or directories. A root that is a file is yielded whatever the globs and ignore files say.
        recursive: whether subdirectories are entered.
        include: globs; when there are any, a file must match one.
        exclude: names or globs of files and directories. Both kinds are matched without regard to depth, against the
            name and against the path relative to the root, where `*` also matches `/`.
        ignore_files: whether .gitignore, .git/info/exclude and .bigosignore hold: those in the tree, and those above a
            root up to the top of its repository. A root itself is never ignored.
        denied: names that are never read. They hold for roots too, and for every folder above one.
        own: files and folders that Bigos keeps for itself, with their names; left out wherever they are come upon.
        on_left_out: called for what is seen and not yielded.
        read: gets every folder whose names were all read.

    Returns:
        A generator of Found with canonical paths, each file once. Links to files inside a root give their target;
        directory links are not followed (a directory inside the root is walked under its own name).

    Raises:
        UsageError: at once, before anything is yielded, when a root does not exist, or lies in one of `own`.
    """
    resolved = [resolved_root(root) for root in roots]
    own_places = OwnPlaces(own or {})
    for root in resolved:
        own_places.refuse(root)
    return _Walk(
        resolved,
        recursive=recursive,
        include=include,
        exclude=exclude,
        ignore_files=ignore_files,
        denied=denied,
        own=own_places,
        on_left_out=on_left_out,
        read=read,
    ).files()


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
        *,
        recursive: bool,
        include: Sequence[str],
        exclude: Sequence[str],
        ignore_files: bool,
        denied: Denied | None,
        own: OwnPlaces,
        on_left_out: Callable[[LeftOut], None],
        read: ReadFolders | None,
    ) -> None:
        self._roots = roots
        self._recursive = recursive
        self._include = _pattern([glob.removesuffix("**") + "*" if glob.endswith("/**") else glob for glob in include])
        self._exclude = _pattern(exclude)
        self._ignore_files = ignore_files
        self._denied = denied or Denied(())
        self._own = own
        self._on_left_out = on_left_out
        self._read = read
        self._yielded: set[str] = set()
        self._entered: set[str] = set()
        self._root = ""
        self._ignore: IgnoreFiles | None = None
        self._above = Scope()
        self._linked: dict[str, Scope] = {}
        self._told: set[str] = set()

    def files(self) -> Generator[Found, None, None]:
        for root in self._roots:
            try:
                status = os.stat(root)  # noqa: PTH116 - no Path in the walk: a tree has very many
            except OSError as error:
                self._leave_out(root, "vanished" if isinstance(error, FileNotFoundError) else "unreadable", error)
                continue
            denied = self._denied.pattern_on_the_way(root, is_folder=stat.S_ISDIR(status.st_mode))
            if denied is not None:
                self._leave_out(root, "denied", denied)
            elif stat.S_ISDIR(status.st_mode):
                self._root = root
                self._ignore = IgnoreFiles(root, self._unreadable_rules) if self._ignore_files else None
                self._above = self._ignore.above() if self._ignore else Scope()
                self._linked = {}
                yield from self._tree(root)
            elif not stat.S_ISREG(status.st_mode):
                self._leave_out(root, "special file", special_kind(status.st_mode))
            elif root not in self._yielded:
                self._yielded.add(root)
                yield root, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns

    def _tree(self, root: str) -> Iterator[Found]:
        pending = [(root, self._above)]
        while pending:
            directory, scope = pending.pop()
            if directory in self._entered:
                continue
            self._entered.add(directory)
            try:
                # Relative to its directory a file is looked at in half the time that its whole path takes.
                handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError as error:
                vanished = isinstance(error, FileNotFoundError)
                self._leave_out(directory, "vanished" if vanished else "unreadable directory", error)
                continue
            subdirectories: list[tuple[str, Scope]] = []
            try:
                found = self._directory(directory, handle, scope, subdirectories)
            finally:
                os.close(handle)
            yield from found
            pending.extend(reversed(subdirectories))

    def _directory(
        self, directory: str, handle: int, scope: Scope, subdirectories: list[tuple[str, Scope]]
    ) -> list[Found]:
        """The files of one open directory; puts what is to be entered into `subdirectories`."""
        found: list[Found] = []
        entries = self._entries(directory, handle)
        if self._ignore:
            scope = self._ignore.entered(scope, directory, _special_names(entries))
        start = directory.rstrip("/") + "/"
        rule = scope.rule if scope.files else None
        globs = self._exclude or self._include
        yielded = self._yielded
        suspects = self._suspects(directory, entries)
        for entry in entries:
            if entry.name == INBOX_MARKER:  # ours, as .bigosignore is; there is nothing in it to find
                continue
            path = start + entry.name
            try:
                if suspects and entry.name in suspects and self._refuses(path, entry):
                    continue
                if entry.is_file(follow_symlinks=False):
                    if path in yielded:
                        continue
                    # Most files match no rule, and need no further words.
                    if (globs or (rule and rule(path, entry.name, False))) and not self._wants(path, entry.name, scope):
                        continue
                    status = entry.stat(follow_symlinks=False)
                    yielded.add(path)
                    found.append((path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns))
                elif entry.is_dir(follow_symlinks=False):
                    if self._enters(path, entry.name, scope):
                        subdirectories.append((path, scope))
                else:
                    target = self._other(path, entry, scope)
                    if target is not None:
                        yielded.add(target[0])
                        found.append(target)
            except OSError as error:
                self._leave_out(path, "vanished" if isinstance(error, FileNotFoundError) else "unreadable", error)
        return found

    def _suspects(self, directory: str, entries: Sequence[os.DirEntry[str]]) -> frozenset[str]:
        """Names in a folder that may have to be refused. One look at all of them together: few folders have any."""
        names = [entry.name for entry in entries]
        return frozenset(names) if directory in self._own.parents else self._denied.suspects(names)

    def _refuses(self, path: str, entry: os.DirEntry[str]) -> bool:
        """Whether an entry is never read, whatever else is said of it; tells so."""
        own = self._own.name(path)
        found = own or self._denied.pattern(path, is_folder=entry.is_dir())
        if found:
            self._leave_out(path, "Bigos's own" if own else "denied", found)
        return found is not None

    def _entries(self, directory: str, handle: int) -> list[os.DirEntry[str]]:
        """A directory's entries by name; what could be read of it when reading fails in the middle."""
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(handle) as scan:
                # A loop, not list(): an error on the way must not cost the entries before it.
                entries.extend(scan)
            if self._read is not None:
                status = os.fstat(handle)
                self._read[directory] = status.st_dev, status.st_ino
        except OSError as error:
            self._leave_out(directory, "unreadable directory", error)
        entries.sort(key=attrgetter("name"))
        return entries

    def _enters(self, path: str, name: str, scope: Scope) -> bool:
        if not self._recursive:
            self._leave_out(path, "not recursive")
            return False
        barred = self._bars(path, name, scope, is_folder=True)
        if barred:
            self._leave_out(path, *barred)
        return barred is None

    def _bars(self, path: str, name: str, scope: Scope, *, is_folder: bool) -> tuple[str, str] | None:
        """Why an entry is not for us, and what says so; --include is another matter."""
        rule = scope.rule(path, name, is_folder) if scope.files else None
        if is_folder:
            if name in PRUNED_DIRECTORIES and (rule is None or not rule.negated or name in HISTORY):
                return "pruned directory", name
            built = None if rule and rule.negated else yocto_evidence(path, name)
            if built:
                return "pruned directory", f"{name}: {built}"
        if self._exclude and self._matches(self._exclude, path, name):
            return "excluded", ""
        return None if rule is None or rule.negated else ("ignored", rule.place)

    def _wants(self, path: str, name: str, scope: Scope) -> bool:
        """Whether a file or a link to one is taken by its own name."""
        barred = self._bars(path, name, scope, is_folder=False)
        if barred is None and self._include and not self._matches(self._include, path, name):
            barred = "not included", ""
        if barred:
            self._leave_out(path, *barred)
        return barred is None

    def _other(self, path: str, entry: os.DirEntry[str], scope: Scope) -> Found | None:
        """What a link leads to, when it is for us; nothing of a FIFO or a device."""
        if entry.is_symlink():
            return self._link(path, entry.name, scope)
        self._leave_out(path, "special file", special_kind(entry.stat(follow_symlinks=False).st_mode))
        return None

    def _link(self, path: str, name: str, scope: Scope) -> Found | None:
        """The target of a link to a file inside a root; a link to a directory inside a root needs no following."""
        try:
            target = os.path.realpath(path, strict=True)
            status = os.stat(target)  # noqa: PTH116
        except OSError as error:
            self._leave_out(path, "broken link", error)
            return None
        if not any(target == root or target.startswith(root.rstrip("/") + "/") for root in self._roots):
            self._leave_out(path, "link outside root", f"to {path_text(Path(target))}")
        elif refused := self._refused_target(target, is_folder=stat.S_ISDIR(status.st_mode)):
            self._leave_out(path, *refused)
        elif stat.S_ISDIR(status.st_mode):
            if not self._recursive:
                self._leave_out(path, "not recursive")
        elif not stat.S_ISREG(status.st_mode):
            self._leave_out(path, "special file", special_kind(status.st_mode))
        elif target not in self._yielded and self._wants(path, name, scope):
            barred = self._bars_on_the_way(target)
            if barred is None:
                return target, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns
            self._leave_out(path, *barred)
        return None

    def _refused_target(self, target: str, *, is_folder: bool) -> tuple[str, str] | None:
        """Why a link's target is never read; None when nothing is against it."""
        own = self._own.name(target)
        if own is not None:
            return "Bigos's own", own
        denied = self._denied.pattern_on_the_way(target, is_folder=is_folder)
        return None if denied is None else ("denied", f"{denied}: to {path_text(Path(target))}")

    def _bars_on_the_way(self, target: str) -> tuple[str, str] | None:
        """A link must not bring in what the walk would not enter: the target's own directories are looked at too."""
        start = self._root.rstrip("/") + "/"
        if not target.startswith(start):
            return None  # inside another root, which has its own rules for it
        directory, scope = start.rstrip("/"), self._scope_of_link(start.rstrip("/"), self._above)
        for name in target[len(start) :].split("/"):
            directory = f"{directory}/{name}"
            barred = self._bars(directory, name, scope, is_folder=directory != target)
            if barred:
                reason, detail = barred
                return reason, detail or f"to {path_text(Path(target))}"
            if directory != target:
                scope = self._scope_of_link(directory, scope)
        return None

    def _scope_of_link(self, directory: str, above: Scope) -> Scope:
        """The scope of a directory on the way to a link's target, which the walk may not have come to yet."""
        if not self._ignore:
            return above
        if directory not in self._linked:
            present = {name for name in SPECIAL_NAMES if os.path.lexists(f"{directory}/{name}")}
            self._linked[directory] = self._ignore.entered(above, directory, present)
        return self._linked[directory]

    def _matches(self, pattern: re.Pattern[str], path: str, name: str) -> bool:
        if pattern.match(name):
            return True
        start = len(self._root) + (not self._root.endswith("/"))
        return pattern.match(path, start) is not None

    def _unreadable_rules(self, file: str, words: str) -> None:
        if file not in self._told:
            self._told.add(file)
            self._leave_out(file, "unreadable ignore file", f"its rules do not hold: {words}")

    def _leave_out(self, path: str, reason: str, detail: str | OSError = "") -> None:
        words = detail if isinstance(detail, str) else detail.strerror or type(detail).__name__
        self._on_left_out(LeftOut(Path(path), reason, words))


def _special_names(entries: Sequence[os.DirEntry[str]]) -> set[str]:
    return {entry.name for entry in entries if entry.name in SPECIAL_NAMES}

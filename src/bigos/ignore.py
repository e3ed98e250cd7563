# SPDX-License-Identifier: GPL-2.0-only
"""Ignore files, .gitignore and .bigosignore: which rule, if any, says that an entry of the tree is to be left out.

The rules are git's: the last rule of a file that matches decides, a file further down outranks those above it, and what
lies in an ignored folder cannot be brought back, since nobody looks there. A .bigosignore outranks every .gitignore, at
whatever depth; a repository within another one has its own .gitignore rules only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from pathlib import Path
from re import Pattern

from bigos.types import path_text
from bigos.wildmatch import SPECIAL, Unmatchable, byte_text, name_expression, path_expression

GIT, GIT_RULES, OWN_RULES = ".git", ".gitignore", ".bigosignore"
SPECIAL_NAMES = frozenset((GIT, GIT_RULES, OWN_RULES))
"""Names of a folder's entries that change which rules hold in it."""

MOST_BYTES = 1 << 20  # of one ignore file; the longest in use have some 10 KB


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file. `place` says which, for a report: "drivers/.gitignore:3 *.o"."""

    number: int
    negated: bool
    place: str


class RuleFile:
    """The rules of one ignore file, ready to be asked for thousands of names.

    Args:
        folder: the directory that the rules are relative to.
        shown: the file's name for reports.
        data: its bytes.
    """

    def __init__(self, folder: str, shown: str, data: bytes) -> None:
        self._start = len(folder.rstrip("/")) + 1
        self._of_files, self._of_folders = _Table(), _Table()
        for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            self._add(number, line.removesuffix(b"\r"), shown)

    def __bool__(self) -> bool:
        return bool(self._of_folders)

    def _add(self, number: int, line: bytes, shown: str) -> None:
        text = _without_trailing_spaces(line.partition(b"\0")[0].decode("latin-1"))
        if text.startswith("#"):
            return
        pattern = text.removeprefix("!")
        whole, pattern = pattern, pattern.removesuffix("/")
        if not pattern:
            return
        words = text.encode("latin-1").decode("utf-8", "backslashreplace")
        rule = Rule(number, text.startswith("!"), f"{shown}:{number} {words}")
        with contextlib.suppress(Unmatchable):
            self._of_folders.add(rule, pattern)
            if whole == pattern:
                self._of_files.add(rule, pattern)

    def last_match(self, path: str, name: str, is_folder: bool) -> Rule | None:
        """The last rule that matches an entry below the file's folder. `path` is absolute, `name` its last part."""
        table = self._of_folders if is_folder else self._of_files
        found = table.matching(path, self._start, byte_text(name))
        return max(found, key=_number) if found else None


class _Table:
    """Rules by what they ask of an entry. Most ask for a name or an ending, which is looked up and not tried."""

    def __init__(self) -> None:
        self._names: dict[str, list[Rule]] = {}
        self._extensions: dict[str, list[Rule]] = {}
        self._endings: dict[int, dict[str, list[Rule]]] = {}  # by their length
        self._name_patterns: list[tuple[str, str, Pattern[str], Rule]] = []
        self._paths: dict[str, list[Rule]] = {}
        self._last_parts: set[str] = set()  # of what is in _paths
        self._path_patterns: list[tuple[str, Pattern[str], Rule]] = []

    def __bool__(self) -> bool:
        by_name = self._names or self._extensions or self._endings or self._name_patterns
        return bool(by_name or self._paths or self._path_patterns)

    def add(self, rule: Rule, pattern: str) -> None:
        """Take a rule with its pattern, bare of `!` and the slash at the end. Raises Unmatchable."""
        special = SPECIAL.search(pattern)
        if "/" in pattern:
            pattern = pattern.removeprefix("/")
            special = SPECIAL.search(pattern)
            if special:
                self._path_patterns.append((pattern[: special.start()], path_expression(pattern), rule))
            else:
                self._paths.setdefault(pattern, []).append(rule)
                self._last_parts.add(pattern.rpartition("/")[2])
        elif not special:
            self._names.setdefault(pattern, []).append(rule)
        elif pattern[0] == "*" and len(pattern) > 1 and not SPECIAL.search(pattern, 1):
            if pattern.rfind(".") == 1:
                self._extensions.setdefault(pattern[1:], []).append(rule)
            else:
                self._endings.setdefault(len(pattern) - 1, {}).setdefault(pattern[1:], []).append(rule)
        else:
            start, literal = pattern[: special.start()], ""
            if special[0] == "*":
                following = SPECIAL.search(pattern, special.end())
                literal = pattern[special.end() : following.start() if following else None]
            self._name_patterns.append((start, literal, name_expression(pattern), rule))

    def matching(self, path: str, start: int, name: str) -> list[Rule]:
        """The rules that match an entry, which is called `path[start:]` from their folder and `name` in its own.

        `name` is the `byte_text`, `path` is not: it is seldom needed.
        """
        found = [*self._names[name]] if name in self._names else []
        if self._extensions:
            found += self._extensions.get(name[name.rfind(".") :], ())
        for length, endings in self._endings.items():
            found += endings.get(name[-length:], ())
        for beginning, literal, pattern, rule in self._name_patterns:
            if literal in name and name.startswith(beginning) and pattern.match(name):
                found.append(rule)
        if self._path_patterns or name in self._last_parts:
            found += self._by_path(byte_text(path[start:]))
        return found

    def _by_path(self, path: str) -> list[Rule]:
        """The rules with a slash that match a path relative to their file."""
        found = [*self._paths[path]] if path in self._paths else []
        for start, pattern, rule in self._path_patterns:
            if path.startswith(start) and pattern.match(path):
                found.append(rule)
        return found


def _number(rule: Rule) -> int:
    return rule.number


def _without_trailing_spaces(line: str) -> str:
    """Spaces at the end are no part of a pattern unless a backslash stands before them."""
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare + " " if backslashes % 2 and bare != line else bare


@dataclass(frozen=True, slots=True)
class Scope:
    """The ignore files that hold in one directory; the more important ones first."""

    own: tuple[RuleFile, ...] = ()
    git: tuple[RuleFile, ...] = ()
    files: tuple[RuleFile, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", self.own + self.git)

    def rule(self, path: str, name: str, is_folder: bool) -> Rule | None:
        """The rule that decides about an entry of the directory; None when there is none."""
        for rules in self.files:
            found = rules.last_match(path, name, is_folder)
            if found is not None:
                return found
        return None


class IgnoreFiles:
    """Reads ignore files on the way down a tree.

    Args:
        root: the directory that names in reports are relative to.
        on_unreadable: told an ignore file's path and the system's words when its rules cannot be applied.
    """

    def __init__(self, root: str, on_unreadable: Callable[[str, str], None]) -> None:
        self._root = root.rstrip("/") + "/"
        self._on_unreadable = on_unreadable

    def above(self) -> Scope:
        """The scope of the root's parent: what the repository that holds the root says in the folders above it."""
        top = self._root.rstrip("/") or "/"
        folders = []
        while not os.path.lexists(os.path.join(top, GIT)):  # noqa: PTH118 - no Path in the walk
            parent = os.path.dirname(top)  # noqa: PTH120
            if parent == top:
                return Scope()
            folders.append(parent)
            top = parent
        scope = Scope()
        for folder in reversed(folders):
            present = {name for name in SPECIAL_NAMES if os.path.lexists(os.path.join(folder, name))}  # noqa: PTH118
            scope = self.entered(scope, folder, present)
        return scope

    def entered(self, above: Scope, folder: str, present: Container[str]) -> Scope:
        """The scope in `folder`, given its parent's. `present` says which of SPECIAL_NAMES are among its entries."""
        own, git = above.own, above.git
        if GIT in present:
            git = self._read(folder, _exclude_file(folder), missing=True)
        if GIT_RULES in present:
            git = self._read(folder, f"{folder.rstrip('/')}/{GIT_RULES}") + git
        if OWN_RULES in present:
            own = self._read(folder, f"{folder.rstrip('/')}/{OWN_RULES}") + own
        return above if own is above.own and git is above.git else Scope(own, git)

    def _read(self, folder: str, file: str, *, missing: bool = False) -> tuple[RuleFile, ...]:
        """The file's rules, () when it has none; `missing` says that it need not be there."""
        try:
            data = _content(file)
        except OSError as error:
            if not (missing and isinstance(error, (FileNotFoundError, NotADirectoryError))):
                self._on_unreadable(file, error.strerror or type(error).__name__)
            return ()
        rules = RuleFile(folder, path_text(Path(file.removeprefix(self._root))), data)
        return (rules,) if rules else ()


def _content(file: str) -> bytes:
    """The bytes of an ignore file. Raises OSError also for what is no regular file (git follows no link here)."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    with open(handle, "rb") as stream:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "not a regular file")
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(0, f"more than {MOST_BYTES:,} bytes of rules")
    return data


def _exclude_file(top: str) -> str:
    """The info/exclude of the repository at `top`, also of a worktree or a submodule, whose .git is a file."""
    git = f"{top.rstrip('/')}/{GIT}"
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(git).st_mode):
            named = os.fsdecode(_content(git).removeprefix(b"gitdir:").strip())
            git = os.path.join(top, named)  # noqa: PTH118
            common = os.fsdecode(_content(f"{git}/commondir").strip())
            git = os.path.join(git, common)  # noqa: PTH118
    return f"{git}/info/exclude"

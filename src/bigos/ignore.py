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
    folders_only: bool
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
        self._names: dict[str, list[Rule]] = {}
        self._endings: dict[int, dict[str, list[Rule]]] = {}
        self._name_patterns: list[tuple[Rule, Pattern[str]]] = []
        self._paths: dict[str, list[Rule]] = {}
        self._path_patterns: list[tuple[Rule, Pattern[str]]] = []
        for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            self._add(number, line.removesuffix(b"\r"), shown)

    def __bool__(self) -> bool:
        return bool(self._names or self._endings or self._name_patterns or self._paths or self._path_patterns)

    def _add(self, number: int, line: bytes, shown: str) -> None:
        text = _without_trailing_spaces(line.partition(b"\0")[0].decode("latin-1"))
        if text.startswith("#"):
            return
        pattern = text.removeprefix("!")
        whole, pattern = pattern, pattern.removesuffix("/")
        if not pattern:
            return
        words = text.encode("latin-1").decode("utf-8", "backslashreplace")
        rule = Rule(number, text.startswith("!"), whole != pattern, f"{shown}:{number} {words}")
        with contextlib.suppress(Unmatchable):
            if "/" in pattern:
                self._add_path(rule, pattern.removeprefix("/"))
            else:
                self._add_name(rule, pattern)

    def _add_name(self, rule: Rule, pattern: str) -> None:
        if not SPECIAL.search(pattern):
            self._names.setdefault(pattern, []).append(rule)
        elif pattern[0] == "*" and len(pattern) > 1 and not SPECIAL.search(pattern, 1):
            self._endings.setdefault(len(pattern) - 1, {}).setdefault(pattern[1:], []).append(rule)
        else:
            self._name_patterns.append((rule, name_expression(pattern)))

    def _add_path(self, rule: Rule, pattern: str) -> None:
        if SPECIAL.search(pattern):
            self._path_patterns.append((rule, path_expression(pattern)))
        else:
            self._paths.setdefault(pattern, []).append(rule)

    def last_match(self, path: str, name: str, is_folder: bool) -> Rule | None:
        """The last rule that matches an entry below the file's folder. `path` is absolute, `name` its last part."""
        name = byte_text(name)
        found = list(self._names.get(name, ()))
        for length, endings in self._endings.items():
            found += endings.get(name[-length:], ())
        found += [rule for rule, pattern in self._name_patterns if pattern.match(name)]
        if self._paths or self._path_patterns:
            relative = byte_text(path[self._start :])
            found += self._paths.get(relative, ())
            found += [rule for rule, pattern in self._path_patterns if pattern.match(relative)]
        if not is_folder:
            found = [rule for rule in found if not rule.folders_only]
        return max(found, key=_number) if found else None


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

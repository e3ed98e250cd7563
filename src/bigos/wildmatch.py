# SPDX-License-Identifier: GPL-2.0-only
"""Git's wildcard patterns as regular expressions, to the letter of what git does with them.

Names are bytes to git: a `?` is one byte of a Polish letter. So patterns and names are text in which each character is
one byte (Latin-1), see `byte_text`. No expression here can be made to backtrack without end: a repository that somebody
else wrote brings both the patterns and the names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

SPECIAL = re.compile(r"[*?\[\\]")

_BYTES = frozenset(map(chr, range(256)))
_DIGIT = frozenset("0123456789")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_SPACE = frozenset(" \t\n\r")
_PRINT = frozenset(map(chr, range(0x20, 0x7F)))
_CLASSES = {
    "alnum": _DIGIT | _UPPER | _LOWER,
    "alpha": _UPPER | _LOWER,
    "blank": frozenset(" \t"),
    "cntrl": frozenset(map(chr, (*range(0x20), 0x7F))),
    "digit": _DIGIT,
    "graph": _PRINT - _SPACE,
    "lower": _LOWER,
    "print": _PRINT,
    "punct": _PRINT - _DIGIT - _UPPER - _LOWER - _SPACE,
    "space": _SPACE,
    "upper": _UPPER,
    "xdigit": _DIGIT | frozenset("abcdefABCDEF"),
}

_STAR, _FOLDERS, _SOME_FOLDERS, _ALL, _SLASH = "*", "**/", "**\\/", "**", "/"
"""Tokens of a pattern beside expressions for one character. `**/` is any folders or none, `**\\/` at least one."""


class Unmatchable(ValueError):
    """A pattern that git takes for broken: it matches nothing."""


def byte_text(name: str) -> str:
    """A name as the system gives it, with one character for each of its bytes."""
    return name if name.isascii() else os.fsencode(name).decode("latin-1")


def name_expression(pattern: str) -> re.Pattern[str]:
    """What a pattern without a slash matches whole names with. Raises Unmatchable."""
    return re.compile(_section(list(_tokens(pattern, across_folders=False))) + r"\Z", re.DOTALL)


def path_expression(pattern: str) -> re.Pattern[str]:
    """What a pattern matches paths with, relative to its ignore file. Raises Unmatchable."""
    special = SPECIAL.search(pattern)
    literal = special.start() if special else len(pattern)
    # Git compares the part before the first wildcard by itself, so the wildcards' own part begins there: a**/b too has
    # `**` at its beginning.
    sections: list[list[str]] = [[]]
    joints: list[str] = []
    for token in _tokens(pattern[literal:], across_folders=True):
        if token in (_FOLDERS, _SOME_FOLDERS, _ALL):
            joints.append(token)
            sections.append([])
        else:
            sections[-1].append(token)
    parts = [re.escape(pattern[:literal]), _section(sections[0])]
    for joint, section in zip(joints, sections[1:], strict=True):
        if joint == _ALL:
            parts.append(".*+")
            continue
        below = r"(?:[^/]*+/)*?" if joint == _FOLDERS else r"(?:[^/]*+/)+?"
        # The nearest place where a section fits is as good as any when folders may follow it: never tried again.
        last = section is sections[-1]
        parts.append(below + _section(section) if last else f"(?>{below}{_section(section)})")
    return re.compile("".join(parts) + r"\Z", re.DOTALL)


def _section(tokens: list[str]) -> str:
    """Tokens between two `**`: within each name the nearest place is as good as any for all but the last star."""
    expression: list[str] = []
    piece: list[str] = []
    stars = 0

    def close() -> None:
        nonlocal piece, stars
        expression.append(f"[^/]*{''.join(piece)}" if stars else "".join(piece))
        piece, stars = [], 0

    for token in tokens:
        if token == _SLASH:
            close()
            expression.append("/")
        elif token == _STAR:
            if stars:
                expression.append(f"(?>[^/]*?{''.join(piece)})")
                piece = []
            else:
                expression.append("".join(piece))
                piece = []
            stars += 1
        else:
            piece.append(token)
    close()
    return "".join(expression)


def _tokens(pattern: str, *, across_folders: bool) -> Iterator[str]:
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "*":
            end = position
            while end < len(pattern) and pattern[end] == "*":
                end += 1
            at_name = position == 0 or pattern[position - 1] == "/"
            token = _STAR
            if across_folders and end - position > 1 and at_name:
                token = _folders(pattern, end)
            yield token
            position = end + {_FOLDERS: 1, _SOME_FOLDERS: 2}.get(token, 0)
        elif char == "[":
            members, position = _bracket(pattern, position)
            yield _one_of(members)
        elif char == "\\":
            if position + 1 == len(pattern):
                raise Unmatchable(pattern)
            char = pattern[position + 1]
            yield _SLASH if char == "/" else re.escape(char)
            position += 2
        else:
            yield {"?": "[^/]", "/": _SLASH}.get(char) or re.escape(char)
            position += 1


def _folders(pattern: str, end: int) -> str:
    """What `**` at the start of a name means, by what follows it."""
    if end == len(pattern):
        return _ALL
    if pattern[end] == "/":
        return _FOLDERS
    return _SOME_FOLDERS if pattern.startswith("\\/", end) else _STAR


def _bracket(pattern: str, start: int) -> tuple[frozenset[str], int]:
    """The characters that the bracket expression at `start` takes, and where it ends. Raises Unmatchable."""
    position = start + 1
    negated = pattern[position : position + 1] in ("!", "^")
    position += negated
    members: set[str] = set()
    before = ""
    while True:
        char = _char(pattern, position)
        if char == "]" and position > start + 1 + negated:
            break
        if char == "\\":
            position += 1
            char = _char(pattern, position)
            members.add(char)
        elif char == "-" and before and pattern[position + 1 : position + 2] not in ("", "]"):
            position += 1 + (pattern[position + 1] == "\\")
            members.update(map(chr, range(ord(before), ord(_char(pattern, position)) + 1)))
            char = ""
        elif pattern.startswith("[:", position):
            end = pattern.find("]", position + 2)
            if end < 0:
                raise Unmatchable(pattern)
            if end > position + 2 and pattern[end - 1] == ":":
                if pattern[position + 2 : end - 1] not in _CLASSES:
                    raise Unmatchable(pattern)
                members |= _CLASSES[pattern[position + 2 : end - 1]]
                position, char = end, ""
            else:
                members.add("[")
        else:
            members.add(char)
        before = char
        position += 1
    return frozenset(_BYTES - members if negated else members) - {"/"}, position + 1


def _char(pattern: str, position: int) -> str:
    if position >= len(pattern):
        raise Unmatchable(pattern)
    return pattern[position]


def _one_of(members: frozenset[str]) -> str:
    """An expression for one of these characters."""
    return "[" + "".join(rf"\x{ord(char):02x}" for char in sorted(members)) + "]" if members else "(?!)"

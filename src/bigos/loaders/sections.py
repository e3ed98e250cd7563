# SPDX-License-Identifier: GPL-2.0-only
"""What every loader returns, and how a text with headings is cut into blocks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bigos.types import Block

TITLE_LIMIT = 300  # characters; a "title" that is longer is a paragraph somebody made a heading


@dataclass(frozen=True, slots=True)
class Parsed:
    """A loader's result: the Document without what the registry knows already."""

    text: str
    blocks: tuple[Block, ...]
    title: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a text: where its line begins, its level (1 is the highest) and its words.

    Level 0 begins a block that is under no heading (what follows front matter).
    """

    char_start: int
    level: int
    title: str


def one_line(text: str) -> str:
    """A title's words on one line, cut at TITLE_LIMIT."""
    return " ".join(text.split())[:TITLE_LIMIT]


class Trail:
    """The headings above the current place; a heading of some level closes all of that level and below."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, title: str) -> tuple[str, ...]:
        """Take the next heading in reading order and return the trail under it."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        if title:
            self._open.append((level, title))
        return self.path

    @property
    def path(self) -> tuple[str, ...]:
        """Heading titles from the outermost in."""
        return tuple(title for _, title in self._open)


def blocks_between(text: str, headings: Iterable[Heading]) -> tuple[Block, ...]:
    """Cut `text` before each heading: blocks with exact offsets and lines that together hold every character.

    Args:
        text: the whole document, LF line ends.
        headings: in order of char_start.
    """
    blocks: list[Block] = []
    trail = Trail()
    start, line = 0, 1
    path: tuple[str, ...] = ()

    def close(end: int) -> None:
        nonlocal start, line
        piece = text[start:end]
        if piece and not piece.isspace():
            blocks.append(Block(piece, start, line_start=line, heading_path=path))
        line += text.count("\n", start, end)
        start = end

    for heading in headings:
        close(heading.char_start)
        path = trail.enter(heading.level, heading.title)
    close(len(text))
    return tuple(blocks)

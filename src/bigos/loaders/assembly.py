# SPDX-License-Identifier: GPL-2.0-only
"""Puts a document together from the pieces that a parser finds: one text, and blocks that know where they landed."""

from __future__ import annotations

import re

from bigos.loaders.encoding import clean
from bigos.loaders.sections import Parsed
from bigos.types import Block

_LINE_ENDS = re.compile(r"\r\n?")
_MOST_WARNINGS = 20
_GAPS = re.compile(r"\n{3,}")


class Assembly:
    """Takes pieces in reading order. Neighbours with the same page and headings become one block."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._starts: list[tuple[int, int | None, tuple[str, ...]]] = []
        self._run: object = None
        self._warnings: dict[str, None] = {}

    def add(
        self, text: str, *, page: int | None = None, heading_path: tuple[str, ...] = (), run: object = None
    ) -> None:
        """Add one piece.

        Args:
            text: any line ends; it is cleaned here. Nothing but white space adds nothing.
            page: from 1.
            heading_path: titles as `sections.one_line` gives them.
            run: what the piece is a line of (a list, a table, a stanza); lines of the same one are not set apart.
        """
        piece = tidy(text)
        if not piece:
            return
        if self._parts:
            self._put("\n" if run is not None and run == self._run else "\n\n")
        self._run = run
        place = (page, heading_path)
        if not self._starts or self._starts[-1][1:] != place:
            self._starts.append((self._length, *place))
        self._put(piece)

    def warn(self, sentence: str) -> None:
        """Say once what was lost."""
        self._warnings.setdefault(sentence)

    def parsed(self, title: str | None = None) -> Parsed:
        """The document so far."""
        text = "".join(self._parts)
        blocks = []
        end = len(text)
        for start, page, path in reversed(self._starts):
            blocks.append(Block(text[start:end].rstrip("\n"), start, page=page, heading_path=path))
            end = start
        return Parsed(text, tuple(reversed(blocks)), title, self._told())

    def _told(self) -> tuple[str, ...]:
        """The first warnings, and how many more there are: a book may lack ten thousand files."""
        told = tuple(self._warnings)
        more = len(told) - _MOST_WARNINGS
        return (*told[:_MOST_WARNINGS], f"and {more:,} more of the kind") if more > 0 else told

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)


def tidy(text: str) -> str:
    """Cleaned text without blanks at line ends, rows of empty lines, and empty lines around it."""
    lines = clean(_LINE_ENDS.sub("\n", text)).split("\n")
    return _GAPS.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")

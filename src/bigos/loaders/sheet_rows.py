# SPDX-License-Identifier: GPL-2.0-only
"""Rows of a spreadsheet as lines that are understood alone: each value under its column's name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

MAX_CELLS = 1_000_000
MAX_CHARACTERS = 100_000_000
"""Filled cells of one file, and characters in them, that are read. A cell that is written once may be shown a million
times, so the size of the file says nothing."""
_YEAR = re.compile(r"(?:19|20)\d\d")
_HEADER_LIMIT = 120  # characters; a longer "column name" is a paragraph in a cell


class Budget:
    """What may still be read of a file's tables; the rest is left out, and the caller warns."""

    def __init__(self) -> None:
        self._cells = MAX_CELLS
        self._characters = MAX_CHARACTERS

    @property
    def warning(self) -> str | None:
        """What was left out, None for nothing."""
        if self._cells < 0:
            return f"only the first {MAX_CELLS:,} filled cells are read"
        return f"only the first {MAX_CHARACTERS:,} characters of cells are read" if self._characters < 0 else None

    def rows(self, rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        """The rows as long as there is something left to spend."""
        for row in rows:
            self._cells -= sum(1 for cell in row if cell)
            self._characters -= sum(map(len, row))
            if self.warning:
                return
            yield row


def row_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """One line a row that has something in it.

    The first row of two or more cells is the header when all of them are words; a row with one cell (a title, a note)
    is itself. Rows below the header read "column: value | column: value", rows of a sheet without one "value | value".

    Args:
        rows: cells as text, "" where there is nothing.
    """
    header: list[str] | None = None
    for row in rows:
        filled = [(column, _flat(value)) for column, value in enumerate(row) if value and not value.isspace()]
        if not filled:
            continue
        if header is None and len(filled) > 1:
            header = _header(filled, len(row))
        elif header and len(filled) > 1:
            named = ((header[column] if column < len(header) else "", value) for column, value in filled)
            yield " | ".join(f"{name}: {value}" if name else value for name, value in named)
            continue
        yield " | ".join(value for _, value in filled)


def _header(filled: Sequence[tuple[int, str]], width: int) -> list[str]:
    """The columns' names; none at all when one of them is no name."""
    words = sum(1 for _, value in filled if any(char.isalpha() for char in value))
    years = sum(1 for _, value in filled if _YEAR.fullmatch(value))
    if words == 0 or words + years < len(filled) or any(len(value) > _HEADER_LIMIT for _, value in filled):
        return []
    names = [""] * width
    for column, value in filled:
        names[column] = value.rstrip(":")
    return names


def _flat(value: str) -> str:
    return " ".join(value.split())

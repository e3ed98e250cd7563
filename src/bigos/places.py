# SPDX-License-Identifier: GPL-2.0-only
"""From characters of a document to what a reader looks up: lines, pages, heading trails."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from bigos.types import Block


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk is in its source."""

    line_start: int | None
    line_end: int | None
    page: int | None
    page_end: int | None
    heading_path: tuple[str, ...]


class Places:
    """From characters to lines, pages and headings. Asked in the order of the text, it counts each line end once."""

    def __init__(self, blocks: tuple[Block, ...]) -> None:
        self._blocks = [block for block in blocks if block.text]
        self.starts = [block.char_start for block in self._blocks]
        self.sections = [
            block.char_start
            for before, block in zip(self._blocks, self._blocks[1:], strict=False)
            if block.heading_path != before.heading_path
        ]
        self._first_line = _LineCursor()
        self._last_line = _LineCursor()

    def of(self, text: str, start: int, end: int) -> Place:
        """The place of the visible characters text[start:end]; its heading trail is that of most of them."""
        if not self._blocks:
            return Place(None, None, None, None, ())
        first, last = self._block_at(start), self._block_at(end - 1)
        line_start = self._first_line.at(text, self._blocks[first], start)
        line_end = self._last_line.at(text, self._blocks[last], end - 1)
        if line_start is None or line_end is None:
            line_start = line_end = None
        return Place(
            line_start,
            line_end,
            self._blocks[first].page,
            self._blocks[last].page,
            self._heading(first, last, start, end),
        )

    def _block_at(self, position: int) -> int:
        return max(bisect_right(self.starts, position) - 1, 0)

    def _heading(self, first: int, last: int, start: int, end: int) -> tuple[str, ...]:
        if first == last:
            return self._blocks[first].heading_path
        sizes: dict[tuple[str, ...], int] = {}
        for block in self._blocks[first : last + 1]:
            size = min(block.char_start + len(block.text), end) - max(block.char_start, start)
            sizes[block.heading_path] = sizes.get(block.heading_path, 0) + size
        return max(sizes, key=sizes.__getitem__)


class _LineCursor:
    """Counts line ends forward from where it stood."""

    def __init__(self) -> None:
        self._block: Block | None = None
        self._position = 0
        self._line = 0

    def at(self, text: str, block: Block, position: int) -> int | None:
        """The source line of the character at `position`, which lies in `block`."""
        if block.line_start is None:
            return None
        if block is not self._block:
            self._block, self._position, self._line = block, block.char_start, block.line_start
        self._line += text.count("\n", self._position, position)
        self._position = position
        return self._line

# SPDX-License-Identifier: GPL-2.0-only
"""The two ways to end a window: prose at headings, paragraphs and sentences, code at definitions and lines.

What a window may hold is worked out in `chunking`, which describes the rules; here is only the choice among places.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

from bigos import boundaries
from bigos.places import Places

_VISIBLE = re.compile(r"\S")
_WIDEST_INDENTATION = 128
_LINE_HEAD = 256
"""Characters of a line that are looked at: what it begins with decides."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the window at hand may end, as character offsets. lowest < end; half <= near <= limit <= far <= hard."""

    lowest: int
    half: int
    near: int
    limit: int
    """The last place for ordinary boundaries."""
    far: int
    """The last place for a new section; beyond `limit` only when the rest is shared."""
    hard: int
    """What the window holds at most."""


class Cutter(Protocol):
    """A way to place windows in a text."""

    def begin(self, position: int) -> int | None:
        """Where a window that may begin at `position` does begin; None when nothing visible follows."""
        ...

    def cut(self, reach: Reach, *, fresh: bool) -> tuple[int, bool] | None:
        """The end of the window and whether a new section begins there.

        None asks for the window to be begun without overlap; it is not returned when it is `fresh`, which has none.
        """
        ...

    def trim(self, start: int, end: int) -> int:
        """The end of the chunk's text when its window ends at `end`."""
        ...

    def resume(self, start: int, low: int, middle: int, end: int) -> int:
        """Where the overlap begins: in (start, end], not before `low`, better not after `middle`."""
        ...


class ProseCutter:
    """Ends windows at headings, paragraphs, lines, sentences, words."""

    def __init__(self, text: str, places: Places) -> None:
        self._text = text
        self._sections = places.sections
        self._blocks = places.starts

    def begin(self, position: int) -> int | None:
        """At the next visible character."""
        visible = _VISIBLE.search(self._text, position)
        return visible.start() if visible else None

    def cut(self, reach: Reach, *, fresh: bool) -> tuple[int, bool] | None:  # noqa: ARG002 - the protocol's
        """At a heading, a paragraph, a line, a sentence, a word, or anywhere, in this order."""
        section = _last_in(self._sections, max(reach.half, reach.lowest + 1), reach.far)
        if section is not None:
            return section, True
        text, low = self._text, max(reach.near, reach.lowest)
        paragraph = boundaries.last_paragraph(text, low, reach.limit)
        block = _last_in(self._blocks, low + 1, reach.limit)
        if paragraph is not None or block is not None:
            return max(paragraph or 0, block or 0), False
        for last_boundary in (boundaries.last_line, boundaries.last_sentence):
            found = last_boundary(text, low, reach.limit)
            if found is not None:
                return found, False
        return _cut_inside_line(text, reach), False

    def trim(self, start: int, end: int) -> int:
        """To the last visible character."""
        return start + len(self._text[start:end].rstrip())

    def resume(self, start: int, low: int, middle: int, end: int) -> int:
        """At the last heading in reach, or else a line, a sentence, a word."""
        section = _last_in(self._sections, low, end)
        if section is not None:
            return section
        found = boundaries.first_line_or_sentence(self._text, low, middle)
        if found is None:
            found = boundaries.first_word(self._text, low, end)
        return boundaries.grapheme_start(self._text, low, start + 1) if found is None else found


class CodeCutter:
    """Ends windows at line ends, best where a definition begins.

    It looks at the lines alone. The blocks of code name definitions, and not all of those are worth a cut: in a device
    tree or a table of registers each is a few lines.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def begin(self, position: int) -> int | None:
        """At the start of the line of the next visible character, if `position` is not inside that line."""
        visible = _VISIBLE.search(self._text, position)
        if visible is None:
            return None
        newline = self._text.rfind("\n", position, visible.start())
        within = position if self._at_line_start(position) else visible.start()
        line = newline + 1 if newline >= 0 else within
        # Indentation wider than any reader's screen is not worth a window of white space.
        return line if visible.start() - line <= _WIDEST_INDENTATION else visible.start()

    def cut(self, reach: Reach, *, fresh: bool) -> tuple[int, bool] | None:
        """Before a definition, after one, at a blank line, at a line end; inside a line only if it fills the window."""
        best, best_rank, last, after_limit = -1, -1, None, None
        for position in boundaries.line_starts(self._text, reach.lowest, reach.hard):
            if position > reach.limit and after_limit is None:
                after_limit = position
            last = position if position <= reach.limit else last
            rank = self._rank(position) if position > reach.half else boundaries.LINE
            usable = position > reach.half if rank >= boundaries.BLOCK_END else reach.near < position <= reach.limit
            if usable and position <= reach.far and rank >= max(best_rank, boundaries.BLANK):
                best, best_rank = position, rank
        if best >= 0:
            return best, best_rank >= boundaries.BLOCK_END
        last = last if last is not None else after_limit
        if last is not None:
            return last, False
        return (_cut_inside_line(self._text, reach), False) if fresh else None

    def trim(self, start: int, end: int) -> int:
        """To the end of the last line with something on it, its trailing blanks kept, its line end (CR LF too) not."""
        visible = start + len(self._text[start:end].rstrip())
        newline = self._text.find("\n", visible, end)
        stop = newline if newline >= 0 else end
        return stop - 1 if stop > visible and self._text[stop - 1] == "\r" else stop

    def resume(self, start: int, low: int, middle: int, end: int) -> int:  # noqa: ARG002 - the protocol's
        """At the first line that the overlap can hold whole."""
        if not self._at_line_start(end):
            return end  # the next piece of a line that is longer than a window
        for position in boundaries.line_starts(self._text, max(low, start + 1) - 1, end):
            return position
        return end

    def _rank(self, position: int) -> int:
        return boundaries.line_rank(self._line(self._text.rfind("\n", 0, position - 1) + 1), self._line(position))

    def _line(self, begin: int) -> str:
        newline = self._text.find("\n", begin, begin + _LINE_HEAD)
        return self._text[begin : newline if newline >= 0 else begin + _LINE_HEAD]

    def _at_line_start(self, position: int) -> bool:
        return position == 0 or self._text[position - 1] == "\n"


def _cut_inside_line(text: str, reach: Reach) -> int:
    word = boundaries.last_word(text, max(reach.half, reach.lowest), reach.limit)
    return word if word is not None else boundaries.grapheme_start(text, reach.limit, reach.lowest)


def _last_in(positions: list[int], low: int, high: int) -> int | None:
    """The last of the sorted `positions` in [low, high]."""
    at = bisect_right(positions, high) - 1
    return positions[at] if at >= 0 and positions[at] >= low else None

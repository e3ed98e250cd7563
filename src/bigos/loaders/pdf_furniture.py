# SPDX-License-Identifier: GPL-2.0-only
"""Running headers and footers: lines at the edge of pages that come again on the pages around, page numbers included.

Works on a stream of pages and holds no more than WINDOW of them on either side, so that a book of any length takes the
memory of a few pages.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from bigos.loaders.pdf_pages import Line

WINDOW = 6
"""Pages before and after that are compared; even and odd pages often have headers of their own."""

_EDGE_LINES = 3
_LONGEST = 200  # characters of a running header
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]{1,7}|[IVXLC]{1,7}")
_NEAREST = 4  # pages; left and right ones are both among them
_TOP = attrgetter("top")
_MOST_STEP = 5  # by which a page's number may grow from one page to the next where pages were taken out
_TOLERANCE = 6.0  # points by which the place may differ from page to page


class _Edge(NamedTuple):
    """A line near the top or the bottom: how far down it is, and the numbers in it."""

    line: Line
    numbers: tuple[int, ...]

    def same(self, other: _Edge, pages_on: int) -> bool:
        """Whether it is the other's line, whose words are the same: its place is, and its numbers count the pages."""
        if abs(self.line.top - other.line.top) > _TOLERANCE:
            return False
        for mine, theirs in zip(self.numbers, other.numbers, strict=True):
            if mine != theirs and not 0 < (theirs - mine) / pages_on <= _MOST_STEP:
                return False
        return True


_Edges = dict[str, _Edge]
"""Lines from the edge of the page inwards, by their words with "#" for each number."""


@dataclass(slots=True)
class _Waiting:
    """A page in the window; `edges` at its top and at its bottom."""

    lines: Sequence[Line]
    edges: tuple[_Edges, _Edges]


def without_furniture(pages: Iterable[Sequence[Line]], count: int) -> Iterator[Sequence[Line]]:
    """The pages, in order, without what runs along their edges.

    Args:
        pages: each page's lines; a page without lines is none the less a page.
        count: how many pages there are. With fewer than three nothing is left out.
    """
    if count < 3:
        yield from pages
        return
    window: deque[_Waiting] = deque()
    current = 0  # index in the window of the next page to give
    for lines in pages:
        window.append(_Waiting(lines, _edges(lines)))
        if len(window) - current > WINDOW:
            yield _strip(window, current)
            if current == WINDOW:
                window.popleft()
            else:
                current += 1
    while current < len(window):
        yield _strip(window, current)
        current += 1


def _edges(lines: Sequence[Line]) -> tuple[_Edges, _Edges]:
    """The outermost lines from the top down and from the bottom up."""
    if len(lines) < 2:
        own = dict(map(_edge, lines))
        return own, own
    ordered = sorted(lines, key=_TOP)
    return dict(map(_edge, ordered[:_EDGE_LINES])), dict(map(_edge, ordered[: -_EDGE_LINES - 1 : -1]))


def _edge(line: Line) -> tuple[str, _Edge]:
    text = line.text
    if len(text) > _LONGEST:
        return text, _Edge(line, ())
    if len(text) < 8 and _ROMAN.fullmatch(text):
        return "#roman", _Edge(line, ())
    numbers = _NUMBER.findall(text)
    if not numbers:
        return text, _Edge(line, ())
    return _NUMBER.sub("#", text), _Edge(line, tuple([int(number[-9:]) for number in numbers]))


def _strip(window: deque[_Waiting], index: int) -> Sequence[Line]:
    page = window[index]
    if not page.lines:
        return page.lines
    # The nearest first: what is not on the next pages is on none, and that is told soon.
    others = sorted(
        [(number - index, other.edges) for number, other in enumerate(window) if number != index], key=_distance
    )
    # On most of the pages around; on every other one when left and right pages differ.
    needed = max(2, len(window) // 2 - 1)
    gone: set[int] = set()
    for side in (0, 1):
        for key, edge in page.edges[side].items():
            if len(key) > _LONGEST or not _comes_again(key, edge, [(on, edges[side]) for on, edges in others], needed):
                break
            gone.add(id(edge.line))
    return [line for line in page.lines if id(line) not in gone] if gone else page.lines


def _comes_again(key: str, edge: _Edge, others: Sequence[tuple[int, _Edges]], needed: int) -> bool:
    """Whether it is on `needed` of the other pages, which are sorted by their distance in pages."""
    seen = 0
    for count, (pages_on, edges) in enumerate(others):
        if count == _NEAREST and not seen:
            return False
        there = edges.get(key)
        if there is not None and edge.same(there, pages_on):
            seen += 1
            if seen == needed:
                return True
    return False


def _distance(other: tuple[int, object]) -> int:
    return abs(other[0])

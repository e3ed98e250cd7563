# SPDX-License-Identifier: GPL-2.0-only
"""Running headers and footers: lines at the edge of pages that come again on the pages around, page numbers included.

Works on a stream of pages and holds no more than WINDOW of them on either side, so that a book of any length takes the
memory of a few pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from bigos.loaders.pdf_lines import Line

WINDOW = 6
"""Pages before and after that are compared; even and odd pages often have headers of their own."""

_EDGE_LINES = 2
_LONGEST = 200  # characters of a running header
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]{1,7}|[IVXLC]{1,7}")
_NEAR = 2  # pages before and after, left and right ones among them
_TOP = itemgetter(2)
_HEIGHT = itemgetter(5)
_LARGE = 1.15  # times the usual height of a page's lines, above which a counted line is the heading of its page
_MOST_STEP = 5  # by which a page's number may grow from one page to the next where pages were taken out
_COUNTED = "\ufdd1"  # a noncharacter: in no text
# "Rozdział 3" after "Rozdział 2" is no page number, nor is a sentence: what a page begins with when each has its own.
_OWN_HEADING = re.compile(
    rf"(?:rozdzia[łl]|część|sekcja|dział|lekcja|temat|zadanie|ćwiczenie|przykład|pytanie|załącznik|aneks|dodatek|tabela"
    rf"|rysunek|paragraf|artykuł|art\.|§|krok|dzień|tydzień|moduł|slajd|chapter|part|section|lesson|unit|exercise|task"
    rf"|problem|question|example|appendix|annex|table|figure|article|step|day|week|module|slide|lecture)\s*{_COUNTED}",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:\S+\s+){3,}.*[^\W\d_][.!?]")
_TOLERANCE = 6.0  # points by which the place may differ from page to page


class _Edge(NamedTuple):
    """A line near the top or the bottom: how far down it is, and the numbers in it."""

    top: float
    numbers: tuple[int, ...]
    line: Line
    own: int = 0
    """How many of its numbers, from the first on, may not count the pages: that of a heading, those of a sentence."""

    def same(self, other: _Edge, pages_on: int, own: int) -> bool:
        """Whether it is the other's line, whose words are the same: its place is, and its numbers count the pages.

        The first `own` of the numbers have to be the same.
        """
        top, numbers, _, _ = self
        other_top, others, _, _ = other
        if not -_TOLERANCE <= top - other_top <= _TOLERANCE:
            return False
        if numbers == others:
            return True
        if numbers[:own] != others[:own]:
            return False
        for mine, theirs in zip(numbers, others, strict=True):
            if mine != theirs and not 0 < (theirs - mine) / pages_on <= _MOST_STEP:
                return False
        return True

    def counts(self, other: _Edge, pages_on: int) -> bool:
        """Whether a number in it is the page's, as the other page's tells, and the rest the same."""
        steps = {theirs - mine for mine, theirs in zip(self.numbers, other.numbers, strict=True)}
        return pages_on in steps and steps <= {0, pages_on}


_Edges = dict[str, _Edge]
"""Lines from the edge of the page inwards, by their words with _COUNTED for each number."""


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
    strip = _Stripper()
    window: list[_Waiting] = []
    current = 0  # index in the window of the next page to give
    for lines in pages:
        window.append(_Waiting(lines, _edges(lines)))
        if len(window) - current > WINDOW:
            yield strip(window, current)
            if current == WINDOW:
                window.pop(0)
            else:
                current += 1
    while current < len(window):
        yield strip(window, current)
        current += 1


def _edges(lines: Sequence[Line]) -> tuple[_Edges, _Edges]:
    """The outermost lines from the top down and from the bottom up."""
    if len(lines) < 2:
        own = dict(map(_edge, lines))
        return own, own
    ordered = sorted(lines, key=_TOP)
    heights = sorted(map(_HEIGHT, ordered))
    large = _LARGE * heights[len(heights) // 2]
    first = [_edge(line, large) for line in ordered[:_EDGE_LINES]]
    return dict(first), dict([_edge(line, large) for line in ordered[: -_EDGE_LINES - 1 : -1]])


def _edge(line: Line, large: float = float("inf")) -> tuple[str, _Edge]:
    """A line by its words; one that is higher than `large` is a heading when its number changes."""
    text = line.text
    if len(text) > _LONGEST:
        return text, _Edge(line.top, (), line)
    if len(text) < 8 and _ROMAN.fullmatch(text):
        return f"{_COUNTED}roman", _Edge(line.top, (), line)
    numbers = _NUMBER.findall(text)
    if not numbers:
        return text, _Edge(line.top, (), line)
    key = _NUMBER.sub(_COUNTED, text)
    own = 0
    if key != _COUNTED:
        whole = line.height > large or _SENTENCE.fullmatch(key) is not None
        own = len(numbers) if whole else int(_OWN_HEADING.match(key) is not None)
    return key, _Edge(line.top, tuple([int(number[-9:]) for number in numbers]), line, own)


class _Stripper:
    """Takes page after page, and remembers which lines it has left out lately."""

    def __init__(self) -> None:
        self._number = 0
        self._running: dict[tuple[int, str], tuple[int, _Edge]] = {}

    def __call__(self, window: Sequence[_Waiting], index: int) -> Sequence[Line]:
        """The lines of window[index] without its furniture."""
        page = window[index]
        self._number += 1
        gone: set[int] = set()
        for side in (0, 1):
            for key, edge in page.edges[side].items():
                if len(key) > _LONGEST:
                    break
                if not self._goes_on(side, key, edge) and not _comes_again(key, edge, window, index=index, side=side):
                    break
                self._running[side, key] = (self._number, edge)
                gone.add(id(edge.line))
        if not gone or (len(gone) == len(page.lines) and _are_short(window)):
            return page.lines
        return [line for line in page.lines if id(line) not in gone]

    def _goes_on(self, side: int, key: str, edge: _Edge) -> bool:
        """Whether the page before, or the one before that, had it: the header of a chapter goes to its last page."""
        number, before = self._running.get((side, key), (0, edge))
        on = self._number - number
        return bool(number) and on <= _NEAR and before.same(edge, on, edge.own)


def _are_short(window: Sequence[_Waiting]) -> bool:
    """Whether most pages have nothing but edges, as certificates and labels do: what they share is their text."""
    return 2 * sum(len(page.lines) > 2 * _EDGE_LINES for page in window) <= len(window)


def _comes_again(key: str, edge: _Edge, window: Sequence[_Waiting], *, index: int, side: int) -> bool:
    """Whether it is on most of the pages around, or on every other one, as when left and right pages differ."""
    # What is not on the next pages is on none: that is told soon, and holds for nearly every line.
    here = False
    for other in window[max(index - _NEAR, 0) : index + _NEAR + 1]:
        if key in other.edges[side]:
            if here:
                break
            here = True
    else:
        return False
    own = _own_numbers(key, edge, window, side)
    if not own and _is_on_every_other(key, edge, window, index=index, side=side):
        return True
    needed = max(2, len(window) // 2 - 1)
    spare = len(window) - 1 - needed  # pages that may be without it
    for number, other in enumerate(window):
        if number == index:
            continue
        there = other.edges[side].get(key)
        if there is not None and edge.same(there, number - index, own):
            needed -= 1
            if not needed:
                return True
        else:
            spare -= 1
            if spare < 0:
                return False
    return False


def _own_numbers(key: str, edge: _Edge, window: Sequence[_Waiting], side: int) -> int:
    """`edge.own`; 0 for a number that stays for some pages: a chapter's is then not above each page's own text."""
    if not edge.own:
        return 0
    numbers = [there.numbers[: edge.own] for page in window if (there := page.edges[side].get(key)) is not None]
    return edge.own if len(set(numbers)) == len(numbers) else 0


def _is_on_every_other(key: str, edge: _Edge, window: Sequence[_Waiting], *, index: int, side: int) -> bool:
    """Whether left or right pages have it, each with its own number: those of a short article have it twice."""
    for number in (index - _NEAR, index + _NEAR):
        there = window[number].edges[side].get(key) if 0 <= number < len(window) else None
        if there is not None and edge.same(there, number - index, 0) and edge.counts(there, number - index):
            return True
    return False

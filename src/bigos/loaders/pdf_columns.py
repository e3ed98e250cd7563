# SPDX-License-Identifier: GPL-2.0-only
"""Columns that were written row by row: pdfium takes what stands side by side for one line, and it has to be cut.

Pure. What is a gutter: a gap in most of the wide lines at the same place, with more than a few words on either side of
it; a table has gaps too, but short cells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

_SPACE = re.compile(r"\s+")  # pdfium puts one wherever there is a gap
_FEWEST_LINES = 4
_SHARE = 0.6  # of the wide lines that have the gap
_WIDE_GAP = 0.8  # of the font height
_FEWEST_CHARS = 14  # on average on either side
_MOST_GUTTERS = 3


class Gap(NamedTuple):
    """White space inside a line: from `left` to `right`, before the character at `at` of its text."""

    left: float
    right: float
    at: int


def gaps_of(text: str, edges: Callable[[int], tuple[float, float]], height: float) -> list[Gap]:
    """The wide gaps of a line; `edges` gives (left, right) of the character at a place in `text`."""
    found = []
    for space in _SPACE.finditer(text):
        if space.start() == 0 or space.end() == len(text):
            continue
        _, left = edges(space.start() - 1)
        right, _ = edges(space.end())
        if right - left > _WIDE_GAP * height:
            found.append(Gap(left, right, space.end()))
    return found


def gutters(lines: Sequence[tuple[str, Sequence[Gap]]]) -> list[float]:
    """Places of the gutters between columns, from the left; `lines` are the wide ones with their gaps."""
    if len(lines) < _FEWEST_LINES:
        return []
    found: list[float] = []
    remaining = [(text, list(gaps)) for text, gaps in lines]
    while len(found) < _MOST_GUTTERS:
        edges = sorted(
            [(gap.left, 1) for _, gaps in remaining for gap in gaps]
            + [(gap.right, -1) for _, gaps in remaining for gap in gaps]
        )
        depth, best, place = 0, 0, 0.0
        for (x, change), (following, _) in pairwise(edges):
            depth += change
            if depth > best and following > x:
                best, place = depth, (x + following) / 2
        if best < max(_FEWEST_LINES, _SHARE * len(lines)) or not _between_prose(lines, place):
            break
        found.append(place)
        remaining = [(text, [gap for gap in gaps if not gap.left <= place <= gap.right]) for text, gaps in remaining]
    return sorted(found)


def _between_prose(lines: Sequence[tuple[str, Sequence[Gap]]], place: float) -> bool:
    """Whether both neighbours of a gutter have lines of several words."""
    before = after = count = 0
    for text, gaps in lines:
        own = next((number for number, gap in enumerate(gaps) if gap.left <= place <= gap.right), None)
        if own is None:
            continue
        start = gaps[own - 1].at if own else 0
        end = gaps[own + 1].at if own + 1 < len(gaps) else len(text)
        before += gaps[own].at - start
        after += end - gaps[own].at
        count += 1
    return count > 0 and min(before, after) >= _FEWEST_CHARS * count

# SPDX-License-Identifier: GPL-2.0-only
"""From lines on a page to paragraphs in reading order. Pure.

pdfium's order is the file's, and nearly always the reading order: it is replaced only where lines jump back up the
page, as they do when columns were written row by row. A line goes on in the next one when the next one's first word
would not have fitted: that tells wrapped prose from lists, addresses, code and tables without knowing what they are.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from bigos.loaders.hyphens import MARK as HYPHEN
from bigos.loaders.pdf_lines import Line

_LEADER = re.compile(r"(?:\.[ \u00a0]?){4,}|…(?:[ \u00a0]?…)+")
_ITEM = re.compile(r"(?:[•▪●○◦■□‣⁃–—*·-]|\(?(?:\d{1,3}|[A-Za-z])[.)]|\[\d{1,3}\]|\d+(?:\.\d+)+\.?)(?:\s|$)")
_BREAKERS = frozenset(("-", "\u2010", "\u00ad", HYPHEN))
_CONTINUED = re.compile(r"[-\u2010]?[^\W\d_]")  # Polish sets the hyphen of a compound again on the next line
_LETTER_HYPHEN = re.compile(r"[^\W\d_][-\u2010\u00ad]$")

_SAME_SIZE = 0.2  # of the font height, by which lines of one paragraph may differ
_SAME_LINE = 0.6  # of the font height, within which cells of a row stand; superscripts may stand higher
_APART = 1.4  # times the usual distance of lines is a gap between paragraphs
_INDENT = 0.8  # of the font height
_NEAR_MARGIN = 0.12  # of the column's width, within which a wrapped line ends
_PROSE = 0.35  # of a column's longer lines end near its margin when it holds wrapped text
_TELLING_LINES = 24  # of a page, that tell how far lines stand apart and how wide its letters are
_JUMPS = 0.15  # of the steps from line to line; more that go back up are no reading order
_WIDE = 1.35  # times the page's usual width of a character: there are gaps in the line
_BUCKET = 36.0  # points; lines that begin within as much belong to one column


class Paragraph(NamedTuple):
    """A paragraph, or a line that stands for itself; `top` in points down the page, `tight` when no gap is above it."""

    text: str
    top: float
    tight: bool = False


def lay_out(lines: Sequence[Line]) -> list[Paragraph]:
    """The paragraphs of a page in reading order. A word that is broken at a line end keeps HYPHEN at that place."""
    if len(lines) < 2:
        return [Paragraph(_whole([line.text]), line.top) for line in lines]
    lines = reading_order(lines)
    found: list[Paragraph] = []
    first = lines[0]
    parts, top, tight = [first.text], first.top, False
    new = tuple.__new__  # a NamedTuple's own call takes twice as long
    for (text, _, next_top, _, _, _), glue in zip(lines[1:], _Joiner(lines).glues(), strict=True):
        if glue == " ":
            parts += (" ", text)
        elif glue is None or glue == "\n":
            found.append(new(Paragraph, (_whole(parts), top, tight)))
            parts, top, tight = [text], next_top, glue == "\n"
        else:
            if glue == HYPHEN:
                parts[-1] = parts[-1].rstrip("-\u2010\u00ad" + HYPHEN) + HYPHEN
            parts.append(text)
    found.append(Paragraph(_whole(parts), top, tight))
    return found


def _whole(parts: list[str]) -> str:
    text = parts[0] if len(parts) == 1 else "".join(parts)
    if text[-1] == HYPHEN:
        text = text[:-1] + "-"
    return _LEADER.sub(" ... ", text) if ".." in text or ". ." in text or "…" in text else text


def flow(lines: Sequence[str]) -> str:
    """Wrapped lines without places (OCR, DjVu) as one text: joined where they fill the width of the others."""
    widest = max((len(line) for line in lines), default=0)
    parts: list[str] = []
    for index, line in enumerate(lines):
        parts.append(line)
        if index + 1 == len(lines):
            break
        if len(line) < 0.75 * widest or _ITEM.match(lines[index + 1]) or _LEADER.search(line):
            parts.append("\n")
        elif _LETTER_HYPHEN.search(line) and _CONTINUED.match(lines[index + 1]):
            parts[-1] = line[:-1] + HYPHEN
        else:
            parts.append(" ")
    return "".join(parts)


class _Joiner:
    """Decides what stands between two neighbouring lines of one page."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        buckets = [int(line[1] / _BUCKET) for line in lines]
        margins = _margins(lines, buckets)
        self._margins = [margins.get(bucket) for bucket in buckets]
        some = lines[:_TELLING_LINES]
        steps = [(below[4] - above[4]) / above[5] for above, below in pairwise(some)]
        steps = sorted([step for step in steps if 0.5 < step < 3])
        self._leading = steps[len(steps) // 2] if steps else 1.2
        self._apart = _APART * self._leading
        widths = sorted([(right - left) / (len(text) * height) for text, left, _, right, _, height in some])
        self._widest = _WIDE * widths[len(widths) // 2]

    def glues(self) -> list[str | None]:
        """What stands between each line and the next: see `_glue`, which knows what nearly all pairs do not need."""
        glues: list[str | None] = []
        add, is_item, glue = glues.append, _ITEM.match, self._glue
        apart, widest = self._apart, self._widest
        below = self._lines[0]
        for next_line, margin in zip(self._lines[1:], self._margins, strict=False):
            above, below = below, next_line
            text, left, _, right, bottom, height = above
            next_text, next_left, _, _, next_bottom, next_height = below
            usual = 0.99 < next_height / height < 1.01 and height <= next_bottom - bottom <= apart * height
            if not usual or text[-1] in _BREAKERS or text.count(".") > 3:  # there may be a leader
                add(glue(above, below, margin))
                continue
            advance = (right - left) / len(text)
            word = next_text.find(" ")
            needed = ((len(next_text) if word < 0 else word) + 1) * advance
            if margin is None or right + needed <= margin - 0.1 * height:
                add("\n")
            elif advance > widest * height or next_left - left > _INDENT * height or is_item(next_text):
                add(glue(above, below, margin))
            else:
                add(" ")
        return glues

    def _glue(self, above: Line, below: Line, margin: float | None) -> str | None:
        """None begins a new paragraph, a line feed a new line; a space, HYPHEN or nothing joins.

        `margin` is the right one of the column of wrapped text that `above` belongs to, if it does.
        """
        text, left, _, right, bottom, height = above
        next_text, next_left, _, _, next_bottom, next_height = below
        step = next_bottom - bottom
        larger = height if height > next_height else next_height
        gap = next_left - right
        if step < larger and gap > -0.5 * larger and abs(step) < (1.0 if gap < 0.5 * larger else _SAME_LINE) * larger:
            return " " if gap > 0.15 * larger else ""
        if abs(height - next_height) > _SAME_SIZE * larger:
            return None
        broken = text[-1] in _BREAKERS and (
            text[-1] == HYPHEN or (_goes_on(next_text) and _LETTER_HYPHEN.search(text) is not None)
        )
        if step <= 0 or step > 3 * larger:
            return self._next_column(above, below, margin, broken=broken)
        if broken or step > self._apart * height:
            return HYPHEN if broken and step <= self._apart * height else None
        if not self._full(above, next_text, margin) or _ITEM.match(next_text):
            return "\n"
        return "\n" if next_left - left > _INDENT * larger and not next_text[0].islower() else " "

    def _next_column(self, above: Line, below: Line, margin: float | None, *, broken: bool) -> str | None:
        """A sentence may go on at the top of the next column."""
        if below.left < above.right and below.bottom < above.top:
            return None  # back up within the column: something else
        if not below.text[0].islower() or not self._full(above, below.text, margin):
            return None
        return HYPHEN if broken else " "

    def _full(self, above: Line, next_text: str, margin: float | None) -> bool:
        """Whether the first word of what follows would not have fitted into the line."""
        text, left, _, right, _, height = above
        if margin is None or (".." in text and _LEADER.search(text)) or (". ." in text and _LEADER.search(text)):
            return False
        advance = (right - left) / len(text)
        if advance > self._widest * height:
            return False
        word = next_text.find(" ")
        return right + ((len(next_text) if word < 0 else word) + 1) * advance > margin - 0.1 * height


def _goes_on(next_text: str) -> bool:
    found = _CONTINUED.match(next_text)
    return found is not None and found[0][-1].islower()


def _margins(lines: Sequence[Line], buckets: Sequence[int]) -> dict[int, float]:
    """Right margin of the columns of wrapped text, by the bucket in which their lines begin."""
    by_bucket: defaultdict[int, list[float]] = defaultdict(list)
    for bucket, line in zip(buckets, lines, strict=True):
        by_bucket[bucket].append(line[3])
    margins = {}
    for bucket, own in by_bucket.items():
        ends = sorted(own + by_bucket.get(bucket - 1, []) + by_bucket.get(bucket + 1, []))
        if len(ends) < 2:
            continue
        margin = ends[-1 - len(ends) // 12]
        left = bucket * _BUCKET
        near = len(ends) - bisect_left(ends, margin - _NEAR_MARGIN * (margin - left))
        long = len(ends) - bisect_left(ends, (margin + left) / 2)
        if near >= _PROSE * long:
            margins[bucket] = margin
    return margins


def reading_order(lines: Sequence[Line]) -> Sequence[Line]:
    """The lines as they are, or column by column when their own order goes back up the page too often."""
    tops = [line[2] for line in lines]
    if tops == sorted(tops):
        return lines
    allowed = max(1.0, _JUMPS * len(lines))
    top = previous_left = previous_right = 0.0
    for _, left, next_top, right, _, height in lines:
        if next_top < top - height and left < previous_right and previous_left < right:
            allowed -= 1
        top, previous_left, previous_right = next_top, left, right
    return lines if allowed >= 0 else by_columns(lines)


def by_columns(lines: Sequence[Line]) -> list[Line]:
    """Top to bottom; between two lines that cross the page, column by column from the left."""
    left, right = min(line.left for line in lines), max(line.right for line in lines)
    ordered: list[Line] = []
    band: list[Line] = []
    for line in sorted(lines, key=lambda line: (line.top, line.left)):
        if line.right - line.left > 0.55 * (right - left):
            ordered += _columns(band)
            band = []
            ordered.append(line)
        else:
            band.append(line)
    return ordered + _columns(band)


def _columns(band: list[Line]) -> list[Line]:
    """Lines sorted by column, then from the top. A column holds two lines at least, or it is a part of a row."""
    columns: list[list[Line]] = []
    reach = 0.0
    for line in sorted(band, key=lambda line: line.left):
        if columns and line.left < reach + 0.3 * line.height:
            columns[-1].append(line)
            reach = max(reach, line.right)
        else:
            columns.append([line])
            reach = line.right
    if any(len(column) < 2 for column in columns):
        return sorted(band, key=lambda line: (round(line.top / max(line.height, 1)), line.left))
    return [line for column in columns for line in sorted(column, key=lambda line: (line.top, line.left))]

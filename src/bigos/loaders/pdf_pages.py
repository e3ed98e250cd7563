# SPDX-License-Identifier: GPL-2.0-only
"""Pages of a PDF as pdfium sees them: lines of text with their places, and what is drawn beside the text.

Calls pdfium itself and not pypdfium2's objects for pages: with geometry it stays close to the speed of the bare text
loop, and nothing of a page is left when it has been read.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from bigos.loaders.hyphens import MARK
from bigos.loaders.pdf_columns import Gap, gaps_of, gutters

# pdfium itself puts the mark where a word was broken at a line end; a line that ends with it goes on in the next.
_LINE = re.compile(f"[^\r\n{MARK}]+{MARK}?|{MARK}")
_LEFTWARDS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")  # scripts that are read from the right
_FORM_DEPTH = 4
_MOST_OBJECTS = 20_000  # looked at on one page for images
_MOST_ANNOTATIONS = 5000  # looked at on one page
_TELLING_LINES = 12  # that are looked at for the direction of reading
_LONG_LINE = 4  # characters, from which on a line tells the direction of reading
_INVISIBLE = 3  # text render mode of the layers that OCR programs put under or over a scan
_FEWEST_LINES = 4  # wide ones, before columns are looked for
_WIDE_LINE = 0.6  # of the width of the page's text
_PROBES = 4
_A4 = (0.0, 842.0, 595.0, 0.0)


class Line(NamedTuple):
    """A line of text and its box in points; `height` is that of its font.

    x grows in reading direction and y downwards, however the page is turned.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    height: float


@dataclass(slots=True)
class Picture:
    """What a page shows beside its text layer."""

    image_share: float = 0.0
    """The part of the page that images cover, 0 to 1 (overlaps are counted twice, but no more than all of it)."""
    drawn: bool = False
    """Whether anything is drawn."""
    invisible_text: bool = False
    """Whether text is there that is not painted: an OCR layer."""


@dataclass(slots=True)
class Page:
    """One page: its lines in the order of the file, what their texts are together, and where the page lies."""

    lines: list[Line]
    text: str
    turn: int
    """Reading direction: quarter turns clockwise, as /Rotate counts."""
    bounds: tuple[float, float, float, float]
    """left, top, right, bottom of what is visible, in the file's own coordinates, where y grows upwards."""
    picture: Picture | None = None
    """Known only when it was asked for."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points as the file has them, whatever the reading direction."""
        left, top, right, bottom = self.bounds
        return right - left, top - bottom

    def reading_y(self, x: float, y: float) -> float:
        """How far down the page, in reading direction, a point in the file's own coordinates is."""
        left, top, right, bottom = self.bounds
        return (top - y, x - left, y - bottom, right - x)[self.turn]


class PageReader:
    """Reads pages of one open document. Not for several threads: pdfium is not made for them."""

    def __init__(self, document: Any, *, annotated: bool = False) -> None:
        """`annotated` tells that annotations may have text of their own, as the fields of a form do."""
        import pypdfium2.raw as pdfium

        self._pdfium: Any = pdfium
        self._annotated = annotated
        self._document = document
        # Twice a line is asked for a box, and checking the arguments takes longer than the answer.
        self._char_box = _unchecked(pdfium.FPDFText_GetLooseCharBox)
        self._box = (ctypes.c_float * 4)()
        self._box_address = ctypes.addressof(self._box)

    def read(self, index: int, *, look_below: int) -> Page | None:
        """The page at `index` from 0, or None when pdfium cannot load it.

        `Page.picture` is filled in when there are fewer than `look_below` characters of text.
        """
        pdfium = self._pdfium
        page = pdfium.FPDF_LoadPage(self._document, index)
        if not page:
            return None
        if self._annotated and self._has_annotations(page) and pdfium.FPDFPage_Flatten(page, 0) == 1:
            # Their appearance is a part of the page now (in memory), and is read in its place.
            pdfium.FPDF_ClosePage(page)
            page = pdfium.FPDF_LoadPage(self._document, index)
            if not page:
                return None
        try:
            found = self._page(page)
            if len(found.text) < look_below:
                found.picture = self._look(page, found)
            return found
        finally:
            pdfium.FPDF_ClosePage(page)

    def _has_annotations(self, page: Any) -> bool:
        pdfium = self._pdfium
        for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)):
            annotation = pdfium.FPDFPage_GetAnnot(page, index)
            if annotation:
                kind = pdfium.FPDFAnnot_GetSubtype(annotation)
                pdfium.FPDFPage_CloseAnnot(annotation)
                if kind != pdfium.FPDF_ANNOT_LINK:
                    return True
        return False

    def _page(self, page: Any) -> Page:
        pdfium = self._pdfium
        box = pdfium.FS_RECTF()
        has_box = pdfium.FPDF_GetPageBoundingBox(page, box) and box.right > box.left and box.top > box.bottom
        bounds = (box.left, box.top, box.right, box.bottom) if has_box else _A4
        rotation = pdfium.FPDFPage_GetRotation(page) % 4
        text, raw = self._raw_lines(page)
        turn = _direction(raw, rotation)
        if turn != rotation:
            # pdfium takes the lines of a text that does not lie as the page does apart, and mixes them up.
            pdfium.FPDFPage_SetRotation(page, turn)
            text, raw = self._raw_lines(page)
        return Page(_placed(raw, turn, bounds), text, turn, bounds)

    def _raw_lines(self, page: Any) -> tuple[str, list[_RawLine]]:
        pdfium = self._pdfium
        text_page = pdfium.FPDFText_LoadPage(page)
        if not text_page:
            return "", []
        try:
            count = pdfium.FPDFText_CountChars(text_page)
            if count <= 0:
                return "", []
            buffer = (ctypes.c_ushort * (2 * count + 2))()
            units = pdfium.FPDFText_GetText(text_page, 0, count, buffer) - 1
            if units <= 0:
                return "", []
            text = ctypes.string_at(buffer, 2 * units).decode("utf-16-le", "replace")
            straight = units == count == len(text)
            lines = self._boxes(text_page, text, straight=straight)
            if straight and len(lines) >= _FEWEST_LINES:
                wide, left, width = _wide_lines(lines)
                if len(wide) >= _FEWEST_LINES and self._has_gutter(text_page, wide, left, width):
                    lines = self._cut_at_gutters(text_page, lines, wide)
            return text, lines
        finally:
            pdfium.FPDFText_ClosePage(text_page)

    def _boxes(self, text_page: Any, text: str, *, straight: bool) -> list[_RawLine]:
        """The lines of a page's text with the boxes of their first and last character.

        `straight` tells that characters of the text and of the page have the same numbers. That is the rule; pdfium
        leaves some out of its text, and a rare one takes two units of it.
        """
        handle = ctypes.cast(text_page, ctypes.c_void_p).value
        ask, box, address = self._char_box, self._box, self._box_address
        lines: list[_RawLine] = []
        add = lines.append
        for match in _LINE.finditer(text):
            start, words = match.start(), match[0]
            if words[0] <= " " or words[-1] <= " ":
                stripped = words.lstrip()
                start += len(words) - len(stripped)
                words = stripped.rstrip()
                if not words:
                    continue
            end = start + len(words) - (2 if words[-1] == MARK and len(words) > 1 else 1)
            if not straight:
                start, end = self._character(text_page, text, start), self._character(text_page, text, end)
            if ask(handle, start, address):
                first = box[:]
                add((words, first, box[:] if end > start and ask(handle, end, address) else first, start))
        return lines

    def _has_gutter(self, text_page: Any, wide: list[_RawLine], left: float, width: float) -> bool:
        """Whether wide lines are white in the middle: a look at a few of them."""
        probes = _probes(wide)
        x = left + width / 2
        for _, (_, top, _, bottom), _, _ in probes:
            near = 0.3 * (top - bottom)
            if self._pdfium.FPDFText_GetCharIndexAtPos(text_page, x, (top + bottom) / 2, near, near) >= 0:
                return False
        return True

    def _cut_at_gutters(self, text_page: Any, lines: list[_RawLine], wide: list[_RawLine]) -> list[_RawLine]:
        """Lines cut where a gutter crosses them, column by column; the same lines when there is none after all."""
        handle = ctypes.cast(text_page, ctypes.c_void_p).value
        ask, box, address = self._char_box, self._box, self._box_address

        def box_of(number: int) -> list[float]:
            return box[:] if ask(handle, number, address) else [0.0] * 4

        def gaps(line: _RawLine) -> list[Gap]:
            text, first, _, start = line
            return gaps_of(
                text, lambda place: (box_of(start + place)[0], box_of(start + place)[2]), first[1] - first[3]
            )

        # A few first: the lines of a table of contents are white in the middle too.
        if not gutters([(line[0], gaps(line)) for line in _probes(wide)]):
            return lines
        known = [(line, gaps(line)) for line in lines]
        places = gutters([(line[0], own) for line, own in known if line in wide])
        if not places:
            return lines
        pieces: list[_RawLine] = []
        for (text, _, last, start), own in known:
            cuts = [gap.at for gap in own if any(gap.left <= place <= gap.right for place in places)]
            for begin, end in pairwise([0, *cuts, len(text)]):
                piece = text[begin:end].rstrip()
                final = last if end == len(text) else box_of(start + begin + len(piece) - 1)
                pieces.append((piece, box_of(start + begin), final, start + begin))
        return _by_columns(pieces, places)

    def _character(self, text_page: Any, text: str, position: int) -> int:
        """The number on the page of the character at `position` of its text."""
        units = len(text[:position].encode("utf-16-le", "replace")) // 2
        index: int = self._pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, units)
        return max(index, 0)

    def _look(self, page: Any, found: Page) -> Picture:
        pdfium = self._pdfium
        picture = Picture()
        width, height = found.size
        covered = 0.0
        for kind, handle in self._objects(page):
            if kind == pdfium.FPDF_PAGEOBJ_TEXT:
                if not picture.invisible_text:
                    picture.invisible_text = pdfium.FPDFTextObj_GetTextRenderMode(handle) == _INVISIBLE
                # Letters of a font that says nothing about what they are give no text: they are to be looked at.
                picture.drawn |= not found.lines
            else:
                picture.drawn = True
            if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
                edges = [ctypes.c_float() for _ in range(4)]
                if pdfium.FPDFPageObj_GetBounds(handle, *edges):
                    left, bottom, right, top = (edge.value for edge in edges)
                    covered += max(right - left, 0.0) * max(top - bottom, 0.0)
        picture.image_share = min(covered / (width * height), 1.0)
        return picture

    def _objects(self, page: Any) -> list[tuple[int, Any]]:
        """(type, handle) of a page's objects, those in forms included, within bounds."""
        pdfium = self._pdfium
        found: list[tuple[int, Any]] = []
        count = min(pdfium.FPDFPage_CountObjects(page), _MOST_OBJECTS)
        waiting = [(pdfium.FPDFPage_GetObject(page, number), 0) for number in range(count)]
        while waiting and len(found) < _MOST_OBJECTS:
            handle, depth = waiting.pop()
            if not handle:
                continue
            kind = pdfium.FPDFPageObj_GetType(handle)
            if kind != pdfium.FPDF_PAGEOBJ_FORM:
                found.append((kind, handle))
            elif depth < _FORM_DEPTH:
                inside = min(pdfium.FPDFFormObj_CountObjects(handle), _MOST_OBJECTS)
                waiting += [(pdfium.FPDFFormObj_GetObject(handle, number), depth + 1) for number in range(inside)]
        return found


def _unchecked(function: Any) -> Callable[[int | None, int, int], int]:
    """The C function (handle, number, address) -> success, without ctypes' conversions."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    return kind(ctypes.cast(function, ctypes.c_void_p).value or 0)


_RawLine = tuple[str, list[float], list[float], int]
"""A line, [left, top, right, bottom] of its first and last character in the file's coordinates, the first's number."""


def _wide_lines(lines: list[_RawLine]) -> tuple[list[_RawLine], float, float]:
    """The lines that take most of the width of the page's text; its left edge and its width."""
    left = min([first[0] for _, first, _, _ in lines])
    right = max([last[2] for _, _, last, _ in lines])
    least = _WIDE_LINE * (right - left)
    return [line for line in lines if line[2][2] - line[1][0] > least], left, right - left


def _probes(wide: list[_RawLine]) -> list[_RawLine]:
    step = max(len(wide) // _PROBES, 1)
    return wide[step // 2 :: step][:_PROBES]


def _by_columns(lines: list[_RawLine], places: list[float]) -> list[_RawLine]:
    """Column by column from the left, between the lines that cross a gutter."""
    ordered: list[_RawLine] = []
    columns: list[list[_RawLine]] = [[] for _ in range(len(places) + 1)]
    for line in sorted(lines, key=lambda line: -line[1][1]):
        column, end = bisect(places, line[1][0]), bisect(places, line[2][2])
        if column == end:
            columns[column].append(line)
            continue
        ordered += [line for column in columns for line in column]
        columns = [[] for _ in range(len(places) + 1)]
        ordered.append(line)
    return ordered + [line for column in columns for line in column]


def _direction(lines: list[_RawLine], default: int) -> int:
    """The reading direction of most of the text, as quarter turns; some of the lines tell it."""
    tally: Counter[int] = Counter()
    for text, first, last, _ in lines[:: len(lines) // _TELLING_LINES + 1]:
        if len(text) < _LONG_LINE:
            continue
        across, up = last[0] - first[0], last[3] - first[3]
        if abs(across) >= abs(up):
            tally[0 if across >= 0 or _LEFTWARDS.search(text) else 2] += len(text)
        else:
            tally[1 if up > 0 else 3] += len(text)
    return max(tally, key=tally.__getitem__) if tally else default


def _placed(lines: list[_RawLine], turn: int, bounds: tuple[float, float, float, float]) -> list[Line]:
    """The lines in reading direction. What lies wholly beside the page is left out: no reader ever shows it."""
    left, top, right, bottom = bounds
    placed: list[Line] = []
    add, new = placed.append, tuple.__new__  # a NamedTuple's own call takes twice as long
    for text, (left_1, top_1, right_1, bottom_1), (left_2, top_2, right_2, bottom_2), _ in lines:
        low_x = left_1 if left_1 < left_2 else left_2
        high_x = right_1 if right_1 > right_2 else right_2
        low_y = bottom_1 if bottom_1 < bottom_2 else bottom_2
        high_y = top_1 if top_1 > top_2 else top_2
        if low_x >= right or high_x <= left or low_y >= top or high_y <= bottom:
            continue
        if turn == 0:
            height = high_y - low_y
            add(
                new(
                    Line,
                    (text, low_x - left, top - high_y, high_x - left, top - low_y, height if height > 0.1 else 0.1),
                )
            )
            continue
        if turn == 1:
            x_1, y_1, x_2, y_2 = low_y - bottom, low_x - left, high_y - bottom, high_x - left
        elif turn == 2:
            x_1, y_1, x_2, y_2 = right - high_x, low_y - bottom, right - low_x, high_y - bottom
        else:
            x_1, y_1, x_2, y_2 = top - high_y, right - high_x, top - low_y, right - low_x
        add(Line(text, x_1, y_1, x_2, y_2, max(y_2 - y_1, 0.1)))
    return placed

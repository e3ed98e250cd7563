# SPDX-License-Identifier: GPL-2.0-only
"""The lines of text of a page that pdfium has open, with their places.

A page is asked for its text once, and for the boxes of its lines' first and last characters in one sweep: with their
places, text takes little longer than without.
"""

from __future__ import annotations

import ctypes
import re
from array import array
from bisect import bisect
from itertools import pairwise, repeat
from typing import NamedTuple

from bigos.loaders.hyphens import MARK
from bigos.loaders.pdf_columns import Gap, gaps_of, gutters
from bigos.loaders.pdf_direct import ADDRESS, DOUBLE, INT, function, reference, references

_LEFTWARDS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")  # scripts that are read from the right
_TELLING_LINES = 12  # that are looked at for the direction of reading
_LONG_LINE = 4  # characters, from which on a line tells the direction of reading
_FEWEST_LINES = 4  # wide ones, before columns are looked for
_WIDE_LINE = 0.6  # of the width of the page's text
_PROBES = 4
_NEAR = 0.3  # of a line's height, across which a letter is found from where it is not
_STEPS = 12  # from letter to letter, to the one in the middle of a line
_BOX = 16  # bytes of left, top, right, bottom
_ROOM = 32  # lines, to begin with


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


RawLine = tuple[str, float, float, float, float, float, float, float, float, int]
"""A line, left, top, right, bottom of its first character, the same of its last one, the first's number on the page.

In the file's own coordinates, where y grows upwards.
"""


class LineReader:
    """Reads the lines of pages. Its buffers serve page after page: not for several threads."""

    def __init__(self) -> None:
        self._load = function("FPDFText_LoadPage", ADDRESS, ADDRESS)
        self._close = function("FPDFText_ClosePage", None, ADDRESS)
        self._count = function("FPDFText_CountChars", INT, ADDRESS, quick=True)
        self._text = function("FPDFText_GetText", INT, ADDRESS, INT, INT, ADDRESS)
        self._index = function("FPDFText_GetCharIndexFromTextIndex", INT, ADDRESS, INT, quick=True)
        self._at = function("FPDFText_GetCharIndexAtPos", INT, ADDRESS, DOUBLE, DOUBLE, DOUBLE, DOUBLE)
        self._char_box = function("FPDFText_GetLooseCharBox", INT, quick=True)
        self._tight_box = function("FPDFText_GetCharBox", INT, quick=True)
        self._units = ctypes.create_string_buffer(0)
        self._make_room(2 * _ROOM)
        self._tight = array("d", bytes(4 * 8))
        self._tight_edges = references(self._tight.buffer_info()[0], 4, 8)

    def _make_room(self, boxes: int) -> None:
        self._boxes = array("f", bytes(_BOX * boxes))
        self._box_places = references(self._boxes.buffer_info()[0], boxes, _BOX)

    def read(self, page: int) -> tuple[str, list[RawLine]]:
        """The text of the page with this handle, and its lines in the file's order or column by column."""
        text_page = self._load(page)
        if not text_page:
            return "", []
        try:
            count = self._count(text_page)
            if count <= 0:
                return "", []
            room = 4 * count + 4
            if len(self._units) < room:
                # A buffer's size is a part of its type, and to make a type for every page takes longer than its text.
                self._units = ctypes.create_string_buffer(2 * room)
            address = ctypes.addressof(self._units)
            units = self._text(text_page, 0, count, address) - 1
            if units <= 0:
                return "", []
            text = ctypes.string_at(address, 2 * units).decode("utf-16-le", "replace")
            # The rule. But pdfium leaves some characters out of its text, and a rare one takes two units of it.
            straight = units == count == len(text)
            lines = self._lines(text_page, text, straight=straight, units=units)
            if straight and len(lines) >= _FEWEST_LINES:
                wide, left, width = _wide_lines(lines)
                if len(wide) >= _FEWEST_LINES and self._has_gutter(text_page, wide, left + width / 2):
                    lines = self._cut_at_gutters(text_page, lines, wide)
            return text, lines
        finally:
            self._close(text_page)

    def _lines(self, text_page: int, text: str, *, straight: bool, units: int) -> list[RawLine]:
        """The lines of a page's text with the boxes of their first and last character.

        `straight` tells that characters of the text and of the page have the same numbers.
        """
        words, places = spans(text)
        if not straight:
            places = self._characters(text_page, text, places, units)
        if len(self._box_places) < len(places):
            self._make_room(2 * len(places))
        boxes, needed = self._boxes, 4 * len(places)
        had = list(map(self._char_box, repeat(reference(text_page)), places, self._box_places))
        if 0 in had:
            for number in range(1, len(had), 2):  # a line whose end is nowhere ends where it begins
                if not had[number]:
                    boxes[4 * number : 4 * number + 4] = boxes[4 * number - 4 : 4 * number]
        columns = [boxes[column:needed:8] for column in range(8)]
        lines = list(zip(words, *columns, places[::2], strict=True))
        if 0 in had:
            lines = [line for line, found in zip(lines, had[::2], strict=True) if found]
        return lines

    def _characters(self, text_page: int, text: str, places: list[int], units: int) -> list[int]:
        """The numbers on the page of the characters at places of its text: by turns of a line's first and last one."""
        if units != len(text):
            places = [len(text[:place].encode("utf-16-le", "replace")) // 2 for place in places]
        numbers = [max(self._index(text_page, place), 0) for place in places]
        numbers[1::2] = map(max, numbers[::2], numbers[1::2])
        return numbers

    def _has_gutter(self, text_page: int, wide: list[RawLine], x: float) -> bool:
        """Whether wide lines are white at x, the middle of the page's text: a look at a few of them."""
        probes = _probes(wide)
        if any(self._is_on_a_letter(text_page, line, x) for line in probes):
            return False
        for line in probes:
            top, bottom = line[2], line[4]
            near = _NEAR * (top - bottom)
            if self._at(text_page, x, (top + bottom) / 2, near, near) >= 0:
                return False
        return True

    def _is_on_a_letter(self, text_page: int, line: RawLine, x: float) -> bool:
        """Whether a letter of the line is certainly at x. pdfium itself would look at every character of the page."""
        text, left, top, _, bottom, _, _, right, _, start = line
        width = right - left
        if not left < x < right:
            return False
        y, near = (top + bottom) / 2, 0.49 * _NEAR * (top - bottom)
        box, edges, page = self._tight, self._tight_edges, reference(text_page)
        place = int((x - left) / width * len(text))
        for _ in range(_STEPS):
            if not 0 <= place < len(text):
                break
            if not self._tight_box(page, start + place, *edges):
                break
            if x < box[0] - near:
                place -= 1
            elif x > box[1] + near:
                place += 1
            else:
                return box[2] - near <= y <= box[3] + near
        return False

    def _cut_at_gutters(self, text_page: int, lines: list[RawLine], wide: list[RawLine]) -> list[RawLine]:
        """Lines cut where a gutter crosses them, column by column; the same lines when there is none after all."""
        ask, box, into, page = self._char_box, self._boxes, self._box_places[0], reference(text_page)

        def box_of(number: int) -> tuple[float, float, float, float]:
            return (box[0], box[1], box[2], box[3]) if ask(page, number, into) else (0.0,) * 4

        def gaps(line: RawLine) -> list[Gap]:
            start = line[9]

            def edges(place: int) -> tuple[float, float]:
                return (box[0], box[2]) if ask(page, start + place, into) else (0.0, 0.0)

            return gaps_of(line[0], edges, line[2] - line[4])

        # A few first: the lines of a table of contents are white in the middle too.
        if not gutters([(line[0], gaps(line)) for line in _probes(wide)]):
            return lines
        known = [(line, gaps(line)) for line in lines]
        places = gutters([(line[0], own) for line, own in known if line in wide])
        if not places:
            return lines
        pieces: list[RawLine] = []
        for line, own in known:
            text, start = line[0], line[9]
            cuts = [gap.at for gap in own if any(gap.left <= place <= gap.right for place in places)]
            for begin, end in pairwise([0, *cuts, len(text)]):
                piece = text[begin:end].rstrip()
                final = line[5:9] if end == len(text) else box_of(start + begin + len(piece) - 1)
                pieces.append((piece, *box_of(start + begin), *final, start + begin))
        return _by_columns(pieces, places)


def spans(text: str) -> tuple[list[str], list[int]]:
    """The words of each line, and by turns the places in the text of its first and of its last character.

    pdfium ends lines with CR LF, and puts MARK itself where a word was broken at a line end.
    """
    separator = "\r\n"
    if not text.count("\n") == text.count("\r") == text.count(separator):
        separator = "\n"
        text = text.replace("\r", separator)
    gap = len(separator)
    words: list[str] = []
    places: list[int] = []
    add, place_at = words.append, places.append
    following = 0
    for piece in (text.replace(MARK, MARK + separator) if MARK in text else text).split(separator):
        start = following
        following += len(piece) + gap
        if not piece:
            continue
        line = piece
        if piece[0] <= " " or piece[-1] <= " ":
            line = piece.lstrip()
            start += len(piece) - len(line)
            line = line.rstrip()
            if not line:
                continue
        add(line)
        place_at(start)
        if line[-1] == MARK:
            following -= gap
            place_at(start + max(len(line) - 2, 0))
        else:
            place_at(start + len(line) - 1)
    return words, places


def _wide_lines(lines: list[RawLine]) -> tuple[list[RawLine], float, float]:
    """The lines that take most of the width of the page's text; its left edge and its width."""
    left = min([line[1] for line in lines])
    right = max([line[7] for line in lines])
    least = _WIDE_LINE * (right - left)
    return [line for line in lines if line[7] - line[1] > least], left, right - left


def _probes(wide: list[RawLine]) -> list[RawLine]:
    step = max(len(wide) // _PROBES, 1)
    return wide[step // 2 :: step][:_PROBES]


def _by_columns(lines: list[RawLine], places: list[float]) -> list[RawLine]:
    """Column by column from the left, between the lines that cross a gutter."""
    ordered: list[RawLine] = []
    columns: list[list[RawLine]] = [[] for _ in range(len(places) + 1)]
    for line in sorted(lines, key=lambda line: -line[2]):
        column, end = bisect(places, line[1]), bisect(places, line[7])
        if column == end:
            columns[column].append(line)
            continue
        ordered += [line for column in columns for line in column]
        columns = [[] for _ in range(len(places) + 1)]
        ordered.append(line)
    return ordered + [line for column in columns for line in column]


def direction(lines: list[RawLine], default: int) -> int:
    """The reading direction of most of the text, as quarter turns clockwise; some of the lines tell it."""
    tally: dict[int, int] = {}
    for text, left, _, _, bottom, last_left, _, _, last_bottom, _ in lines[:: len(lines) // _TELLING_LINES + 1]:
        length = len(text)
        if length < _LONG_LINE:
            continue
        across, up = last_left - left, last_bottom - bottom
        if -across <= up <= across:
            turn = 0
        elif abs(across) < abs(up):
            turn = 1 if up > 0 else 3
        else:
            turn = 0 if _LEFTWARDS.search(text) else 2
        tally[turn] = tally.get(turn, 0) + length
    return max(tally, key=tally.__getitem__) if tally else default


def placed(lines: list[RawLine], turn: int, bounds: tuple[float, float, float, float]) -> list[Line]:
    """The lines in reading direction. What lies wholly beside the page is left out: no reader ever shows it."""
    left, top, right, bottom = bounds
    found: list[Line] = []
    add, new = found.append, tuple.__new__  # a NamedTuple's own call takes twice as long
    for text, left_1, top_1, right_1, bottom_1, left_2, top_2, right_2, bottom_2, _ in lines:
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
    return found

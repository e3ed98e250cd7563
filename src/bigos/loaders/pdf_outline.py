# SPDX-License-Identifier: GPL-2.0-only
"""A PDF's bookmarks as headings, and where on its page each of them begins."""

from __future__ import annotations

import ctypes
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bigos.loaders.encoding import clean
from bigos.loaders.pdf_direct import ADDRESS, INT, LONG, address_of, function
from bigos.loaders.sections import one_line

_MOST_BOOKMARKS = 20_000
_DEEPEST = 32
_USUAL_TITLE = 512  # bytes
_FIT_WIDTH = 3  # PDFDEST_VIEW_FITH
_SLACK = 4.0  # points by which a destination may lie below the top of its heading's line
_SECTIONS = frozenset(("chapter", "section", "part", "appendix", "rozdział", "część", "dodatek", "podrozdział"))
_ROMAN = re.compile(r"[IVXLCivxlc]{1,7}|[A-Z]")
_ALPHANUMERIC = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An outline entry. `page` counts from 0; (x, y) is the point it leads to in the file's coordinates, if any."""

    title: str
    level: int
    page: int
    point: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PageHeading:
    """A bookmark on its page: the paragraph that it stands before, and the trail from there on."""

    paragraph: int
    path: tuple[str, ...]


def bookmarks(document: Any) -> list[Bookmark]:
    """The outline of a document that pdfium has open, in its order, up to a bound; loops end it."""
    return list(_walk(document))


def _walk(document: Any) -> Iterator[Bookmark]:
    first_child = function("FPDFBookmark_GetFirstChild", ADDRESS, ADDRESS, ADDRESS)
    next_sibling = function("FPDFBookmark_GetNextSibling", ADDRESS, ADDRESS, ADDRESS)
    destination = function("FPDFBookmark_GetDest", ADDRESS, ADDRESS, ADDRESS)
    page_of = function("FPDFDest_GetDestPageIndex", INT, ADDRESS, ADDRESS)
    title_of, point_of = _title_reader(), _point_reader()
    handle = address_of(document)
    seen: set[int] = set()
    # Siblings still to come, one a level: the C API knows no parent.
    open_levels = [first_child(handle, None)]
    while open_levels:
        address = open_levels[-1]
        if not address or address in seen or len(seen) >= _MOST_BOOKMARKS:
            open_levels.pop()
            continue
        seen.add(address)
        level = len(open_levels)
        open_levels[-1] = next_sibling(handle, address)
        if level < _DEEPEST:
            open_levels.append(first_child(handle, address))
        target = destination(handle, address)
        if not target:
            continue
        page = page_of(handle, target)
        raw = title_of(address)
        title = one_line(raw if raw.isascii() and raw.isprintable() else clean(raw))
        if title and page >= 0:
            yield Bookmark(title, level, page, point_of(target))


def _title_reader() -> Callable[[int], str]:
    """A function from a bookmark to its title."""
    ask = function("FPDFBookmark_GetTitle", LONG, ADDRESS, ADDRESS, LONG)
    buffer = ctypes.create_string_buffer(_USUAL_TITLE)

    def title(bookmark: int) -> str:
        into = buffer
        size = ask(bookmark, ctypes.addressof(into), len(into))
        if size > len(into):  # then nothing was written
            into = ctypes.create_string_buffer(size)
            ask(bookmark, ctypes.addressof(into), size)
        return ctypes.string_at(into, max(size - 2, 0)).decode("utf-16-le", "replace")

    return title


def _point_reader() -> Callable[[int], tuple[float, float] | None]:
    """A function from a destination to where in the page it is, when it says how far up."""
    location = function("FPDFDest_GetLocationInPage", INT, *[ADDRESS] * 7)
    view = function("FPDFDest_GetView", LONG, ADDRESS, ADDRESS, ADDRESS)
    has, places = (ctypes.c_int * 3)(), (ctypes.c_float * 4)()
    count = ctypes.c_ulong()
    has_at, places_at, count_at = ctypes.addressof(has), ctypes.addressof(places), ctypes.addressof(count)
    pointers = (has_at, has_at + 4, has_at + 8, places_at, places_at + 4, places_at + 8)  # x, y and zoom of each

    def point(destination: int) -> tuple[float, float] | None:
        if location(destination, *pointers) and has[1]:
            return (places[0] if has[0] else 0.0, places[1])
        if view(destination, count_at, places_at) == _FIT_WIDTH and count.value:
            return (0.0, places[0])
        return None

    return point


class Outline:
    """The trail of headings through a document, asked page by page in order."""

    def __init__(self, entries: Sequence[Bookmark]) -> None:
        self._by_page: defaultdict[int, list[tuple[Bookmark, tuple[str, ...]]]] = defaultdict(list)
        trail: list[tuple[int, str]] = []
        for entry in entries:
            while trail and trail[-1][0] >= entry.level:
                trail.pop()
            trail.append((entry.level, entry.title))
            self._by_page[entry.page].append((entry, tuple(title for _, title in trail)))
        self.path: tuple[str, ...] = ()
        """The trail where the last page that was asked about ends."""

    def on_page(
        self, page: int, texts: Sequence[str], tops: Sequence[float], downs: Sequence[float | None]
    ) -> list[PageHeading]:
        """Where the trail changes on a page (from 0), in the order of its paragraphs.

        Args:
            page: every page is asked for once, in order.
            texts: its paragraphs.
            tops: how far down the page each of them begins, in points.
            downs: how far down each bookmark of the page leads; see `points`.
        """
        found: list[PageHeading] = []
        after = 0
        for (entry, path), down in zip(self._by_page.get(page, ()), downs, strict=True):
            place = _by_words(entry.title, texts, after)
            if place is None:
                place = _by_place(down, tops, after)
            found.append(PageHeading(place, path))
            after = place
            self.path = path
        return found

    def points(self, page: int) -> list[tuple[float, float] | None]:
        """The points that the bookmarks of a page lead to."""
        return [entry.point for entry, _ in self._by_page.get(page, ())]


def _by_words(title: str, texts: Sequence[str], after: int) -> int | None:
    """The first paragraph that begins with the title, with a section number before it or without."""
    reach = 2 * len(title) + 40
    for index in range(after, len(texts)):
        at = texts[index].find(title, 0, reach)
        if at == 0 or (at > 0 and _only_number(texts[index][:at])):
            return index
    wanted = "".join(_ALPHANUMERIC.findall(title)).casefold()
    if len(wanted) < 3:
        return None
    first = wanted[0]
    for index in range(after, len(texts)):
        head = texts[index][:reach].casefold()
        at = head.find(first)
        while at >= 0 and _only_number(head[:at]):
            if "".join(_ALPHANUMERIC.findall(head[at:])).startswith(wanted):
                return index
            at = head.find(first, at + 1)
    return None


def _only_number(text: str) -> bool:
    """Whether it may be the number of a section: 3.2, Rozdział 4:, VII."""
    words = _ALPHANUMERIC.findall(text)
    return all(word.isdecimal() or _ROMAN.fullmatch(word) or word.casefold() in _SECTIONS for word in words)


def _by_place(down: float | None, tops: Sequence[float], after: int) -> int:
    if down is None:
        return after
    for index in range(after, len(tops)):
        if tops[index] >= down - _SLACK:
            return index
    return len(tops)

# SPDX-License-Identifier: GPL-2.0-only
"""Pages of a PDF as pdfium sees them: lines of text with their places, and what is drawn beside the text.

Calls pdfium itself and not pypdfium2's objects for pages: with geometry it stays close to the speed of the bare text
loop, and nothing of a page is left when it has been read.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from bigos.loaders.pdf_direct import ADDRESS, INT, LONG, address_of, function
from bigos.loaders.pdf_lines import Line, LineReader, direction, placed

_FORM_DEPTH = 4
_MOST_OBJECTS = 20_000  # looked at on one page for images
_MOST_ANNOTATIONS = 5000  # looked at on one page
_INVISIBLE = 3  # text render mode of the layers that OCR programs put under or over a scan
_A4 = (0.0, 842.0, 595.0, 0.0)


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
        self._document = address_of(document)
        self._lines = LineReader()
        self._load = function("FPDF_LoadPage", ADDRESS, ADDRESS, INT)
        self._close = function("FPDF_ClosePage", None, ADDRESS)
        self._bounding_box = function("FPDF_GetPageBoundingBox", INT, ADDRESS, ADDRESS, quick=True)
        self._rotation = function("FPDFPage_GetRotation", INT, ADDRESS, quick=True)
        self._object_count = function("FPDFPage_CountObjects", INT, ADDRESS, quick=True)
        self._object = function("FPDFPage_GetObject", ADDRESS, ADDRESS, INT, quick=True)
        self._inside_count = function("FPDFFormObj_CountObjects", INT, ADDRESS, quick=True)
        self._inside = function("FPDFFormObj_GetObject", ADDRESS, ADDRESS, LONG, quick=True)
        self._bounds = function("FPDFPageObj_GetBounds", INT, *[ADDRESS] * 5, quick=True)
        self._kind = function("FPDFPageObj_GetType", INT, ADDRESS, quick=True)
        self._render_mode = function("FPDFTextObj_GetTextRenderMode", INT, ADDRESS, quick=True)
        self._box = (ctypes.c_float * 4)()

    def read(self, index: int, *, look_below: int) -> Page | None:
        """The page at `index` from 0, or None when pdfium cannot load it.

        `Page.picture` is filled in when there are fewer than `look_below` characters of text.
        """
        page = self._load(self._document, index)
        if not page:
            return None
        if self._annotated and self._has_annotations(page) and self._pdfium.FPDFPage_Flatten(_as_page(page), 0) == 1:
            # Their appearance is a part of the page now (in memory), and is read in its place.
            self._close(page)
            page = self._load(self._document, index)
            if not page:
                return None
        try:
            found = self._page(page)
            if len(found.text) < look_below:
                found.picture = self._look(page, found)
            return found
        finally:
            self._close(page)

    def _has_annotations(self, page: int) -> bool:
        pdfium, handle = self._pdfium, _as_page(page)
        for index in range(min(pdfium.FPDFPage_GetAnnotCount(handle), _MOST_ANNOTATIONS)):
            annotation = pdfium.FPDFPage_GetAnnot(handle, index)
            if annotation:
                kind = pdfium.FPDFAnnot_GetSubtype(annotation)
                pdfium.FPDFPage_CloseAnnot(annotation)
                if kind != pdfium.FPDF_ANNOT_LINK:
                    return True
        return False

    def _page(self, page: int) -> Page:
        bounds = _A4
        if self._bounding_box(page, ctypes.addressof(self._box)):
            left, top, right, bottom = self._box
            if right > left and top > bottom:
                bounds = (left, top, right, bottom)
        rotation = self._rotation(page) % 4
        text, raw = self._lines.read(page)
        turn = direction(raw, rotation)
        if turn != rotation:
            # pdfium takes the lines of a text that does not lie as the page does apart, and mixes them up.
            self._pdfium.FPDFPage_SetRotation(_as_page(page), turn)
            text, raw = self._lines.read(page)
        return Page(placed(raw, turn, bounds), text, turn, bounds)

    def _look(self, page: int, found: Page) -> Picture:
        pdfium = self._pdfium
        picture = Picture()
        width, height = found.size
        covered = 0.0
        for kind, handle in self._objects(page):
            if kind == pdfium.FPDF_PAGEOBJ_TEXT:
                if not picture.invisible_text:
                    picture.invisible_text = self._render_mode(handle) == _INVISIBLE
                # Letters of a font that says nothing about what they are give no text: they are to be looked at.
                picture.drawn |= not found.lines
            else:
                picture.drawn = True
            if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
                at = ctypes.addressof(self._box)
                if self._bounds(handle, at, at + 4, at + 8, at + 12):
                    left, bottom, right, top = self._box
                    covered += max(right - left, 0.0) * max(top - bottom, 0.0)
        picture.image_share = min(covered / (width * height), 1.0)
        return picture

    def _objects(self, page: int) -> list[tuple[int, int]]:
        """(type, handle) of a page's objects, those in forms included, within bounds."""
        pdfium = self._pdfium
        found: list[tuple[int, int]] = []
        count = min(self._object_count(page), _MOST_OBJECTS)
        waiting = [(self._object(page, number), 0) for number in range(count)]
        while waiting and len(found) < _MOST_OBJECTS:
            handle, depth = waiting.pop()
            if not handle:
                continue
            kind = self._kind(handle)
            if kind != pdfium.FPDF_PAGEOBJ_FORM:
                found.append((kind, handle))
            elif depth < _FORM_DEPTH:
                inside = min(self._inside_count(handle), _MOST_OBJECTS)
                waiting += [(self._inside(handle, number), depth + 1) for number in range(inside)]
        return found


def _as_page(address: int) -> Any:
    """The handle of a page as pypdfium2 wants it."""
    import pypdfium2.raw as pdfium

    return ctypes.cast(address, pdfium.FPDF_PAGE)

# SPDX-License-Identifier: GPL-2.0-only
"""DOCX: body text in order, headings by outline level, tables as rows, lists with their numbers, notes where they are
referred to, text boxes after their paragraph. Deleted and hidden text, field codes, readings beside characters (ruby)
and the table of contents are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.container import open_container
from bigos.loaders.docx_numbering import Numbering
from bigos.loaders.encoding import clean
from bigos.loaders.heading_styles import heading_level, is_contents_line
from bigos.loaders.markup import Element, attribute, local, parse_xml
from bigos.loaders.ooxml_package import readable_copy
from bigos.loaders.optional import require
from bigos.loaders.options import LoadOptions
from bigos.loaders.page import words
from bigos.loaders.sections import Parsed, Trail, one_line
from bigos.types import SourceFile

_WRAPPERS = words("sdt sdtContent customXml smartTag ins moveTo AlternateContent Choice")
_LEFT_OUT = words("del moveFrom instrText delText sectPr pPr rPr sdtPr sdtEndPr rt rubyPr")
_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
_PROPERTIES = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
_OFF = frozenset(("0", "false", "off"))
_LONGEST_REPEATED = 80  # characters of a cell that is shown again in each row that it spans
_MAX_STYLES = 20  # in a chain of styles that are based on one another, which may be a ring


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    parent: str | None
    outline: int | None
    num_id: str | None
    num_level: int | None


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Raises DocumentError as `open_container` and `readable_copy` do, and "damaged" when there is no document part."""
    opc = require("docx.opc.package", "python-docx")
    parts = require("docx", "python-docx")  # registers its part classes
    assert parts.Document
    text = Assembly()
    copy = readable_copy(open_container(data), text.warn)
    try:
        package = opc.OpcPackage.open(copy)
        main = package.main_document_part
    except (KeyError, ValueError, AttributeError) as error:
        raise DocumentError("damaged", f"there is no document in the package: {error}") from error
    return _Reader(main, text).read(_title(package))


def _title(package: Any) -> str | None:
    # Asked for its part: for a package without one, as Google Docs writes it, the library makes up a title.
    try:
        return one_line(clean(package.part_related_by(_PROPERTIES).core_properties.title or "")) or None
    except (KeyError, ValueError, AttributeError):
        return None


def _root(part: Any) -> Element:
    element = getattr(part, "element", None)
    return parse_xml(part.blob, recover=True) if element is None else element


class _Reader:
    def __init__(self, main: Any, text: Assembly) -> None:
        self._main = _root(main)
        related: dict[str, Element] = {}
        for relationship in main.rels.values():
            kind = relationship.reltype.rpartition("/")[2]
            if not relationship.is_external and kind in ("styles", "numbering", "footnotes", "endnotes"):
                related[kind] = _root(relationship.target_part)
        self._styles = _styles(related.get("styles"))
        self._numbering = Numbering(related.get("numbering"))
        self._notes = {
            (kind, attribute(note, "id")): note
            for kind in ("footnote", "endnote")
            for note in related.get(kind + "s", ())
            if attribute(note, "type") in (None, "normal")
        }
        self._notes_shown = 0
        self._text = text
        self._trail = Trail()
        self._first_heading: str | None = None

    def read(self, title: str | None) -> Parsed:
        for element in self._main:
            if local(element) == "body":
                self._blocks(element)
        return self._text.parsed(title or self._first_heading)

    def _blocks(self, container: Element) -> None:
        for element in container:
            name = local(element)
            if name == "p":
                self._paragraph(element)
            elif name == "tbl":
                self._table(element)
            elif name in _WRAPPERS:
                self._blocks(element)

    def _paragraph(self, element: Element) -> None:
        style_id, outline, num_id, num_level = self._properties(element)
        names = [style.name for style in self._chain(style_id)]
        if names and is_contents_line(names[0]):
            return
        pieces = _Pieces()
        _collect(element, pieces)
        text = "".join(pieces.text).strip("\n")
        level = self._heading_level(style_id, outline)
        mark = self._numbering.next(num_id, num_level) if num_id is not None and text.strip() else ""
        if text.strip() and level is not None:
            heading = one_line(clean(mark + text))
            self._trail.enter(level, heading)
            self._first_heading = self._first_heading or heading
        is_item = bool(mark) and level is None
        self._text.add(mark + text, heading_path=self._trail.path, run=num_id if is_item else None)
        for kind, identity in pieces.notes:
            self._note(kind, identity)
        for box in pieces.boxes:
            self._blocks(box)

    def _note(self, kind: str, identity: str) -> None:
        note = self._notes.pop((kind, identity), None)
        if note is not None:
            self._notes_shown += 1
            self._text.add(f"[{self._notes_shown}] " + " ".join(_plain(note)), heading_path=self._trail.path)

    def _table(self, table: Element) -> None:
        rows = [_of(row, "tc") for row in _of(table, "tr")]
        if all(len(row) <= 1 for row in rows):  # a frame around text, not data
            for row in rows:
                for cell in row:
                    self._blocks(cell)
            return
        lines, notes = [], []
        above: dict[int, str] = {}  # by the column of the grid, the text of the cell that spans rows there
        for row in rows:
            cells = []
            column = 0
            for cell in row:
                span, is_start, is_more = _spans(cell)
                pieces = _Pieces()
                _collect_all(cell, pieces)
                cells.append(" ".join("".join(pieces.text).split()) or (above.get(column, "") if is_more else ""))
                if is_start:
                    above[column] = cells[-1] if len(cells[-1]) <= _LONGEST_REPEATED else ""
                column += span
                notes += pieces.notes
                for box in pieces.boxes:
                    cells[-1] = " ".join((cells[-1], *_plain(box))).strip()
            if any(cells):
                lines.append(" | ".join(cells))
        self._text.add("\n".join(lines), heading_path=self._trail.path)
        for kind, identity in notes:
            self._note(kind, identity)

    def _properties(self, paragraph: Element) -> tuple[str | None, int | None, str | None, int]:
        """Style id, own outline level, list and level in it; the style's list counts where the paragraph has none."""
        values = next(iter(_of(paragraph, "pPr")), ())
        style_id = outline = num_id = num_level = None
        for element in values:
            if local(element) == "pStyle":
                style_id = attribute(element, "val")
            elif local(element) == "outlineLvl":
                outline = _digits(attribute(element, "val"))
            elif local(element) == "numPr":
                num_id, num_level = _list(element)
        for style in self._chain(style_id):
            num_id = style.num_id if num_id is None else num_id
            num_level = style.num_level if num_level is None else num_level
        return style_id, outline, num_id, num_level or 0

    def _heading_level(self, style_id: str | None, own: int | None) -> int | None:
        """1 to 9; 0 for the document's title; None for body text (which outline level 9 is)."""
        if own is not None:
            return own + 1 if own < 9 else None
        for style in self._chain(style_id):
            if style.outline is not None:
                return style.outline + 1 if style.outline < 9 else None
            named = heading_level(style.name)
            if named is not None:
                return named
        return None

    def _chain(self, style_id: str | None) -> Iterator[_Style]:
        for _ in range(_MAX_STYLES):
            style = self._styles.get(style_id or "")
            if style is None:
                return
            yield style
            style_id = style.parent


class _Pieces:
    """What a paragraph has: text in order, the notes it refers to, the text boxes anchored in it."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.notes: list[tuple[str, str]] = []
        self.boxes: list[Element] = []


def _collect(element: Element, pieces: _Pieces) -> None:
    """Read the inside of a paragraph."""
    for child in element:
        name = local(child)
        if name == "t":
            pieces.text.append(child.text or "")
        elif name == "r" and _is_hidden(child):
            continue
        elif name in _SIGNS:
            pieces.text.append(_SIGNS[name])
        elif name in ("footnoteReference", "endnoteReference"):
            pieces.notes.append((name.removesuffix("Reference"), attribute(child, "id") or ""))
        elif name == "txbxContent":
            pieces.boxes.append(child)
        elif name == "AlternateContent":
            # The same box twice, for new and old programs.
            choices = [option for option in child if local(option) == "Choice"]
            for option in choices or list(child):
                _collect(option, pieces)
        elif name not in _LEFT_OUT:
            _collect(child, pieces)


def _is_hidden(run: Element) -> bool:
    for properties in run:
        if local(properties) == "rPr":
            return any(local(one) == "vanish" and attribute(one, "val") not in _OFF for one in properties)
    return False


def _spans(cell: Element) -> tuple[int, bool, bool]:
    """How many columns a cell spans; whether it is the first of merged rows; whether it goes on from the row above."""
    span, is_start, is_more = 1, False, False
    for values in cell:
        for value in values if local(values) == "tcPr" else ():
            if local(value) == "gridSpan":
                span = _digits(attribute(value, "val")) or 1
            elif local(value) == "vMerge":
                is_start = attribute(value, "val") == "restart"
                is_more = not is_start
    return span, is_start, is_more


def _collect_all(cell: Element, pieces: _Pieces) -> None:
    """Read all paragraphs of a cell, also those of tables in it."""
    for child in cell:
        if local(child) == "p":
            _collect(child, pieces)
            pieces.text.append(" ")
        elif local(child) not in _LEFT_OUT:
            _collect_all(child, pieces)


def _plain(container: Element) -> list[str]:
    pieces = _Pieces()
    _collect_all(container, pieces)
    return "".join(pieces.text).split()


def _of(element: Element, name: str) -> list[Element]:
    """Children of that name, also inside content controls and the like."""
    found = []
    for child in element:
        if local(child) == name:
            found.append(child)
        elif local(child) in _WRAPPERS:
            found.extend(_of(child, name))
    return found


def _styles(root: Element | None) -> dict[str, _Style]:
    styles: dict[str, _Style] = {}
    for element in root if root is not None else ():
        identity = attribute(element, "styleId")
        if local(element) != "style" or identity is None:
            continue
        name = parent = num_id = outline = num_level = None
        for child in element:
            if local(child) == "name":
                name = attribute(child, "val")
            elif local(child) == "basedOn":
                parent = attribute(child, "val")
            elif local(child) == "pPr":
                for value in child:
                    if local(value) == "outlineLvl":
                        outline = _digits(attribute(value, "val"))
                    elif local(value) == "numPr":
                        num_id, num_level = _list(value)
        styles[identity] = _Style(name or identity, parent, outline, num_id, num_level)
    return styles


def _list(element: Element) -> tuple[str | None, int | None]:
    values = {local(child): attribute(child, "val") for child in element}
    return values.get("numId"), _digits(values.get("ilvl"))


def _digits(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None

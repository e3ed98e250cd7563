# SPDX-License-Identifier: GPL-2.0-only
"""ODT, ODP and ODS (and their flat XML): one walk over content.xml. A slide or a sheet is a page.

Read directly: the format is plain enough, and only the one part with the text has to be unpacked and parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.container import open_container
from bigos.loaders.encoding import clean
from bigos.loaders.heading_styles import heading_level
from bigos.loaders.markup import Element, attribute, descend, local, parse_xml, text_of
from bigos.loaders.options import LoadOptions
from bigos.loaders.page import words
from bigos.loaders.sections import Parsed, Trail, one_line
from bigos.loaders.sheet_rows import Budget, row_lines
from bigos.types import SourceFile

_LEFT_OUT = words(
    "tracked-changes table-of-content alphabetical-index illustration-index table-index object-index user-index "
    "annotation annotation-end forms sequence-decls variable-decls user-field-decls note-citation shapes "
    "binary-data ruby-text"
)
_MAX_STYLES = 20  # in a chain of styles that are based on one another, which may be a ring
_MAX_REPEAT = 1000  # columns or rows of the same content; more of them fill a sheet to its edge
_MAX_SPACES = 100
_LONGEST_REPEATED = 80  # characters of a cell that is shown again in each row that it spans
_REPEATED = frozenset(("page-number", "header", "footer", "date-time"))  # kinds of frames on a slide
_SPACES = re.compile(r"[ \t\r\n]+")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Text with the headings' outline levels, or slides, or sheets with their columns' names.

    Raises:
        DocumentError: as `open_container` does; "needs a password" for an encrypted document; "damaged".
    """
    if data.lstrip()[:1] == b"<":
        return _read(parse_xml(data), None, None)
    container = open_container(data)
    content = container.find("content.xml")
    if content is None:
        raise DocumentError("damaged", "content.xml is missing: it is no OpenDocument file")
    _refuse_encrypted(container.read(manifest) if (manifest := container.find("META-INF/manifest.xml")) else b"")
    meta = container.find("meta.xml")
    about = parse_xml(container.read(meta), recover=True) if meta is not None else None
    styles = container.find("styles.xml")
    return _read(
        parse_xml(container.read(content)),
        about,
        parse_xml(container.read(styles), recover=True) if styles is not None else None,
    )


def _refuse_encrypted(manifest: bytes) -> None:
    if b"encryption-data" in manifest:
        raise DocumentError(
            "needs a password", "the document is encrypted", fix="save a copy without a password, and ingest that"
        )


def _read(root: Element, about: Element | None, styles: Element | None) -> Parsed:
    about = next((element for element in root if local(element) == "meta"), None) if about is None else about
    titles = descend(about, "title") if about is not None else []
    named = one_line(clean(text_of(titles[0]))) if titles else None
    body = next((element for element in root if local(element) == "body"), None)
    reader = _Reader(_styles(styles) | _styles(root))
    for document in body if body is not None else ():
        if local(document) == "spreadsheet":
            reader.sheets(document)
        elif local(document) == "presentation":
            reader.slides(document)
        elif local(document) in ("text", "drawing"):
            reader.blocks(document)
    return reader.parsed(named)


@dataclass(frozen=True, slots=True)
class _Style:
    name: str
    parent: str


def _styles(root: Element | None) -> dict[str, _Style]:
    """Paragraph styles by their inner names, which write a blank as _20_."""
    found: dict[str, _Style] = {}
    for group in root if root is not None else ():
        for element in group if local(group) in ("styles", "automatic-styles") else ():
            inner = attribute(element, "name")
            if local(element) == "style" and attribute(element, "family") == "paragraph" and inner is not None:
                name = attribute(element, "display-name") or inner.replace("_20_", " ")
                found[inner] = _Style(name, attribute(element, "parent-style-name") or "")
    return found


class _Reader:
    def __init__(self, styles: dict[str, _Style]) -> None:
        self._styles = styles
        self.text = Assembly()
        self.first_heading: str | None = None
        self._trail = Trail()
        self._page: int | None = None
        self._list_depth = 0
        self._budget = Budget()
        self._notes = 0

    def parsed(self, title: str | None) -> Parsed:
        """What was read."""
        if self._budget.warning:
            self.text.warn(self._budget.warning)
        return self.text.parsed(title or self.first_heading)

    def blocks(self, container: Element) -> None:
        """Everything in a text, a section, a frame or a cell that stands alone."""
        for element in container:
            name = local(element)
            if name in ("h", "p"):
                self._paragraph(element, name)
            elif name == "list":
                self._list(element)
            elif name == "table":
                self._table(element)
            elif name not in _LEFT_OUT and attribute(element, "class") not in _REPEATED and not _is_hidden(element):
                self.blocks(element)

    def slides(self, presentation: Element) -> None:
        pages = (element for element in presentation if local(element) == "page")
        for self._page, page in enumerate(pages, 1):
            self._trail = Trail()
            frames = [frame for frame in page.iter() if attribute(frame, "class") == "title"]
            title = one_line(clean(" ".join("".join(_inline(frame, [], [])) for frame in frames)))
            if title:
                self._trail.enter(1, title)
                self.first_heading = self.first_heading or title
            self.blocks(page)

    def sheets(self, spreadsheet: Element) -> None:
        tables = (element for element in spreadsheet if local(element) == "table")
        for page, table in enumerate(tables, 1):
            name = one_line(clean(attribute(table, "name") or ""))
            self.text.add(name, page=page, heading_path=(name,) if name else (), run=page)
            lines = "\n".join(row_lines(self._budget.rows(_rows(table))))
            self.text.add(lines, page=page, heading_path=(name,) if name else (), run=page)

    def _paragraph(self, element: Element, name: str, mark: str = "") -> None:
        frames: list[Element] = []
        notes: list[Element] = []
        inside = "".join(_inline(element, frames, notes)).strip()
        level = self._level(element, name) if inside else None
        if level is not None:
            title = one_line(clean(inside))
            self._trail.enter(level, title)
            self.first_heading = self.first_heading or title
        self._add(mark + inside if inside else "", run="list" if self._list_depth else None)
        for note in notes:
            self._notes += 1
            self._add(f"[{self._notes}] " + " ".join("".join(_inline(note, [], [])).split()))
        for frame in frames:
            self.blocks(frame)

    def _level(self, element: Element, name: str) -> int | None:
        """A heading's level, 0 for the document's title; None for a paragraph."""
        level = attribute(element, "outline-level") or ""
        if name == "h":
            return int(level) if level.isdecimal() else 1
        style = self._styles.get(attribute(element, "style-name") or "")
        for _ in range(_MAX_STYLES):
            if style is None:
                return None
            found = heading_level(style.name)
            if found is not None:
                return found
            style = self._styles.get(style.parent)
        return None

    def _list(self, element: Element) -> None:
        self._list_depth += 1
        indent = "  " * min(self._list_depth - 1, 8)
        for item in element:
            mark = "- "
            for child in item:
                name = local(child)
                if name in ("p", "h"):
                    # A numbered heading is a list of one item; it is a heading all the same.
                    self._paragraph(child, name, "" if name == "h" else indent + mark)
                    mark = "  "
                elif name == "list":
                    self._list(child)
        self._list_depth -= 1

    def _table(self, table: Element) -> None:
        rows = list(self._budget.rows(_rows(table)))
        if all(len(row) <= 1 for row in rows):
            for cell in (found for row in _own_rows(table) for found in row):
                self.blocks(cell)
            return
        cells = ([" ".join(cell.split()) for cell in row] for row in rows)
        self._add("\n".join(" | ".join(row).rstrip(" |") for row in cells if any(row)))

    def _add(self, text: str, run: object = None) -> None:
        self.text.add(text, page=self._page, heading_path=self._trail.path, run=run)


def _is_hidden(element: Element) -> bool:
    """Whether it is a section that the author has hidden."""
    return local(element) == "section" and attribute(element, "display") == "none"


def _own_rows(element: Element) -> Iterator[Element]:
    """Rows of a table, also in its header and groups; those of tables in its cells belong to their cells."""
    for child in element:
        if local(child) == "table-row":
            yield child
        elif local(child) in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _own_rows(child)


def _rows(table: Element) -> Iterator[list[str]]:
    """The cells of each row; one that spans rows is in each of them, so that a row is understood alone."""
    above: dict[int, tuple[str, int]] = {}  # by column: the text of a cell above, and how many rows it still spans
    for row in _own_rows(table):
        cells: list[str] = []
        for cell in row:
            if local(cell) not in ("table-cell", "covered-table-cell"):
                continue
            text, rows = _cell(cell), _repeated(cell, "number-rows-spanned")
            if local(cell) == "covered-table-cell" and len(cells) in above:
                text, rows = above.pop(len(cells))
            if rows > 1 and len(text) <= _LONGEST_REPEATED:
                above[len(cells)] = (text, rows - 1)
            times = _repeated(cell, "number-columns-repeated")
            cells += [text] * (times if text else min(times, _MAX_REPEAT))
        while cells and not cells[-1]:
            cells.pop()
        for _ in range(_repeated(row, "number-rows-repeated") if cells else 1):
            yield list(cells)


def _repeated(element: Element, name: str) -> int:
    times = attribute(element, name) or "1"
    return min(int(times), _MAX_REPEAT) if times.isdecimal() else 1


def _cell(cell: Element) -> str:
    """A date as it is stored, since what is shown depends on the author's country; all else as it is shown."""
    if attribute(cell, "value-type") == "date":
        return (attribute(cell, "date-value") or "").replace("T00:00:00", "").replace("T", " ")
    lines = []
    for child in cell:
        if local(child) not in _LEFT_OUT:
            lines.append("".join(_inline(child, [], [])))
    return "\n".join(line for line in lines if line.strip())


def _inline(element: Element, frames: list[Element], notes: list[Element]) -> Iterator[str]:
    """The characters of a paragraph; text boxes and notes in it are put aside."""
    yield _SPACES.sub(" ", element.text or "")
    for child in element:
        name = local(child)
        if name == "s":
            count = attribute(child, "c") or "1"
            yield " " * (min(int(count), _MAX_SPACES) if count.isdecimal() else 1)
        elif name == "tab":
            yield "\t"
        elif name == "line-break":
            yield "\n"
        elif name == "note":
            notes.extend(part for part in child if local(part) == "note-body")
        elif name in ("frame", "custom-shape"):
            frames.append(child)
        elif name not in _LEFT_OUT:
            yield from _inline(child, frames, notes)
            if name in ("p", "h", "list-item"):
                yield "\n"
        yield _SPACES.sub(" ", child.tail or "")

# SPDX-License-Identifier: GPL-2.0-only
"""Elements to text: lines where a browser breaks them, blank lines between paragraphs, `a | b | c` for table rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lxml import etree

from bigos.loaders.page import Element, words
from bigos.loaders.sections import Trail, one_line

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_PARAGRAPHS = words("p pre blockquote table ul ol dl figure h1 h2 h3 h4 h5 h6 hr")
_LINES = words(
    "div li dt dd tr section article main header footer aside nav address center caption figcaption details summary "
    "form fieldset legend label thead tbody tfoot body html br td th option hgroup menu"
)
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
# A table that has these is there for the layout of the page, not for data.
_NOT_IN_CELLS = ("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre")
_SPACES = re.compile(r"[ \t\n\r\f\xa0]+")
_LONGEST_REPEATED = 80  # characters of a cell that is shown again in each row that it spans
_MOST_ROWS = 1000  # that a cell may span
_MAX_INDENT = 8  # levels of nested lists that are still shown by indentation


@dataclass(slots=True)
class _Table:
    """A data table that is being read."""

    cells: int = 0
    """Written in the current row."""
    column: int = 0
    """Of the next cell, those counted that cells span."""
    start: int = 0
    """Where the open cell begins, counted in pieces of text."""
    spans: dict[int, tuple[str, int]] = field(default_factory=dict)
    """By column: the text of a cell from a row above, and how many rows it still spans."""


class PageText:
    """Reads one element into sections of (heading trail, text); one use only.

    The walk keeps no stack of its own frames, so depth costs nothing.
    """

    def __init__(self, left_out: Callable[[Element], bool]) -> None:
        self._left_out = left_out
        self._sections: list[tuple[tuple[str, ...], str]] = []
        self._trail = Trail()
        self._parts: list[str] = []
        self._breaks = 0  # line feeds owed before the next text
        self._space = False  # a space owed before the next text
        self._fresh = True  # nothing on the current line yet
        self._pre = 0
        self._lists: list[int | None] = []  # for each open list the number of its next item, None for bullets
        self._heading_at: int | None = None
        self._row: list[_Table] = []  # the open data tables
        self._data_tables: set[Element] = set()

    def read(self, root: Element) -> list[tuple[tuple[str, ...], str]]:
        """All sections that have text."""
        skipped: Element = None
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            if event == "start":
                if self._left_out(element):
                    skipped = element
                    walk.skip_subtree()
                    continue
                self._open(element)
                self._text(element.text)
            elif element is skipped:
                skipped = None
                if element is not root:
                    self._pass_over(element)
                    self._text(element.tail)
            else:
                self._close(element)
                if element is not root:
                    self._text(element.tail)
        self._flush()
        return self._sections

    def _pass_over(self, element: Element) -> None:
        if element.tag in _LINES or element.tag in _PARAGRAPHS:
            if self._row:
                self._space = True
            else:
                self._break(1)

    def _open(self, element: Element) -> None:
        tag = element.tag
        if tag == "table" and self._is_data(element):
            self._break(2)
            self._data_tables.add(element)
            self._row.append(_Table())
        elif self._row:
            self._open_in_table(tag)
        elif tag in _HEADINGS:
            self._flush()
            self._heading_at = 0
        elif tag == "li":
            self._breaks = max(self._breaks, 1)  # also right after another item's dash
            self._write("  " * min(max(len(self._lists) - 1, 0), _MAX_INDENT) + self._item_mark(element))
            self._fresh = True
        elif tag in _LISTS and self._lists:
            self._break(1)
        else:
            self._break(self._breaks_of(element))
        if tag in _LISTS:
            self._lists.append(_number(element.get("start"), 1) if tag == "ol" else None)
        self._pre += tag == "pre"

    def _item_mark(self, item: Element) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        number = _number(item.get("value"), number)
        self._lists[-1] = number + 1
        return f"{number}. "

    def _open_in_table(self, tag: str) -> None:
        """Inside a data table only rows and cells have a shape; a paragraph in a cell is a space."""
        if tag in ("tr", "caption"):
            self._break(1)
            self._row[-1].cells = self._row[-1].column = 0
        elif tag in ("td", "th"):
            self._spanning_cells(self._row[-1])
            self._begin_cell(self._row[-1])
        elif tag in _LINES or tag in _PARAGRAPHS:
            self._space = True

    def _begin_cell(self, table: _Table) -> None:
        if table.cells:
            self._write(" | ", hold_space=False)
        table.cells += 1
        table.start = len(self._parts)
        self._space = False

    def _end_cell(self, table: _Table, cell: Element) -> None:
        rows = min(_number(cell.get("rowspan"), 1), _MOST_ROWS)
        text = "".join(self._parts[table.start :]).strip() if rows > 1 else ""
        if rows > 1:
            table.spans[table.column] = (text if len(text) <= _LONGEST_REPEATED else "", rows - 1)
        table.column += max(_number(cell.get("colspan"), 1), 1)

    def _spanning_cells(self, table: _Table, *, to_the_end: bool = False) -> None:
        """Write what cells of rows above have in this row, at the next column or in all that are left.

        A row is then understood alone.
        """
        while table.spans:
            column = table.column
            if to_the_end:
                column = min((place for place in table.spans if place >= column), default=-1)
            if column not in table.spans:
                break
            text, rows = table.spans.pop(column)
            if rows > 1:
                table.spans[column] = (text, rows - 1)
            if text and (table.cells or not to_the_end):
                self._begin_cell(table)
                self._write(text)
            table.column = column + 1

    def _close(self, element: Element) -> None:
        tag = element.tag
        if tag in _LISTS and self._lists:
            self._lists.pop()
        self._pre -= tag == "pre"
        if element in self._data_tables:
            self._data_tables.discard(element)
            self._row.pop()
            self._break(2)
        elif self._row:
            if tag in ("td", "th"):
                self._end_cell(self._row[-1], element)
            elif tag == "tr":
                self._spanning_cells(self._row[-1], to_the_end=True)
            if tag in ("tr", "caption"):
                self._break(1)
            elif tag in _LINES or tag in _PARAGRAPHS:
                self._space = tag not in ("td", "th")
        elif tag in _HEADINGS and self._heading_at is not None:
            self._heading_at = None
            self._trail.enter(_HEADINGS[tag], one_line("".join(self._parts)))
            self._break(2)
        elif tag == "li":
            self._breaks = 1  # a paragraph inside an item does not spread the list
        elif tag in _LISTS and self._lists:
            self._break(1)
        elif tag != "br":
            self._break(self._breaks_of(element))

    def _breaks_of(self, element: Element) -> int:
        """Line feeds around an element: a division that has text of its own is a paragraph."""
        if element.tag in _PARAGRAPHS:
            return 2
        if element.tag == "div" and not self._lists and element.text and not element.text.isspace():
            return 2
        return 1 if element.tag in _LINES else 0

    @staticmethod
    def _is_data(table: Element) -> bool:
        if table.get("role") in ("presentation", "none"):
            return False
        inside = table.iterdescendants(*_NOT_IN_CELLS)
        return next(inside, None) is None and next(table.iterdescendants("td", "th"), None) is not None

    def _break(self, count: int) -> None:
        if self._heading_at is not None:
            self._space = self._space or count > 0  # a heading is one line
        elif not (self._fresh and self._parts and self._parts[-1].endswith(("- ", ". "))):
            self._breaks = max(self._breaks, count)

    def _text(self, text: str | None) -> None:
        if not text:
            return
        if self._pre and not self._row:
            if self._breaks:
                text = text.removeprefix("\n")
            if text:
                self._write(text)
                self._fresh = text.endswith("\n")
            return
        flat = _SPACES.sub(" ", text)
        if flat == " ":
            self._space = True
            return
        self._space = self._space or flat[0] == " "
        self._write(flat.strip(" "))
        self._space = flat[-1] == " "

    def _write(self, text: str, *, hold_space: bool = True) -> None:
        last = self._parts[-1] if self._parts else ""
        if self._breaks:
            have = len(last) - len(last.rstrip("\n"))
            self._parts.append("\n" * max(self._breaks - have, 0) if last else "")
        elif self._space and hold_space and not self._fresh and not last.endswith(" "):
            self._parts.append(" ")
        self._breaks, self._space, self._fresh = 0, False, False
        self._parts.append(text)

    def _flush(self) -> None:
        """End the section before a heading, or the page."""
        text = "".join(self._parts)
        if text.strip():
            self._sections.append((self._trail.path, text))
        self._parts = []
        self._breaks, self._space, self._fresh = 0, False, True


def _number(value: str | None, default: int) -> int:
    """An attribute's number; the default when it has none that a list can show."""
    value = (value or "").strip()
    return int(value) if value.isdecimal() and len(value) < 7 else default

# SPDX-License-Identifier: GPL-2.0-only
"""XLSX: a sheet is a page under its name, a row one line with its columns' names; formulas show their last value."""

from __future__ import annotations

import datetime
import io
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.container import Container, open_container, refuse_doctype
from bigos.loaders.encoding import clean
from bigos.loaders.ooxml_package import readable_copy
from bigos.loaders.optional import require
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.loaders.sheet_rows import MAX_CELLS, row_lines
from bigos.types import SourceFile

_STYLES = "xl/styles.xml"
_ROWS_AT_ONCE = 1000


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Sheets in their order, hidden ones too; at most MAX_CELLS filled cells.

    Raises:
        DocumentError: as `open_container` does, "damaged" when there is no workbook in it.
    """
    library = require("openpyxl", "openpyxl")
    container = open_container(data)
    refuse_doctype(container)
    text = Assembly()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of extensions that it does not keep
        workbook = _open(library, container, data, text)
        try:
            left = MAX_CELLS
            for number, sheet in enumerate(workbook.sheetnames, 1):
                left = _sheet(workbook[sheet], number, text, left)
            title = getattr(workbook.properties, "title", None)
        finally:
            workbook.close()
    if left <= 0:
        text.warn(f"only the first {MAX_CELLS:,} filled cells are read")
    return text.parsed(one_line(clean(title or "")) or None)


def _open(library: Any, container: Container, data: bytes, text: Assembly) -> Any:
    try:
        return library.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        # Most often a style that the library does not know, of which only the formats of dates matter here.
        try:
            copy = readable_copy(container, text.warn, frozenset((_STYLES,)))
            workbook = library.load_workbook(copy, read_only=True, data_only=True, keep_links=False)
        except (KeyError, ValueError, TypeError, AttributeError, IndexError):
            raise DocumentError("damaged", f"there is no workbook in the package: {error}") from error
        text.warn("the styles cannot be read: dates are shown as numbers of days")
        return workbook


def _sheet(sheet: Any, number: int, text: Assembly, left: int) -> int:
    """Add a sheet; returns how many cells may still be read."""
    if not hasattr(sheet, "iter_rows"):  # a chart
        return left
    name = one_line(clean(sheet.title))
    counted = _Counted(left)
    if hasattr(sheet, "reset_dimensions"):
        sheet.reset_dimensions()  # what it says of its size is often wrong
    text.add(name, page=number, heading_path=(name,), run=number)
    lines = row_lines(counted.cells(sheet.iter_rows(values_only=True)))
    for some in iter(lambda: list(itertools.islice(lines, _ROWS_AT_ONCE)), []):
        text.add("\n".join(some), page=number, heading_path=(name,), run=number)
    return counted.left


class _Counted:
    """Passes rows as text on, until as many cells as may be read have been."""

    def __init__(self, left: int) -> None:
        self.left = left

    def cells(self, rows: Iterator[tuple[object, ...]]) -> Iterator[list[str]]:
        for row in rows:
            shown = [_shown(value) for value in row]
            self.left -= sum(1 for value in shown if value)
            if self.left <= 0:
                return
            yield shown


def _shown(value: object) -> str:
    """A cell's value as a person writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat(" ", "seconds")
    if isinstance(value, datetime.time):
        return value.isoformat("seconds")
    return str(value)

# SPDX-License-Identifier: GPL-2.0-only
"""XLSX: a sheet is a page under its name, a row one line with its columns' names; formulas show their last value."""

from __future__ import annotations

import datetime
import io
import itertools
import warnings
from typing import Any

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.container import Container, open_container, refuse_doctype
from bigos.loaders.encoding import clean
from bigos.loaders.ooxml_package import readable_copy
from bigos.loaders.optional import require
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.loaders.sheet_rows import Budget, row_lines
from bigos.types import SourceFile

_STYLES = "xl/styles.xml"
_ROWS_AT_ONCE = 1000


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Sheets in their order, hidden ones too; at most as many cells as `Budget` allows.

    Raises:
        DocumentError: as `open_container` does, "damaged" when there is no workbook in it.
    """
    library = require("openpyxl", "openpyxl")
    container = open_container(data)
    refuse_doctype(container)
    text = Assembly()
    budget = Budget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of extensions that it does not keep
        workbook = _open(library, container, data, text)
        try:
            for number, sheet in enumerate(workbook.sheetnames, 1):
                _sheet(workbook[sheet], number, text, budget)
            title = getattr(workbook.properties, "title", None)
        finally:
            workbook.close()
    if budget.warning:
        text.warn(budget.warning)
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


def _sheet(sheet: Any, number: int, text: Assembly, budget: Budget) -> None:
    if not hasattr(sheet, "iter_rows"):  # a chart
        return
    name = one_line(clean(sheet.title))
    if hasattr(sheet, "reset_dimensions"):
        sheet.reset_dimensions()  # what it says of its size is often wrong
    text.add(name, page=number, heading_path=(name,), run=number)
    rows = ([_shown(value) for value in row] for row in sheet.iter_rows(values_only=True))
    lines = row_lines(budget.rows(rows))
    for some in iter(lambda: list(itertools.islice(lines, _ROWS_AT_ONCE)), []):
        text.add("\n".join(some), page=number, heading_path=(name,), run=number)


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

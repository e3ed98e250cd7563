# SPDX-License-Identifier: GPL-2.0-only
"""Jupyter notebooks: the cells in order as one Markdown text, code and what it printed in fences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bigos.errors import DocumentError
from bigos.loaders import markdown
from bigos.loaders.assembly import tidy
from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed
from bigos.types import SourceFile

MAX_OUTPUT = 20_000
"""Characters of one output that are kept: a training log says little after that."""
_TICKS = re.compile(r"`{3,}")


def load(source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """Headings of the Markdown cells hold for the code below them; pictures and other binary outputs are left out.

    Raises:
        DocumentError: "damaged" when it is no notebook.
    """
    try:
        notebook = json.loads(decode(data)[0])
    except (ValueError, RecursionError) as error:
        raise DocumentError("damaged", f"not a notebook: {error}") from error
    cells = _cells(notebook)
    if cells is None:
        raise DocumentError("damaged", "not a notebook: it has no cells")
    language = _language(notebook)
    cut = False
    parts: list[str] = []
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        text = _joined(cell.get("source", cell.get("input")))
        kind = cell.get("cell_type")
        if kind == "heading":  # of the third version
            parts.append("#" * min(max(_whole(cell.get("level")), 1), 6) + " " + " ".join(text.split()))
        elif kind == "code":
            parts.append(_fenced(text, language))
            for output in _outputs(cell):
                cut = cut or len(output) > MAX_OUTPUT
                parts.append(_fenced(output[:MAX_OUTPUT], ""))
        else:
            parts.append(tidy(text))
    page = markdown.load(source, "\n\n".join(part for part in parts if part).encode("utf-8", "replace"), options)
    warnings = (f"outputs are cut after {MAX_OUTPUT:,} characters",) if cut else ()
    # The lines of that text are not lines of the file.
    return replace(page, blocks=tuple(replace(block, line_start=None) for block in page.blocks), warnings=warnings)


def _cells(notebook: Any) -> list[Any] | None:
    if not isinstance(notebook, dict):
        return None
    cells = notebook.get("cells")
    if isinstance(cells, list):
        return cells
    sheets = notebook.get("worksheets")  # before the fourth version
    if not isinstance(sheets, list):
        return None
    return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]


def _language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for key, inner in (("kernelspec", "language"), ("language_info", "name")):
        about = metadata.get(key) if isinstance(metadata, dict) else None
        name = about.get(inner) if isinstance(about, dict) else None
        if isinstance(name, str) and re.fullmatch(r"[\w+#-]{1,30}", name):
            return name
    return ""


def _outputs(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell.get("outputs") or ():
        if not isinstance(output, dict):
            continue
        data = output.get("data")
        if output.get("output_type") in ("error", "pyerr"):
            yield f"{output.get('ename')}: {output.get('evalue')}"
        elif isinstance(data, dict):
            yield _joined(data.get("text/markdown") or data.get("text/plain"))
        else:
            yield _joined(output.get("text"))


def _joined(text: object) -> str:
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 1


def _fenced(text: str, language: str) -> str:
    """In a fence that is longer than any in the text; nothing for nothing."""
    body = clean(text).strip("\n").rstrip()
    if not body:
        return ""
    ticks = "`" * max([2, *(len(run) for run in _TICKS.findall(body))]) + "`"
    return f"{ticks}{language}\n{body}\n{ticks}"

# SPDX-License-Identifier: GPL-2.0-only
"""The second reader of PDFs, pypdf: for files that pdfium cannot open, and for forms written in XFA."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bigos.errors import DocumentError
from bigos.loaders.encoding import clean

_MOST_PAGES = 20_000
_MOST_XFA_BYTES = 20_000_000
_SHOWN = frozenset(("text", "exData", "value"))
_PARTS = ("template", "datasets")


def page_texts(data: bytes) -> tuple[list[str], str]:
    """The text of each page, "" for one that cannot be read, and the title of the metadata.

    Raises:
        DocumentError: "needs a password" or "damaged".
    """
    with _quiet():
        reader = _open(data)
        texts = []
        try:
            for index in range(min(len(reader.pages), _MOST_PAGES)):
                texts.append(_page_text(reader, index))
            title = str(reader.metadata.title or "") if reader.metadata else ""
        except Exception as error:
            if texts:
                return texts, ""
            raise _damaged(error) from error
    return texts, title


def xfa_text(data: bytes) -> str:
    """What a form written in XFA shows: its labels and the values filled in. "" when that cannot be had."""
    with _quiet():
        try:
            parts = _open(data).xfa
        except Exception:
            return ""
    if not isinstance(parts, Mapping):
        return ""
    lines: list[str] = []
    for name in _PARTS:
        part = parts.get(name)
        if isinstance(part, bytes) and len(part) <= _MOST_XFA_BYTES:
            lines += _xml_lines(part)
    return "\n".join(dict.fromkeys(lines))


def _xml_lines(part: bytes) -> Iterator[str]:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=False)
    try:
        root = etree.fromstring(part, parser)
    except etree.XMLSyntaxError:
        return
    if root is None:
        return
    for element in root.iter():
        if not isinstance(element.tag, str) or not element.text:
            continue
        name = etree.QName(element).localname
        if name in ("script", "event", "calculate", "validate") or (
            "xfa-template" in (etree.QName(element).namespace or "") and name not in _SHOWN
        ):
            continue
        words = " ".join(clean(element.text).split())
        if any(char.isalnum() for char in words):
            yield words


def _open(data: bytes) -> Any:
    from pypdf import PdfReader

    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        locked = reader.is_encrypted and not reader.decrypt("")
    except Exception as error:
        raise _damaged(error) from error
    if locked:
        raise needs_password()
    return reader


def _page_text(reader: Any, index: int) -> str:
    try:
        return str(reader.pages[index].extract_text())
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:  # pypdf has no one exception; a page it cannot read is a page without text
        return ""


def needs_password() -> DocumentError:
    """The failure of a file that the empty password does not open."""
    return DocumentError(
        "needs a password",
        "the PDF is encrypted and opens with a password only",
        fix="qpdf --password=PASSWORD --decrypt IN.pdf OUT.pdf",
    )


def _damaged(error: Exception) -> DocumentError:
    words = " ".join(str(error).split())[:200]
    return DocumentError("damaged", f"no PDF reader can open the file: {words or type(error).__name__}")


@contextmanager
def _quiet() -> Iterator[None]:
    """pypdf tells what it mends through `logging` and `warnings`; that belongs to nobody here."""
    log = logging.getLogger("pypdf")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)

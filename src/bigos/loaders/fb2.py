# SPDX-License-Identifier: GPL-2.0-only
"""FictionBook 2, plain or zipped: sections with their titles as the trail; pictures left out."""

from __future__ import annotations

import re

from lxml import etree

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.container import open_container
from bigos.loaders.encoding import clean
from bigos.loaders.markup import Element, decoded, descend, local, parse_xml, text_of
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.types import SourceFile

_PICTURES = re.compile(r"<binary\b[^>]*>[^<]*</binary\s*>")
_SPACES = re.compile(r"\s+")
_LINES = frozenset(("p", "subtitle", "v", "text-author", "date"))
_APART = _LINES | {"section", "title", "stanza", "poem", "cite", "epigraph", "empty-line"}
_GAP = frozenset(("stanza", "poem", "cite", "epigraph", "annotation", "table", "empty-line"))


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Text of all bodies (the second one is usually the notes).

    Raises:
        DocumentError: "damaged" when it is no XML at all, or a ZIP file without an .fb2 in it.
    """
    book = Assembly()
    text = _PICTURES.sub("", decoded(_unzipped(data) if data.startswith(b"PK") else data))
    failure: DocumentError | None = None
    try:
        root = parse_xml(text.encode("utf-8", "replace"))
    except DocumentError as error:
        failure = error
        root = parse_xml(text.encode("utf-8", "replace"), recover=True)
        book.warn(f"the file is read as far as its markup goes: {error.message}")
    about = next(iter(descend(root, "title-info")), None)
    for note in (element for element in (about if about is not None else ()) if local(element) == "annotation"):
        _section(book, note, ())
    for body in (element for element in root if local(element) == "body"):
        name = body.get("name")
        _section(book, body, (one_line(clean(name)),) if name and name != "main" else ())
    title = next((one_line(clean(text_of(found))) for found in descend(root, "book-title")), "")
    parsed = book.parsed(title or None)
    if failure is not None and not parsed.text:
        raise failure
    return parsed


def _unzipped(data: bytes) -> bytes:
    container = open_container(data)
    names = sorted(name for name in container.names if name.lower().endswith((".fb2", ".xml")))
    if not names:
        raise DocumentError("damaged", "there is no .fb2 file in the ZIP file")
    return container.read(names[0])


def _section(book: Assembly, root: Element, above: tuple[str, ...]) -> None:
    """A section and those in it, without a frame a level: depth is the author's choice."""
    waiting: list[tuple[Element, tuple[str, ...]]] = [(root, above)]
    while waiting:
        element, path = waiting.pop()
        name = local(element)
        if name in ("section", "body"):
            title = next((child for child in element if local(child) == "title"), None)
            if title is not None:
                words = one_line(clean(" ".join(_text(line) for line in title)))
                path = (*path, words) if words else path
            waiting.extend((child, path) for child in reversed(element))
        elif name == "title":
            book.add("\n".join(_text(line) for line in element), heading_path=path)
        elif name in _LINES:
            for line in _lines(element):
                book.add(line, heading_path=path, run=element.getparent() if name == "v" else None)
        elif name == "tr":
            cells = [_text(cell) for cell in element if local(cell) in ("td", "th")]
            book.add(" | ".join(cells), heading_path=path, run=element.getparent())
        elif name in _GAP:
            waiting.extend((child, path) for child in reversed(element))


def _lines(element: Element) -> list[str]:
    """A paragraph's text; in parts when it was never closed, and has swallowed the paragraphs and sections after it."""
    parts = [""]
    for event, part in etree.iterwalk(element, events=("start", "end")):
        if part is not element and local(part) in _APART:
            parts.append("")
        if event == "start":
            parts[-1] += (part.text or "") if isinstance(part.tag, str) else ""
        elif part is not element:
            parts[-1] += part.tail or ""
    return [_SPACES.sub(" ", part).strip() for part in parts]


def _text(element: Element) -> str:
    return _SPACES.sub(" ", text_of(element)).strip()

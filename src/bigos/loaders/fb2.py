# SPDX-License-Identifier: GPL-2.0-only
"""FictionBook 2, plain or zipped: sections with their titles as the trail; pictures left out."""

from __future__ import annotations

import re

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
                words = one_line(clean(" ".join(text_of(title).split())))
                path = (*path, words) if words else path
            waiting.extend((child, path) for child in reversed(element))
        elif name == "title":
            book.add("\n".join(_text(line) for line in element), heading_path=path)
        elif name in _LINES:
            book.add(_text(element), heading_path=path, run=element.getparent() if name == "v" else None)
        elif name == "tr":
            cells = [_text(cell) for cell in element if local(cell) in ("td", "th")]
            book.add(" | ".join(cells), heading_path=path, run=element.getparent())
        elif name in _GAP:
            waiting.extend((child, path) for child in reversed(element))


def _text(element: Element) -> str:
    return _SPACES.sub(" ", text_of(element)).strip()

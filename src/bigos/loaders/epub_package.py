# SPDX-License-Identifier: GPL-2.0-only
"""The package of an EPUB: reading order, table of contents, title.

ebooklib reads it, but gives up the whole book over one missing file or attribute. So it is handed a repaired copy, in
memory, that lists only what is there and what it needs: the chapters of the spine and the table of contents.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, unquote

from lxml import etree

from bigos.errors import DocumentError
from bigos.loaders.markup import Element, attribute, descend, parse_xml, text_of
from bigos.loaders.optional import require
from bigos.loaders.sections import one_line

_CONTAINER = "META-INF/container.xml"
_OPF = "http://www.idpf.org/2007/opf"
_DC = "http://purl.org/dc/elements/1.1/"
_XHTML = "application/xhtml+xml"
_NCX = "application/x-dtbncx+xml"
_MARKUP_TYPES = frozenset((_XHTML, "text/html", "text/x-oeb1-document", "application/xml", "text/xml"))
_MARKUP_NAMES = (".xhtml", ".html", ".htm", ".xml")


class Entries(Protocol):
    """Files by name: a ZIP container, or what an unpacker left."""

    names: tuple[str, ...]

    def find(self, wanted: str) -> str | None:
        """The entry that a name means, None when there is none."""
        ...

    def read(self, name: str) -> bytes:
        """Its bytes; DocumentError when they cannot be had."""
        ...


@dataclass(frozen=True, slots=True)
class TocEntry:
    """A line of the table of contents: the chapter file, the id in it ("" is its beginning), and the titles down."""

    file: str
    fragment: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Package:
    """What the package document says. `chapters` are (name, bytes) in spine order."""

    title: str | None
    chapters: tuple[tuple[str, bytes], ...]
    toc: tuple[TocEntry, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Item:
    id: str
    name: str  # in the container
    type: str
    properties: str


def read_package(entries: Entries) -> Package:
    """Find and read the package document.

    Raises:
        DocumentError: "damaged" when there is none, or its spine leads to no file at all.
    """
    warnings: list[str] = []
    folder, root = _package_document(entries, warnings)
    items = _manifest(root, entries, folder)
    chapters = _spine(root, entries, items, warnings)
    if not chapters:
        raise DocumentError("damaged", "the book's reading order leads to no file in it")
    title = next((one_line(text_of(found)) for found in descend(root, "title")), "") or None
    nav, ncx = _tables(root, entries, items)
    book: Any = None
    for table in (nav, ncx):
        if table is None:
            continue
        try:
            book = _open_repaired(chapters, table, title)
        except Exception:
            warnings.append("the table of contents cannot be read")
            continue
        if book.toc:
            return Package(book.title or title, _in_order(book), tuple(_toc(book.toc, ())), tuple(warnings))
    if book is None:
        book = _open_repaired(chapters, None, title)
    return Package(title, _in_order(book), (), tuple(warnings))


def _package_document(entries: Entries, warnings: list[str]) -> tuple[str, Element]:
    """Its folder and its root; an empty one when it cannot be had and there are chapters none the less."""
    try:
        name = _package_name(entries)
        return posixpath.dirname(name), parse_xml(entries.read(name), recover=True)
    except DocumentError as error:
        if not any(name.lower().endswith(_MARKUP_NAMES[:-1]) for name in entries.names):
            raise
        warnings.append(f"the package document of the book cannot be read: {error.message}")
        return "", etree.Element(f"{{{_OPF}}}package")


def _package_name(entries: Entries) -> str:
    """What container.xml names; without it, the package document that lies highest."""
    container = entries.find(_CONTAINER)
    if container is not None:
        try:
            files = descend(parse_xml(entries.read(container), recover=True), "rootfile")
        except DocumentError:
            files = []
        for file in files:
            name = entries.find(file.get("full-path") or "")
            if name is not None and name.lower().endswith(".opf"):
                return name
    packages = [name for name in entries.names if name.lower().endswith(".opf")]
    if not packages and not any(name.lower().endswith(_MARKUP_NAMES) for name in entries.names):
        raise DocumentError("archive", "it is a ZIP archive and no book, and archives are not opened", skipped=True)
    if not packages:
        raise DocumentError("damaged", "there is no package document (.opf) in the book")
    return min(packages, key=lambda name: (name.count("/"), name))


def _manifest(root: Element, entries: Entries, folder: str) -> dict[str, _Item]:
    items: dict[str, _Item] = {}
    for element in descend(root, "item"):
        identity, href = element.get("id"), element.get("href")
        if not identity or not href:
            continue
        name = _resolve(entries, folder, href) or posixpath.join(folder, unquote(href))
        kind = (element.get("media-type") or "").strip().lower()
        items.setdefault(identity, _Item(identity, name, kind, element.get("properties") or ""))
    return items


def _resolve(entries: Entries, folder: str, href: str) -> str | None:
    return entries.find(posixpath.join(folder, href.split("#", 1)[0]))


def _spine(root: Element, entries: Entries, items: Mapping[str, _Item], warnings: list[str]) -> dict[str, bytes]:
    """The chapters' bytes by name, in reading order; each that cannot be had is a warning."""
    names: list[str] = []
    for reference in descend(root, "itemref"):
        item = items.get(reference.get("idref") or "")
        if item is None:
            warnings.append(f"the reading order names a chapter that the book does not list: {reference.get('idref')}")
        elif _is_markup(item):
            names.append(item.name)
    if not names:
        names = [item.name for item in items.values() if _is_markup(item) and "nav" not in item.properties.split()]
        names = names or [name for name in entries.names if name.lower().endswith(_MARKUP_NAMES[:-1])]
        warnings.append("the book has no reading order; its files are read as they are listed")
    chapters: dict[str, bytes] = {}
    for name in names:
        if name in chapters:
            continue
        found = entries.find(name)
        if found is None:
            warnings.append(f"a chapter is missing from the book: {name}")
            continue
        try:
            chapters[name] = entries.read(found)
        except DocumentError as error:
            warnings.append(f"a chapter cannot be read: {error.message}")
    return chapters


def _is_markup(item: _Item) -> bool:
    return item.type in _MARKUP_TYPES or item.name.lower().endswith(_MARKUP_NAMES)


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    data: bytes
    is_ncx: bool


def _tables(root: Element, entries: Entries, items: Mapping[str, _Item]) -> tuple[_Table | None, _Table | None]:
    """The navigation document of EPUB 3 and the NCX of EPUB 2, as far as they are there."""
    spine = next(iter(descend(root, "spine")), None)
    named = items.get(attribute(spine, "toc") or "") if spine is not None else None
    nav = next((item for item in items.values() if "nav" in item.properties.split()), None)
    ncx = named or next(
        (item for item in items.values() if item.type == _NCX or item.name.lower().endswith(".ncx")), None
    )
    return _table(entries, nav, False), _table(entries, ncx, True)


def _table(entries: Entries, item: _Item | None, is_ncx: bool) -> _Table | None:
    name = entries.find(item.name) if item is not None else None
    if name is None:
        return None
    try:
        return _Table(name, entries.read(name), is_ncx)
    except DocumentError:
        return None


def _open_repaired(chapters: Mapping[str, bytes], table: _Table | None, title: str | None) -> Any:
    """What ebooklib makes of a book with exactly these chapters and this table of contents."""
    epub = require("ebooklib.epub", "ebooklib")
    package = etree.Element(f"{{{_OPF}}}package", nsmap={None: _OPF, "dc": _DC}, version="3.0")
    metadata = etree.SubElement(package, f"{{{_OPF}}}metadata")
    etree.SubElement(metadata, f"{{{_DC}}}title").text = title or ""
    manifest = etree.SubElement(package, f"{{{_OPF}}}manifest")
    spine = etree.SubElement(package, f"{{{_OPF}}}spine")
    files: dict[str, bytes] = {}

    def list_item(identity: str, href: str, kind: str, **more: str) -> None:
        etree.SubElement(manifest, f"{{{_OPF}}}item", {"id": identity, "href": href, "media-type": kind, **more})

    for number, (name, data) in enumerate(chapters.items()):
        list_item(f"c{number}", quote(name), _XHTML)
        etree.SubElement(spine, f"{{{_OPF}}}itemref", idref=f"c{number}")
        files[name] = data
    if table is not None and table.is_ncx:
        list_item("toc", quote(table.name), _NCX)
        spine.set("toc", "toc")
    elif table is not None:
        list_item("toc", table.name, _XHTML, properties="nav")  # ebooklib looks for this one as it is written
    if table is not None:
        files[table.name] = table.data
    files["package.opf"] = etree.tostring(package)
    files[_CONTAINER] = (
        b'<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
        b'<rootfile full-path="package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    copy.seek(0)
    return epub.read_epub(copy)


def _in_order(book: Any) -> tuple[tuple[str, bytes], ...]:
    items = [book.get_item_with_id(identity) for identity, _ in book.spine]
    return tuple((item.file_name, item.content) for item in items)


def _toc(entries: Any, above: tuple[str, ...]) -> Iterator[TocEntry]:
    """ebooklib's table (links, and pairs of a section and what is below it) as one list."""
    for entry in entries if isinstance(entries, (list, tuple)) else [entries]:
        section, below = entry if isinstance(entry, tuple) else (entry, ())
        title = one_line(section.title or "")
        path = (*above, title) if title else above
        if section.href:
            file, _, fragment = section.href.partition("#")
            yield TocEntry(unquote(file), unquote(fragment), path)
        yield from _toc(below, path)

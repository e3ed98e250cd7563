# SPDX-License-Identifier: GPL-2.0-only
"""EPUB: the chapters in reading order, under the titles that the table of contents gives them."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.chapter import Section, read_chapter
from bigos.loaders.container import Container, open_container
from bigos.loaders.content import sniff
from bigos.loaders.encoding import clean
from bigos.loaders.epub_package import Entries, Package, TocEntry, read_package
from bigos.loaders.markup import attribute, descend, parse_xml
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.types import SourceFile

# Fonts are made useless outside their book by these; it says nothing of the text.
_FONT_OBFUSCATION = frozenset(("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"))
_SCHEMES = (
    ("META-INF/license.lcpl", "Readium LCP"),
    ("META-INF/sinf.xml", "Apple FairPlay"),
    ("META-INF/rights.xml", "Adobe ADEPT"),
)
# Files of a book that may be encrypted without its text being so.
_NO_TEXT = (
    *(".otf", ".ttf", ".ttc", ".woff", ".woff2", ".jpg", ".jpeg", ".png", ".gif", ".webp", ".svg", ".bmp", ".tif"),
    *(".tiff", ".mp3", ".m4a", ".mp4", ".ogg", ".opus", ".webm", ".css", ".js", ".pdf", ".bin", ".dat"),
)
_HEAD_BYTES = 65_536
_WORD = re.compile(r"\w+")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Text of all chapters; headings are the table of contents' titles and, below them, the chapters' own.

    Raises:
        DocumentError: "DRM" when the chapters are encrypted, and what `open_container` and `read_package` say.
    """
    container = open_container(data)
    _refuse_drm(container)
    return read_book(container)


def read_book(entries: Entries) -> Parsed:
    """The same from the files of an unpacked book."""
    package = read_package(entries)
    book = Assembly()
    for sentence in package.warnings:
        book.warn(sentence)
    all_lines = _lines_by_chapter(package)
    above: tuple[str, ...] = ()
    for name, data in package.chapters:
        lines = all_lines[name]
        if sniff(data[:_HEAD_BYTES]) is not None:
            book.warn(f"a chapter is no text: {name}")
            continue
        sections = read_chapter(data, [line.fragment for line in lines])
        whole = next((line.path for line in lines if not line.fragment), None)
        if whole is not None:
            above = whole
        elif sections and sections[0].headings and sections[0].place is None:
            above = ()  # it has its own beginning, and continues nothing
        above = _add_sections(book, sections, lines, above)
    return book.parsed(one_line(clean(package.title or "")) or None)


def _add_sections(
    book: Assembly, sections: Sequence[Section], lines: Sequence[TocEntry], above: tuple[str, ...]
) -> tuple[str, ...]:
    """Add a chapter; the trail above what follows it is returned."""
    for section in sections:
        if section.place is not None:
            above = lines[section.place].path
        book.add(section.text, heading_path=tuple(one_line(clean(title)) for title in joined(above, section.headings)))
    return above


def _lines_by_chapter(package: Package) -> dict[str, list[TocEntry]]:
    """The table's lines that point into each file. A table that names another folder still knows the base names."""
    names = [name for name, _ in package.chapters]
    bases = Counter(_base(name) for name in names)
    spelled = {_folded(name): name for name in names}
    exact: dict[str, list[TocEntry]] = {}
    loose: dict[str, list[TocEntry]] = {}
    for line in package.toc:
        name = spelled.get(_folded(posixpath.normpath(line.file)))
        if name is not None:
            exact.setdefault(name, []).append(line)
        elif bases[_base(line.file)] == 1:
            loose.setdefault(_base(line.file), []).append(line)
    return {name: exact.get(name) or loose.get(_base(name), []) for name in names}


def _base(name: str) -> str:
    return _folded(posixpath.basename(posixpath.normpath(name)))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def joined(above: tuple[str, ...], headings: tuple[str, ...]) -> tuple[str, ...]:
    """One trail from the table of contents' titles and the chapter's headings, which often say the same."""
    if not above or not headings:
        return above or headings
    for place, title in enumerate(above):
        if _same(title, headings[0]):
            rest = 1  # a number and a title on lines of their own are one line of the table
            while rest < len(headings) and _same(title, headings[rest]):
                rest += 1
            return above[: place + 1] + joined(above[place + 1 :], headings[rest:])
    if any(_same(above[-1], heading) for heading in headings):
        return headings
    return above + headings


def _same(one: str, other: str) -> bool:
    """Whether two titles are one: "3. Woda", "3" and "Woda" are."""
    short, long = sorted((_WORD.findall(clean(title).casefold()) for title in (one, other)), key=len)
    return bool(short) and short in (long[: len(short)], long[len(long) - len(short) :])


def _refuse_drm(container: Container) -> None:
    """Real encryption of anything that is read: the chapters are noise, and must not be indexed as text."""
    name = container.find("META-INF/encryption.xml")
    if name is None:
        return
    try:
        root = parse_xml(container.read(name), recover=True)
    except DocumentError:
        return
    for part in descend(root, "EncryptedData"):
        method = next((attribute(found, "Algorithm") for found in descend(part, "EncryptionMethod")), None)
        target = next((attribute(found, "URI") or "" for found in descend(part, "CipherReference")), "")
        if method not in _FONT_OBFUSCATION and not target.lower().endswith(_NO_TEXT):
            scheme = next((words for file, words in _SCHEMES if container.find(file)), "its publisher's scheme")
            raise drm(scheme)


def drm(scheme: str) -> DocumentError:
    """The failure of a book whose text is encrypted."""
    return DocumentError(
        "DRM",
        f"the book is protected by DRM ({scheme}); its text is encrypted",
        fix="get a copy without DRM from where you bought it",
    )

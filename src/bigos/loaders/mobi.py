# SPDX-License-Identifier: GPL-2.0-only
"""MOBI, AZW, AZW3 and PRC: unpacked into what they were made of, an EPUB (KF8) or one HTML file with a package."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import struct
import sys
from pathlib import Path

from bigos.errors import DocumentError
from bigos.loaders import epub
from bigos.loaders.assembly import Assembly
from bigos.loaders.chapter import read_chapter
from bigos.loaders.container import MAX_PART_BYTES, open_container, too_large
from bigos.loaders.encoding import clean, decode
from bigos.loaders.external import run_converter, scratch_folder
from bigos.loaders.optional import require
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, one_line
from bigos.types import SourceFile

UNPACK_SECONDS = 60.0
"""A book of a thousand pages takes one."""
_PALM_HEADER = 78
_PALM_DOC = b"TEXtREAd"
_TYPES = (b"BOOKMOBI", _PALM_DOC)
_MARKUP = re.compile(r"<(?:html|head|body|p|h[1-6]|div|mbp:)[\s>/]", re.IGNORECASE)
_MARKUP_WITHIN = 4096  # characters


def load(source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """As an EPUB; of a file with both, the KF8 half.

    What KindleUnpack cannot take apart, Calibre converts where it is installed; without it, the text alone is read.

    Raises:
        DocumentError: "DRM"; "unknown format" for Topaz and KFX books; "damaged"; "no scratch space".
    """
    _refuse_unreadable(data)
    with scratch_folder(options.scratch) as folder:
        copy = folder / "book.mobi"
        copy.write_bytes(data)
        if data[60:68] == _PALM_DOC:
            return _text_alone(copy)
        try:
            return _unpacked(copy)
        except DocumentError as error:
            failure = error
        if failure.reason == "damaged" and shutil.which("ebook-convert") is not None:
            try:
                return _converted(source, copy, options)
            except DocumentError as error:
                failure = error
        if failure.reason not in ("damaged", "timed out"):
            raise failure
        try:
            return _text_alone(copy, f"the book is read without its table of contents: {failure.message}")
        except DocumentError:
            raise failure from None


def _refuse_unreadable(data: bytes) -> None:
    if data.startswith(b"\xeaDRMION\xee"):
        raise epub.drm("Amazon KFX")
    if data.startswith((b"TPZ", b"CONT")):
        name = "Topaz" if data.startswith(b"TPZ") else "KFX"
        raise DocumentError("unknown format", f"an Amazon {name} book, which there is no loader for", skipped=True)
    if len(data) < _PALM_HEADER + 8 or data[60:68] not in _TYPES:
        raise DocumentError("damaged", "it has no header of a Mobipocket book")
    (first,) = struct.unpack_from(">L", data, _PALM_HEADER)
    if len(data) < first + 16:
        raise DocumentError("damaged", "the book is cut short")
    (encryption,) = struct.unpack_from(">H", data, first + 12)
    if encryption:
        raise epub.drm("Mobipocket or Kindle")


def _converted(source: SourceFile, copy: Path, options: LoadOptions) -> Parsed:
    folder, book = copy.parent, copy.with_name("converted.epub")
    own = {"CALIBRE_CONFIG_DIRECTORY": str(folder / "calibre"), "CALIBRE_TEMP_DIR": str(folder)}
    run_converter(["ebook-convert", copy.name, book.name], folder, own, name="ebook-convert")
    if not book.is_file():
        raise DocumentError("damaged", "ebook-convert wrote no book")
    return epub.load(source, book.read_bytes(), options)


def _text_alone(copy: Path, warning: str | None = None) -> Parsed:
    """The text records joined: PalmDOC, which has nothing else, or what is left of a book with a broken index."""
    sections = require("mobi.mobi_sectioner", "mobi")
    headers = require("mobi.mobi_header", "mobi")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            header = headers.MobiHeader(sections.Sectionizer(str(copy)), 0)
            raw = header.getRawML()
    except MemoryError:
        raise
    except Exception as error:
        raise DocumentError("damaged", f"the book's text cannot be unpacked: {error}") from error
    text, _, _ = decode(raw.replace(b"\0", b""), header.codec)
    book = Assembly()
    if warning:
        book.warn(warning)
    if _MARKUP.search(text[:_MARKUP_WITHIN]):
        for section in read_chapter(text.encode("utf-8", "replace"), ()):
            book.add(section.text, heading_path=tuple(one_line(clean(title)) for title in section.headings))
    else:
        book.add(text)
    parsed = book.parsed(one_line(clean(header.title.replace("\0", " ").replace("_", " "))) or None)
    if not parsed.text:
        raise DocumentError("damaged", "there is no text in the book that can be unpacked")
    return parsed


def _unpacked(copy: Path) -> Parsed:
    """What KindleUnpack makes of the book, beside it.

    As a program of its own: it prints, and some damaged books keep it in a loop for ever.
    """
    package = require("mobi", "mobi")
    target = copy.with_name("unpacked")
    command = [sys.executable, "-P", "-m", "mobi.kindleunpack", "--epub_version=A", copy.name, target.name]
    # Packages that a user installed for themselves are found through HOME, which is another one there.
    variables = {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    try:
        run_converter(command, copy.parent, variables, name="KindleUnpack", seconds=UNPACK_SECONDS)
    except DocumentError as error:
        if "is encrypted" in error.message:
            raise epub.drm("Mobipocket or Kindle") from error
        if not any(target.glob("mobi8/*.epub")):
            raise
    for book in sorted(target.glob("mobi8/*.epub")):
        return epub.read_book(open_container(book.read_bytes()))
    return epub.read_book(_Folder(target / "mobi7"))


class _Folder:
    """The files of the older format, as KindleUnpack lays them out: book.html, content.opf, toc.ncx."""

    def __init__(self, root: Path) -> None:
        self._root = root
        found = (path for path in root.rglob("*") if path.suffix in (".html", ".opf", ".ncx") and path.is_file())
        self.names = tuple(sorted(path.relative_to(root).as_posix() for path in found))
        if not self.names:
            raise DocumentError("damaged", "there is no text in the book that can be unpacked")

    def find(self, wanted: str) -> str | None:
        return wanted if wanted in self.names else None

    def read(self, name: str) -> bytes:
        path = self._root / name
        size = path.stat().st_size
        if size > MAX_PART_BYTES:
            raise too_large(f"{name} has {size:,} bytes, and the limit is {MAX_PART_BYTES:,}")
        return path.read_bytes()

# SPDX-License-Identifier: GPL-2.0-only
"""MOBI, AZW, AZW3 and PRC: unpacked into what they were made of, an EPUB (KF8) or one HTML file with a package."""

from __future__ import annotations

import contextlib
import errno
import io
import shutil
import struct
from pathlib import Path

from bigos.errors import DocumentError
from bigos.loaders import epub
from bigos.loaders.container import MAX_PART_BYTES, open_container, too_large
from bigos.loaders.external import run_converter, scratch_folder
from bigos.loaders.optional import require
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed
from bigos.types import SourceFile

_PALM_HEADER = 78
_TYPES = (b"BOOKMOBI", b"TEXtREAd")


def load(source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """As an EPUB; of a file with both, the KF8 half. Calibre, where installed, reads what KindleUnpack cannot.

    Raises:
        DocumentError: "DRM"; "unknown format" for Topaz and KFX books; "damaged".
    """
    _refuse_unreadable(data)
    with scratch_folder(options.scratch) as folder:
        try:
            return _unpacked(data, folder)
        except DocumentError as error:
            if error.reason != "damaged" or shutil.which("ebook-convert") is None:
                raise
        copy, book = folder / "book.mobi", folder / "converted.epub"
        copy.write_bytes(data)
        run_converter(
            ["ebook-convert", copy.name, book.name], folder,
            {"CALIBRE_CONFIG_DIRECTORY": str(folder / "calibre"), "CALIBRE_TEMP_DIR": str(folder)},
        )  # fmt: skip
        return epub.load(source, book.read_bytes(), options)


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


def _unpacked(data: bytes, folder: Path) -> Parsed:
    """What KindleUnpack makes of the book, in `folder`."""
    unpacker = require("mobi.kindleunpack", "mobi")
    copy, target = folder / "book.mobi", folder / "unpacked"
    copy.write_bytes(data)
    target.mkdir()
    try:
        # It prints what it finds odd, and stdout is the protocol's.
        with contextlib.redirect_stdout(io.StringIO()):
            unpacker.unpackBook(str(copy), str(target), epubver="A")
    except (MemoryError, DocumentError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        if "encrypted" in str(error):
            raise epub.drm("Mobipocket or Kindle") from error
        if not any(target.rglob("*.epub")):
            raise DocumentError("damaged", f"the book cannot be unpacked: {type(error).__name__}: {error}") from error
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

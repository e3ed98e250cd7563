# SPDX-License-Identifier: GPL-2.0-only
"""What a file's first bytes say that it is, whatever it is called.

A family ("pdf", "epub", "image", ...) is what `FormatSpec.signatures` names. Some are certain; "zip", "ooxml" and "ole"
only name the container, and then the file's name has to say what is in it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from bigos.loaders.encoding import bom_encoding, unmarked_unicode

_BINARY_HEAD = 8192  # bytes in which a NUL means binary, as for grep and git
_CONTROL = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_TEXT_CONTROLS_SHARE = 0.05

ARCHIVES = frozenset(("zip", "archive"))
"""Families that hold files; they are not opened."""
INSIDE = {
    "zip": frozenset(("epub", "docx", "pptx", "xlsx", "odt", "odp", "ods", "fb2.zip")),
    "ooxml": frozenset(("docx", "pptx", "xlsx")),
}
"""What may be in a container whose entries, as far as they were seen, do not tell."""
CERTAIN_TEXT = frozenset(("html", "fb2", "mhtml"))
"""Families of text that a file is whatever its name."""
TEXT = CERTAIN_TEXT | {"mail", "xml", "markup", "plain"}
"""Families that `text_family` gives."""

_MAGIC = (
    (b"PK\x03\x04", "zip", "a ZIP archive"),
    (b"PK\x05\x06", "zip", "an empty ZIP archive"),
    (b"\x1f\x8b", "archive", "compressed with gzip"),
    (b"BZh", "archive", "compressed with bzip2"),
    (b"\xfd7zXZ\x00", "archive", "compressed with xz"),
    (b"\x28\xb5\x2f\xfd", "archive", "compressed with zstd"),
    (b"\x1f\x9d", "archive", "compressed with compress"),
    (b"\x04\x22\x4d\x18", "archive", "compressed with lz4"),
    (b"LZIP\x01", "archive", "compressed with lzip"),
    (b"MSCF\x00\x00\x00\x00", "archive", "a cabinet archive"),
    (b"\xed\xab\xee\xdb", "archive", "an RPM package"),
    (b"!<arch>\ndebian-binary", "archive", "a Debian package"),
    (b"7z\xbc\xaf\x27\x1c", "archive", "a 7z archive"),
    (b"Rar!\x1a\x07", "archive", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole", "an old Office file"),
    (b"{\\rtf", "rtf", "RTF"),
    (b"\x89PNG\r\n\x1a\n", "image", "PNG"),
    (b"\xff\xd8\xff", "image", "JPEG"),
    (b"GIF87a", "image", "GIF"),
    (b"GIF89a", "image", "GIF"),
    (b"II*\x00", "image", "TIFF"),
    (b"MM\x00*", "image", "TIFF"),
    (b"II+\x00", "image", "TIFF"),
    (b"MM\x00+", "image", "TIFF"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "image", "JPEG 2000"),
    (b"AT&TFORM", "djvu", "DjVu"),
    (b"\xeaDRMION\xee", "kfx", "an encrypted Kindle KFX book"),
    (b"CONT\x02\x00", "kfx", "a Kindle KFX book"),
    (b"TPZ0", "topaz", "a Kindle Topaz book"),
    (b"\x7fELF", "program", "ELF"),
    (b"SQLite format 3\x00", "database", "SQLite"),
    (b"!<arch>\n", "program", "an ar archive"),
)
_PDF = b"%PDF-"
_PDF_WITHIN = 1024  # bytes that may stand before it, as in Acrobat
_PDF_VERSION = re.compile(rb"(?:^|[\r\n\x00-\x1f\x80-\xff])%PDF-[12]\.\d\s")
_PDF_OBJECT = re.compile(rb"\d+ \d+ obj\b")
_ZIP_ENTRY = struct.Struct("<4s5H3I2H")
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
_OPEN_DOCUMENT_FAMILIES = {b"text": "odt", b"presentation": "odp", b"spreadsheet": "ods"}
_OOXML_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}

# Possessive and atomic: what was taken is never given back. Otherwise one comment may also be read as the whole of two,
# and the ways to read thirty of them are 2^30.
_PROLOGUE = r"(?>\s|<\?xml[^>]*>|<\?[a-z][^>]*\?>|<!--.*?-->)*+"
_HTML = re.compile(_PROLOGUE + r"<(?:!doctype\s+html|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE | re.DOTALL)
_FICTION_BOOK = re.compile(_PROLOGUE + r"<(?:\w+:)?FictionBook[\s>]", re.DOTALL)
_XML = re.compile(r"\s*<\?xml\s")
_TAG = re.compile(r"<[a-zA-Z!?/]")
_HEADER = re.compile(r"[A-Za-z][\w-]{1,60}:[ \t]")
_MAILBOX = re.compile(r"From \S+[^\n]*\d\d:\d\d[^\n]*\n(?=[A-Za-z][\w-]*:|>From )")
_PAGE_ADDRESS = re.compile(r"^(?:Snapshot-)?Content-Location:[ \t]", re.IGNORECASE | re.MULTILINE)
_PAGE_ALONE = re.compile(r"^Content-Type:\s*(?:text/html|application/xhtml\+xml)\b", re.IGNORECASE | re.MULTILINE)
_LETTER = re.compile(r"^(From|To|Subject|Date|Received|Message-ID|MIME-Version|Return-Path):[ \t]", re.I | re.M)
_HEADERS_WITHIN = 8192  # characters
_MULTIPART_RELATED = re.compile(r"^Content-Type:\s*multipart/related\b", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Content:
    """What the bytes are: the family, and words for a message ("the content is PNG")."""

    family: str
    words: str


def sniff(head: bytes) -> Content | None:
    """What binary content begins with `head`; None for text."""
    pdf = head[: _PDF_WITHIN + len(_PDF)].find(_PDF)
    if pdf == 0 or (pdf > 0 and _is_pdf_behind_junk(head)):
        return Content("pdf", "PDF")
    for magic, family, kind in _MAGIC:
        if head.startswith(magic):
            return Content(_zip_family(head) if family == "zip" else family, kind)
    return _at_an_offset(head) or _binary(head)


def _is_pdf_behind_junk(head: bytes) -> bool:
    """Whether it is a PDF that something stands before, and not a text that speaks of one."""
    return _PDF_VERSION.search(head[: 2 * _PDF_WITHIN]) is not None and _PDF_OBJECT.search(head) is not None


def _at_an_offset(head: bytes) -> Content | None:
    if head[60:68] in (b"BOOKMOBI", b"TEXtREAd"):
        return Content("mobi", "a Mobipocket book")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Content("image", "WebP")
    if head[:2] == b"BM" and head[6:10] == b"\0\0\0\0" and head[14:18] in (b"\x0c\0\0\0", b"\x28\0\0\0", b"\x7c\0\0\0"):
        return Content("image", "BMP")
    return _archive(head)


def _archive(head: bytes) -> Content | None:
    if head[257:262] == b"ustar":
        return Content("archive", "a tar archive")
    if head[:3] == b"\x5d\0\0" and head[5:13] == b"\xff" * 8:  # of a size that is not told, as the programs write it
        return Content("archive", "compressed with lzma")
    if head[0x8001:0x8006] == b"CD001":
        return Content("archive", "a disk image")
    return None


def _binary(head: bytes) -> Content | None:
    if bom_encoding(head):
        return None
    first = head[:_BINARY_HEAD]
    if b"\0" in first:
        return None if unmarked_unicode(first) else Content("binary", "binary (it has NUL bytes)")
    if len(_CONTROL.findall(first)) > _TEXT_CONTROLS_SHARE * len(first):
        return Content("binary", "binary (it is full of control codes)")
    return None


def _zip_family(head: bytes) -> str:
    """What a ZIP archive holds, from the entries that begin in the head."""
    names: list[str] = []
    at = head.find(b"PK\x03\x04")
    while at >= 0:
        if at + _ZIP_ENTRY.size > len(head):
            break
        fields = _ZIP_ENTRY.unpack_from(head, at)
        method, size, start = fields[3], fields[7], at + _ZIP_ENTRY.size
        name = head[start : start + fields[9]].decode("utf-8", "replace")
        body = start + fields[9] + fields[10]
        if name == "mimetype" and method == 0:
            kind = head[body : body + (size or 100)].strip()
            if kind.startswith(b"application/epub+zip"):
                return "epub"
            if kind.startswith(_OPEN_DOCUMENT):
                shape = kind.removeprefix(_OPEN_DOCUMENT).removesuffix(b"-template")
                return _OPEN_DOCUMENT_FAMILIES.get(shape, "zip")
        names.append(name)
        # The size is often only written behind the entry, so look for the next one rather than compute where it is.
        at = head.find(b"PK\x03\x04", body)
    return _family_of_entries(names)


def _family_of_entries(names: list[str]) -> str:
    for name in names:
        for folder, family in _OOXML_FOLDERS.items():
            if name.startswith(folder) and "[Content_Types].xml" in names:
                return family
    if "META-INF/container.xml" in names and any(name.endswith(".opf") for name in names):
        return "epub"
    if len(names) == 1 and names[0].lower().endswith(".fb2"):
        return "fb2.zip"
    return "ooxml" if "[Content_Types].xml" in names else "zip"


def text_family(head: bytes) -> str:
    """What text it is: "html", "fb2", "mhtml", "mail", "xml"; else "markup" when it has tags, or "plain"."""
    encoding = bom_encoding(head) or unmarked_unicode(head[:_BINARY_HEAD]) or "latin-1"
    start = head.decode(encoding, "replace").lstrip("\ufeff\xef\xbb\xbf")
    if _HTML.match(start):
        return "html"
    if _FICTION_BOOK.match(start):
        return "fb2"
    letter = _letter_family(start)
    if letter:
        return letter
    if _XML.match(start):
        return "xml"
    return "markup" if _TAG.search(start) else "plain"


def _letter_family(start: str) -> str | None:
    """ "mhtml" or "mail" for a text that begins with headers of one; None for any other."""
    if _HEADER.match(start):
        headers = start[:_HEADERS_WITHIN].replace("\r\n", "\n").split("\n\n", 1)[0]
        if _MULTIPART_RELATED.search(headers):
            return "mhtml"
        if _PAGE_ALONE.search(headers) and _PAGE_ADDRESS.search(headers):
            return "mhtml"  # a page without pictures
        if len({name.lower() for name in _LETTER.findall(headers)}) >= 4:
            return "mail"
    return "mail" if _MAILBOX.match(start) else None

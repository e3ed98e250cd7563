# SPDX-License-Identifier: GPL-2.0-only
"""Which format a file is: one answer, from its first bytes and its name together."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path

from bigos.errors import DocumentError
from bigos.loaders import languages
from bigos.loaders.encoding import bom_encoding, unmarked_utf16
from bigos.types import Kind, path_text

HEAD_BYTES = 65_536
"""How much of a file `detect` looks at."""

_BINARY_HEAD = 8192  # bytes in which a NUL means binary, as for grep and git
_MAGIC = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP"),
    (b"PK\x05\x06", "ZIP"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"\x7fELF", "ELF"),
    (b"\x89PNG\r\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Office"),
    (b"SQLite format 3\x00", "SQLite"),
    (b"!<arch>\n", "ar archive"),
    (b"AT&TFORM", "DjVu"),
    (b"{\\rtf", "RTF"),
)
_CONTROL = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_TEXT_CONTROLS_SHARE = 0.05
# Possessive and atomic: what was taken is never given back. Otherwise one comment may also be read as the whole of two,
# and the ways to read thirty of them are 2^30.
_HTML_START = re.compile(
    r"(?>\s|<\?xml[^>]*>|<!--.*?-->)*+<(?:!doctype\s+html|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(r"<[a-zA-Z!?/]")
_EXTENSION = re.compile(r"[0-9]*[A-Za-z][A-Za-z0-9_+-]{0,15}~?")
# config.h.in and riscv.ld.orig are what their inner name says.
_WRAPPERS = frozenset(("in", "orig", "sample", "example", "dist", "tmpl", "template"))


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """One format: how it is recognised by name, and the function that loads it.

    `loader` is "module:function", imported on first use; it takes (SourceFile, bytes, LoadOptions) and returns Parsed.
    """

    name: str
    kind: Kind
    loader: str
    extensions: frozenset[str] = field(default=frozenset())
    """Lower case, without the dot."""
    names: tuple[str, ...] = ()
    """File-name globs that hold when the extension says nothing."""
    bare: bool = False
    """Whether clean text in a file without an extension is this format."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The one format chosen for a file; `code_language` is lower case, None for documents."""

    spec: FormatSpec
    code_language: str | None = None


FORMATS: tuple[FormatSpec, ...] = (
    FormatSpec(
        "text",
        "document",
        "bigos.loaders.text:load",
        frozenset(("txt", "text", "log", "nfo")),
        ("README*", "LICENSE*", "LICENCE*", "COPYING*", "CHANGELOG*", "ChangeLog*", "NEWS*", "TODO*", "AUTHORS*"),
        bare=True,
    ),
    FormatSpec("markdown", "document", "bigos.loaders.markdown:load", frozenset(("md", "markdown", "mdown", "mkd"))),
    FormatSpec("rst", "document", "bigos.loaders.text:load_rst", frozenset(("rst", "rest"))),
    FormatSpec("html", "document", "bigos.loaders.html:load", frozenset(("html", "htm", "xhtml", "xht"))),
    FormatSpec("code", "code", "bigos.loaders.code:load", frozenset(languages.EXTENSIONS)),
)
_BY_NAME = {spec.name: spec for spec in FORMATS}
_BY_EXTENSION = {extension: spec for spec in FORMATS for extension in spec.extensions}
_BARE = next(spec for spec in FORMATS if spec.bare)


def detect(path: Path, head: bytes) -> Detection:
    """Choose the format of a file.

    Args:
        path: its name counts; the file itself is not touched.
        head: its first HEAD_BYTES bytes (or all of it).

    Raises:
        DocumentError: skipped, "unknown format" (the message names the extension) or "binary".
    """
    name = path_text(Path(path.name)).strip()
    by_name = _by_name(name, head)
    if by_name is None:
        shown = name[name.rindex(".") :] if "." in name else name
        raise DocumentError("unknown format", f"no loader for {shown} files", skipped=True)
    what = binary_kind(head)
    if what:
        raise DocumentError("binary", f"the content is {what}, not text", skipped=True)
    if by_name.spec.kind == "document":
        return _corrected_by_content(by_name, head)
    return by_name


def _by_name(name: str, head: bytes) -> Detection | None:
    code = _BY_NAME["code"]
    if name in languages.NAMES:
        return Detection(code, languages.NAMES[name])
    extension = extension_of(name)
    known = _by_extension(extension, name, head)
    if known:
        return known
    for glob, language in languages.NAME_GLOBS:
        if fnmatch.fnmatchcase(name, glob):
            return Detection(code, language)
    for spec in FORMATS:
        if not name.endswith("~") and any(fnmatch.fnmatchcase(name, glob) for glob in spec.names):
            return Detection(spec)
    script = languages.shebang_language(head)
    if script:
        return Detection(code, script)
    return None if extension or name.endswith("~") else Detection(_BARE)


def _by_extension(extension: str, name: str, head: bytes) -> Detection | None:
    if extension in _WRAPPERS:
        name = name[: name.rindex(".")]
        if name in languages.NAMES:
            return Detection(_BY_NAME["code"], languages.NAMES[name])
        extension = extension_of(name)
    spec = _BY_EXTENSION.get(extension)
    if spec is None:
        return None
    if spec.kind == "document":
        return Detection(spec)
    language = languages.header_language(head) if extension == "h" else languages.EXTENSIONS[extension]
    return Detection(spec, language)


def extension_of(name: str) -> str:
    """The extension, lower case, without the dot; "" for none.

    What follows the last dot of `GPL-2.0`, `ls.1` or `Dr. Kowalska, notes` is no extension, nor is a dot file's name.
    """
    stem, dot, extension = name.strip().rpartition(".")
    return extension.lower() if dot and stem and _EXTENSION.fullmatch(extension) else ""


def binary_kind(head: bytes) -> str | None:
    """What binary content it is, in words for a message; None for text."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if bom_encoding(head):
        return None
    first = head[:_BINARY_HEAD]
    if b"\0" in first:
        return None if unmarked_utf16(first) else "binary (it has NUL bytes)"
    if len(_CONTROL.findall(first)) > _TEXT_CONTROLS_SHARE * len(first):
        return "binary (it is full of control codes)"
    return None


def _corrected_by_content(by_name: Detection, head: bytes) -> Detection:
    """An HTML page named .txt is HTML, and notes named .html are text."""
    encoding = bom_encoding(head) or unmarked_utf16(head[:_BINARY_HEAD]) or "latin-1"
    start = head.decode(encoding, "replace").lstrip("\ufeff\xef\xbb\xbf")
    if _HTML_START.match(start):
        return Detection(_BY_NAME["html"])
    if by_name.spec.name == "html" and not _TAG.search(start):
        return Detection(_BY_NAME["text"])
    return by_name

# SPDX-License-Identifier: GPL-2.0-only
"""OOXML packages made ready for the libraries that read them: checked, and without what they stumble over.

python-docx and python-pptx refuse a whole file over one missing picture, a macro-enabled or template content type, or
the namespaces of Strict OOXML. So they are given a copy, in memory, of the XML parts alone, with relationships that all
lead somewhere. That also keeps pictures and embedded files out of memory.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Callable

from lxml import etree

from bigos.errors import DocumentError
from bigos.loaders.container import Container, refuse_doctype
from bigos.loaders.markup import local, parse_xml

_CONTENT_TYPES = "[Content_Types].xml"
_FORMATS = rb"application/vnd\.openxmlformats-officedocument\."
_MAIN_TYPES = (
    (re.compile(rb"application/vnd\.ms-word\.[\w.]+\.main\+xml"), b"wordprocessingml.document"),
    (re.compile(_FORMATS + rb"wordprocessingml\.template\.main\+xml"), b"wordprocessingml.document"),
    (re.compile(rb"application/vnd\.ms-powerpoint\.[\w.]+\.main\+xml"), b"presentationml.presentation"),
    (re.compile(_FORMATS + rb"presentationml\.(?:template|slideshow)\.main\+xml"), b"presentationml.presentation"),
)
_STRICT = b"http://purl.oclc.org/ooxml/"
_TRANSITIONAL = b"http://schemas.openxmlformats.org/"
_STRICT_NAMES = tuple(
    (_STRICT + name, _TRANSITIONAL + name.replace(b"/", b"/2006/", 1))
    for name in (
        b"officeDocument/relationships",
        b"wordprocessingml/main",
        b"presentationml/main",
        b"spreadsheetml/main",
        b"drawingml/",
    )
)


def readable_copy(
    container: Container, warn: Callable[[str], None], without: frozenset[str] = frozenset()
) -> io.BytesIO:
    """A package with the same text that the libraries open.

    Args:
        container: the file.
        warn: is told of each part that is not well-formed; it is read as far as that goes, or left out.
        without: further parts to leave out.

    Raises:
        DocumentError: "damaged" for a package without its table of content types or with a document type in its XML.
    """
    if _CONTENT_TYPES not in container.names:
        raise DocumentError("damaged", f"{_CONTENT_TYPES} is missing: it is no Office file")
    kept = [name for name in container.names if name.lower().endswith((".xml", ".rels")) and name not in without]
    refuse_doctype(container, kept)
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in kept:
            data = _well_formed(_part(container, name, frozenset(kept)), name, warn)
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 1)
    copy.seek(0)
    return copy


def _well_formed(data: bytes, name: str, warn: Callable[[str], None]) -> bytes:
    """The part, or what can be saved of it, which is an empty one at worst."""
    try:
        parse_xml(data)
    except DocumentError as error:
        warn(f"{name} is damaged and read as far as that goes: {error.message}")
        try:
            return bytes(etree.tostring(parse_xml(data, recover=True)))
        except DocumentError:
            return b"<nothing/>"
    return data


def _part(container: Container, name: str, kept: frozenset[str]) -> bytes:
    data = container.read(name)
    if _STRICT in data:
        for strict, transitional in _STRICT_NAMES:
            data = data.replace(strict, transitional)
    if name == _CONTENT_TYPES:
        for special, plain in _MAIN_TYPES:
            data = special.sub(b"application/vnd.openxmlformats-officedocument." + plain + b".main+xml", data)
    elif name.endswith(".rels"):
        data = _relationships(data, name, kept)
    return data


def _relationships(data: bytes, name: str, kept: frozenset[str]) -> bytes:
    """Only those that lead to a kept part, or out of the package (where nobody follows them)."""
    root = parse_xml(data, recover=True)
    folder = posixpath.dirname(posixpath.dirname(name))
    for relationship in list(root):
        target = relationship.get("Target") or ""
        if local(relationship) != "Relationship" or (
            relationship.get("TargetMode") != "External" and _target(folder, target) not in kept
        ):
            root.remove(relationship)
    return bytes(etree.tostring(root))


def _target(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")

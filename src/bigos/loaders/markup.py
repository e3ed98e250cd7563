# SPDX-License-Identifier: GPL-2.0-only
"""XML as documents carry it: parsed without entities, network or document type, and looked at by local names."""

from __future__ import annotations

import html.entities
import re
from typing import Any

from lxml import etree

from bigos.errors import DocumentError
from bigos.loaders.encoding import decode

_DECLARED = re.compile(
    rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)|<meta[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.I
)
_DECLARED_WITHIN = 4096  # bytes
_NAMED = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_OWN = frozenset(("lt", "gt", "amp", "quot", "apos"))
_PROLOG = re.compile(r"\s*<\?xml[^>]*\?>")

Element = Any  # lxml's elements have no type information


def parse_xml(data: bytes, *, recover: bool = False) -> Element:
    """The root element.

    Nothing is ever fetched or expanded: a reference to an entity of the document's own stays an unread node.

    Args:
        data: the part's bytes; its declaration or byte order mark names the encoding.
        recover: read on after errors, as far as that goes.

    Raises:
        DocumentError: "damaged" when there is no tree.
    """
    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, recover=recover,
        remove_comments=True, remove_pis=True,
    )  # fmt: skip
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise DocumentError("damaged", f"not well-formed XML: {error}") from error
    if root is None:
        raise DocumentError("damaged", "there is no XML in it")
    return root


def local(element: Element) -> str:
    """An element's name without its namespace; "" for an entity reference."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Element, name: str) -> str | None:
    """An attribute by its local name, whatever its namespace."""
    plain = element.get(name)
    if plain is not None:
        return str(plain)
    return next((str(value) for key, value in element.items() if re.split("[}:]", key)[-1] == name), None)


def descend(root: Element, name: str) -> list[Element]:
    """All elements below (and including) root with that local name."""
    return [element for element in root.iter() if local(element) == name]


def text_of(element: Element) -> str:
    """All text below an element, without the names of entities that were not expanded."""
    parts = []
    for event, part in etree.iterwalk(element, events=("start", "end")):
        if event == "start":
            parts.append((part.text or "") if isinstance(part.tag, str) else "")
        elif part is not element:
            parts.append(part.tail or "")
    return "".join(parts)


def decoded(data: bytes) -> str:
    """A marked-up file as text, whatever encoding it names, has or is in; without its XML declaration.

    HTML's names of characters are replaced: an XML parser that reads no document type does not know them.
    """
    named = _DECLARED.search(data[:_DECLARED_WITHIN])
    text, _, _ = decode(data, (named[1] or named[2]).decode("ascii") if named else None)
    whole = text.replace("\0", "")
    prolog = _PROLOG.match(whole)
    return _NAMED.sub(_character, whole[prolog.end() :] if prolog else whole)


def _character(match: re.Match[str]) -> str:
    return match[0] if match[1] in _XML_OWN else html.entities.html5.get(match[1] + ";", match[0])

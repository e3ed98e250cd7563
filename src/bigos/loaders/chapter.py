# SPDX-License-Identifier: GPL-2.0-only
"""One XHTML file of an ebook: its text in sections, and where in it the table of contents points."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lxml import etree

from bigos.loaders.markup import Element, attribute, decoded, local
from bigos.loaders.page import invisible, words
from bigos.loaders.page_text import PageText

_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*+(?:\[[^\]]*+\][^>]*+)?>", re.I)
# Two noncharacters, which no text may contain, around the number of a place that the table of contents names.
_MARK = re.compile("\ufdd0([0-9]+)\ufdd1")
_INLINE = words(
    "a span b i em strong small big sup sub u s font tt code cite q abbr acronym dfn ins del mark bdo bdi ruby img br "
    "td th tr tbody thead tfoot caption colgroup col rt rp rb"  # a mark must not come into a table's row
)


@dataclass(frozen=True, slots=True)
class Section:
    """Text under one trail of the chapter's own headings; `place` numbers the last anchor before it, or None."""

    text: str
    headings: tuple[str, ...]
    place: int | None


def read_chapter(data: bytes, fragments: Iterable[str]) -> list[Section]:
    """The sections of a chapter in reading order.

    Args:
        data: the file; XHTML, or HTML of any kind when it is not well-formed.
        fragments: ids that the table of contents points at; a section's `place` counts them from 0.
    """
    root = _tree(decoded(data).replace("\ufdd0", "").replace("\ufdd1", ""))
    if root is None:
        return []
    body = next(root.iter("body"), root)
    _mark(body, tuple(fragments))
    return list(_sections(PageText(_left_out).read(body)))


def _left_out(element: Element) -> bool:
    """Navigation, and the numbers of the paper edition's pages in the middle of sentences."""
    if invisible(element) or element.tag == "nav":
        return True
    return attribute(element, "type") == "pagebreak" or element.get("role") == "doc-pagebreak"


def _tree(text: str) -> Element | None:
    """XML first, because only XML knows that <a id="x"/> is closed; then HTML, which takes anything."""
    body = _DOCTYPE.sub("", text, count=1)
    strict = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(body.strip().encode("utf-8", "replace"), strict)
    except (etree.XMLSyntaxError, ValueError):
        return _html_tree(body)
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = local(element)
    return root


def _html_tree(text: str) -> Element | None:
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, no_network=True)
    parser.feed(text.encode("utf-8", "replace"))
    try:
        return parser.close()
    except etree.XMLSyntaxError:
        return None


def _mark(body: Element, fragments: tuple[str, ...]) -> None:
    """Put a mark before the block that each anchor is in."""
    numbers = {fragment: number for number, fragment in enumerate(fragments) if fragment}
    if not numbers:
        return
    for element in list(body.iter()):
        for name in (element.get("id"), element.get("name") if element.tag == "a" else None):
            number = numbers.pop(name, None) if name else None
            if number is not None:
                _put_before(_block(element, body), body, f"\ufdd0{number}\ufdd1")


def _block(element: Element, body: Element) -> Element:
    while element is not body and element.tag in _INLINE and element.getparent() is not None:
        if element.getparent() is body or (element.tag == "a" and _stands_alone(element)):
            break
        element = element.getparent()
    table = next((parent for parent in element.iterancestors("table", "pre")), None)
    return element if table is None else table


def _stands_alone(element: Element) -> bool:
    """An empty <a id="x"/> between blocks, as converters write it, is its own place."""
    return len(element) == 0 and not element.text and element.getparent().tag in ("div", "section", "body", "article")


def _put_before(element: Element, body: Element, mark: str) -> None:
    if element is body:
        body.text = mark + (body.text or "")
        return
    before = element.getprevious()
    if before is not None:
        before.tail = (before.tail or "") + mark
    else:
        parent = element.getparent()
        parent.text = (parent.text or "") + mark


def _sections(found: list[tuple[tuple[str, ...], str]]) -> Iterable[Section]:
    place: int | None = None
    for path, text in found:
        # A place in the middle of a heading's own line cannot be told from that heading.
        headings = tuple(_MARK.sub("", title).strip() for title in path)
        parts = _MARK.split(text)
        for index in range(0, len(parts), 2):
            if index:
                # The chapter's headings so far were above another place.
                place, headings = int(parts[index - 1]), ()
            if parts[index].strip():
                yield Section(parts[index], tuple(title for title in headings if title), place)

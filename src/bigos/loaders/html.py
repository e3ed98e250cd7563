# SPDX-License-Identifier: GPL-2.0-only
"""HTML: the page's own text in reading order, with headings, tables as rows, lists and <pre>; menus left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

from lxml import etree

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.page import Element, boilerplate, choose_main, invisible, words
from bigos.loaders.page_text import PageText
from bigos.loaders.sections import Parsed, one_line
from bigos.types import Block, SourceFile

_DECLARED = re.compile(
    rb"""<meta[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)""", re.I
)
_DECLARED_WITHIN = 8192  # bytes; browsers look at the first 1024, old pages put comments and scripts first
_PARSER_DEPTH = 2048  # libxml2 stops without an error at this many open elements and loses the rest
_KEPT_DEPTH = 256
_VOID = words("area base br col embed hr img input link meta param source track wbr")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Main text of a page; blocks are the stretches under one heading trail, without line numbers."""
    return read_page(data, None)


def read_page(data: bytes, charset: str | None) -> Parsed:
    """As `load`; `charset` is what a header outside of the page said, and goes before what the page itself says."""
    match = _DECLARED.search(data[:_DECLARED_WITHIN])
    declared = (match[1] or match[2]).decode("ascii") if match else None
    raw, _, warnings = decode(data, charset or declared)
    root = _tree(raw.replace("\0", ""))
    if root is None:
        return Parsed("", (), None, warnings)
    sections = _sections(root)
    text, blocks = _assemble(sections)
    return Parsed(text, blocks, _title(root, blocks), warnings)


def _tree(text: str) -> Element | None:
    # Bytes, because lxml refuses a str that has an XML declaration. The comments go while parsing, so that the text
    # around one stays together.
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, no_network=True)
    parser.feed(text.encode("utf-8", "replace"))
    try:
        root = parser.close()
    except etree.XMLSyntaxError:
        return None  # nothing but white space and comments
    if root is not None and _too_deep(root):
        flat = _FlatTree()
        flat.feed(text)
        flat.close()
        return flat.finish()
    return root


def _too_deep(root: Element) -> bool:
    depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth >= _PARSER_DEPTH - 8:
            return True
    return False


class _FlatTree(HTMLParser):
    """Builds a tree of bounded depth from a page that libxml2 cannot hold: what is deeper becomes a neighbour."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._builder = etree.TreeBuilder()
        self._builder.start("html", {})
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9]*", tag) or tag == "html":
            return
        known = {
            name: clean(value or "") for name, value in attrs if name in ("id", "class", "role", "style", "hidden")
        }
        self._builder.start(tag, known)
        if tag in _VOID or len(self._open) >= _KEPT_DEPTH:
            self._builder.end(tag)
        else:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        # Look only a little way up: an end tag whose element is far above is more likely a stray one, and searching
        # the whole stack for each would be quadratic.
        if tag in self._open[-8:]:
            while self._open:
                last = self._open.pop()
                self._builder.end(last)
                if last == tag:
                    break

    def handle_data(self, data: str) -> None:
        self._builder.data(clean(data))

    def finish(self) -> Element:
        while self._open:
            self._builder.end(self._open.pop())
        self._builder.end("html")
        return self._builder.close()


def _sections(root: Element) -> list[tuple[tuple[str, ...], str]]:
    """The main text; when the rules for menus leave nothing, the whole page; when that is hidden, that too."""
    main = choose_main(root)
    attempts: tuple[tuple[Element, Callable[[Element], bool]], ...] = (
        (main.element, lambda element: invisible(element) or boilerplate(element) or element in main.menus),
        (root, invisible),
        (root, lambda element: element.tag in ("script", "style", "head")),
    )
    for start, left_out in attempts:
        found = PageText(left_out).read(start)
        if found:
            return found
    return []


def _assemble(sections: list[tuple[tuple[str, ...], str]]) -> tuple[str, tuple[Block, ...]]:
    """Join the sections with blank lines; the blocks know where each one landed."""
    parts: list[str] = []
    blocks: list[Block] = []
    at = 0
    for path, raw in sections:
        piece = clean(raw).strip("\n")
        if not piece or piece.isspace():
            continue
        if parts:
            parts.append("\n\n")
            at += 2
        blocks.append(Block(piece, at, heading_path=path))
        parts.append(piece)
        at += len(piece)
    return "".join(parts), tuple(blocks)


def _title(root: Element, blocks: tuple[Block, ...]) -> str | None:
    for element in root.iter("title"):
        if all(parent.tag != "svg" for parent in element.iterancestors()):
            title = one_line(clean("".join(element.itertext())))
            if title:
                return title
    for element in root.iter("h1"):
        title = one_line(clean(" ".join(element.itertext())))
        if title:
            return title
    return next((block.heading_path[0] for block in blocks if block.heading_path), None)

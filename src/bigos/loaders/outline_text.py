# SPDX-License-Identifier: GPL-2.0-only
"""AsciiDoc and Org: like Markdown the source is the text, and headings give the trail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Heading, Parsed, blocks_between, one_line
from bigos.types import SourceFile

_LINE = re.compile(r"[^\n]*\n?")
_LONGEST_HEADING = 2000  # characters of a line

_ASCIIDOC_TITLE = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
_ASCIIDOC_BLOCK = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}|~{4,}|\|===|\|={3,})(?:\w+)?[ \t]*")
_ASCIIDOC_UNDERLINES = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}
_ASCIIDOC_MARKS = re.compile(r"\[\[[^\]]*\]\]|\{[\w-]+\}|[*_`]{1,2}(?=\w)|(?<=\w)[*_`]{1,2}|[ \t]+=+$")

_ORG_HEADING = re.compile(r"(\*+)[ \t]+(\S.*)")
_ORG_TITLE = re.compile(r"^[ \t]*#\+title:[ \t]*(.+)$", re.IGNORECASE | re.MULTILINE)
_ORG_TODO = re.compile(r"(?:TODO|DONE|NEXT|WAITING|CANCELL?ED)[ \t]+")
_ORG_PRIORITY = re.compile(r"\[#[A-Z0-9]\][ \t]*")
_ORG_TAGS = re.compile(r"[ \t]+:(?:[\w@#%]+:)+[ \t]*$")
_ORG_LINK = re.compile(r"\[\[([^\]\[]+)\](?:\[([^\]\[]+)\])?\]")


def load_asciidoc(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Sections by `==` or by underlined titles; the document's title is its first heading of level 0 (`=`)."""
    raw, _, warnings = decode(data)
    text = clean(raw)
    headings = list(_asciidoc_headings(text))
    title = next((heading.title for heading in headings if heading.level == 1), None)
    return Parsed(text, blocks_between(text, headings), title, warnings)


def _asciidoc_headings(text: str) -> Iterator[Heading]:
    fence = ""  # the line that ends the block that we are in
    above, above_start = "", 0  # the line before, when it may be a title that is underlined
    before_above = ""
    for match in _LINE.finditer(text):
        line = match[0].rstrip("\n").rstrip()
        if len(line) > _LONGEST_HEADING:
            above = before_above = ""
            continue
        if fence:
            fence = "" if line == fence else fence
            continue
        title = _ASCIIDOC_TITLE.fullmatch(line)
        level = _underlined(above, line) if not before_above.strip() else 0
        if title:
            yield Heading(match.start(), len(title[1]), _asciidoc_words(title[2]))
        elif level:
            yield Heading(above_start, level, _asciidoc_words(above))
        elif block := _ASCIIDOC_BLOCK.fullmatch(line):
            fence = block[1] if block[1][0] == "`" else line
        before_above = above if not (title or level) else ""
        above, above_start = ("" if title or level or fence else line), match.start()


def _underlined(title: str, line: str) -> int:
    """The level of a title with this line under it, which must be as long as the title to two characters."""
    if len(line) < 3 or len(set(line)) > 1 or line[0] not in _ASCIIDOC_UNDERLINES:
        return 0
    if not title or abs(len(title) - len(line)) > 2 or not any(char.isalnum() for char in title):
        return 0
    return 0 if title[0] in " \t.[|" else _ASCIIDOC_UNDERLINES[line[0]]


def _asciidoc_words(title: str) -> str:
    return one_line(_ASCIIDOC_MARKS.sub("", title))


def load_org(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Sections by stars; keywords, priorities and tags are no part of a heading's words."""
    raw, _, warnings = decode(data)
    text = clean(raw)
    headings = list(_org_headings(text))
    named = _ORG_TITLE.search(text, 0, 10_000)
    title = one_line(named[1]) if named else next((heading.title for heading in headings), None)
    return Parsed(text, blocks_between(text, headings), title or None, warnings)


def _org_headings(text: str) -> Iterator[Heading]:
    for match in _LINE.finditer(text):
        if match[0][:1] != "*" or len(match[0]) > _LONGEST_HEADING:
            continue
        heading = _ORG_HEADING.fullmatch(match[0].rstrip("\n"))
        if heading is None:
            continue
        words = _ORG_TAGS.sub("", _ORG_PRIORITY.sub("", _ORG_TODO.sub("", heading[2], count=1), count=1))
        yield Heading(match.start(), len(heading[1]), one_line(_ORG_LINK.sub(lambda link: link[2] or link[1], words)))

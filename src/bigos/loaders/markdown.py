# SPDX-License-Identifier: GPL-2.0-only
"""Markdown: the source is the text; headings give the trail.

A line scanner rather than a Markdown parser: only the headings and what hides a false one (fences, comments, raw HTML)
matter here, and one enormous line must cost no more than its length.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import TITLE_LIMIT, Heading, Parsed, blocks_between, one_line
from bigos.types import SourceFile

_LINE = re.compile(r"[^\n]*\n?")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})(.*)$")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)|([-*_])[ \t]*(?:\1[ \t]*){2,}$)| {4}|\t")
_RAW_HTML = re.compile(r" {0,3}<(?:(!--)|(pre|script|style|textarea)(?=[\s>]|$))", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\n(?:.*?\n)??(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_LIMIT = 65_536  # characters; further than this the opening line was a rule, not front matter
_KEY = re.compile(r"^[\w.\"'-]+[ \t]*[:=]", re.MULTILINE)
_YAML_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_HEADING_LINE_LIMIT = 2000  # characters; also what keeps every pattern above away from an enormous line
_MARKUP = re.compile(r"!?\[([^\]\[]*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)|[*`]+|\{#[^}]*\}|\\(?=[^\w\s])")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Blocks under ATX and setext headings; front matter is a block of its own and names the title."""
    raw, _, warnings = decode(data)
    text = clean(raw)
    front = _FRONT_MATTER.match(text, 0, _FRONT_LIMIT)
    if front and not _KEY.search(front[0]):
        front = None  # a rule above the first paragraph and another one below it
    body = front.end() if front else 0
    headings = list(_headings(text, body))
    title = _front_title(front[0]) if front else None
    if title is None:
        title = next((heading.title for heading in headings if heading.level == 1), None)
    if front:
        headings.insert(0, Heading(body, 0, ""))
    return Parsed(text, blocks_between(text, headings), title, warnings)


def _front_title(matter: str) -> str | None:
    inner = "\n".join(matter.rstrip("\n").split("\n")[1:-1])
    if matter.startswith("+++"):
        try:
            value = tomllib.loads(inner).get("title")
        except tomllib.TOMLDecodeError:
            return None
        return one_line(value) or None if isinstance(value, str) else None
    match = _YAML_TITLE.search(inner)
    if match is None or match[1] in ("|", ">", "|-", ">-"):
        return None
    value = match[1]
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1].replace("''", "'") if value[0] == "'" else value[1:-1].replace('\\"', '"')
    return one_line(value) or None


def _headings(text: str, start: int) -> Iterator[Heading]:
    closing: re.Pattern[str] | None = None  # what ends the fence, comment or raw HTML that we are in
    in_list = False
    paragraph: int | None = None  # where the open top-level paragraph began
    for match in _LINE.finditer(text, start):
        if match.end() - match.start() > _HEADING_LINE_LIMIT:
            long_close = closing is not None and closing.search(text, match.start(), match.end())
            closing, paragraph = (None if long_close else closing), None
            continue
        line = match[0].rstrip("\n")
        if closing is not None:
            if closing.search(line):
                closing = None
            continue
        closing = _opens(line, in_list)
        atx = _ATX.match(line)
        setext = _SETEXT.match(line) if paragraph is not None else None
        if closing is not None or not line.strip():
            paragraph = None
        elif atx:
            paragraph, in_list = None, False
            yield Heading(match.start(), len(atx[1]), _words(_CLOSING_HASHES.sub("", atx[2] or "")))
        elif setext and paragraph is not None:
            # A longer one is prose above a rule, whatever the standard says.
            if match.start() - paragraph <= TITLE_LIMIT:
                yield Heading(paragraph, 1 if setext[1][0] == "=" else 2, _words(text[paragraph : match.start()]))
            paragraph = None
        elif _NO_PARAGRAPH.match(line) and (paragraph is None or line[0] not in " \t"):
            paragraph, in_list = None, in_list or bool(_LIST_ITEM.match(line))
        elif paragraph is None and not (in_list and line[0] in " \t"):
            paragraph, in_list = match.start(), False


def _opens(line: str, in_list: bool) -> re.Pattern[str] | None:
    """What will end the verbatim stretch that this line opens; None when it opens none."""
    fence = _FENCE.match(line)
    if fence and not (fence[2][0] == "`" and "`" in fence[3]) and (in_list or len(fence[1].expandtabs(4)) <= 3):
        return re.compile(rf"^[ \t]*{fence[2][0]}{{{len(fence[2])},}}[ \t]*$")
    raw = _RAW_HTML.match(line)
    if raw is None:
        return None
    end = re.compile("-->" if raw[1] else rf"</{re.escape(raw[2])}>", re.IGNORECASE)
    return None if end.search(line, raw.end()) else end


def _words(title: str) -> str:
    """A heading's words without the marks of emphasis, code and links."""
    return one_line(_MARKUP.sub(lambda match: match[1] or "", title))

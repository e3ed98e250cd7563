# SPDX-License-Identifier: GPL-2.0-only
"""Plain text, manual pages, and reStructuredText with its underlined titles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bigos.loaders import troff
from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Heading, Parsed, blocks_between, one_line
from bigos.types import Block, SourceFile

# LS(1)          User Commands          LS(1): only what man itself writes begins with this line.
_MANUAL_HEADER = re.compile(r"\s*([^\s()]{1,80}\([0-9][0-9A-Za-z]{0,12}\))[ \t]{2,}\S[^\n]{0,300}\n[ \t]*\n")
_MANUAL_SECTION = re.compile(r"^(?:   (?! ))?(?=\S)[^\n]{1,80}$", re.MULTILINE)
_ADORNMENT = re.compile(r"^([!-/:-@\[-`{-~])\1{2,}[ \t]*$", re.MULTILINE)


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """One block; a manual page, formatted or in its source, has its sections as headings."""
    raw, _, warnings = decode(data)
    text = clean(raw)
    if troff.is_manual_source(text):
        return troff.read_manual_source(text, warnings)
    header = _MANUAL_HEADER.match(text)
    if header is None:
        return Parsed(text, (Block(text, 0, line_start=1),), None, warnings)
    headings = list(_manual_sections(text, header.end()))
    return Parsed(text, blocks_between(text, headings), _manual_title(text, headings) or header[1], warnings)


def _manual_sections(text: str, start: int) -> Iterator[Heading]:
    """Lines at column 0 are sections and lines at column 3 subsections, when an indented body follows."""
    for match in _MANUAL_SECTION.finditer(text, start):
        line = match[0]
        level = 2 if line[0] == " " else 1
        body = "   " if level == 1 else "\n     "
        after = text[match.end() : match.end() + 200]
        if level == 1:
            after = after.lstrip("\n")
        if text[max(0, match.start() - 2) : match.start()].strip("\n") or not after.startswith(body):
            continue
        yield Heading(match.start(), level, one_line(line))


def _manual_title(text: str, headings: list[Heading]) -> str | None:
    """The line of the first section: `ls - list directory contents`."""
    if not headings:
        return None
    end = headings[1].char_start if len(headings) > 1 else len(text)
    body = text[headings[0].char_start : min(end, headings[0].char_start + 1000)].split("\n", 1)
    paragraph = body[1].strip("\n").split("\n\n", 1)[0] if len(body) > 1 else ""
    return one_line(paragraph) or None


def load_rst(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Underlined (and overlined) titles are headings; the order of first use gives the levels."""
    raw, _, warnings = decode(data)
    text = clean(raw)
    headings = list(_rst_titles(text))
    return Parsed(text, blocks_between(text, headings), headings[0].title if headings else None, warnings)


def _rst_titles(text: str) -> Iterator[Heading]:
    levels: list[tuple[str, bool]] = []
    ruled_until = 0  # an underline that has served is not the next title's overline
    for match in _ADORNMENT.finditer(text):
        if match.start() < max(ruled_until, 1):
            continue
        title_start = text.rfind("\n", 0, match.start() - 1) + 1
        title = text[title_start : match.start() - 1]
        if title_start < ruled_until or not _can_be_title(title, len(match[0].rstrip())):
            continue
        above_start = text.rfind("\n", 0, max(title_start - 1, 0)) + 1
        above = text[above_start : title_start - 1] if title_start else ""
        overlined = above.rstrip() != "" and above_start >= ruled_until and above.rstrip() == match[0].rstrip()
        if not overlined and (above.strip() or title[0].isspace()):
            continue
        style = (match[1], overlined)
        if style not in levels:
            levels.append(style)
        ruled_until = match.end()
        yield Heading(above_start if overlined else title_start, levels.index(style) + 1, one_line(title))


def _can_be_title(title: str, ruler: int) -> bool:
    """A ruler much shorter than the words above it is a mistake that docutils refuses, and so do we."""
    if not title.strip() or _ADORNMENT.fullmatch(title) or len(title) > 400:
        return False
    return ruler >= min(len(title.strip()), 4)

# SPDX-License-Identifier: GPL-2.0-only
"""Subtitles: what is said, without numbers, times and markup; each cue knows the line where it stands.

SubRip (.srt), WebVTT (.vtt), SubStation Alpha (.ass, .ssa), and what is called .sub: MicroDVD, SubViewer, MPL2,
TMPlayer.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed
from bigos.types import Block, SourceFile

_TIME = r"(?:\d{1,3}:)?\d{1,2}:\d{2}(?:[.,]\d{1,3})?"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*(?:-->|,)[ \t]*{_TIME}[^\n]*")
_NUMBER = re.compile(r"[ \t]*\d{1,9}[ \t]*")
_FRAMES = re.compile(r"[ \t]*(?:\{\d*\}\{\d*\}|\[\d+\]\[\d*\])(.*)")
_CLOCK = re.compile(r"[ \t]*\d{1,2}:\d{2}:\d{2}(?:[:=,]\d?)?[:=](.*)")
_DIALOGUE = re.compile(r"[ \t]*Dialogue:(.*)")
_NO_CUE = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)\b")
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?[ \t]+([^<>\n]{1,100})>")
_TAG = re.compile(r"</?[a-zA-Z0-9.:][^<>\n]{0,200}>|\{[\\A-Za-z:$][^{}\n]{0,300}\}|</?[a-zA-Z]>")
_SIGNS = re.compile(r"(?:^|(?<=\|))[ \t]*/(?=\S)")  # MPL2's and TMPlayer's mark of a line in italics
_BREAKS = re.compile(r"\\[Nn]|\[br\]|\|", re.IGNORECASE)
_SPACES = re.compile(r"(?:[ \t\xa0]|\\h)+")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """One block a cue. A line that the cue before ends with too (rolling captions) is said once."""
    raw, _, warnings = decode(data)
    lines = clean(raw).split("\n")
    parts: list[str] = []
    blocks: list[Block] = []
    at = 0
    last = ""
    for line, cue in _cues(lines):
        said = [words for words in cue if words]
        while said and last and said[0] == last:
            said.pop(0)
        if not said:
            continue
        text = "\n".join(said)
        last = said[-1]
        if parts:
            parts.append("\n")
            at += 1
        blocks.append(Block(text, at, line_start=line))
        parts.append(text)
        at += len(text)
    return Parsed("".join(parts), tuple(blocks), None, warnings)


def _cues(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line of text, lines of text) for each cue."""
    dialogue = any(_DIALOGUE.match(line) for line in lines[:5000])
    fields = _text_field(lines) if dialogue else 0
    some = [line for line in lines[:200] if line.strip()]
    frames = sum(1 for line in some if _FRAMES.match(line) or _CLOCK.match(line))
    framed = frames > 2 or 0 < frames == len(some)
    timed = any(_TIMING.fullmatch(line) for line in lines[:5000])
    if dialogue:
        for number, line in enumerate(lines, 1):
            match = _DIALOGUE.match(line)
            parts = match[1].split(",", fields) if match else []
            if len(parts) > fields and "\\p1" not in parts[fields]:  # \p1 draws a shape
                yield number, _words(parts[fields])
    elif framed and not timed:
        for number, line in enumerate(lines, 1):
            match = _FRAMES.match(line) or _CLOCK.match(line)
            if match and not re.fullmatch(r"\s*[\d.,]+\s*", match[1]):  # MicroDVD's first cue may be the frame rate
                yield number, _words(match[1])
    elif timed:
        yield from _timed(lines)
    else:
        for number, line in enumerate(lines, 1):
            yield number, _words(line)


def _text_field(lines: list[str]) -> int:
    """How many fields stand before the text of a Dialogue line."""
    events = False
    for line in lines:
        if line.startswith("["):
            events = line.strip().lower() == "[events]"
        elif events and line.lower().startswith("format:"):
            return line.count(",")
    return 9


def _timed(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Cues that begin with a line of two times and end before the next, its number, or a comment block."""
    cue: list[str] = []
    start = 0
    passing = True  # before the first cue, and inside NOTE and STYLE blocks
    for number, line in enumerate(lines, 1):
        if _TIMING.fullmatch(line):
            if cue and (_NUMBER.fullmatch(cue[-1]) or (len(cue) > 1 and not cue[-2].strip())):
                cue.pop()  # the number or name of this cue
            yield from _finished(start, cue)
            cue, start, passing = [], number + 1, False
        elif _NO_CUE.match(line) and (not cue or not cue[-1].strip()):
            yield from _finished(start, cue)
            cue, passing = [], True
        elif not passing:
            cue.append(line)
    yield from _finished(start, cue)


def _finished(start: int, cue: list[str]) -> Iterator[tuple[int, list[str]]]:
    lines = [words for line in cue for words in _words(line)]
    if any(lines):
        blank = next(place for place, line in enumerate(cue) if line.strip())
        yield start + blank, lines


def _words(line: str) -> list[str]:
    """The lines that a line of source shows, without markup."""
    text = _VOICE.sub(r"\1: ", line)
    text = _TAG.sub("", text)
    if "&" in text:
        text = html.unescape(text)
    return [_SPACES.sub(" ", _SIGNS.sub("", part)).strip() for part in _BREAKS.split(text)]

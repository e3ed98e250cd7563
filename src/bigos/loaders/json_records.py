# SPDX-License-Identifier: GPL-2.0-only
"""JSON and JSON lines: `key: value` in the file's order, without quotes, braces and escapes.

The file is read as tokens, never as a tree: depth costs nothing, memory follows the length of the text, and what is cut
short or not quite JSON still gives what it says. A file that has lines keeps them, so that line numbers hold; one that
is written without any is laid out anew, and has none.

    {"id": 7, "tags": ["las", "grzyb"], "who": {"name": "Jan"}}   ->   id: 7 | tags: las, grzyb | who.name: Jan
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, replace

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Heading, Parsed, blocks_between, one_line
from bigos.types import Block, SourceFile

# Possessive throughout: what was taken is never given back, so that reading stays linear whatever is unclosed.
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]++|\\.)*+")
    | (?P<comment>//[^\n]*+)
    | (?P<other>"|[^\s{}\[\],:"]++(?:,[ \t]*+[^\s{}\[\],:"]++)*+)   # a row of numbers is one token
    | (?P<newline>\n)
    | (?P<mark>[{}\[\]])""",
    re.VERBOSE,
)
_COLON = re.compile(r"\s*+:")
_ENCODED = re.compile(r"[A-Za-z0-9+/_=-]{400,}+")  # what has so many letters without a blank is data, not text
_LONG_LINES = 1000  # characters a line on average, above which the lines are nobody's
_MOST_KEYS = 64  # levels whose keys are remembered
_HEADING_LEVELS = 2
_MOST_HEADINGS = 20_000
_MOST_INDENT = 16  # blanks
_BATCH = 4096


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """A document of one JSON value; keys of its two upper levels of objects are the heading trail."""
    raw, _, warnings = decode(data)
    text = clean(raw)
    del raw
    if not text.lstrip().startswith(("{", "[")):
        return Parsed(text, (Block(text, 0, line_start=1),), None, warnings)
    has_lines = len(text) <= _LONG_LINES * (text.count("\n") + 1)
    return _parsed(_Reader(text, keep_lines=has_lines, headings=True), warnings)


def load_lines(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """JSON lines: one record a line."""
    raw, _, warnings = decode(data)
    return _parsed(_Reader(clean(raw), keep_lines=True, headings=False), warnings)


def _parsed(reader: _Reader, warnings: tuple[str, ...]) -> Parsed:
    text = reader.read()
    blocks = blocks_between(text, reader.headings)
    if not reader.keep_lines:
        blocks = tuple(replace(block, line_start=None) for block in blocks)
    return Parsed(text, blocks, None, (*warnings, *reader.warnings))


@dataclass(slots=True)
class _Container:
    """An object or array that is open: the key that it stands under, and where."""

    mark: str
    key: str
    line: int
    heading: int = 0
    """Its level as a heading; 0 for none."""


class _Reader:
    """Writes tokens out as text; one use only."""

    def __init__(self, source: str, *, keep_lines: bool, headings: bool) -> None:
        self.keep_lines = keep_lines
        self.headings: list[Heading] = []
        self.warnings: list[str] = []
        self._source = source
        self._wants_headings = headings
        self._done: list[str] = []
        self._parts: list[str] = []
        self._length = 0
        self._line = 0
        self._line_start = 0  # in the text that is written
        self._indent = ""
        self._fresh = True  # nothing on this line yet
        self._open: list[_Container] = []
        self._deeper = 0  # levels below those that are remembered
        self._key: str | None = None  # waits for its value
        self._label: str | None = None  # the key as it will be written when its value is seen
        self._depth = 0  # of the entry, in the new layout
        self._entry = False  # a value that more of the same array may follow
        self._ended_heading = 0

    def read(self) -> str:
        """The text."""
        source = self._source
        for token in _TOKEN.finditer(source):
            kind, word = token.lastgroup, token[0]
            if kind == "mark":
                self._close() if word in "]}" else self._begin(word)
            elif kind == "newline":
                if self.keep_lines:
                    self._end_line()
                    after = source[token.end() : token.end() + _MOST_INDENT]
                    self._indent = after[: len(after) - len(after.lstrip(" \t"))]
            elif kind == "string" and _COLON.match(source, token.end()):
                self._start_key(self._string(word))
            elif word != '"':
                self._value(self._string(word) if kind == "string" else word)
        self._end_entry()
        if self._open:
            self.warnings.append("the file ends in the middle of a record")
        self._done.append("".join(self._parts))
        return "".join(self._done)

    def _start_key(self, key: str) -> None:
        if self.keep_lines and self._open and self._open[-1].line == self._line and self._label is not None:
            self._label = None  # `who.name: Jan` says it
        self._end_entry()
        here = [part.key for part in self._open if part.key and part.line == self._line] if self.keep_lines else []
        self._label = ".".join((*here, key))
        self._key = key
        self._depth = max(sum(part.mark == "{" for part in self._open) - 1, 0)

    def _value(self, word: str) -> None:
        if self._label is not None:
            self._begin_entry(f"{self._label}: {word}")
        elif self._entry:
            self._write(f", {word}")
        else:
            self._begin_entry(word)
        self._key = self._label = None
        self._entry = True

    def _begin(self, mark: str) -> None:
        if len(self._open) >= _MOST_KEYS:
            self._deeper += 1
            return
        key, self._key = self._key or "", None
        container = _Container(mark, key, self._line)
        level = len(self._open)
        if not self.keep_lines and mark == "{":
            self._end_entry()
            pure = all(part.mark == "{" for part in self._open)
            if self._wants_headings and key and pure and level <= _HEADING_LEVELS:
                self._enter(container, level)
        elif mark == "{" and not key:
            self._entry = False
        self._open.append(container)

    def _close(self) -> None:
        if self._deeper:
            self._deeper -= 1
            return
        self._end_entry()
        if not self._open:
            return
        closed = self._open.pop()
        if closed.heading:
            self._ended_heading = closed.heading
        if not self.keep_lines and closed.mark == "{" and self._open and self._open[-1].mark == "[":
            self._end_line()
            self._break_line()  # a blank line between records

    def _enter(self, container: _Container, level: int) -> None:
        if len(self.headings) < _MOST_HEADINGS:
            container.heading = level
            self.headings.append(Heading(self._line_start, level, one_line(container.key)))
            self._ended_heading = 0

    def _begin_entry(self, words: str) -> None:
        if not self._fresh:
            if self.keep_lines:
                self._write(" | ")
            else:
                self._break_line()
        if self._fresh:
            if self._ended_heading:
                self.headings.append(Heading(self._line_start, self._ended_heading, ""))
                self._ended_heading = 0
            self._write(self._indent if self.keep_lines else ("  " * self._depth)[:_MOST_INDENT])
            self._fresh = False
        self._write(words)

    def _end_entry(self) -> None:
        if self._label is not None:
            self._begin_entry(f"{self._label}:")
        self._entry = False
        self._key = self._label = None

    def _end_line(self) -> None:
        self._end_entry()
        if self._wants_headings and self.keep_lines:
            for level, container in enumerate(self._open[: _HEADING_LEVELS + 1]):
                if level and container.line == self._line and container.key and not container.heading:
                    self._enter(container, level)
                if container.mark == "[":
                    break
        if not self._fresh or self.keep_lines:
            self._break_line()
        self._line += 1

    def _break_line(self) -> None:
        self._write("\n")
        self._line_start, self._fresh = self._length, True

    def _string(self, token: str) -> str:
        text = token[1:-1]
        if "\\" in text:
            with contextlib.suppress(ValueError):  # an escape that JSON does not have is shown as it is
                text = clean(json.loads(token, strict=False).replace("\r\n", "\n"))
            if self.keep_lines and "\n" in text:
                text = " ".join(text.split())
        if len(text) >= 400 and _ENCODED.search(text):
            text = _ENCODED.sub("…", text)
            if not self.warnings:
                self.warnings.append("encoded data inside strings is left out")
        return text

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        if len(self._parts) >= _BATCH:
            self._done.append("".join(self._parts))
            self._parts.clear()

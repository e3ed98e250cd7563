# SPDX-License-Identifier: GPL-2.0-only
"""Which definition each line of a source text is in: functions, types, tables, nodes, targets, sections.

Indentation and a few patterns for each language (markers.py), no grammar: a half-written file, a fragment, a
file full of #ifdef have definitions too. A definition ends at a closing line as deep as its first one, so a brace that
is missing somewhere in between costs nothing. Linear in the text, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bigos.source.markers import GRAMMARS, End, Grammar, Holds, Marker
from bigos.source.outlines import assembly_trails, kconfig_trails, patch_trails
from bigos.source.syntax import (
    LINE_HEAD,
    Body,
    body_of,
    callable_name,
    closing_name,
    ends_itself,
    is_type,
    long_string,
    one_name,
)

Trail = tuple[str, ...]
"""Names of definitions, outermost first."""

MOST_NAMES = 3
"""Of a longer trail the innermost stay."""
_MOST_OPEN = 8
"""Definitions that are looked at, from the innermost out, for the one that a word ends."""
_TAB = 8


@dataclass(frozen=True, slots=True)
class Section:
    """Consecutive lines in the same definition: text[start:end], from the source line `line` (from 1) on."""

    start: int
    end: int
    line: int
    trail: Trail


def sections(text: str, language: str | None) -> Iterator[Section]:
    """All of `text` (line ends LF) in order, cut where the trail of a line is not the one before.

    `language` is a code language as `languages.py` names it; of one that is not known here, the text is one section.
    """
    lines = text.split("\n")
    start, first, position = 0, 0, 0
    trails = line_trails(lines, language)
    for number, (line, trail) in enumerate(zip(lines, trails, strict=True)):
        if trail != trails[first]:
            yield Section(start, position, first + 1, trails[first])
            start, first = position, number
        position += len(line) + 1
    yield Section(start, len(text), first + 1, trails[first])


def line_trails(lines: Sequence[str], language: str | None) -> list[Trail]:
    """The definitions that each line is in, outermost first, at most MOST_NAMES; () outside of all.

    The comment directly above a definition is in it, so are its decorators and attributes.
    """
    if language in _READERS:
        return _READERS[language](lines)
    grammar = GRAMMARS.get(language or "")
    return _Scan(grammar, lines).run() if grammar else [()] * len(lines)


def defined_names(text: str, language: str | None) -> frozenset[str]:
    """The names of the definitions that begin in `text`, which may be a fragment of a file."""
    if language is None:
        return frozenset()
    return frozenset(name for section in sections(text, language) for name in section.trail)


def _patch_trails(lines: Sequence[str]) -> list[Trail]:
    return patch_trails(lines, line_trails)


_READERS: dict[str | None, Callable[[Sequence[str]], list[Trail]]] = {
    "asm": assembly_trails,
    "kconfig": kconfig_trails,
    "patch": _patch_trails,
}


@dataclass(slots=True)
class _Open:
    """A definition that has begun."""

    indent: int
    trail: Trail
    marker: Marker
    first: int
    """Its first line, counted from 0; the comment above it is in it."""
    named: bool


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a line begins; `one_line` when it ends there as well."""

    name: str
    marker: Marker
    one_line: bool


_CALLABLE = Marker(re.compile(""), End.BRACE)
_INDENTED = (Holds.DEFINITIONS, Holds.MEMBERS, Holds.UNINDENTED)
_MEMBERS = (Holds.MEMBERS, Holds.UNINDENTED)


class _Scan:
    """One pass over the lines."""

    def __init__(self, grammar: Grammar, lines: Sequence[str]) -> None:
        self._grammar = grammar
        self._lines = lines
        self._trails: list[Trail] = [()] * len(lines)
        self._open: list[_Open] = []
        self._trail: Trail = ()
        self._lead: int | None = None
        """The first of the comment lines that end at the line before."""
        self._attribute: int | None = None
        """How deep the attribute is whose parentheses are not closed yet."""
        self._loose: list[tuple[int, int]] = []
        """Comment lines since the last code, with their depth: whose they are shows when code follows."""
        self._until = ""
        """What ends the comment or the string that goes on."""
        self._continued = False
        self._head_end = 0
        """The line after the head, or the call, that was looked at last: there is no other in it."""

    def run(self) -> list[Trail]:
        unindented = self._grammar.unindented
        for number, line in enumerate(self._lines):
            self._trails[number] = self._trail
            if not line or line.isspace():
                self._lead = None
            elif self._until:
                self._until = "" if self._until in line else self._until
            elif self._continued:
                self._continued = line.endswith("\\")
            elif unindented and line[0] in " \t":
                self._inside(line)
            else:
                self._take(number, line)
        return self._trails

    def _inside(self, line: str) -> None:
        """A line that begins no definition."""
        self._lead = None
        if self._loose:
            self._loose.clear()
        if self._open and self._open[-1].marker.end is End.STATEMENT and line.rstrip().endswith(";"):
            self._open.pop()
            self._trail = self._open[-1].trail if self._open else ()

    def _take(self, number: int, line: str) -> None:
        head = line[:LINE_HEAD].lstrip("\f")
        code = head.lstrip()
        if not code:
            return
        indent = len(head) - len(code)
        if "\t" in head[:indent]:
            indent = len(head[:indent].expandtabs(_TAB))
        if self._leads(code, indent):
            self._take_lead(number, line, code, indent)
            return
        grammar = self._grammar
        if grammar.neutral and grammar.neutral.match(code):
            self._lead = None
            self._continued = line.endswith("\\")
            return
        begun = self._begins(number, code, indent) if self._may_begin(indent) else None
        if begun:
            self._begin(number, indent, begun)
        elif not self._close(number, code, indent):
            self._end_ended(number, code, indent)
            self._trails[number] = self._trail
            if grammar.callables and is_type(code):
                self._lead = number if self._lead is None else self._lead
                return
        self._inside(line)
        if grammar.long_strings:
            self._until = long_string(line)

    def _leads(self, code: str, indent: int) -> bool:
        """Whether the line belongs to what it stands above."""
        if self._attribute is not None:
            if self._lead is not None and indent > self._attribute:
                return True
            self._attribute = None
            if self._lead is not None and code[0] in ")]":
                return True
        return self._grammar.lead.match(code) is not None

    def _take_lead(self, number: int, line: str, code: str, indent: int) -> None:
        self._lead = number if self._lead is None else self._lead
        if self._open and self._open[-1].marker.end is End.DEDENT:
            self._loose.append((number, indent))
        if self._grammar.block_comments and code.startswith("/*"):
            self._until = "" if "*/" in line[line.index("/*") + 2 :] else "*/"
        elif self._attribute is None and code[0] == "@" and line.count("(") > line.count(")"):
            self._attribute = indent

    def _may_begin(self, indent: int) -> bool:
        top = self._open[-1] if self._open else None
        if top is None or top.marker.holds in _INDENTED:
            return True
        return indent <= top.indent and top.marker.holds is not Holds.TEXT

    def _begins(self, number: int, code: str, indent: int) -> _Begun | None:
        for marker in self._grammar.markers:
            found = marker.pattern.match(code)
            if found:
                return self._with_body(number, indent, one_name(found.groups()), marker)
        if not self._grammar.callables or number < self._head_end or not self._may_begin_callable(indent):
            return None
        name = callable_name(code)
        return self._with_body(number, indent, name, _CALLABLE) if name else None

    def _may_begin_callable(self, indent: int) -> bool:
        """In a function a call looks the same."""
        top = self._open[-1] if self._open else None
        return indent == 0 or (top is not None and (indent <= top.indent or top.marker.holds in _MEMBERS))

    def _with_body(self, number: int, indent: int, name: str, marker: Marker) -> _Begun | None:
        line = self._lines[number]
        if marker.end is End.STATEMENT:
            return _Begun(name, marker, one_line=line.rstrip().endswith(";"))
        if marker.end is not End.BRACE and not marker.declarable:
            return _Begun(name, marker, one_line=marker.end is End.WORD and ends_itself(line))
        body, self._head_end = body_of(self._lines, number, indent, self._grammar.body)
        if body is Body.NONE and (marker.declarable or marker is _CALLABLE):
            return None
        return _Begun(name, marker, one_line=body is not Body.OPEN)

    def _begin(self, number: int, indent: int, begun: _Begun) -> None:
        self._pop(number, lambda top: not _can_hold(top, indent, begun.marker))
        above = self._trail
        trail = (*above, begun.name)[-MOST_NAMES:] if begun.name else above
        first = number if self._lead is None else self._lead
        self._assign(first, number, trail)
        if not begun.one_line:
            self._open.append(_Open(indent, trail, begun.marker, first, bool(begun.name)))
            self._trail = trail

    def _close(self, number: int, code: str, indent: int) -> bool:
        """Whether the line ends definitions, and with that belongs to the outermost of them."""
        found = self._grammar.closes.match(code)
        if not found:
            return False
        for back, entry in enumerate(reversed(self._open[-_MOST_OPEN:]), start=1):
            marker = entry.marker
            if marker.word and marker.word != found[0]:
                continue
            if marker.end is End.BRACE and entry.indent == indent and code.rstrip().endswith("{"):
                return True  # "}, {" in a table
            if marker.end is End.OWN_WORD or (marker.end in (End.BRACE, End.WORD) and entry.indent == indent):
                self._end(number, code, back)
                return True
        return False

    def _end(self, number: int, code: str, back: int) -> None:
        entry = self._open[-back]
        del self._open[-back:]
        self._trail = self._open[-1].trail if self._open else ()
        name = "" if entry.named else closing_name(code)
        if name:
            self._assign(entry.first, number, (*entry.trail, name)[-MOST_NAMES:])
        else:
            self._trails[number] = entry.trail

    def _end_ended(self, number: int, code: str, indent: int) -> None:
        """End what code that is no deeper ends: by its depth, or in C by being a declaration in column 0."""
        grammar = self._grammar
        if (
            grammar.unindented
            and grammar.callables
            and number >= self._head_end
            and (code[0].isalpha() or code[0] == "_")
        ):
            self._pop(number, lambda _: True)
        else:
            self._pop(number, lambda top: top.marker.end is End.DEDENT and top.indent >= indent)

    def _pop(self, number: int, ended: Callable[[_Open], bool]) -> None:
        lowest = None
        while self._open and ended(self._open[-1]):
            lowest = self._open.pop().indent
        if lowest is None:
            return
        self._trail = self._open[-1].trail if self._open else ()
        outside = next((loose for loose, indent in self._loose if indent <= lowest), number)
        self._assign(outside, number - 1, self._trail)

    def _assign(self, first: int, last: int, trail: Trail) -> None:
        self._trails[first : last + 1] = [trail] * (last + 1 - first)


def _can_hold(top: _Open, indent: int, marker: Marker) -> bool:
    """Whether a definition that begins as deep as `indent` is in the one that is open."""
    holder = top.marker
    if holder.word and holder.word == marker.word:
        return False
    if holder.end is End.NEXT and marker.end is End.NEXT:
        return False
    if indent > top.indent:
        return True
    return indent == top.indent and (
        holder.holds is Holds.UNINDENTED or (holder.end is End.OWN_WORD and holder.holds is Holds.DEFINITIONS)
    )

# SPDX-License-Identifier: GPL-2.0-only
"""Words broken at line ends: joined, with the hyphen kept where it belongs to the word.

Whether it does, the rest of the document may tell (biało-czerwony in the middle of a line), then the word itself: a
capital or a digit after the hyphen, a single letter before it, a first part that forms compounds, or a link in a chain.
"""

from __future__ import annotations

import re

MARK = "\ufffe"
"""Stands where a word was broken, instead of hyphen and line end."""

_LONGEST = 40  # characters of a word before a hyphen
_COMPOUND = frozenset(
    re.findall(
        r"\S+",
        # Polish: colours, directions, peoples, fields; each is no syllable of a longer word.
        "biało czarno czerwono zielono niebiesko żółto szaro północno południowo polsko angielsko niemiecko rosyjsko "
        "francusko ukraińsko czesko włosko hiszpańsko łacińsko społeczno naukowo prawno kulturalno oświatowo "
        "techniczno ekonomiczno fizyko klient niby quasi eks "
        # English: parts that take a hyphen nearly always.
        "self non well ex half all cross high low long short real open read write one two three four five six seven "
        "eight nine ten twenty thirty forty fifty first second third general so",
    )
)
_LINKS = frozenset(("of", "to", "by", "and", "the"))  # state-of-the-art, up-to-date


class Hyphens:
    """What a document says about its own hyphens."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def learn(self, text: str) -> None:
        """Take note of the hyphenated words that stand within lines."""
        at = text.find("-")
        while at >= 0:
            begin, end = _start_of_word(text, at, max(at - _LONGEST, 0)), _end_of_word(text, at + 1)
            if begin < at and end > at + 1:
                self._seen.add(text[begin:end].casefold())
            at = text.find("-", at + 1)

    def resolve(self, text: str) -> str:
        """The text with every broken word in one piece."""
        at = text.find(MARK)
        if at < 0:
            return text
        parts: list[str] = []
        done = 0
        while at >= 0:
            begin, after_mark = _start_of_word(text, at, done), at + 1
            repeated = text.startswith(("-", "\u2010"), after_mark)
            after_mark += repeated
            end = _end_of_word(text, after_mark)
            before, after = text[begin:at], text[after_mark:end]
            kept = repeated or _is_link(before, after, text, begin, end) or self.keeps(before, after)
            parts += (text[done:at], "-" if kept else "", after)
            done = end
            at = text.find(MARK, done)
        parts.append(text[done:])
        return "".join(parts)

    def keeps(self, before: str, after: str) -> bool:
        """Whether the hyphen between two pieces of a word stays: in Polish it is set twice then, but not by all."""
        if f"{before}-{after}".casefold() in self._seen:
            return True
        if not before or not after or not after[0].islower() or not before[-1].isalpha():
            return True
        # A small letter after capitals is an ending or a second word: XVIII-wieczny, PDF-a.
        return len(before) == 1 or before.isupper() or before.casefold() in _COMPOUND


def _start_of_word(text: str, end: int, lowest: int) -> int:
    while end > lowest and text[end - 1].isalnum():
        end -= 1
    return end


def _end_of_word(text: str, start: int) -> int:
    while start < len(text) and text[start].isalnum():
        start += 1
    return start


def _is_link(before: str, after: str, text: str, begin: int, end: int) -> bool:
    """Whether one of the pieces of text[begin:end] is the little word between two hyphens of a longer one."""
    starts, ends = text.endswith("-", 0, begin), text.startswith("-", end)
    return (starts and before.casefold() in _LINKS) or (ends and after.casefold() in _LINKS)

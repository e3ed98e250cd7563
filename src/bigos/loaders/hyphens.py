# SPDX-License-Identifier: GPL-2.0-only
"""Words broken at line ends: joined, with the hyphen kept where it belongs to the word.

Whether it does, the rest of the document may tell (biało-czerwony in the middle of a line), then the word itself: a
capital or a digit after the hyphen, a single letter before it, a first part that forms compounds, or a link in a chain.
"""

from __future__ import annotations

import re

MARK = "\ufffe"
"""Stands where a word was broken, instead of hyphen and line end."""

_BREAK = re.compile(f"([^\\W_]*){MARK}([-\u2010]?)([^\\W_]*)")
_WORD = re.compile(r"[^\W_]+")
_WORD_BEFORE = re.compile(r"[^\W_]+$")
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
            before, after = _WORD_BEFORE.search(text, max(at - _LONGEST, 0), at), _WORD.match(text, at + 1)
            if before and after:
                self._seen.add(f"{before[0]}-{after[0]}".casefold())
            at = text.find("-", at + 1)

    def resolve(self, text: str) -> str:
        """The text with every broken word in one piece."""
        return _BREAK.sub(self._join, text) if MARK in text else text

    def _join(self, match: re.Match[str]) -> str:
        before, repeated, after = match.groups()
        kept = repeated or _is_link(match) or self.keeps(before, after)
        return f"{before}{'-' if kept else ''}{after}"

    def keeps(self, before: str, after: str) -> bool:
        """Whether the hyphen between two pieces of a word stays: in Polish it is set twice then, but not by all."""
        if f"{before}-{after}".casefold() in self._seen:
            return True
        if not before or not after or not after[0].islower() or not before[-1].isalpha():
            return True
        return len(before) == 1 or before.casefold() in _COMPOUND


def _is_link(match: re.Match[str]) -> bool:
    """Whether one of the pieces is the little word between two hyphens of a longer one."""
    before, after = match[1].casefold(), match[3].casefold()
    starts, ends = match.string.endswith("-", 0, match.start()), match.string.startswith("-", match.end())
    return (starts and before in _LINKS) or (ends and after in _LINKS)

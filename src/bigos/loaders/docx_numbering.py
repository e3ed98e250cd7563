# SPDX-License-Identifier: GPL-2.0-only
"""The numbers and bullets of a Word document's lists, which are nowhere in its text: "§ 4.", "2.1", "b)"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bigos.loaders.markup import Element, attribute, local

_PLACE = re.compile(r"%([1-9])")
_MAX_LEVELS = 9
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Level:
    format: str
    text: str
    start: int


class Numbering:
    """Counts while the paragraphs are read in order."""

    def __init__(self, root: Element | None) -> None:
        """`root` is the numbering part's, None for a document without lists."""
        self._levels: dict[str, dict[int, _Level]] = {}
        self._abstract: dict[str, str] = {}
        self._overrides: dict[tuple[str, int], int] = {}
        self._counts: dict[str, list[int | None]] = {}
        self._seen: set[str] = set()
        for element in root if root is not None else ():
            identity = attribute(element, "abstractNumId" if local(element) == "abstractNum" else "numId") or ""
            if local(element) == "abstractNum":
                self._levels[identity] = _levels(element)
            elif local(element) == "num":
                self._read_num(identity, element)

    def _read_num(self, identity: str, element: Element) -> None:
        for child in element:
            if local(child) == "abstractNumId":
                self._abstract[identity] = attribute(child, "val") or ""
            elif local(child) == "lvlOverride":
                for start in child:
                    if local(start) == "startOverride":
                        self._overrides[identity, _number(attribute(child, "ilvl"), 0)] = _number(
                            attribute(start, "val"), 1
                        )

    def next(self, num_id: str, level: int) -> str:
        """What stands before the next paragraph of a list, with its indentation and a blank; "" for none."""
        abstract = self._abstract.get(num_id, "")
        levels = self._levels.get(abstract, {})
        if num_id == "0" or not 0 <= level < _MAX_LEVELS or level not in levels:
            return ""
        counts = self._counts.setdefault(abstract, [None] * _MAX_LEVELS)
        if num_id not in self._seen:
            self._seen.add(num_id)
            for (owner, place), start in self._overrides.items():
                if owner == num_id and 0 <= place < _MAX_LEVELS:
                    counts[place] = start - 1
        before = counts[level]
        counts[level] = levels[level].start if before is None else before + 1
        counts[level + 1 :] = [None] * (_MAX_LEVELS - level - 1)
        return self._shown(levels, counts, level)

    @staticmethod
    def _shown(levels: dict[int, _Level], counts: list[int | None], level: int) -> str:
        shape = levels[level]
        if shape.format == "none":
            return ""
        if shape.format == "bullet":
            return "  " * level + "- "

        def place(match: re.Match[str]) -> str:
            other = int(match[1]) - 1
            own = levels.get(other)
            value = counts[other]
            if own is None:
                return ""
            return _in_format(own.start if value is None else value, own.format)

        mark = _PLACE.sub(place, shape.text).strip()
        return f"{mark} " if mark else ""


def _levels(abstract: Element) -> dict[int, _Level]:
    found: dict[int, _Level] = {}
    for element in abstract:
        if local(element) == "lvl":
            values = {local(child): attribute(child, "val") or "" for child in element}
            found[_number(attribute(element, "ilvl"), 0)] = _Level(
                values.get("numFmt", "decimal"), values.get("lvlText", ""), _number(values.get("start"), 1)
            )
    return found


def _number(text: str | None, otherwise: int) -> int:
    try:
        return int(text or "")
    except ValueError:
        return otherwise


def _in_format(value: int, form: str) -> str:
    if form in ("lowerLetter", "upperLetter") and value > 0:
        letters = chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1)
        return (letters if form == "lowerLetter" else letters.upper())[:8]
    if form in ("lowerRoman", "upperRoman") and 0 < value < 4000:
        roman = ""
        for worth, sign in _ROMAN:
            while value >= worth:
                roman += sign
                value -= worth
        return roman if form == "lowerRoman" else roman.upper()
    return f"{value:02d}" if form == "decimalZero" else str(value)

# SPDX-License-Identifier: GPL-2.0-only
"""Which paragraph styles are headings, by name, in the languages that people's word processors speak."""

from __future__ import annotations

import re

# Word keeps its own styles' English names in any language; other programs and people write the others.
_HEADING = re.compile(r"(?:heading|nagłówek|naglowek|überschrift|titre|título|titolo|заголовок)[ _]?([1-9])", re.I)
_TITLES = frozenset(("title", "tytuł", "titel", "titre principal"))
_CONTENTS = re.compile(r"(?:toc|contents|spis treści|verzeichnis) ?[1-9]", re.I)


def heading_level(name: str) -> int | None:
    """1 to 9 for a heading; 0 for the document's title; None for another style."""
    match = _HEADING.fullmatch(name.strip())
    if match:
        return int(match[1])
    return 0 if name.strip().lower() in _TITLES else None


def is_contents_line(name: str) -> bool:
    """Whether a style is that of a line in a generated table of contents."""
    return _CONTENTS.fullmatch(name.strip()) is not None

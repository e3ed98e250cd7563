# SPDX-License-Identifier: GPL-2.0-only
"""Pages of paragraphs become one text: headings of the outline, words and sentences that go on over a page's end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bigos.loaders.encoding import clean
from bigos.loaders.hyphens import MARK, Hyphens
from bigos.loaders.legibility import mend
from bigos.loaders.pdf_layout import Paragraph, flow
from bigos.loaders.pdf_outline import Outline
from bigos.loaders.sections import Parsed
from bigos.types import Block

_BORDER = "\ufdd0"  # a noncharacter: in no text
# Nothing to tidy in these: nearly every page in English, and in Polish.
_PLAIN = re.compile(f"[\n -~ąćęłńóśźżĄĆĘŁŃÓŚŹŻ–—‘’“”„…•§©°«»àâäçèéêëîïôöùûüßÄÖÜ{_BORDER}]*")
_BLANK_LINES = re.compile(r"\n[ \t]*\n")
_ENDS = (".", "!", "?", ":", ";", "…", '"', "”", "'", ")", "]")


def of_recognised(text: str) -> list[Paragraph]:
    """Paragraphs of a recognised page, one below the other."""
    blocks = [block.split("\n") for block in _BLANK_LINES.split(text) if block.strip()]
    return [Paragraph(flow([line.strip() for line in lines if line.strip()]), float("inf")) for lines in blocks]


class Writer:
    """Puts a document together page by page. `hyphens` has learned from all of it before."""

    def __init__(self, outline: Outline, hyphens: Hyphens) -> None:
        self._outline = outline
        self._hyphens = hyphens
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._open = False  # whether a sentence goes on over the end of what was added last

    def page(self, index: int, paragraphs: Sequence[Paragraph], downs: Sequence[float | None]) -> None:
        """Add the page at `index` from 0; `downs` is how far down it its bookmarks lead."""
        texts = _per_paragraph(paragraphs, self._tidied)
        path = self._outline.path
        start = 0
        if downs:
            tops = [paragraph.top for paragraph in paragraphs]
            for heading in self._outline.on_page(index, texts, tops, downs):
                self._add(index, texts[start : heading.paragraph], paragraphs[start : heading.paragraph], path)
                start, path = heading.paragraph, heading.path
        self._add(index, texts[start:], paragraphs[start:], path)

    def parsed(self, title: str | None, warnings: Sequence[str]) -> Parsed:
        """The document so far."""
        return Parsed("".join(self._parts), tuple(self._blocks), title, tuple(warnings))

    def _tidied(self, text: str) -> str:
        text = self._hyphens.resolve(text)
        plain = text.replace(_BORDER, "")
        if (plain.isascii() and plain.isprintable()) or _PLAIN.fullmatch(text):
            return text
        return clean(mend(text))

    def _add(self, index: int, texts: Sequence[str], paragraphs: Sequence[Paragraph], path: tuple[str, ...]) -> None:
        parts: list[str] = []
        for text, paragraph in zip(texts, paragraphs, strict=True):
            words = text.strip()
            if words:
                if parts:
                    parts.append("\n" if paragraph.tight else "\n\n")
                parts.append(words)
        if not parts:
            return
        if self._parts:
            goes_on = self._open and parts[0][0].islower() and self._blocks[-1].heading_path == path
            self._put(" " if goes_on else "\n\n")
        text = "".join(parts)
        self._blocks.append(Block(text, self._length, page=index + 1, heading_path=path))
        self._put(text)
        self._open = not text.endswith(_ENDS)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)


def _per_paragraph(paragraphs: Sequence[Paragraph], change: Callable[[str], str]) -> list[str]:
    """The changed texts; changed together, because what is wrong on a page is wrong in all of it."""
    texts = [paragraph.text for paragraph in paragraphs]
    whole = _BORDER.join(texts)
    changed = change(whole)
    return texts if changed is whole else changed.split(_BORDER)


def learn(hyphens: Hyphens, pages: Sequence[Sequence[Paragraph]]) -> None:
    """Have `hyphens` learn from pages, when there is anything to join in them."""
    if any(MARK in paragraph.text for page in pages for paragraph in page):
        for page in pages:
            hyphens.learn(" ".join([paragraph.text for paragraph in page]))

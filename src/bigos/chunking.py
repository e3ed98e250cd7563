# SPDX-License-Identifier: GPL-2.0-only
"""Token windows over a document: pure, linear in the text, and nothing but white space is ever left out.

How a window is cut
-------------------
A window is at most `Window.tokens` long, counted on the chunk's own text. Prose ends, from the best to the worst:

 1. where a block with another heading trail begins, if that is in the second half of the window;
 2. in its last 30 %: after a blank line or where a block (a page, say) begins, after a line that is not wrapped
    prose, after a sentence;
 3. in its second half: at white space;
 4. at a token boundary that splits no grapheme.

Code ends at line ends: before a column-0 line that follows a blank line, else after the end of a definition (both in
the second half), else at a blank line (last 30 %), else at the last line end. Only a line that is longer than a window
is cut inside.

The next window begins at most `Window.overlap` tokens before that end, at a line or a sentence if one begins in the
first half of the overlap, else at a word; in code at a line. It never reaches back over a heading, and a window that
begins with a new section or definition has no overlap: what was before it is about something else.

If what would be left after a full window is less than 15 % of one, the rest is shared: the window ends at the last
heading (or definition) that leaves more than that, else near the middle, so no chunk is a crumb that ranks on one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bigos.cutting import CodeCutter, Cutter, ProseCutter, Reach
from bigos.embedders import Window
from bigos.places import Places
from bigos.types import Chunk, Document

VERSION = 1
"""Goes up when the same document would give other chunks, or they another language: all files are then read again."""
SMALLEST_WINDOW = 8
"""Tokens: one character can be that many (U+FDFA is four words)."""
MOST_CHARS_PER_TOKEN = 32
"""A chunk has at most this many characters a token, however much the tokenizer ignores (blanks, controls)."""

_NEAR = 0.7
_CRUMB = 0.15
_VISIBLE = re.compile(r"\S")


class Tokens(Protocol):
    """What the chunker asks of a tokenizer (`tokenizer.Tokenizer` is one)."""

    def count(self, text: str) -> int:
        """Tokens in `text`, without special tokens."""
        ...

    def iter_offsets(self, text: str) -> Iterator[NDArray[np.int64]]:
        """Arrays of shape (n, 2), in order: the character spans of the text's tokens. Starts never decrease."""
        ...

    def separable(self, text: str, position: int) -> bool:
        """True when a cut at `position` changes no token on either side."""
        ...


def chunk_document(
    document: Document,
    tokenizer: Tokens,
    window: Window,
    *,
    language_of: Callable[[str], str | None] | None = None,
) -> Iterator[Chunk]:
    """The chunks of a document, in order, made as they are asked for.

    `language_of` names the language of a chunk's text; it is not asked about code. An overlap of more than half a
    window counts as half. Raises ValueError for a window of fewer than SMALLEST_WINDOW tokens.
    """
    if window.tokens < SMALLEST_WINDOW:
        raise ValueError(f"a window needs at least {SMALLEST_WINDOW} tokens, not {window.tokens}")
    places = Places(document.blocks)
    cutter = CodeCutter(document.text) if document.kind == "code" else ProseCutter(document.text, places)
    for index, (start, end, count) in enumerate(_Windows(document.text, tokenizer, window, cutter)):
        text = document.text[start:end]
        place = places.of(document.text, start + len(text) - len(text.lstrip()), start + len(text.rstrip()))
        yield Chunk(
            doc_id=document.source.doc_id,
            index=index,
            text=text,
            char_start=start,
            char_end=end,
            line_start=place.line_start,
            line_end=place.line_end,
            page=place.page,
            page_end=place.page_end,
            heading_path=place.heading_path,
            token_count=count,
            language=document.language,
            chunk_language=language_of(text) if language_of and document.kind == "document" else None,
            kind=document.kind,
            code_language=document.code_language,
        )


class _Windows:
    """Iterates over (start, end, token count) of a text's windows."""

    def __init__(self, text: str, tokenizer: Tokens, window: Window, cutter: Cutter) -> None:
        self._text = text
        self._tokenizer = tokenizer
        self._size = window.tokens
        self._most_chars = window.tokens * MOST_CHARS_PER_TOKEN
        self._overlap = max(0, min(window.overlap, window.tokens // 2))
        self._cutter = cutter
        self._tokens = _TokenStarts(tokenizer.iter_offsets(text))
        self._content_end = len(text.rstrip())

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        covered = 0  # every visible character before this one is in a chunk
        start = self._cutter.begin(0)
        while start is not None:
            fitted = self._fit(start, covered)
            if fitted is None:
                start = self._cutter.begin(covered)
                continue
            cut, new_section, end, count = fitted
            yield start, end, count
            covered = cut
            if covered >= self._content_end:
                return
            start = self._cutter.begin(cut if new_section else self._resume(start, cut))

    def _fit(self, start: int, covered: int) -> tuple[int, bool, int, int] | None:
        """(window end, new section there, chunk end, exact tokens); None when the overlap leaves no room for more."""
        allowance = self._size if self._tokenizer.separable(self._text, start) else self._size - 1
        while True:
            reach = self._reach(start, covered, allowance)
            if reach is None:
                return None
            if reach.hard >= self._content_end:
                # All of the rest: the blanks that end the last line are the cutter's to keep.
                found: tuple[int, bool] | None = (min(len(self._text), start + self._most_chars), False)
            else:
                found = self._cutter.cut(reach, fresh=start >= covered)
            if found is None:
                return None
            end = self._cutter.trim(start, found[0])
            count = self._count(start, end)
            if count <= self._size or found[0] <= reach.lowest + 1:
                return *found, end, count
            allowance -= count - self._size

    def _reach(self, start: int, covered: int, allowance: int) -> Reach | None:
        tokens, text = self._tokens, self._text
        first = tokens.before(start)
        visible = _VISIBLE.search(text, max(start, covered))
        lowest = visible.start() if visible else covered
        hard = tokens.start(first + allowance, self._content_end) if allowance > 0 else start
        hard = min(hard, start + self._most_chars)
        if hard <= lowest:
            if start < covered:
                return None
            hard = lowest + 1
        share, far = allowance, hard
        rest = tokens.count_up_to(first, allowance + int(_CRUMB * self._size) + 1)
        if allowance < rest <= allowance + int(_CRUMB * self._size):
            share = min(allowance, (rest + self._overlap + 1) // 2)
            far = min(hard, tokens.start(first + rest - int(_CRUMB * self._size), hard))
        shared = max(tokens.before(covered) - first, 0) if covered > start else 0

        def place(count: int) -> int:
            return max(lowest, min(tokens.start(first + count, hard), hard))

        half = shared + (share - shared) // 2
        if share < allowance:  # what follows must fit one window
            half = max(half, rest - self._size + self._overlap)
        limit = max(place(share), min(lowest + 1, hard))
        return Reach(lowest, place(half), place(max(half, int(_NEAR * share))), limit, max(far, limit), hard)

    def _count(self, start: int, end: int) -> int:
        separable = self._tokenizer.separable
        if separable(self._text, start) and separable(self._text, end):
            return self._tokens.before(end) - self._tokens.before(start)
        return self._tokenizer.count(self._text[start:end])

    def _resume(self, start: int, cut: int) -> int:
        if not self._overlap:
            return cut
        last = self._tokens.before(cut)
        # Never more than half of what was just covered: each window must bring enough that is new.
        least = start + (cut - start + 1) // 2
        low = max(self._tokens.start(last - self._overlap, cut), least)
        middle = max(self._tokens.start(last - self._overlap // 2, cut), least)
        return self._cutter.resume(start, low, middle, cut) if low < cut else cut


class _TokenStarts:
    """Where tokens begin, read only as far as it is asked and kept only from the window in hand on."""

    def __init__(self, pieces: Iterator[NDArray[np.int64]]) -> None:
        self._pieces = pieces
        self._starts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._dropped = 0
        self._needed = 0
        self._ended = False

    def before(self, position: int) -> int:
        """How many tokens begin before `position`: the index of the first that does not."""
        while not self._ended and (not len(self._starts) or self._starts[-1] < position):
            self._read()
        return self._dropped + int(np.searchsorted(self._starts, position))

    def start(self, index: int, default: int) -> int:
        """Where the token `index` begins; `default` when the text has fewer tokens."""
        if not self._has(index) or not len(self._starts):
            return default
        return int(self._starts[max(index - self._dropped, 0)])

    def count_up_to(self, first: int, most: int) -> int:
        """How many tokens there are from `first` on, but no more than `most`. Tokens before `first` are still kept."""
        self._needed = first
        self._has(first + most - 1)
        return min(self._dropped + len(self._starts) - first, most)

    def _has(self, index: int) -> bool:
        while not self._ended and index - self._dropped >= len(self._starts):
            self._read()
        return index - self._dropped < len(self._starts)

    def _read(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            self._ended = True
            return
        drop = max(min(self._needed - self._dropped, len(self._starts)), 0)
        self._starts = np.concatenate([self._starts[drop:], piece[:, 0]])
        self._dropped += drop

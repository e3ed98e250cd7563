# SPDX-License-Identifier: GPL-2.0-only
"""What is shown of found chunks: joined to their neighbours, without what is shown already, cut to a length. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bigos.lexical import TermVector, terms, vector
from bigos.types import Chunk

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SENTENCE = re.compile(r"[^\n]+?[.!?…:;] +|[^\n]*\n|[^\n]+")
"""Where an excerpt may begin: of code at a line, of prose at a sentence too."""
_FULL_WORTH, _TAIL_WORTH, _INSIDE_WORTH, _GAIN = 0.6, 0.7, 0.8, 1.05
"""Of an excerpt, the share in which a term counts in full; what a term behind that counts; what an excerpt counts that
begins inside of a paragraph; and how much better it has to be than an earlier one."""

Span = tuple[int, int]
"""The first character of a piece of a document, and the one after its last."""


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Neighbouring chunks of one document as one: overlaps once, gaps (white space) as the line numbers tell.

    The first chunk's fields stand for what cannot be joined. Raises ValueError for no chunks.
    """
    if not chunks:
        raise ValueError("no chunks to join")
    first, last = chunks[0], chunks[-1]
    text, end, line = first.text, first.char_end, first.line_end
    for chunk in chunks[1:]:
        if chunk.char_start <= end:
            text += chunk.text[end - chunk.char_start :]
        else:
            breaks = chunk.line_start - line if chunk.line_start is not None and line is not None else 2
            gap = chunk.char_start - end
            text += "\n" * min(breaks, gap) + " " * (gap - min(breaks, gap)) + chunk.text
        end, line = chunk.char_end, chunk.line_end
    return replace(
        first,
        text=text,
        char_end=last.char_end,
        line_end=last.line_end,
        page_end=last.page_end,
        token_count=sum(chunk.token_count for chunk in chunks),
    )


def unrepeated(chunk: Chunk, shown: Iterable[Span], core: Span | None = None) -> Chunk:
    """The chunk without what of its beginning and end is among the spans that a reader has already; a half stays.

    Its span and its lines are those of what is left, its other fields those of the whole. It comes back as it was where
    nothing is to be left out, and where the place of the rest could not be told: a chunk over several pages.

    Args:
        chunk: may be joined from several.
        shown: spans of the same document that stand elsewhere in the same answer.
        core: what was found, when the chunk is wider; what is outside of it may go as a whole.
    """
    if not _divisible(chunk):
        return chunk
    start, end = chunk.char_start, chunk.char_end
    for first, last in sorted(shown):
        if first <= start < last:
            start = last
    for first, last in sorted(shown, key=lambda span: span[1], reverse=True):
        if first < end <= last:
            end = first
    core_start, core_end = core or (chunk.char_start, chunk.char_end)
    if min(end, core_end) - max(start, core_start) < (core_end - core_start) / 2:
        start, end = min(start, core_start), max(end, core_end)
    first, last = start - chunk.char_start, end - chunk.char_start
    first = _begin(chunk.text, first) if first > 0 else 0
    last = len(chunk.text[:last].rstrip()) if last < len(chunk.text) else last
    return part(chunk, first, last) if (first, last) != (0, len(chunk.text)) and first < last else chunk


def part(chunk: Chunk, start: int, end: int) -> Chunk:
    """The chunk's characters from `start` to `end`, with their span and lines; other fields are those of the whole."""
    text = chunk.text
    return replace(
        chunk,
        text=text[start:end],
        char_start=chunk.char_start + start,
        char_end=chunk.char_start + end,
        line_start=_moved(chunk.line_start, text.count("\n", _visible(text, 0), _visible(text, start))),
        line_end=_moved(chunk.line_end, -text.rstrip()[len(text[:end].rstrip()) :].count("\n")),
    )


def _visible(text: str, start: int) -> int:
    """The first visible character from `start` on; the end when there is none."""
    return len(text) - len(text[start:].lstrip())


def _begin(text: str, start: int) -> int:
    """Where a reader begins to read from `start` on: at a visible character, but a line keeps its indentation."""
    visible = _visible(text, start)
    line = text.rfind("\n", 0, visible) + 1
    return line if line >= start else visible


def _moved(line: int | None, by: int) -> int | None:
    return None if line is None else line + by


def _divisible(chunk: Chunk) -> bool:
    """The place of a part can be told: it is on one page, and the source's lines, where it has them, are the text's."""
    if chunk.page != chunk.page_end:
        return False
    if chunk.line_start is None or chunk.line_end is None:
        return True
    return chunk.text.strip().count("\n") == chunk.line_end - chunk.line_start


def excerpt(chunk: Chunk, max_chars: int, question: TermVector) -> tuple[int, str]:
    """Where a reader who has room for `max_chars` begins, and the text from there, cut to that.

    It is the chunk's beginning unless more of the question's terms stand further down. A term at the end of the excerpt
    counts less, because what it is about is cut off. Paragraphs are better beginnings than lines or sentences in them.
    """
    text = chunk.text
    if len(text) <= max_chars:
        return 0, text
    if not question or not _divisible(chunk):
        return 0, cut_text(text, max_chars)
    weights = dict(zip(question.indices, question.values, strict=True))
    pieces = [
        (match.start(), match.end(), weights.keys() & set(vector(dict.fromkeys(terms(match[0]), 1.0)).indices))
        for match in (_LINE if chunk.kind == "code" else _SENTENCE).finditer(text)
    ]
    best, most, ended = 0, 0.0, False
    for at, (first, _, _) in enumerate(pieces):
        start = _begin(text, first) if at else 0
        opens = at == 0 or _opens(text, first)
        if at and len(text) - start < max_chars / 2:
            break
        if ended and not opens:
            continue
        ended = len(text) - start <= max_chars
        worth: dict[int, float] = {}
        for begin, end, found in pieces[at:]:
            if end > start + max_chars:
                break
            share = 1.0 if begin < start + max_chars * _FULL_WORTH or ended else _TAIL_WORTH
            for term in found:
                worth[term] = max(worth.get(term, 0.0), share * weights[term])
        total = sum(worth.values()) * (1.0 if opens else _INSIDE_WORTH)
        if total > most * _GAIN:
            best, most = start, total
    return best, cut_text(text[best:], max_chars)


def _opens(text: str, position: int) -> bool:
    """A paragraph or a definition begins at `position`: a blank line is before it."""
    return text[:position].rstrip(" \t").endswith("\n\n") and not text[position : position + 1].isspace()


def cut_text(text: str, max_chars: int) -> str:
    """At most `max_chars` characters of `text`, ending at a line or a word where one ends in the last quarter."""
    if len(text) <= max_chars:
        return text
    head = text[:max_chars]
    for separator in ("\n", " "):
        at = head.rfind(separator, max_chars * 3 // 4)
        if at > 0:
            return head[:at].rstrip()
    return head

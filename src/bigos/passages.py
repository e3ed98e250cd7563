# SPDX-License-Identifier: GPL-2.0-only
"""What the embedder reads for a chunk: its text under a short header that says where it stands.

A window cut out of a page no longer says what the page is about. The title and the nearest headings do; they go in
front of the embedded text only, and what is stored and shown stays the original.
"""

from __future__ import annotations

from typing import Protocol

from bigos.types import Chunk, Document

TITLE_CHARS = 120
HEADING_CHARS = 60
HEADINGS = 2


class TokenCounter(Protocol):
    """Counts tokens as the embedder will."""

    def count(self, text: str) -> int:
        """Tokens in `text`, without special tokens."""
        ...


def passage_text(document: Document, chunk: Chunk, tokenizer: TokenCounter, header_tokens: int) -> str:
    """The chunk's text with its header; the header is shortened by words until it has at most `header_tokens`."""
    words = header(document, chunk).split()
    while words and tokenizer.count(" ".join(words)) + 1 > header_tokens:
        words = words[: len(words) * 3 // 4]
    return " ".join(words) + "\n" + chunk.text if words else chunk.text


def header(document: Document, chunk: Chunk) -> str:
    """Title > heading > heading on one line; empty where the text itself begins with that. Of code, the file's name.

    A name like spi-sun4i.c says in every chunk what the whole file is about, so that the chunks of a driver are told
    apart by what they do and not by how often they write its name.
    """
    if chunk.kind == "code":
        return document.source.path.name
    parts = [_short(document.title, TITLE_CHARS)] if document.title else []
    parts += [_short(part, HEADING_CHARS) for part in chunk.heading_path if part != document.title][-HEADINGS:]
    line = " > ".join(part for part in parts if part)
    return "" if chunk.text.startswith(line) else line


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0]

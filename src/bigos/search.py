# SPDX-License-Identifier: GPL-2.0-only
"""Retrieval: a question in, the best fragments out, in whatever language they are.

    query --> language --> embed, terms --> search dense + lexical --> fuse --> context --> trim

No filter on language, ever: the embedder's vectors are language-neutral, and the language of the question only chooses
which mean is taken off it, and which side of the lexicon its words are looked up in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from bigos import files, fusion
from bigos.embedders import QueryRejected, Vectors
from bigos.embedders.calibration import NeutralEmbedder
from bigos.errors import UsageError
from bigos.language import LanguageDetector
from bigos.lexicon import Lexicon
from bigos.stores import Store, StoredChunk
from bigos.types import Chunk, Hit, Kind, Record, document_id, document_path

MOST_HITS = 1000


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A question as a person or an assistant asks it. `paths` are prefixes, any of which a hit has to be under."""

    query: str
    top_k: int = 8
    kind: Kind | None = None
    paths: tuple[Path, ...] = ()
    max_chars: int | None = None
    context: int = 0


Stale = Literal["changed", "gone"]
"""What has become of a file since it was indexed: another size or time, or no file of that name any more."""


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A hit as it will be shown: `text` may be cut to `max_chars`, the hit's chunk tells the whole span.

    `stale` is None where the file is as it was, and where it cannot be looked at.
    """

    hit: Hit
    text: str
    text_truncated: bool
    stale: Stale | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to a SearchRequest, best first. `language` is the question's, None when it could not be told."""

    request: SearchRequest
    language: str | None
    hits: tuple[FoundHit, ...]
    seconds: float
    notice: str | None = None
    """What has to be said with the answer: that another index is being made, say."""


def search(
    request: SearchRequest, store: Store, embedder: NeutralEmbedder, detector: LanguageDetector, lexicon: Lexicon
) -> SearchResult:
    """Find the fragments nearest in meaning and in words.

    Raises UsageError for an empty query or a number that makes no sense; StoreError and EmbedderError as they come.
    """
    started = time.monotonic()
    query = request.query.strip()
    if not query:
        raise UsageError("the query is empty.", fix='bigos search "how is the SPI clock divided"')
    if not 1 <= request.top_k <= MOST_HITS:
        raise UsageError(f"top_k must be from 1 to {MOST_HITS}, not {request.top_k}.", fix="bigos search --top-k 8")
    language = detector.detect_query(query)
    question = fusion.Question(
        vector=_meaning(query, language, embedder, lexicon),
        terms=lexicon.question_vector(query, language),
        limit=request.top_k,
        kinds=(request.kind,) if request.kind else ("document", "code"),
        paths=tuple(files.canonical(path) for path in request.paths),
    )
    with store.turn():
        hits = fusion.ranked(question, store, embedder.code_weight)
        found = [_shown(_with_context(hit, store, request.context), request.max_chars) for hit in hits]
        records = store.records(list({hit.chunk.doc_id for hit in hits}))
    marks = {doc_id: stale(record) for doc_id, record in records.items()}
    marked = tuple(replace(item, stale=marks.get(item.hit.chunk.doc_id)) for item in found)
    return SearchResult(request, language, marked, time.monotonic() - started)


def _meaning(query: str, language: str | None, embedder: NeutralEmbedder, lexicon: Lexicon) -> Vectors:
    """The unit vector of a question, drawn towards that of its gloss where the model gains by it."""
    vector = embedder.embed_query(query, language)
    share = embedder.gloss_shares.get(language or "", 0.0)
    gloss = lexicon.gloss(query, language) if share else None
    if gloss is None:
        return vector
    try:
        glossed = embedder.embed_query(gloss.text, gloss.language)
    except QueryRejected:  # of the gloss alone, which is no sentence
        return vector
    mixed = (1 - share) * vector + share * glossed
    result: Vectors = (mixed / np.linalg.norm(mixed)).astype(np.float32)
    return result


def stale(record: Record) -> Stale | None:
    """What one look at the file says of a document's age."""
    path = document_path(record.source_path, record.doc_id)
    if path is None:
        return None
    try:
        status = os.stat(path)  # noqa: PTH116 - Path.stat costs twice as much
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except OSError:  # not to be reached, which is not gone
        return None
    if (record.size, record.mtime_ns) == (status.st_size, status.st_mtime_ns):
        return None
    return "changed"


def _with_context(hit: Hit, store: Store, context: int) -> Hit:
    """The hit with `context` neighbouring chunks on either side joined to it."""
    if context <= 0:
        return hit
    chunk = hit.chunk
    around = store.chunks(chunk.doc_id, max(0, chunk.index - context), chunk.index + context)
    return replace(hit, chunk=joined([item.chunk for item in around])) if around else hit


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


def _shown(hit: Hit, max_chars: int | None) -> FoundHit:
    text = hit.chunk.text
    if max_chars is None or len(text) <= max_chars:
        return FoundHit(hit, text, text_truncated=False)
    return FoundHit(hit, cut_text(text, max_chars), text_truncated=True)


def cut_text(text: str, max_chars: int) -> str:
    """At most `max_chars` characters of `text`, ending at a line or a word where one ends in the last quarter."""
    head = text[:max_chars]
    for separator in ("\n", " "):
        at = head.rfind(separator, max_chars * 3 // 4)
        if at > 0:
            return head[:at].rstrip()
    return head


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """What to read: a chunk id, or a document's path with a line or a page; neither of them gives the first chunk."""

    chunk_id: str | None = None
    path: Path | None = None
    line: int | None = None
    page: int | None = None
    context: int = 0
    every: bool = False


def show(request: ShowRequest, store: Store) -> list[StoredChunk]:
    """The chunks asked for, in order; empty when there is no such chunk or document.

    Raises UsageError for a place that the document does not have.
    """
    with store.turn():
        if request.chunk_id is not None:
            found = store.chunk(request.chunk_id)
            if found is None:
                return []
            doc_id, at = found.chunk.doc_id, found.chunk.index
        else:
            if request.path is None:
                raise UsageError("nothing to show.", fix="bigos show CHUNK_ID")
            doc_id = document_id(request.path)
            everything = store.chunks(doc_id)
            if not everything or request.every:
                return everything
            at = _index_at(everything, request)
        if request.every:
            return store.chunks(doc_id)
        return store.chunks(doc_id, max(0, at - request.context), at + request.context)


def _index_at(chunks: Sequence[StoredChunk], request: ShowRequest) -> int:
    """The chunk that holds the line or page, the last one that begins before it when it falls into a gap."""
    if request.line is None and request.page is None:
        return chunks[0].chunk.index
    best: int | None = None
    for item in chunks:
        chunk = item.chunk
        by_line = request.line is not None
        wanted = request.line if by_line else request.page
        begin = chunk.line_start if by_line else chunk.page
        if begin is None:
            place = "lines" if by_line else "pages"
            raise UsageError(f"{item.source_path} has no {place}.", fix=f"bigos show {item.chunk_id}")
        if wanted is None or begin > wanted:
            continue
        if not by_line and begin == wanted:
            return chunk.index  # a page is read from its beginning
        best = chunk.index
    return chunks[0].chunk.index if best is None else best

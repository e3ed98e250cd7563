# SPDX-License-Identifier: GPL-2.0-only
"""Retrieval: a question in, the best fragments out, in whatever language they are.

    query --> language --> embed, terms --> search dense + lexical --> fuse --> context --> trim

No filter on language, ever: the embedder's vectors are language-neutral, and the language of the question only chooses
which mean is taken off it, and which side of the lexicon its words are looked up in.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from bigos import files, fragments, fusion
from bigos.embedders import QueryRejected, Vectors
from bigos.embedders.calibration import NeutralEmbedder
from bigos.errors import UsageError
from bigos.language import LanguageDetector
from bigos.lexical import TermVector
from bigos.lexicon import Lexicon
from bigos.paths import given
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

    That span leaves out what a better hit of the same document shows; token_count and headings are the stored chunk's.

    `stale` is None where the file is as it was, and where it cannot be looked at.
    """

    hit: Hit
    text: str
    text_truncated: bool
    stale: Stale | None = None
    start: int = 0

    def cut(self, max_chars: int, terms: TermVector) -> FoundHit:
        """The hit with at most `max_chars` characters of text: those that say most about the question's terms."""
        if len(self.text) <= max_chars:
            return self
        start, text = fragments.excerpt(self.hit.chunk, max_chars, terms)
        return replace(self, text=text, text_truncated=True, start=start)

    @property
    def shown(self) -> Chunk:
        """The chunk from where its text is shown, to its end: span and lines begin as the text does."""
        chunk = self.hit.chunk
        return fragments.part(chunk, self.start, len(chunk.text)) if self.start else chunk

    @property
    def ends_early(self) -> bool:
        """The text stops before the chunk does."""
        return self.start + len(self.text.rstrip()) < len(self.hit.chunk.text.rstrip())


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The answer to a SearchRequest, best first. `language` is the question's, None when it could not be told.

    `terms` are the question's, for whoever has to cut the texts further.
    """

    request: SearchRequest
    language: str | None
    hits: tuple[FoundHit, ...]
    seconds: float
    terms: TermVector
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
        concepts=lexicon.concepts(query, language),
    )
    with store.turn():
        hits = fusion.ranked(question, store, embedder.code_weight)
        found = _shown(
            hits, [_with_context(hit, store, request.context) for hit in hits], request.max_chars, question.terms
        )
        records = store.records(list({hit.chunk.doc_id for hit in hits}))
    marks = {doc_id: stale(record) for doc_id, record in records.items()}
    marked = tuple(replace(item, stale=marks.get(item.hit.chunk.doc_id)) for item in found)
    return SearchResult(request, language, marked, time.monotonic() - started, question.terms)


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


def _with_context(hit: Hit, store: Store, context: int) -> Chunk:
    """The hit's chunk with `context` neighbouring chunks on either side joined to it."""
    chunk = hit.chunk
    if context <= 0:
        return chunk
    around = store.chunks(chunk.doc_id, max(0, chunk.index - context), chunk.index + context)
    return fragments.joined([item.chunk for item in around]) if around else chunk


def _shown(hits: Sequence[Hit], wide: Sequence[Chunk], max_chars: int | None, terms: TermVector) -> list[FoundHit]:
    """The hits with the texts of `wide`, each without what a better one shows already, cut to `max_chars`."""
    shown: dict[tuple[str, str], list[fragments.Span]] = {}
    found = []
    for hit, chunk in zip(hits, wide, strict=True):
        # Spans compare within one version of a document: a crash may have left chunks of two.
        before = shown.setdefault((chunk.doc_id, hit.content_hash), [])
        rest = fragments.unrepeated(chunk, before, (hit.chunk.char_start, hit.chunk.char_end))
        item = FoundHit(replace(hit, chunk=rest), rest.text, text_truncated=False)
        if max_chars is not None:
            item = item.cut(max_chars, terms)
        begin = rest.char_start + item.start
        before.append((begin, begin + len(item.text)))
        found.append(item)
    return found


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """What to read: a chunk id, or a document's path with a line or a page; neither of them gives the first chunk."""

    chunk_id: str | None = None
    path: Path | None = None
    line: int | None = None
    page: int | None = None
    context: int = 0
    every: bool = False


def places(what: str) -> list[ShowRequest]:
    """What `CHUNK_ID|PATH[:LINE|:pPAGE]` may mean, likeliest first. `:10-20` and `:p3-4`, as hits show them, do too.

    Raises UsageError for what names nothing.
    """
    try:
        return [ShowRequest(chunk_id=str(uuid.UUID(what)))]
    except ValueError:
        pass
    whole = files.canonical(given(what))
    place = re.fullmatch(r"(.+):(p?)(\d{1,9})(?:-\d{1,9})?", what, re.DOTALL)
    if place is None or os.path.exists(whole):  # noqa: PTH110 - Path.exists raises for a name that is too long
        return [ShowRequest(path=whole)]
    number = int(place[3])
    path = files.canonical(Path(place[1]))
    split = ShowRequest(path=path, page=number) if place[2] else ShowRequest(path=path, line=number)
    return [split, ShowRequest(path=whole)]


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

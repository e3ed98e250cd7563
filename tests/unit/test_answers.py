# SPDX-License-Identifier: GPL-2.0-only
"""An answer that has to fit into a model's context: what gives way, and in which order."""

from __future__ import annotations

import json

import pytest

from bigos import render
from bigos.answers import DOCUMENT_CHARS, fitting
from bigos.lexical import TermVector
from bigos.search import FoundHit, SearchRequest, SearchResult
from bigos.types import Chunk, Hit


def result(count: int, text: str, headings: tuple[str, ...] = ()) -> SearchResult:
    hits = [
        FoundHit(
            Hit(
                chunk_id=f"00000000-0000-0000-0000-{index:012}",
                score=1 - index / 1000,
                source_path=f"/srv/notes/{index}.md",
                source_name=f"{index}.md",
                chunk=Chunk(
                    doc_id="d", index=index, text=text, char_start=0, char_end=len(text), line_start=1, line_end=9,
                    page=None, page_end=None, heading_path=headings, token_count=99, language="en",
                    chunk_language="en", kind="document", code_language=None,
                ),
                content_hash="h",
                ingested_at="2026-01-01T00:00:00+00:00",
            ),
            text,
            text_truncated=False,
        )
        for index in range(count)
    ]  # fmt: skip
    return SearchResult(SearchRequest("x", count), "en", tuple(hits), 0.01, TermVector((), ()))


def size(found: SearchResult) -> int:
    return len(json.dumps(render.search_document(found), ensure_ascii=False))


def test_what_fits_is_left_as_it_is() -> None:
    found = result(8, "a line of eight hundred characters\n" * 23)
    assert fitting(found).hits == found.hits


@pytest.mark.parametrize("text", ["word " * 4000, '"\n' * 10_000, "ą" * 20_000])
def test_texts_get_shorter_before_a_hit_is_left_out(text: str) -> None:
    found = fitting(result(25, text))
    assert size(found) <= DOCUMENT_CHARS
    assert size(found) > DOCUMENT_CHARS // 4
    assert [item.hit.chunk_id for item in found.hits] == [item.hit.chunk_id for item in result(25, text).hits]
    assert all(item.text_truncated and text.startswith(item.text) for item in found.hits)


def test_a_short_text_among_long_ones_stays_whole() -> None:
    long, short = result(20, "word " * 1000).hits, result(1, "short").hits
    found = fitting(SearchResult(SearchRequest("x"), None, (*long, *short), 0.01, TermVector((), ())))
    assert (found.hits[-1].text, found.hits[-1].text_truncated) == ("short", False)


def test_the_last_hits_go_when_their_texts_would_say_nothing() -> None:
    found = fitting(result(100, "word " * 1000))
    assert size(found) <= DOCUMENT_CHARS
    assert 20 < len(found.hits) < 100
    assert [item.hit.chunk.index for item in found.hits] == list(range(len(found.hits)))
    assert all(len(item.text) >= render.LEAST_FRAGMENT * 3 // 4 for item in found.hits)


def test_the_best_hit_stays_however_long_its_headings_are() -> None:
    assert len(fitting(result(3, "word " * 1000, ("heading " * 5000,))).hits) == 1

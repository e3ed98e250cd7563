# SPDX-License-Identifier: GPL-2.0-only
"""What is shown of what was found: chunks joined to the text they were cut from, cut where a reader would stop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bigos.chunking import chunk_document
from bigos.embedders import Window
from bigos.errors import UsageError
from bigos.language import LanguageDetector
from bigos.lexicon import Lexicon
from bigos.search import SearchRequest, SearchResult, ShowRequest, cut_text, joined, search, show
from bigos.types import Block, Document, Kind, SourceFile, document_id
from small_index import SmallIndex, small_index

FRAGMENTS = st.one_of(
    st.sampled_from(
        [
            "Dzielnik zegara jest liczony raz. ",
            "The divider is even; see np. rozdz. 3. ",
            "int f(void)\n{\n\treturn 0;\n}\n\n",
            "    indented = 1\n",
            "zażo\u0301łc\u0301 👩\u200d👧 ",
            "\n",
            "\n\n\n",
            " \t\n \n",
            "\u2028\u00a0",
            "abcdefgh" * 30,
        ]
    ),
    st.integers(1, 90).map(lambda count: " ".join(f"w{number:06}" for number in range(count))),
    st.integers(1, 40).map(lambda count: " " * count),
    st.text("ab \n.", max_size=30),
)


class Words:
    """A token is a run of visible characters, at most eight long."""

    def count(self, text: str) -> int:
        return len(re.findall(r"\S{1,8}", text))

    def iter_offsets(self, text: str) -> Iterator[NDArray[np.int64]]:
        yield np.array([match.span() for match in re.finditer(r"\S{1,8}", text)], dtype=np.int64).reshape(-1, 2)

    def separable(self, text: str, position: int) -> bool:
        return position in (0, len(text)) or text[position - 1].isspace() or text[position].isspace()


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A text in one block, or in several with headings; with lines or without."""
    parts = ["".join(draw(st.lists(FRAGMENTS, max_size=7))) for _ in range(draw(st.integers(1, 3)))]
    lines, kind = draw(st.booleans()), draw(st.sampled_from(["document", "code"]))
    blocks: list[Block] = []
    text = ""
    for number, part in enumerate(parts):
        blocks.append(Block(part, len(text), None, 1 + text.count("\n") if lines else None, (f"Part {number}",)))
        text += part
    source = SourceFile(Path("/notes/a.md"), len(text), 1, 1)
    as_kind: Kind = kind  # type: ignore[assignment]
    return Document(source, None, "text", as_kind, None, text, tuple(blocks), "hash", (), None)


@settings(max_examples=500, deadline=None)
@given(documents(), st.integers(8, 40), st.integers(0, 20), st.data())
def test_joined_chunks_are_the_text_they_were_cut_from(
    document: Document, tokens: int, overlap: int, data: st.DataObject
) -> None:
    chunks = list(chunk_document(document, Words(), Window(tokens, min(overlap, tokens // 2))))
    if not chunks:
        return
    first = data.draw(st.integers(0, len(chunks) - 1))
    last = data.draw(st.integers(first, len(chunks) - 1))
    some = joined(chunks[first : last + 1])
    original = document.text[some.char_start : some.char_end]
    assert len(some.text) == len(original)
    pairs = zip(some.text, original, strict=True)
    assert all(shown == char or (shown.isspace() and char.isspace()) for shown, char in pairs)
    for name in ("char_start", "line_start", "page", "index", "heading_path"):
        assert getattr(some, name) == getattr(chunks[first], name)
    for name in ("char_end", "line_end", "page_end"):
        assert getattr(some, name) == getattr(chunks[last], name)
    everything = joined(chunks).text
    assert "".join(everything.split()) == "".join(document.text.split())


@settings(max_examples=300, deadline=None)
@given(documents().filter(lambda made: made.blocks[0].line_start is not None), st.integers(8, 40), st.integers(0, 20))
def test_joined_chunks_have_the_line_breaks_that_their_line_numbers_tell(
    document: Document, tokens: int, overlap: int
) -> None:
    chunks = list(chunk_document(document, Words(), Window(tokens, min(overlap, tokens // 2))))
    if chunks:
        whole = joined(chunks)
        visible = whole.text.strip()
        assert whole.line_start is not None
        assert whole.line_end is not None
        assert visible.count("\n") == whole.line_end - whole.line_start


def test_no_chunks_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="no chunks"):
        joined([])


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.text(max_size=200), st.text("ab \n", max_size=200)), st.integers(0, 220))
def test_a_cut_text_is_a_beginning_and_never_longer_than_asked(text: str, most: int) -> None:
    cut = cut_text(text, most)
    assert text.startswith(cut)
    assert len(cut) <= most
    lost = text[len(cut) : most]
    assert len(lost) <= most // 4 + 1 or not lost.strip() or lost[0].isspace()


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("one two three\nfour five six", 16, "one two three"),
        ("one two three four five six", 20, "one two three four"),
        ("abcdefghijklmnop", 10, "abcdefghij"),
        ("a bcdefghijklmnop", 10, "a bcdefghi"),
        ("one two", 0, ""),
    ],
)
def test_a_text_is_cut_at_a_line_or_a_word_when_one_ends_near(text: str, most: int, expected: str) -> None:
    assert cut_text(text, most) == expected


# --- on the real store -----------------------------------------------------------------------------------------------

PARTS = "".join(
    f"Part {number}: the divider of clock {number} is computed from the parent clock, then rounded up to even.\n\n"
    for number in range(12)
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallIndex]:
    with small_index(tmp_path_factory.mktemp("search")) as made:
        made.write("docs/long.txt", PARTS)
        made.write("docs/pl.txt", "Zupa jest za słona, bo kucharz pomylił sól z cukrem.\n")
        made.write("src/divider.c", "int divider(int rate)\n{\n\treturn parent / rate;\n}\n")
        made.write("page.html", "<title>Page</title><p>A page about bridges and rivers.</p>")
        made.ingest()
        yield made


def ask(index: SmallIndex, query: str, **request: object) -> SearchResult:
    made = SearchRequest(query, **request)  # type: ignore[arg-type]
    return search(made, index.store, index.embedder, LanguageDetector(), Lexicon([("dzielnik", "divider")]))


def test_a_hit_shows_the_text_and_says_where_it_is(index: SmallIndex) -> None:
    result = ask(index, "  the divider of clock 7 from part 7 ")
    best = result.hits[0]
    assert (result.language, best.text_truncated) == ("en", False)
    assert "clock 7" in best.text
    assert best.text == PARTS[best.hit.chunk.char_start : best.hit.chunk.char_end]
    assert best.hit.source_path == str(index.folder / "docs" / "long.txt")
    assert [found.hit.score for found in result.hits] == sorted((f.hit.score for f in result.hits), reverse=True)


def test_the_meaning_of_a_question_is_drawn_towards_its_gloss(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, gloss = "dlaczego ten wczorajszy obiad jest niedobry", "Zupa za słona, bo kucharz pomylił sól z cukrem"

    def nearness(pairs: list[tuple[str, str]]) -> float:
        asked = SearchRequest(question, paths=(index.folder / "docs" / "pl.txt",))
        hit = search(asked, index.store, index.embedder, LanguageDetector(), Lexicon(pairs)).hits[0].hit
        assert hit.ranks.dense_score is not None
        return hit.ranks.dense_score

    with_gloss = nearness([("obiad", gloss)])
    assert with_gloss > nearness([]) + 0.05
    # What the model cannot take is left out, and the question is answered.
    monkeypatch.setattr(index.embedder.raw, "refuses", gloss)
    assert nearness([("obiad", gloss)]) == nearness([])
    monkeypatch.setattr(index.embedder, "gloss_shares", {})
    monkeypatch.setattr(index.embedder.raw, "refuses", None)
    assert nearness([("obiad", gloss)]) == nearness([])


def test_context_joins_the_neighbours_and_keeps_the_rank(index: SmallIndex) -> None:
    alone = ask(index, "the divider of clock 7", top_k=1).hits[0]
    within = ask(index, "the divider of clock 7", top_k=1, context=1).hits[0]
    assert (within.hit.chunk_id, within.hit.score) == (alone.hit.chunk_id, alone.hit.score)
    assert within.hit.chunk.char_start < alone.hit.chunk.char_start
    assert within.hit.chunk.char_end > alone.hit.chunk.char_end
    assert within.text == PARTS[within.hit.chunk.char_start : within.hit.chunk.char_end]
    everything = ask(index, "the divider of clock 7", top_k=1, context=100).hits[0]
    assert everything.text == PARTS.strip()


def test_what_is_shown_is_cut_and_the_hit_still_tells_the_whole_span(index: SmallIndex) -> None:
    whole = ask(index, "the divider of clock 7", top_k=1).hits[0]
    cut = ask(index, "the divider of clock 7", top_k=1, max_chars=40).hits[0]
    assert (cut.text_truncated, len(cut.text) <= 40, whole.text.startswith(cut.text)) == (True, True, True)
    assert cut.hit == whole.hit


def test_kind_and_path_are_the_only_filters(index: SmallIndex) -> None:
    assert {found.hit.chunk.kind for found in ask(index, "divider", kind="code").hits} == {"code"}
    under = ask(index, "divider", paths=(index.folder / "src", index.folder / "docs" / "pl.txt"), top_k=50)
    assert {found.hit.source_name for found in under.hits} == {"divider.c", "pl.txt"}
    assert ask(index, "divider", paths=(index.folder / "doc",)).hits == ()


@pytest.mark.parametrize(
    ("query", "top_k", "words"), [("", 8, "empty"), (" \n", 8, "empty"), ("x", 0, "top_k"), ("x", 1001, "top_k")]
)
def test_a_question_that_cannot_be_asked_is_refused(index: SmallIndex, query: str, top_k: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ask(index, query, top_k=top_k)


def test_show_goes_to_the_chunk_of_a_line_or_to_the_last_one_before_it(index: SmallIndex) -> None:
    path = index.folder / "docs" / "long.txt"
    stored = index.chunks(path)
    for item in stored:
        assert show(ShowRequest(path=path, line=item.chunk.line_start), index.store) == [item]
    assert show(ShowRequest(path=path, line=10_000), index.store) == stored[-1:]
    assert show(ShowRequest(path=path, line=0), index.store) == stored[:1]
    assert show(ShowRequest(path=path), index.store) == stored[:1]
    assert show(ShowRequest(path=path, every=True), index.store) == stored
    assert show(ShowRequest(chunk_id=stored[2].chunk_id, context=1), index.store) == stored[1:4]
    assert show(ShowRequest(chunk_id=stored[0].chunk_id, context=1), index.store) == stored[:2]
    assert show(ShowRequest(chunk_id=stored[2].chunk_id, every=True), index.store) == stored


def test_show_gives_nothing_for_what_is_not_there_and_refuses_a_place_that_is_not(index: SmallIndex) -> None:
    assert show(ShowRequest(path=index.folder / "nowhere.txt"), index.store) == []
    assert show(ShowRequest(chunk_id=document_id(Path("/nowhere"))), index.store) == []
    with pytest.raises(UsageError, match="no pages"):
        show(ShowRequest(path=index.folder / "docs" / "long.txt", page=1), index.store)
    with pytest.raises(UsageError, match="no lines"):
        show(ShowRequest(path=index.folder / "page.html", line=1), index.store)
    with pytest.raises(UsageError, match="nothing to show"):
        show(ShowRequest(), index.store)


def test_chunks_with_a_gap_between_keep_their_distance(index: SmallIndex) -> None:
    first, _, third, *_ = [item.chunk for item in index.chunks(index.folder / "docs" / "long.txt")]
    gap = replace(third, char_start=first.char_end + 5, char_end=first.char_end + 5 + len(third.text))
    both = joined([replace(first, line_end=3), replace(gap, line_start=5)])
    assert both.text == first.text + "\n\n   " + third.text
    assert joined([replace(first, line_end=None), gap]).text == first.text + "\n\n   " + third.text

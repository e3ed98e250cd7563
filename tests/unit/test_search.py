# SPDX-License-Identifier: GPL-2.0-only
"""What is shown of what was found: chunks joined to the text they were cut from, cut where a reader would stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bigos.errors import UsageError
from bigos.fragments import joined
from bigos.language import LanguageDetector
from bigos.lexicon import Lexicon
from bigos.search import SearchRequest, SearchResult, ShowRequest, search, show
from bigos.types import document_id
from small_index import SmallIndex, small_index

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
    assert (cut.text_truncated, len(cut.text) <= 40) == (True, True)
    assert whole.text[cut.start : cut.start + len(cut.text)] == cut.text
    assert "clock 7" in cut.text or "Part 7" in cut.text
    assert cut.hit == whole.hit
    assert cut.shown.char_start == whole.hit.chunk.char_start + cut.start
    assert cut.shown.line_start == 1 + PARTS.count("\n", 0, cut.shown.char_start)


def test_neighbours_in_one_answer_show_their_overlap_once(index: SmallIndex) -> None:
    hits = [found for found in ask(index, "the divider of clock", top_k=50).hits if found.hit.source_name == "long.txt"]
    assert {found.hit.chunk_id for found in hits} == {
        item.chunk_id for item in index.chunks(index.folder / "docs" / "long.txt")
    }
    spans = sorted((found.hit.chunk.char_start, found.hit.chunk.char_end) for found in hits)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert all(found.text == PARTS[found.hit.chunk.char_start : found.hit.chunk.char_end] for found in hits)
    assert "".join("".join(PARTS[start:end].split()) for start, end in spans) == "".join(PARTS.split())


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

# SPDX-License-Identifier: GPL-2.0-only
"""Both legs made one ranking, over a real store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bigos import fusion
from bigos.lexical import TermVector
from bigos.lexicon import Lexicon
from bigos.stores.embedded import EmbeddedStore
from bigos.types import Hit, Kind
from store_documents import DIMENSION, FINGERPRINT, document, memory_directory, unit

LEXICON = Lexicon([("dzielnik", "divider")])
BOTH: tuple[Kind, ...] = ("document", "code")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with memory_directory(tmp_path) as directory:
        made = EmbeddedStore(directory / "index", FINGERPRINT, DIMENSION)
        yield made
        made.close()


def put(
    store: EmbeddedStore, path: str, text: str, *head: float, kind: str = "document", language: str | None = None
) -> None:
    item = document(path, 1, kind=kind, vectors=unit(*head)[None, :])
    store.replace([replace(item, chunks=[replace(item.chunks[0], text=text, code_language=language)])])


def ask(store: EmbeddedStore, words: str, *head: float, limit: int = 10, kinds: tuple[Kind, ...] = BOTH) -> list[Hit]:
    terms = LEXICON.question_vector(words, "pl")
    return fusion.ranked(fusion.Question(unit(*head), terms, limit, kinds), store, code_weight=1.25)


def ask_fully(store: EmbeddedStore, words: str, *head: float) -> list[Hit]:
    question = fusion.Question(
        unit(*head), LEXICON.question_vector(words, "pl"), 10, BOTH, concepts=LEXICON.concepts(words, "pl")
    )
    return fusion.ranked(question, store, code_weight=1.25)


def names(hits: list[Hit]) -> list[str]:
    return [hit.source_name for hit in hits]


def test_a_rare_word_lifts_what_is_a_little_further_away(store: EmbeddedStore) -> None:
    put(store, "/a/near.txt", "the clock of the bus", 1, 0.1)
    put(store, "/a/named.txt", "spi_imx_can_dma decides", 1, 0.3)
    assert names(ask(store, "zegar", 1)) == ["near.txt", "named.txt"]
    first, second = ask(store, "spi_imx_can_dma", 1)
    assert names([first, second]) == ["named.txt", "near.txt"]
    assert (first.ranks.dense, first.ranks.lexical, first.ranks.fused) == (2, 1, 1)
    assert (second.ranks.dense, second.ranks.lexical, second.ranks.lexical_score) == (1, None, None)
    assert first.ranks.dense_score is not None and first.ranks.lexical_score is not None
    assert first.score == pytest.approx(first.ranks.dense_score + fusion.LEXICAL_WEIGHTS["document"], abs=1e-5)
    assert second.score == pytest.approx(second.ranks.dense_score, abs=1e-5)


def test_a_translation_finds_the_other_language(store: EmbeddedStore) -> None:
    put(store, "/a/other.txt", "zupa jest za slona", 1, 0.3)
    put(store, "/a/divider.txt", "the divider is even", 1, 0.3)
    assert names(ask(store, "dzielniki", 1))[0] == "divider.txt"


def test_code_is_weighed_and_counts_words_more(store: EmbeddedStore) -> None:
    put(store, "/a/x.c", "int divider;", 1, 1, kind="code")
    (hit,) = ask(store, "dzielnik", 1)
    gained = 1.25 * 2**-0.5 + fusion.LEXICAL_WEIGHTS["code"]
    assert hit.score == pytest.approx(gained - fusion.CODE_HANDICAP, abs=1e-5)


def test_a_name_that_is_asked_for_comes_first_where_it_is_defined(store: EmbeddedStore) -> None:
    put(store, "/a/user.c", "int f(void)\n{\n\treturn can_dma() + can_dma();\n}\n", 1, 0.1, kind="code", language="c")
    put(store, "/a/maker.c", "int can_dma(void)\n{\n\treturn 0;\n}\n", 1, 0.3, kind="code", language="c")
    assert names(ask(store, "can_dma", 1)) == names(ask_fully(store, "can_dma", 1)) == ["maker.c", "user.c"]
    assert [hit.ranks.coverage for hit in ask_fully(store, "can_dma", 1)] == [1, 0.5]


def test_a_document_that_is_nearly_as_near_as_code_comes_first(store: EmbeddedStore) -> None:
    put(store, "/a/x.c", "int main;", 1.0, 0.72, kind="code")  # a cosine of 0.81, that is 1.01 when it is weighed
    put(store, "/a/y.md", "a page", 1.0)
    assert names(ask(store, "zupa", 1)) == ["y.md", "x.c"]


def test_what_speaks_of_more_of_the_question_comes_before_what_says_one_word_often(store: EmbeddedStore) -> None:
    put(store, "/a/others.c", "divider divider divider divider", 1, 0.2, kind="code")
    put(store, "/a/asked.c", "the clock of ecspi, its divider and much more that one reads here", 1, 0.2, kind="code")
    put(store, "/a/neither.c", "zupa", 1, 0.2, kind="code")
    hits = ask_fully(store, "dzielnik clock ecspi unheard-of", 1)
    assert names(hits) == ["asked.c", "others.c", "neither.c"]
    # What nobody has does not count, so all that can be covered is.
    assert [hit.ranks.coverage for hit in hits] == [1, pytest.approx(1 / 3), 0]
    assert hits[2].score == pytest.approx(1.25 / 1.04**0.5 - fusion.CODE_HANDICAP, abs=1e-5)


def test_a_translation_covers_as_the_word_itself_does_and_several_as_one(store: EmbeddedStore) -> None:
    put(store, "/a/one.txt", "divider", 1)
    put(store, "/a/both.txt", "divider or dzielnik", 1)
    assert {hit.ranks.coverage for hit in ask_fully(store, "dzielnik", 1)} == {1}


def test_a_question_of_words_that_nobody_has_is_answered_by_meaning(store: EmbeddedStore) -> None:
    put(store, "/a/x.txt", "one", 1, 0.2)
    put(store, "/a/y.txt", "two", 1, 0.1)
    hits = ask_fully(store, "zupa", 1)
    assert names(hits) == ["y.txt", "x.txt"]
    assert [hit.ranks.coverage for hit in hits] == [None, None]


def test_what_only_one_leg_finds_has_both_scores(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "CANDIDATES", 1)
    for number in range(20):
        put(store, f"/a/{number:02}.txt", f"page {number}", 1, 0.01 * number)
    put(store, "/a/far.txt", "a divider and another divider", 0.9, 0.5)
    put(store, "/a/close.txt", "divider among many other words of a page that is about something else", 1)
    hits = ask(store, "dzielnik", 1, limit=2)
    assert set(names(hits)) == {"far.txt", "close.txt"}
    by_name = {hit.source_name: hit for hit in hits}
    assert by_name["far.txt"].ranks.dense_score == pytest.approx(0.9 / (0.81 + 0.25) ** 0.5, abs=1e-5)
    assert by_name["close.txt"].ranks.lexical_score is not None


def test_kinds_limits_and_paths_hold_for_both_legs(store: EmbeddedStore) -> None:
    put(store, "/a/x.c", "int divider;", 1, kind="code")
    put(store, "/a/x.txt", "divider", 1)
    put(store, "/b/y.txt", "divider", 1)
    assert names(ask(store, "dzielnik", 1, kinds=("code",))) == ["x.c"]
    assert len(ask(store, "dzielnik", 1, limit=1)) == 1
    terms = LEXICON.question_vector("dzielnik", "pl")
    below = fusion.Question(unit(1), terms, 9, BOTH, (Path("/b"),))
    assert names(fusion.ranked(below, store, 1.0)) == ["y.txt"]


def test_chunks_of_a_document_are_drawn_towards_its_best(store: EmbeddedStore) -> None:
    two = document("/a/two.txt", 2, vectors=np.stack([unit(1), unit(1, 1)]))
    store.replace([two])
    put(store, "/a/one.txt", "x", 1, 0.9)
    assert names(ask(store, "?", 1)) == ["two.txt", "two.txt", "one.txt"]
    best, second, other = ask(store, "?", 1)
    assert best.score == pytest.approx(1, abs=1e-5)
    assert second.score == pytest.approx(2**-0.5 + fusion.DOCUMENT_SHARE * (1 - 2**-0.5), abs=1e-5)
    assert other.score == pytest.approx(1 / 1.81**0.5, abs=1e-5)


def test_without_terms_the_ranking_is_that_of_meaning(store: EmbeddedStore) -> None:
    put(store, "/a/x.txt", "one", 1, 0.2)
    put(store, "/a/y.txt", "two", 1, 0.1)
    question = fusion.Question(unit(1), TermVector((), ()), 5, BOTH)
    hits = fusion.ranked(question, store, 1.0)
    assert names(hits) == ["y.txt", "x.txt"]
    assert [hit.ranks.lexical for hit in hits] == [None, None]


def test_an_empty_store_has_no_answer(store: EmbeddedStore) -> None:
    assert ask(store, "dzielnik", 1) == []

# SPDX-License-Identifier: GPL-2.0-only
"""Labelled questions: how a file of them is read, and what the figures mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bigos.errors import UsageError
from bigos.evaluate import Judged, Question, Target, figures, read_questions, report, report_text


def written(folder: Path, *entries: object) -> Path:
    file = folder / "queries.jsonl"
    file.write_text("\n".join(e if isinstance(e, str) else json.dumps(e) for e in entries) + "\n", encoding="utf-8")
    return file


def one(folder: Path, **fields: Any) -> Question:
    entry = {"query": "pytanie", "relevant": [{"path": "en/a.txt"}], **fields}
    (question,) = read_questions(written(folder, entry), folder)
    return question


def judged(
    *ranks: int, direction: str = "pl->en", lines_hit: bool | None = None, indexed: bool = True, relevant: int = 1
) -> Judged:
    targets = tuple(Target(f"/{direction}/{indexed}/{number}") for number in range(relevant))
    return Judged(Question("q", "?", direction, "natural", targets, frozenset()), ranks, lines_hit, indexed)


def test_paths_are_relative_to_the_root_and_become_those_of_the_index(tmp_path: Path) -> None:
    question = one(tmp_path, relevant=[{"path": "en/../en/a.txt", "lines": [3, 9]}])
    assert question.relevant == (Target(str(tmp_path.resolve() / "en" / "a.txt"), (3, 9)),)


@pytest.mark.parametrize(
    ("fields", "direction"),
    [
        ({"lang": "pl", "target_lang": "en"}, "pl->en"),
        ({"lang": "en", "kind": "code"}, "en->code"),
        ({"lang": "en", "kind": "document"}, "en->any"),
        ({}, "?->any"),
    ],
)
def test_the_direction_is_from_the_question_to_what_it_is_after(
    tmp_path: Path, fields: dict[str, Any], direction: str
) -> None:
    assert one(tmp_path, **fields).direction == direction


@pytest.mark.parametrize("twin", ["pl/a.txt", {"path": "pl/a.txt"}])
def test_the_twin_counts_only_when_the_other_language_is_wanted(tmp_path: Path, twin: object) -> None:
    assert one(tmp_path, lang="pl", target_lang="en", twin=[twin]).twins == {str(tmp_path.resolve() / "pl" / "a.txt")}
    assert one(tmp_path, lang="pl", target_lang="pl", twin=[twin]).twins == frozenset()


def test_a_relevant_page_is_nobodys_twin(tmp_path: Path) -> None:
    assert one(tmp_path, lang="pl", target_lang="en", twin=["en/a.txt"]).twins == frozenset()


def test_a_null_twin_is_none(tmp_path: Path) -> None:
    assert one(tmp_path, twin=None).twins == frozenset()


GOOD = {"query": "x", "relevant": [{"path": "a"}]}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('{"query": ', "no JSON"),
        ("[]", "not a JSON object"),
        ({"relevant": [{"path": "a"}]}, "no query"),
        ({"query": " ", "relevant": [{"path": "a"}]}, "no query"),
        ({"query": "x"}, "no relevant documents"),
        ({"query": "x", "relevant": []}, "no relevant documents"),
        ({"query": "x", "relevant": [{"lines": [1, 2]}]}, "a document without a path"),
        ({"query": "x", "relevant": [{"path": "a", "lines": [9, 3]}]}, "lines are [first, last]"),
        ({"query": "x", "relevant": [{"path": "a", "lines": "3-9"}]}, "lines are [first, last]"),
        ({"query": "x", "relevant": [{"path": "a"}], "twin": "b"}, "twin is not a list"),
    ],
)
def test_a_line_that_is_no_question_is_named(tmp_path: Path, entry: object, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_questions(written(tmp_path, GOOD, entry), tmp_path)
    assert "queries.jsonl, line 2: " + problem in caught.value.message


def test_a_line_separator_in_a_question_does_not_end_its_line(tmp_path: Path) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text(json.dumps(GOOD | {"query": "a\u2028b"}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_questions(file, tmp_path)[0].query == "a\u2028b"


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe"])
def test_a_file_without_questions_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"holds no questions|is not UTF-8"):
        read_questions(file, tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_questions(tmp_path / "none.jsonl", tmp_path)


def test_recall_counts_questions_with_any_answer_that_deep() -> None:
    found = figures([judged(1), judged(5), judged(6, 7), judged()])
    assert [found[f"recall_at_{k}"] for k in (1, 5, 10)] == [0.25, 0.5, 0.75]
    assert found["mrr_at_10"] == pytest.approx((1 + 1 / 5 + 1 / 6) / 4, abs=1e-4)


@pytest.mark.parametrize(
    ("ranks", "relevant", "expected"), [((1,), 1, 1.0), ((1, 2), 2, 1.0), ((3,), 1, 0.5), ((1,), 2, 0.6131), ((), 1, 0)]
)
def test_ndcg_is_one_for_a_perfect_ranking(ranks: tuple[int, ...], relevant: int, expected: float) -> None:
    assert figures([judged(*ranks, relevant=relevant)])["ndcg_at_10"] == pytest.approx(expected, abs=1e-4)


def test_what_is_not_indexed_counts_as_missed_and_is_named() -> None:
    indexed = frozenset({"/pl->en/True/0"})
    document = report([judged(1), judged(indexed=False)], indexed, seconds=0.5)
    assert document["overall"]["recall_at_1"] == 0.5
    assert (document["answerable"]["queries"], document["answerable"]["recall_at_1"]) == (1, 1.0)
    assert document["not_indexed"] == {"queries": 1, "files": 1, "paths": ["/pl->en/False/0"]}
    assert document["queries_per_second"] == 4.0
    text = report_text(document)
    assert "1 relevant files; 1 queries cannot be answered" in text
    assert "/pl->en/False/0" in text


def test_figures_are_given_by_direction_and_for_lines() -> None:
    items = [
        judged(1, direction="pl->code", lines_hit=True),
        judged(2, direction="en->code", lines_hit=False),
        judged(3),
    ]
    document = report(items, frozenset(), seconds=1.0)
    assert list(document["by_direction"]) == ["en->code", "pl->code", "pl->en"]
    assert document["lines"] == {"queries": 2, "recall_at_5_by_file": 1.0, "recall_at_5_by_lines": 0.5}
    assert set(document["lines_by_direction"]) == {"en->code", "pl->code"}
    assert [row["rank"] for row in document["ranks"]] == [1, 2, 3]
    assert "r@5 by file 1.000, by lines 0.500" in report_text(document)


def test_without_labelled_lines_there_are_no_line_figures() -> None:
    document = report([judged(1)], frozenset(), seconds=1.0)
    assert document["lines"] is None
    assert "by lines" not in report_text(document)

# SPDX-License-Identifier: GPL-2.0-only
"""What a reader and a program are shown."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from bigos.doctor import Check
from bigos.lexical import TermVector
from bigos.pipeline import IngestReport
from bigos.rebuild import Loss, RebuildReport
from bigos.render import (
    duration,
    ingest_document,
    ingest_text,
    search_document,
    search_text,
    show_document,
    show_text,
)
from bigos.render_rebuild import rebuild_text
from bigos.render_state import doctor_document, doctor_text
from bigos.search import FoundHit, SearchRequest, SearchResult
from bigos.stores import StoredChunk
from bigos.types import Chunk, FileOutcome, Hit, Ranks


def chunk(**changes: object) -> Chunk:
    values: dict[str, object] = {
        "doc_id": "d",
        "index": 0,
        "text": "żółw\n",
        "char_start": 0,
        "char_end": 5,
        "line_start": 1,
        "line_end": 28,
        "page": None,
        "page_end": None,
        "heading_path": (),
        "token_count": 3,
        "language": None,
        "chunk_language": None,
        "kind": "code",
        "code_language": "bitbake",
    }
    return Chunk(**{**values, **changes})  # type: ignore[arg-type]


def result(*hits: tuple[Chunk, str]) -> SearchResult:
    found = []
    for rank, (item, path) in enumerate(hits, start=1):
        hit = Hit(f"id-{rank}", 0.58776, path, path.rpartition("/")[2], item, "h", "now", Ranks(rank, 0.5))
        found.append(FoundHit(hit, item.text, text_truncated=False))
    return SearchResult(SearchRequest("pytanie"), "pl", tuple(found), 0.01234, TermVector((), ()))


RECIPE = (chunk(), "/abs/recipe.bb")
PAGED = chunk(kind="document", code_language=None, language="pl", page=3, page_end=4, heading_path=("Dział", "Punkt"))
LINES = chunk(kind="document", code_language=None, chunk_language="en", line_start=7, line_end=7)


def test_a_header_names_the_score_the_kind_and_the_place() -> None:
    text = search_text(result(RECIPE, (PAGED, "/abs/x.pdf"), (LINES, "/abs/odd\n\x1b[2J.md")))
    headers = [line for line in text.splitlines() if line.startswith("0.")]
    assert headers == [
        "0.5878 [code/bitbake] /abs/recipe.bb:1-28",
        "0.5878 [document/pl] /abs/x.pdf p. 3-4 > Dział > Punkt",
        "0.5878 [document/en] /abs/odd\\x0a\\x1b[2J.md:7",
    ]


def test_a_hit_has_every_field_and_null_where_one_does_not_apply() -> None:
    document = search_document(result(RECIPE))
    (hit,) = document["hits"]
    assert document["language"] == "pl"
    assert (hit["page"], hit["language"], hit["explain"]) == (None, None, None)
    assert (hit["rank"], hit["score"], hit["heading_path"], hit["text_truncated"]) == (1, 0.58776, [], False)
    explained = search_document(result(RECIPE), explain=True)["hits"][0]["explain"]
    assert explained == {
        "query_language": "pl", "dense": 1, "dense_score": 0.5, "lexical": None, "lexical_score": None,
        "coverage": None, "fused": None,
    }  # fmt: skip
    json.dumps(document)


def test_a_text_that_begins_or_ends_early_is_marked_and_its_lines_begin_where_it_does() -> None:
    text = "one\ntwo\nthree\nfour"
    lines = chunk(text=text, char_start=10, char_end=10 + len(text), line_start=1, line_end=4)
    hit = Hit("id", 0.5, "/abs/a.c", "a.c", lines, "h", "now")
    found = (
        FoundHit(hit, "two", text_truncated=True, start=4),
        FoundHit(hit, "three\nfour", text_truncated=True, start=8),
        FoundHit(hit, "one\ntwo", text_truncated=True),
        FoundHit(hit, text, text_truncated=False),
    )
    answer = SearchResult(SearchRequest("x"), None, found, 0.1, TermVector((), ()))
    assert [block.partition("\n")[::2] for block in search_text(answer).rstrip().split("\n\n")] == [
        ("0.5000 [code/bitbake] /abs/a.c:2-4", "[…]\ntwo […]"),
        ("0.5000 [code/bitbake] /abs/a.c:3-4", "[…]\nthree\nfour"),
        ("0.5000 [code/bitbake] /abs/a.c:1-4", "one\ntwo […]"),
        ("0.5000 [code/bitbake] /abs/a.c:1-4", text),
    ]
    places = [(hit["line_start"], hit["char_start"], hit["char_end"]) for hit in search_document(answer)["hits"]]
    assert places == [(2, 14, 28), (3, 18, 28), (1, 10, 28), (1, 10, 28)]


def test_files_are_shown_once_at_their_best_rank() -> None:
    answer = result(RECIPE, (LINES, "/abs/a.md"), RECIPE)
    assert search_text(answer, files_only=True) == "/abs/recipe.bb\n/abs/a.md\n"
    assert [hit["rank"] for hit in search_document(answer, files_only=True)["hits"]] == [1, 2]


@pytest.mark.parametrize("budget", [100, 200, 500, 1000, 5000])
def test_an_answer_stays_within_its_budget_and_says_what_is_missing(budget: int) -> None:
    long = chunk(text="słowo " * 200)
    text = search_text(result(*[(long, f"/abs/{n}.md") for n in range(4)]), max_total_chars=budget)
    assert len(text) <= budget
    assert text.startswith("0.5878 [code/bitbake] /abs/0.md:1-28")
    headers = text.count("0.5878")
    assert (f"({4 - headers} more left out" in text) == (headers < 4)


def test_nothing_found_is_no_text() -> None:
    assert search_text(result(), explain=True) == search_text(result(), max_total_chars=10) == ""


def test_shown_chunks_carry_the_fields_of_hits() -> None:
    stored = [StoredChunk("id-1", "/abs/recipe.bb", "recipe.bb", chunk())]
    (shown,) = show_document(stored)["chunks"]
    hit = search_document(result(RECIPE))["hits"][0]
    assert shown.keys() == hit.keys() - {"rank", "score", "explain", "stale"}
    assert show_text(stored) == "[code/bitbake] /abs/recipe.bb:1-28 (chunk 0, id-1)\nżółw\n"


def test_shown_chunks_repeat_no_overlap() -> None:
    first = chunk(text="one\ntwo\n", char_end=8, line_end=2)
    second = chunk(index=1, text="two\nthree\nfour\n", char_start=4, char_end=19, line_start=2, line_end=4)
    stored = [StoredChunk(f"id-{item.index}", "/abs/a.bb", "a.bb", item) for item in (first, second)]
    assert show_text(stored) == (
        "[code/bitbake] /abs/a.bb:1-2 (chunk 0, id-0)\none\ntwo\n\n"
        "[code/bitbake] /abs/a.bb:3-4 (chunk 1, id-1)\nthree\nfour\n"
    )
    assert [shown["text"] for shown in show_document(stored)["chunks"]] == [first.text, second.text]


def report() -> IngestReport:
    outcomes = [FileOutcome(f"/abs/{n}.png", "skipped", "binary", "the content is PNG, not text") for n in range(12)]
    outcomes += [FileOutcome("/abs/bad.html", "failed", "damaged", "the html loader failed")]
    outcomes += [FileOutcome("/abs/new.md", "added", chunks=4)]
    return IngestReport(
        files=Counter(added=1, skipped=12, failed=1, unchanged=2000),
        outcomes=outcomes,
        warnings=[("/abs/new.md", "two encodings"), ("/abs/other.md", "two encodings")],
        chunks_written=4,
        embedded=4,
        files_read=14,
        seconds=2.0,
    )


def test_a_run_is_told_by_outcome_and_reason_with_examples() -> None:
    text = ingest_text(report(), limit=3)
    assert text.splitlines() == [
        "Files: 1 added, 2,000 unchanged, 12 skipped, 1 failed",
        "  failed, damaged: 1",
        "    /abs/bad.html: the html loader failed",
        "  skipped, binary: 12",
        "    /abs/0.png: the content is PNG, not text",
        "    /abs/1.png: the content is PNG, not text",
        "    /abs/2.png: the content is PNG, not text",
        "    ... and 9 more",
        "  warning: two encodings: /abs/new.md and 1 more",
        "Chunks: 4 written, 0 unchanged, 0 removed; 2.0 s (2.0 chunks/s)",
    ]
    assert ingest_text(report(), limit=10, most=2).count("/abs/") == 3


def test_what_was_kept_is_told_with_the_command_that_takes_it_out() -> None:
    kept = IngestReport(kept=[("/abs/a.md", "folder is empty"), ("/abs/b.md", "folder is empty")])
    lines = ingest_text(kept).splitlines()
    at = lines.index("  kept, folder is empty: 2")
    assert "--forget" in lines[at + 1]
    assert "--forget" not in ingest_text(report())


def test_the_report_for_a_program_counts_and_lists_every_file_that_changed() -> None:
    document = ingest_document(report())
    assert document["files"] == {"added": 1, "updated": 0, "unchanged": 2000, "skipped": 12, "failed": 1}
    assert document["reasons"] == {"damaged": 1, "binary": 12}
    assert len(document["outcomes"]) == 14
    assert document["outcomes"][-1] == {
        "path": "/abs/new.md", "outcome": "added", "reason": None, "detail": None, "chunks": 4,
    }  # fmt: skip
    assert document["estimated_seconds"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"interrupted": True}, "interrupted; what was finished is kept"),
        ({"dry_run": True, "estimated_seconds": 200.0}, "dry run, nothing was written. Files: 1 to add, 2,000 unch"),
        ({"files": Counter(unchanged=2), "outcomes": [], "files_read": 0}, "nothing to do. Files: 2 unchanged"),
        ({"files": Counter(), "outcomes": []}, "no files were found"),
    ],
)
def test_the_first_line_says_what_kind_of_run_it_was(change: dict[str, object], words: str) -> None:
    told = report()
    for name, value in change.items():
        setattr(told, name, value)
    assert ingest_text(told).startswith(words)


def test_durations_are_told_as_people_tell_them() -> None:
    assert [duration(seconds) for seconds in (0.04, 12.4, 59.6, 200, 7500)] == [
        "0.0 s", "12 s", "1 min 00 s", "3 min 20 s", "2 h 05 min",
    ]  # fmt: skip


def test_the_doctor_puts_the_fix_under_what_failed() -> None:
    checks = [Check("python", "ok", "3.11"), Check("model", "failed", "it is not there.", "./setup.sh")]
    assert doctor_text(checks).splitlines() == [
        "ok       python: 3.11",
        "failed   model: it is not there.",
        "         hint: ./setup.sh",
        "1 of 2 parts failed",
    ]
    assert doctor_document(checks)["ok"] is False


def test_losses_of_a_rebuild_are_told_by_reason() -> None:
    losses = [Loss("/a/x.txt", 3, "source is gone", "other windows"), Loss("/a/y.txt", 1, "unreadable", "refused")]
    told = rebuild_text(RebuildReport("old/1", "new/1", documents=2, chunks=4, losses=losses))
    assert "  would be lost (other windows): 1\n    /a/x.txt: source is gone\n" in told
    assert "  would be lost (refused): 1\n    /a/y.txt: unreadable\n" in told

# SPDX-License-Identifier: GPL-2.0-only
"""`bigos eval` over a small index: the ranking, the twin left out of it, lines, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Home

PAGES = {
    "en/divider.txt": "The clock divider of the SPI controller is computed from the peripheral clock.\n",
    "pl/divider.txt": "Dzielnik zegara kontrolera SPI oblicza się z zegara peryferiów.\n",
    "en/bread.txt": "The sourdough is fed with rye flour the day before the bread is baked.\n",
    "pl/bread.txt": "Zakwas dokarmia się mąką żytnią w przeddzień pieczenia chleba.\n",
    "code/blink.c": "/* Blink a diode. */\n\nint main(void)\n{\n    for (;;)\n        toggle_diode_and_wait();\n}\n",
}
ACROSS = {"query": "jak oblicza się dzielnik zegara SPI", "lang": "pl", "target_lang": "en", "type": "natural"}
QUESTIONS: list[dict[str, Any]] = [
    {**ACROSS, "relevant": [{"path": "en/divider.txt"}], "twin": ["pl/divider.txt"]},
    {**ACROSS, "target_lang": "pl", "relevant": [{"path": "pl/divider.txt"}], "twin": ["en/divider.txt"]},
    {
        "query": "blinking a diode",
        "lang": "en",
        "kind": "code",
        "relevant": [{"path": "code/blink.c", "lines": [3, 6]}],
    },
    {"query": "how is the roof tiled", "lang": "en", "target_lang": "en", "relevant": [{"path": "en/roof.txt"}]},
]


@pytest.fixture(scope="module")
def indexed(make_home: Callable[[], Home]) -> Home:
    home = make_home()
    for name, text in PAGES.items():
        file = home.path / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert home.ingest("pages", "--recursive").code == 0
    return home


def asked(home: Home, name: str, *questions: object) -> Path:
    file = home.path / name
    file.write_text("".join(json.dumps(question) + "\n" for question in questions), encoding="utf-8")
    return file


def test_each_question_is_ranked_and_counted_under_its_direction(indexed: Home) -> None:
    ran = indexed.bigos("eval", asked(indexed, "queries.jsonl", *QUESTIONS), "--root", "pages", "--json")
    assert ran.code == 0
    document = ran.json
    assert document["schema"] == "bigos.eval.v1"
    assert {name: row["recall_at_1"] for name, row in document["by_direction"].items()} == {
        "pl->en": 1.0,  # the Polish twin would be first
        "pl->pl": 1.0,
        "en->code": 1.0,
        "en->en": 0.0,
    }
    assert document["lines"] == {"queries": 1, "recall_at_5_by_file": 1.0, "recall_at_5_by_lines": 1.0}
    assert document["not_indexed"]["paths"] == [str((indexed.path / "pages" / "en" / "roof.txt").resolve())]
    assert document["overall"]["queries"] == 4
    assert document["seconds"] > 0


def test_lines_of_a_page_that_has_none_are_not_judged(indexed: Home) -> None:
    page = indexed.path / "lamp.html"
    page.write_text("<html><body><h1>Lamp</h1><p>The lamp turns red when the tank is empty.</p></body></html>")
    assert indexed.ingest(page).code == 0
    question = {"query": "when does the lamp turn red", "relevant": [{"path": "lamp.html", "lines": [1, 1]}]}
    ran = indexed.bigos("eval", asked(indexed, "lamp.jsonl", question), "--json")
    assert ran.json["overall"]["recall_at_1"] == 1.0
    assert ran.json["lines"] is None


def test_the_folder_of_the_questions_is_the_root_unless_said(indexed: Home) -> None:
    ran = indexed.bigos("eval", asked(indexed, "pages/queries.jsonl", QUESTIONS[0]))
    assert ran.code == 0
    assert ran.stdout.splitlines()[1].split()[:3] == ["all", "1", "1.000"]


def test_nothing_to_measure_is_told_with_the_command_that_helps(indexed: Home) -> None:
    ran = indexed.bigos("eval", asked(indexed, "roof.jsonl", QUESTIONS[3]), "--json")
    assert (ran.code, ran.stdout) == (1, "")
    assert "none of the relevant files is in the index.\nhint: bigos ingest" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none.jsonl"], "none.jsonl cannot be read"),
        (["broken.jsonl"], "broken.jsonl, line 1: no relevant documents"),
        (["broken.jsonl", "--root", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_bad_input_is_one_sentence(indexed: Home, arguments: list[str], problem: str) -> None:
    asked(indexed, "broken.jsonl", {"query": "x"})
    ran = indexed.bigos("eval", *arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert problem in ran.stderr
    assert "hint: " in ran.stderr

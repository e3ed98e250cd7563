# SPDX-License-Identifier: GPL-2.0-only
"""RTK's filters of this project, by a small reading of the rules that RTK documents: a file it refuses is of no use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

FILE = tomllib.loads((Path(__file__).resolve().parents[2] / ".rtk" / "filters.toml").read_text("utf-8"))
FILTERS: dict[str, dict[str, Any]] = FILE["filters"]
TESTS: dict[str, list[dict[str, str]]] = FILE["tests"]
KNOWN = {
    "description": str, "match_command": str, "strip_ansi": bool, "filter_stderr": bool, "replace": list,
    "match_output": list, "strip_lines_matching": list, "keep_lines_matching": list, "truncate_lines_at": int,
    "head_lines": int, "tail_lines": int, "max_lines": int, "on_empty": str,
}  # fmt: skip
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
NOT_IN_RUST = re.compile(r"\(\?[=!<P]|\\[1-9]|[*+?}]\+")
"""What Python's expressions know and those of RTK's language do not: looking around, back references, possession."""


def filtered(rules: dict[str, Any], output: str) -> str:
    """The stages that our filters use, in RTK's order: ANSI codes, lines, the number of lines, nothing left."""
    lines = output.splitlines()
    if rules.get("strip_ansi"):
        lines = [ANSI.sub("", line) for line in lines]
    dropped = [re.compile(pattern) for pattern in rules["strip_lines_matching"]]
    lines = [line for line in lines if not any(pattern.search(line) for pattern in dropped)]
    most = rules["max_lines"]
    if len(lines) > most:
        lines = [*lines[:most], f"... ({len(lines) - most} lines truncated)"]
    text = "\n".join(lines)
    return text if text.strip() else rules["on_empty"]


def test_the_file_is_one_that_rtk_takes() -> None:
    assert FILE["schema_version"] == 1
    assert set(FILE) == {"schema_version", "filters", "tests"}
    for rules in FILTERS.values():
        # An unknown field makes RTK refuse the whole file.
        assert {name: type(value) for name, value in rules.items()}.items() <= KNOWN.items()
        assert rules["match_command"].startswith("^")  # else RTK ignores the filter
        # The stages that `filtered` does not read.
        assert not {
            "replace",
            "match_output",
            "keep_lines_matching",
            "truncate_lines_at",
            "head_lines",
            "tail_lines",
        } & set(rules)


def test_every_expression_is_one_for_both_languages() -> None:
    for rules in FILTERS.values():
        for pattern in (rules["match_command"], *rules["strip_lines_matching"]):
            re.compile(pattern)
            assert not NOT_IN_RUST.search(pattern), pattern
        # A branch of its own would have to be anchored by itself.
        assert "|" not in re.sub(r"\([^()]*(\([^()]*\)[^()]*)*\)", "", rules["match_command"])


@pytest.mark.parametrize(
    ("name", "index"), [(name, index) for name, cases in TESTS.items() for index in range(len(cases))]
)
def test_each_filter_does_what_its_tests_say(name: str, index: int) -> None:
    case = TESTS[name][index]
    assert set(case) == {"name", "input", "expected"}
    assert filtered(FILTERS[name], case["input"]).rstrip("\n") == case["expected"].rstrip("\n")


def test_every_filter_has_a_test() -> None:
    assert set(TESTS) == set(FILTERS)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("ollama pull bge-m3", "ollama-pull"),
        ("podman pull docker.io/qdrant/qdrant", "podman"),
        ("podman ps", "podman"),
        ("systemctl --user status qdrant", "systemctl-user"),
        (".venv/bin/python -m bigos.ingest data --recursive", "bigos-ingest"),
        ("python3.12 -m bigos.ingest data", "bigos-ingest"),
        (".venv/bin/bigos ingest data", "bigos-ingest"),
        ("./setup.sh --server --yes", "bigos-setup"),
        ("bash /home/anna/bigos/setup.sh", "bigos-setup"),
        ("bigos search ingest", None),
        ("ollama run x", None),
        ("systemctl status qdrant", None),
        ("cat docs/setup.sh.txt", None),
        ("timeout 5 podman ps", None),
    ],
)
def test_a_command_meets_one_filter_or_none(command: str, name: str | None) -> None:
    met = [key for key, rules in FILTERS.items() if re.search(rules["match_command"], command)]
    assert met == ([name] if name else [])


def test_progress_alone_is_told_as_nothing() -> None:
    assert filtered(FILTERS["ollama-pull"], "pulling manifest\n") == "ollama pull: no message"
    many = "\n".join(f"line {number}" for number in range(50))
    assert filtered(FILTERS["ollama-pull"], many).endswith("line 19\n... (30 lines truncated)")

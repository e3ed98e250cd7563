# SPDX-License-Identifier: GPL-2.0-only
"""A path that is empty names nothing, wherever a user or a client writes it: an unset variable is no current folder."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from bigos import answers, cli
from bigos.config import load_config
from bigos.errors import UsageError
from bigos.library import open_library
from bigos.paths import given


def test_an_empty_path_is_refused_and_a_dot_is_the_current_folder() -> None:
    assert given(".") == Path()
    with pytest.raises(UsageError, match="a path is empty"):
        given("")


@pytest.mark.parametrize(
    "words",
    [
        ["ingest", ""],
        ["ingest", "x.txt", ""],
        ["ingest", "--forget", ""],
        ["search", "clock", "--path", ""],
        ["show", ""],
        ["watch", ""],
    ],
)
def test_every_command_refuses_it(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    out, err = io.StringIO(), io.StringIO()
    assert cli.main(words, out, err) == 2
    assert (out.getvalue(), err.getvalue().splitlines()[0]) == ("", "error: a path is empty.")


def test_an_assistant_that_gives_none_has_nothing_ingested(tmp_path: Path) -> None:
    config = load_config({"HOME": str(tmp_path)})
    with open_library(config) as library, pytest.raises(UsageError, match="a path is empty"):
        answers.ingest(library, "", recursive=False, ocr="auto", reindex=False, on_event=print, stop=bool)

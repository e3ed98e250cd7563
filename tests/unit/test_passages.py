# SPDX-License-Identifier: GPL-2.0-only
"""What the embedder reads before a chunk's text: where it stands, briefly, and never too much of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigos.passages import HEADING_CHARS, TITLE_CHARS, header, passage_text
from bigos.tokenizer import Tokenizer
from bigos.types import Chunk, Document, Kind, SourceFile
from vocabulary import TOKENIZER

HEADER_TOKENS = 48


class Words:
    """A token is a word."""

    def count(self, text: str) -> int:
        return len(text.split())


@pytest.fixture(scope="module")
def xlmr() -> Tokenizer:
    return Tokenizer.load(TOKENIZER)


def made(
    text: str, title: str | None, headings: tuple[str, ...] = (), kind: Kind = "document"
) -> tuple[Document, Chunk]:
    source = SourceFile(Path("/notes/a.md"), len(text), 1, 1)
    whole = Document(source, title, "markdown", kind, None, text, (), "hash")
    return whole, Chunk(
        "id", 0, text, 0, len(text), 1, 1, None, None, headings, len(text.split()), None, None, kind, None
    )


@pytest.mark.parametrize(
    ("title", "headings", "expected"),
    [
        ("Manual", (), "Manual"),
        (None, ("Clocks",), "Clocks"),
        ("Manual", ("Bus", "Clocks", "Divider"), "Manual > Clocks > Divider"),
        ("Manual", ("Manual", "Divider"), "Manual > Divider"),
        ("A  title\n over lines", ("", "x\ty"), "A title over lines > x y"),
        (None, (), ""),
        ("", ("",), ""),
    ],
)
def test_the_header_is_the_title_and_the_last_two_headings_on_one_line(
    title: str | None, headings: tuple[str, ...], expected: str
) -> None:
    document, chunk = made("The divider is even.", title, headings)
    assert header(document, chunk) == expected
    whole = passage_text(document, chunk, Words(), HEADER_TOKENS)
    assert whole == (f"{expected}\nThe divider is even." if expected else "The divider is even.")


def test_a_text_that_begins_with_its_header_does_not_get_it_twice() -> None:
    document, chunk = made("Manual\n\nThe divider is even.", "Manual")
    assert passage_text(document, chunk, Words(), HEADER_TOKENS) == chunk.text


def test_code_stands_under_the_name_of_its_file_and_no_heading() -> None:
    document, chunk = made("int f(void);", "f.c", ("Functions",), kind="code")
    assert passage_text(document, chunk, Words(), HEADER_TOKENS) == f"{document.source.path.name}\nint f(void);"


def test_long_titles_and_headings_end_at_a_word() -> None:
    document, chunk = made("Text.", "title " * 100, ("heading " * 100, "x" * 500))
    title, heading, last = header(document, chunk).split(" > ")
    assert set(title.split()) == {"title"}
    assert set(heading.split()) == {"heading"}
    assert (len(title) <= TITLE_CHARS, len(heading) <= HEADING_CHARS, len(last)) == (True, True, HEADING_CHARS)


@pytest.mark.parametrize("room", [0, 1, 2, 3, 5, 100])
def test_a_header_without_room_is_shortened_by_words_and_then_left_out(room: int) -> None:
    document, chunk = made("Text.", "one two three four five six")
    head, _, text = passage_text(document, chunk, Words(), room).rpartition("\n")
    assert text == "Text."
    assert "one two three four five six".startswith(head)
    assert len(head.split()) + bool(head) <= room
    assert bool(head) == (room > 1)


NAMES = st.one_of(
    st.none(),
    st.text(max_size=200),
    st.sampled_from(["zażółć gęślą jaźń " * 12, "\ufdfa" * 90, "日本語" * 60, "0x1f_" * 40, "a b c " * 40]),
)


@settings(max_examples=300, deadline=None)
@given(NAMES, st.lists(NAMES.map(lambda name: name or ""), max_size=4), st.text(min_size=1, max_size=80))
def test_a_passage_ends_with_its_chunk_and_is_never_more_than_window_and_header(
    xlmr: Tokenizer, title: str | None, headings: list[str], text: str
) -> None:
    document, chunk = made(text, title, tuple(headings))
    passage = passage_text(document, chunk, xlmr, HEADER_TOKENS)
    assert passage.endswith(text)
    head = passage.removesuffix(text)
    assert head == "" or (head.endswith("\n") and head.strip())
    assert "\n" not in head[:-1]
    assert xlmr.count(head) <= HEADER_TOKENS
    assert xlmr.count(passage) <= HEADER_TOKENS + xlmr.count(text)

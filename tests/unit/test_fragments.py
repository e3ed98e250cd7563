# SPDX-License-Identifier: GPL-2.0-only
"""What is shown of found chunks: joined to the text they were cut from, nothing twice, cut where a reader stops."""

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
from bigos.fragments import Span, cut_text, excerpt, joined, part, unrepeated
from bigos.lexical import TermVector, terms, vector
from bigos.types import Block, Chunk, Document, Kind, SourceFile

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
    for number, piece in enumerate(parts):
        blocks.append(Block(piece, len(text), None, 1 + text.count("\n") if lines else None, (f"Part {number}",)))
        text += piece
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


# --- nothing twice ---------------------------------------------------------------------------------------------------


def question(text: str) -> TermVector:
    return vector(dict.fromkeys(terms(text), 1.0))


def line_of(text: str, position: int) -> int:
    return 1 + text.count("\n", 0, position)


def check_place(document: Document, shown: Chunk) -> None:
    """Text, span and lines of what is shown say the same."""
    assert shown.text == document.text[shown.char_start : shown.char_end]
    if shown.line_start is not None:
        begin = shown.char_end - len(shown.text.lstrip())
        assert shown.line_start == line_of(document.text, begin)
        assert shown.line_end == line_of(document.text, shown.char_start + len(shown.text.rstrip()) - 1)


@settings(max_examples=150, deadline=None)
@given(documents(), st.integers(8, 40), st.integers(0, 20), st.data())
def test_in_any_ranking_every_character_is_shown_and_overlaps_only_once(
    document: Document, tokens: int, overlap: int, data: st.DataObject
) -> None:
    chunks = list(chunk_document(document, Words(), Window(tokens, min(overlap, tokens // 2))))
    ranking = data.draw(st.permutations(chunks))
    shown: list[Span] = []
    times = [0] * len(document.text)
    for chunk in ranking:
        rest = unrepeated(chunk, shown)
        check_place(document, rest)
        assert rest.text.strip()
        assert replace(rest, text="", char_start=0, char_end=0, line_start=0, line_end=0) == replace(
            chunk, text="", char_start=0, char_end=0, line_start=0, line_end=0
        )
        shown.append((rest.char_start, rest.char_end))
        for position in range(rest.char_start, rest.char_end):
            times[position] += 1
    for position, count in enumerate(times):
        if not document.text[position].isspace():
            assert count >= 1


TWO = "one two three\nfour five six\n    seven eight nine\nten eleven twelve\nthirteen\n"
CHUNK = Chunk(
    doc_id="d", index=0, text=TWO, char_start=100, char_end=100 + len(TWO), line_start=11, line_end=15, page=None,
    page_end=None, heading_path=(), token_count=13, language=None, chunk_language=None, kind="document",
    code_language=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "text", "lines"),
    [
        ([], TWO, (11, 15)),
        ([(0, 100), (178, 300)], TWO, (11, 15)),
        ([(90, 114)], TWO[14:], (12, 15)),
        ([(90, 113)], TWO[14:], (12, 15)),
        ([(90, 128)], TWO[28:], (13, 15)),  # the indentation stays
        ([(90, 107)], TWO[8:], (11, 15)),
        ([(167, 300)], TWO[:66], (11, 14)),
        ([(90, 114), (114, 118), (167, 300)], TWO[19:66], (12, 14)),
        ([(90, 160)], TWO, (11, 15)),  # less than half would be left
        ([(90, 300)], TWO, (11, 15)),
        ([(120, 130)], TWO, (11, 15)),  # in the middle
    ],
)
def test_what_is_shown_already_is_left_out_at_both_ends(shown: list[Span], text: str, lines: tuple[int, int]) -> None:
    rest = unrepeated(CHUNK, shown)
    assert (rest.text, (rest.line_start, rest.line_end)) == (text, lines)
    assert TWO[rest.char_start - 100 : rest.char_end - 100] == text


def test_context_goes_as_a_whole_and_the_found_chunk_stays() -> None:
    core = (128, 149)
    assert unrepeated(CHUNK, [(90, 128)], core).text == TWO[28:]
    assert unrepeated(CHUNK, [(90, 149)], core).text == TWO[28:]
    assert unrepeated(CHUNK, [(90, 300)], core).text.strip() == "seven eight nine"


@pytest.mark.parametrize("change", [{"page": 3, "page_end": 4}, {"line_end": 99}])
def test_where_the_place_of_a_part_cannot_be_told_nothing_is_left_out(change: dict[str, int]) -> None:
    chunk = replace(CHUNK, **change)  # type: ignore[arg-type]
    assert unrepeated(chunk, [(90, 114)]) == chunk
    assert excerpt(chunk, 40, question("thirteen"))[0] == 0


# --- an excerpt ------------------------------------------------------------------------------------------------------

FUNCTIONS = """\
static void set_gain(int gain)
{
	write_register(GAIN, gain);
	write_register(APPLY, 1);
}

static void set_divider(int rate)
{
	int divider = parent / rate;

	write_register(DIVIDER, divider);
}

static void stop(void)
{
	write_register(ENABLE, 0);
}
"""


def code(text: str) -> Chunk:
    return replace(
        CHUNK, text=text, char_start=0, char_end=len(text), line_start=1, line_end=text.count("\n"), kind="code"
    )


@pytest.mark.parametrize(
    ("query", "begin"),
    [
        ("set_divider", "static void set_divider"),
        ("how is the divider set", "static void set_divider"),
        ("set_gain", "static void set_gain"),
        ("something else", "static void set_gain"),
        ("", "static void set_gain"),
    ],
)
def test_an_excerpt_begins_where_the_question_is_answered(query: str, begin: str) -> None:
    start, text = excerpt(code(FUNCTIONS), 140, question(query))
    assert text.startswith(begin)
    assert text == FUNCTIONS[start : start + len(text)]
    assert len(text) <= 140


def test_an_excerpt_of_prose_may_begin_at_a_sentence() -> None:
    prose = replace(
        CHUNK, text="The oven is cleaned once a week. " * 5 + "The fuse is behind the left panel. Turn it out."
    )
    start, text = excerpt(replace(prose, line_end=11), 60, question("where is the fuse"))
    assert text.startswith("The fuse is behind the left panel.")
    assert start == 165


@settings(max_examples=150, deadline=None)
@given(documents(), st.integers(0, 200), st.text("abwfd0123 \n.", max_size=20))
def test_an_excerpt_is_a_piece_of_the_text_and_its_place_can_be_told(document: Document, most: int, query: str) -> None:
    for chunk in chunk_document(document, Words(), Window(40, 4)):
        start, text = excerpt(chunk, most, question(query))
        assert len(text) <= most
        assert chunk.text[start : start + len(text)] == text
        if start:
            assert len(chunk.text) > most
            check_place(document, part(chunk, start, len(chunk.text)))

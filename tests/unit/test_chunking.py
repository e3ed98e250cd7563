# SPDX-License-Identifier: GPL-2.0-only
from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bigos import boundaries
from bigos.chunking import MOST_CHARS_PER_TOKEN, Tokens, chunk_document
from bigos.embedders import Window
from bigos.tokenizer import Tokenizer
from bigos.types import Block, Chunk, Document, Kind, SourceFile

MODEL = Path(__file__).parents[2] / "models" / "tokenizer" / "bge-m3-tokenizer.json"
ABC = "abcdefghijklmnopqrstuvwxyz"


class Words:
    """A token is a run of visible characters, at most eight long: quick, and honest about every method."""

    def count(self, text: str) -> int:
        return sum(len(piece) for piece in self.iter_offsets(text))

    def iter_offsets(self, text: str) -> Iterator[NDArray[np.int64]]:
        spans = [match.span() for match in re.finditer(r"\S{1,8}", text)]
        for at in range(0, len(spans), 100):
            yield np.array(spans[at : at + 100], dtype=np.int64)

    def separable(self, text: str, position: int) -> bool:
        return position in (0, len(text)) or text[position - 1].isspace() or text[position].isspace()


@pytest.fixture(scope="module")
def xlmr() -> Tokenizer:
    return Tokenizer.load(MODEL)


def document(text: str, kind: Kind = "document", blocks: tuple[Block, ...] | None = None) -> Document:
    source = SourceFile(Path("/notes/a.md"), len(text), 1, 1)
    whole = (Block(text, 0, None, 1),)
    return Document(source, "A", "text", kind, None, text, whole if blocks is None else blocks, "hash", (), "pl")


def chunks(text: str, tokens: int, overlap: int = 0, kind: Kind = "document", **kwargs: object) -> list[Chunk]:
    made = document(text, kind, kwargs.get("blocks"))  # type: ignore[arg-type]
    return list(chunk_document(made, Words(), Window(tokens, overlap)))


def words(count: int, first: int = 0) -> str:
    """`count` different words of eight characters: as many tokens."""
    return " ".join(f"w{first + i:07d}" for i in range(count))


# --- Properties ------------------------------------------------------------------------------------------------------

FRAGMENTS = st.one_of(
    st.sampled_from(
        [
            "Dzielnik zegara jest liczony raz. ",
            "Zob. np. rozdz. 3, ul. Długa. Koniec! ",
            "zażo\u0301łc\u0301 ge\u0328s\u0301la\u0328 ",
            "👩\u200d👩\u200d👧 👍🏽 🇵🇱🇵🇱 ",
            "\n",
            "\n\n",
            "\r\n",
            "\n \t\n\n",
            "\f",
            "\u2028",
            "int f(void)\n{\n\treturn 0;\n}\n\n",
            "        indented = 1\n",
            "def g():\n    pass\n",
            "\x00\x01\u200b",
            "\x1c \x1d",
            "\ufdfa\ufdfa",
            "=" * 40,
        ]
    ),
    st.integers(1, 400).map(lambda n: (ABC * 16)[:n]),
    st.integers(1, 60).map(lambda n: "e\u0301" * n),
    st.integers(1, 300).map(lambda n: " " * n),
    st.integers(1, 60).map(words),
    st.text(max_size=12),
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Blocks that hold all visible characters, with white space (and sometimes nothing) between them."""
    text, blocks = draw(st.sampled_from(["", "\n", "  \n\n"])), []
    page, lines = draw(st.booleans()), draw(st.booleans())
    number, first_line = 1, 1 + text.count("\n")
    trail: tuple[str, ...] = ()
    for _ in range(draw(st.integers(0, 6))):
        body = "".join(draw(st.lists(FRAGMENTS, max_size=8)))
        if draw(st.booleans()):
            trail = (*trail[: draw(st.integers(0, 2))], draw(st.sampled_from("ABC")))
        blocks.append(Block(body, len(text), number if page else None, first_line if lines else None, trail))
        gap = draw(st.sampled_from(["", "\n", "\n\n", " \t\n"]))
        text += body + gap
        first_line += body.count("\n") + gap.count("\n") + draw(st.integers(0, 2))  # lines that a loader left out
        number += draw(st.integers(0, 2))
    kind: Kind = draw(st.sampled_from(["document", "code"]))
    return document(text, kind, tuple(blocks))


@st.composite
def windows(draw: st.DrawFn) -> Window:
    size = draw(st.one_of(st.integers(8, 40), st.sampled_from([64, 128, 512])))
    return Window(size, draw(st.integers(0, size // 2)))


def place_of(made: Document, position: int) -> tuple[int | None, int | None]:
    """The page and line of a visible character, looked up the slow way."""
    block = next(b for b in made.blocks if b.char_start <= position < b.char_start + len(b.text))
    if block.line_start is None:
        return block.page, None
    return block.page, block.line_start + block.text[: position - block.char_start].count("\n")


def assert_sound(made: Document, tokenizer: Tokens, window: Window, found: list[Chunk]) -> None:
    covered, start = 0, -1
    for index, chunk in enumerate(found):
        assert chunk.index == index
        assert chunk.text == made.text[chunk.char_start : chunk.char_end]
        assert chunk.text.strip()
        assert chunk.token_count == tokenizer.count(chunk.text) <= window.tokens
        assert chunk.char_start > start
        assert chunk.char_end > covered
        assert not made.text[covered : chunk.char_start].strip()
        assert len(chunk.text) <= window.tokens * MOST_CHARS_PER_TOKEN
        start, covered = chunk.char_start, chunk.char_end
        first = start + len(chunk.text) - len(chunk.text.lstrip())
        last = start + len(chunk.text.rstrip()) - 1
        assert (chunk.page, chunk.line_start) == place_of(made, first)
        assert (chunk.page_end, chunk.line_end) == place_of(made, last)
        assert chunk.heading_path in {block.heading_path for block in made.blocks}
        if made.kind == "document":
            assert chunk.text == chunk.text.strip()
        else:
            assert chunk.text.split("\n")[0].strip()
            assert chunk.text.split("\n")[-1].strip()
    assert not made.text[covered:].strip()


@settings(max_examples=500, deadline=None)
@given(documents(), windows())
def test_chunks_cover_the_text_exactly_and_fit_the_window(made: Document, window: Window) -> None:
    assert_sound(made, Words(), window, list(chunk_document(made, Words(), window)))


@settings(max_examples=250, deadline=None)
@given(documents(), windows())
def test_chunks_of_the_real_tokenizer_cover_the_text_and_fit(xlmr: Tokenizer, made: Document, window: Window) -> None:
    found = list(chunk_document(made, xlmr, window))
    assert_sound(made, xlmr, window, found)
    assert found == list(chunk_document(made, xlmr, window))


LINES = st.lists(
    st.sampled_from(
        ["", "", "int f(void)", "{", "}", "\treturn 0;", "\tif (x) {", "\t}", "# note", "  ", "def g(): ", "x = 1  # ą"]
    ),
    min_size=1,
    max_size=120,
)


@settings(max_examples=300, deadline=None)
@given(LINES, windows(), st.sampled_from(["\n", "\r\n"]))
def test_code_chunks_are_whole_lines_as_an_editor_counts_them(lines: list[str], window: Window, end: str) -> None:
    text = end.join(lines) + end
    for chunk in chunk_document(document(text, "code"), Words(), window):
        assert chunk.line_start is not None
        assert chunk.line_end is not None
        assert chunk.text == end.join(lines[chunk.line_start - 1 : chunk.line_end])


# --- Where prose ends ------------------------------------------------------------------------------------------------


def test_a_text_that_fits_is_one_chunk() -> None:
    [chunk] = chunks("\n\n  " + words(16) + " \n", 16)
    assert chunk.text == words(16)
    assert (chunk.char_start, chunk.line_start, chunk.line_end) == (4, 3, 3)


@pytest.mark.parametrize("text", ["", " \n\t\n"])
def test_a_text_without_anything_visible_has_no_chunks(text: str) -> None:
    assert chunks(text, 16) == []


def test_a_paragraph_is_preferred_to_a_later_line_and_sentence() -> None:
    head = words(15)
    text = head + "\n\n" + words(2, 50) + ".\nNext. " + words(60, 100)
    assert chunks(text, 20)[0].text == head


def test_a_line_end_is_preferred_to_a_later_sentence() -> None:
    head = words(15) + "."
    text = head + "\nNext, " + words(1) + ". And " + words(60, 100)
    assert chunks(text, 20)[0].text == head


def test_the_end_of_a_wrapped_line_is_no_better_than_any_word() -> None:
    head = words(13) + "\nwrapped " + words(2) + "."
    text = head + " And\nwrapped " + words(60, 100)
    assert chunks(text, 20)[0].text == head


def test_a_sentence_is_preferred_to_a_later_word() -> None:
    head = words(15) + " Koniec."
    assert chunks(head + " Dalej " + words(60), 20)[0].text == head


@pytest.mark.parametrize("abbreviation", ["np.", "tzn.", "m.in.", "ok.", "ul.", "prof.", "(np.", "e.g.", "Fig.", "J."])
def test_an_abbreviation_does_not_end_a_sentence(abbreviation: str) -> None:
    text = words(15) + f" {abbreviation} Nowak " + words(60)
    assert not chunks(text, 20)[0].text.endswith(abbreviation)


@pytest.mark.parametrize("end", ["zegar.", "Co?", "Stop!", "koniec.”", "(tak.)", "itd...", "skrz."])
def test_other_stops_do(end: str) -> None:
    text = words(15) + f" {end} Nowak " + words(60)
    assert chunks(text, 20)[0].text.endswith(end)


def test_a_number_that_begins_a_line_is_no_sentence() -> None:
    match = re.search(r"\. ", "Kroki:\n3. Reset")
    assert match
    assert not boundaries.ends_sentence("Kroki:\n3. Reset", match)
    match = re.search(r"\. ", "W roku 2019. Potem")
    assert match
    assert boundaries.ends_sentence("W roku 2019. Potem", match)


def test_words_are_not_cut_while_there_is_white_space() -> None:
    for chunk in chunks(words(100), 16, 4):
        assert re.fullmatch(r"w\d{7}( w\d{7})*", chunk.text)


@pytest.mark.parametrize(
    "cluster", ["e\u0301", "👍🏽", "👩\u200d👩\u200d👧", "🇵🇱", "가\u11a8", "🏴\U000e0067\U000e007f"]
)
def test_a_long_run_is_cut_between_graphemes(cluster: str) -> None:
    found = chunks(cluster * 200, 8)
    assert len(found) > 3
    assert all(chunk.text.replace(cluster, "") == "" for chunk in found)


def section(name: str, count: int, at: int) -> Block:
    return Block(name + " " + words(count - 1), at, None, None, (name,))


def sections(*counts: int) -> tuple[str, tuple[Block, ...]]:
    text, blocks = "", []
    for name, count in zip("ABCDEFGH", counts, strict=False):
        blocks.append(section(name, count, len(text)))
        text += blocks[-1].text + "\n"
    return text, tuple(blocks)


def test_a_heading_in_the_second_half_ends_the_window() -> None:
    text, blocks = sections(12, 30)
    first, second = chunks(text, 20, 4, blocks=blocks)[:2]
    assert first.text == blocks[0].text
    assert second.text.startswith("B ")
    assert (first.heading_path, second.heading_path) == (("A",), ("B",))


def test_a_heading_in_the_first_half_does_not() -> None:
    text, blocks = sections(8, 40)
    first = chunks(text, 20, blocks=blocks)[0]
    assert "B " in first.text
    assert first.heading_path == ("B",)


def test_small_sections_share_a_window() -> None:
    text, blocks = sections(5, 5, 5)
    [chunk] = chunks(text, 20, blocks=blocks)
    assert chunk.token_count == 15
    assert chunk.heading_path == ("A",)


def test_a_rest_that_is_a_crumb_is_shared_evenly() -> None:
    sizes = [chunk.token_count for chunk in chunks(words(42), 20)]
    assert sizes == [20, 11, 11]


def test_a_heading_that_leaves_more_than_a_crumb_is_kept_when_the_rest_is_shared() -> None:
    text, blocks = sections(18, 4)
    assert [chunk.token_count for chunk in chunks(text, 20, blocks=blocks)] == [18, 4]


# --- Overlap ---------------------------------------------------------------------------------------------------------


def test_windows_overlap_by_whole_words_and_no_more_than_asked() -> None:
    found = chunks(words(100), 20, 5)
    for before, after in pairwise(found):
        shared = before.text[after.char_start - before.char_start :]
        assert Words().count(shared) == 5


def test_the_overlap_begins_with_a_sentence_when_there_is_one() -> None:
    text = words(13) + ". Drugie zdanie tu " + words(1) + ". " + words(50, 20)
    first, second = chunks(text, 20, 6)[:2]
    assert first.text.endswith(words(1) + ".")
    assert second.text.startswith("Drugie")


def test_the_overlap_does_not_reach_over_a_heading() -> None:
    text, blocks = sections(8, 40)
    first, second = chunks(text, 12, 6, blocks=blocks)[:2]
    assert first.heading_path == ("A",)
    assert second.text.startswith("B ")


def test_a_heading_begins_the_overlap_rather_than_a_sentence_before_it() -> None:
    before = words(14) + ". Zdanie " + words(1)
    blocks = (Block(before, 0, None, None, ("A",)), section("B", 10, len(before) + 1))
    text = before + " " + blocks[1].text + "\n\n" + words(60)
    blocks = (blocks[0], replace(blocks[1], text=text[blocks[1].char_start :]))
    first, second = chunks(text, 36, 18, blocks=blocks)[:2]
    assert first.text == before + " " + section("B", 10, 0).text
    assert second.text.startswith("B ")


def test_an_overlap_of_the_whole_window_still_ends() -> None:
    found = chunks(words(200), 10, 10)
    assert found[-1].text.endswith("w0000199")
    assert len(found) <= 60


# --- Pages, lines, language ------------------------------------------------------------------------------------------


def test_a_chunk_over_two_pages_names_both() -> None:
    text = words(6) + "\n" + words(6)
    half = len(words(6))
    blocks = (Block(text[:half], 0, 7), Block(text[half + 1 :], half + 1, 8))
    [chunk] = chunks(text, 20, blocks=blocks)
    assert (chunk.page, chunk.page_end, chunk.line_start, chunk.line_end) == (7, 8, None, None)


def test_lines_follow_the_block_when_the_loader_left_lines_out() -> None:
    text = "one\ntwo\n\nthree"
    blocks = (Block("one\ntwo", 0, None, 4), Block("three", 9, None, 20))
    [chunk] = chunks(text, 20, blocks=blocks)
    assert (chunk.line_start, chunk.line_end) == (4, 20)


def test_only_documents_are_asked_for_their_language() -> None:
    for kind, language in (("document", "en"), ("code", None)):
        made = document("some words", kind)  # type: ignore[arg-type]
        [chunk] = chunk_document(made, Words(), Window(16, 0), language_of=lambda text: "en" if text else None)
        assert (chunk.chunk_language, chunk.language) == (language, "pl")


def test_chunks_carry_their_document() -> None:
    made = replace(document("x = 1", "code"), code_language="python")
    [chunk] = chunk_document(made, Words(), Window(16, 0))
    assert (chunk.doc_id, chunk.kind, chunk.code_language) == (made.source.doc_id, "code", "python")


def test_a_window_too_small_for_one_character_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 8"):
        list(chunk_document(document("x"), Words(), Window(7, 0)))


# --- Code ------------------------------------------------------------------------------------------------------------


def function(name: str, lines: int) -> str:
    return f"int {name}(void)\n{{\n" + "".join(f"\tcall{i}();\n" for i in range(lines)) + "}\n"


def starts_of(text: str, tokens: int, overlap: int = 0) -> list[str]:
    return [chunk.text.split("\n")[0] for chunk in chunks(text, tokens, overlap, "code")]


def test_code_is_cut_before_a_definition_after_a_blank_line() -> None:
    text = "\n".join(function(name, 10) for name in "abcdef")
    assert starts_of(text, 20, 4) == [f"int {name}(void)" for name in "abcdef"]


def test_code_without_blank_lines_is_cut_after_the_closing_brace() -> None:
    text = "".join(function(name, 10) for name in "abcdef")
    assert starts_of(text, 20, 4) == [f"int {name}(void)" for name in "abcdef"]


def test_a_dedent_ends_a_definition_where_braces_do_not() -> None:
    text = "".join(f"def {name}():\n" + "    call()\n" * 12 for name in "abcdef")
    assert starts_of(text, 20, 4) == [f"def {name}():" for name in "abcdef"]


def test_a_comment_stays_with_the_definition_below_it() -> None:
    text = "".join(f"/* {name} */\n" + function(name, 9) + "\n" for name in "abcd")
    assert starts_of(text, 20, 4) == [f"/* {name} */" for name in "abcd"]


def test_a_comment_over_several_lines_stays_with_the_definition_below_it() -> None:
    text = "".join(f"/*\n * {name}\n */\n" + function(name, 6) for name in "abcd")
    assert starts_of(text, 18, 4) == ["/*"] * 4


def test_a_definition_is_preferred_to_a_later_blank_line() -> None:
    text = function("f", 9) + "\n" + "int g(void)\n{\n\tcall();\n\n" + "\tcall();\n" * 40
    assert starts_of(text, 20)[1] == "int g(void)"


def test_a_function_longer_than_a_window_overlaps_by_whole_lines() -> None:
    found = chunks(function("f", 60), 20, 4, "code")
    assert len(found) > 3
    for before, after in pairwise(found):
        assert before.line_end is not None
        assert after.line_start is not None
        assert 1 <= before.line_end - after.line_start + 1 <= 4
        assert after.text.startswith(("\t", "}"))


def test_a_blank_line_inside_a_definition_is_preferred_to_a_later_line() -> None:
    text = "int f(void)\n{\n" + "\tcall();\n" * 12 + "\n" + "\tcall();\n" * 40
    assert chunks(text, 20, 0, "code")[0].text.endswith("call();")
    assert chunks(text, 20, 0, "code")[0].line_end == 14


def test_code_keeps_its_indentation_and_trailing_blanks_but_no_blank_lines() -> None:
    [chunk] = chunks("\n\n    x = 1\n    y = 2  \n\n", 16, 0, "code")
    assert chunk.text == "    x = 1\n    y = 2  "
    assert (chunk.line_start, chunk.line_end) == (3, 4)


def test_pieces_of_a_line_longer_than_a_window_carry_its_number() -> None:
    text = "int a;\nint b;\n" + "0123456789abcdef" * 40 + "\nint c;\n"
    found = chunks(text, 10, 2, "code")
    pieces = [chunk for chunk in found if "0123" in chunk.text]
    assert len(pieces) >= 8
    assert {chunk.line_start for chunk in pieces} == {3}
    assert found[0].text == "int a;\nint b;"
    assert found[-1].line_end == 4


# --- Cost ------------------------------------------------------------------------------------------------------------


def tiny_blocks(count: int) -> Document:
    parts, blocks, at = [], [], 0
    for i in range(count):
        body = f"Heading {i}\n\nbody {i}."
        blocks.append(Block(body, at, None, 1 + 4 * i, (f"H{i // 3}",)))
        parts.append(body)
        at += len(body) + 2
    return document("\n\n".join(parts), "document", tuple(blocks))


HARD_TEXTS = {
    "one line without spaces": lambda n: document((ABC * (n // 26 + 1))[:n]),
    "one line of code": lambda n: document((ABC * (n // 26 + 1))[:n], "code"),
    "blank lines": lambda n: document("x" + "\n" * n + "y"),
    "blank lines of code": lambda n: document("x" + "\n" * n + "y", "code"),
    "stops": lambda n: document("." * n),
    "one word a line": lambda n: document("x\n" * (n // 2), "code"),
    "piles of marks": lambda n: document(("a" + "\u0301" * 499) * (n // 500)),
    "tiny blocks": lambda n: tiny_blocks(n // 20),
}


@pytest.mark.parametrize("name", HARD_TEXTS)
def test_time_is_linear_in_the_text(name: str) -> None:
    def seconds(size: int) -> float:
        made = HARD_TEXTS[name](size)
        started = time.process_time()
        for _ in chunk_document(made, Words(), Window(128, 16)):
            pass
        return time.process_time() - started

    seconds(10_000)
    # Whatever else the machine does makes it slower, never faster.
    assert any(seconds(400_000) < 8 * 3 * max(seconds(50_000), 0.01) for _ in range(3))


def test_a_run_of_stops_is_read_once() -> None:
    started = time.process_time()
    assert boundaries.last_sentence("." * 40_000 + "x", 0, 40_001) is None
    assert time.process_time() - started < 0.5


def test_nul_runs_do_not_crawl(xlmr: Tokenizer) -> None:
    made = document("x" + "\x00" * 200_000 + "y")
    assert len(list(chunk_document(made, xlmr, Window(512, 64)))) < 40


def test_chunks_are_made_one_at_a_time_in_little_memory(xlmr: Tokenizer) -> None:
    made = document(words(200_000))
    made_chunks = chunk_document(made, xlmr, Window(512, 64))
    next(made_chunks)
    tracemalloc.start()
    try:
        for _ in zip(made_chunks, range(200), strict=False):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000

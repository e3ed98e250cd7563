# SPDX-License-Identifier: GPL-2.0-only
from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigos.errors import EmbedderError
from bigos.tokenizer import PIECE_CHARS, Tokenizer

MODEL = Path(__file__).parents[2] / "models" / "tokenizer" / "bge-m3-tokenizer.json"

PROSE = (
    "Dzielnik zegara magistrali SPI w układach i.MX jest liczony w funkcji mx51_ecspi_clkdiv().\n"
    "The pre-divider is at most 16; the post-divider is a power of two, up to 2^15.\n\n"
    "Zażółć gęślą jaźń — “quotes”, ﬁgures ½ and № 5.\r\n\tif (x < 0x1f)\n"
)
ODD_TEXT = st.text(
    st.one_of(
        st.sampled_from(
            "ab cd  \n\n\t\r.ząęł\u00a0\u0301\u0328ﬁ½👍🏽"
            "\u200d🇵🇱\x00\x01\x1c\ufdfaͺ▁日本語\ufeff\u2028가\u1100\u1161\ud800"
        ),
        st.characters(),
    ),
    max_size=60,
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(MODEL)


def test_missing_file_names_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="is missing") as failure:
        Tokenizer.load(tmp_path / "nowhere.json")
    assert failure.value.fix == "./setup.sh"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"version": "1.0"}'])
def test_damaged_file_names_the_command_that_rebuilds_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(EmbedderError, match="is damaged") as failure:
        Tokenizer.load(path)
    assert failure.value.fix == "./setup.sh"


def test_offsets_point_at_the_words_of_the_original_text(tokenizer: Tokenizer) -> None:
    text = "  hello\u00a0 świat "
    assert [text[a:b] for a, b in tokenizer.offsets(text)] == ["hell", "o", "świat"]


def test_a_letter_with_combining_marks_is_one_span(tokenizer: Tokenizer) -> None:
    text = "ge\u0328s\u0301la\u0328 x"
    assert tokenizer.count(text) == tokenizer.count("gęślą x")
    spans = [text[a:b] for a, b in tokenizer.offsets(text)]
    assert not any(span[:1] in "\u0328\u0301" for span in spans)
    assert "".join(dict.fromkeys(spans)).endswith("la\u0328x")


def test_a_ligature_of_several_words_gives_them_all_its_own_span(tokenizer: Tokenizer) -> None:
    assert {tuple(span) for span in tokenizer.offsets("a \ufdfa b")[1:-1].tolist()} == {(2, 3)}


def test_empty_and_blank_texts_have_no_tokens(tokenizer: Tokenizer) -> None:
    for text in ("", " ", "\n\t \u00a0"):
        assert tokenizer.count(text) == 0
        assert tokenizer.offsets(text).shape == (0, 2)


def test_special_tokens_in_a_text_are_ordinary_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.count("</s>") > 1
    [ids] = tokenizer.encode_batch(["</s>"])
    assert ids.count(2) == 1


def test_a_batch_is_framed_by_specials_and_never_cut(tokenizer: Tokenizer) -> None:
    texts = ["zegar", "", PROSE * 40]
    batch = tokenizer.encode_batch(texts)
    assert [len(ids) for ids in batch] == [tokenizer.count(text) + 2 for text in texts]
    assert all(ids[0] == 0 and ids[-1] == 2 for ids in batch)


def test_a_lone_surrogate_is_counted_not_refused(tokenizer: Tokenizer) -> None:
    assert tokenizer.offsets("a \ud800 b").tolist()[-1] == [4, 5]
    assert len(tokenizer.encode_batch(["a \udcff b"])) == 1


@settings(max_examples=400, deadline=None)
@given(ODD_TEXT)
def test_spans_lie_in_the_text_and_never_go_back(tokenizer: Tokenizer, text: str) -> None:
    spans = tokenizer.offsets(text).tolist()
    assert len(spans) == tokenizer.count(text)
    assert all(0 <= a < b <= len(text) for a, b in spans)
    assert all(a <= c and b <= d for (a, b), (c, d) in pairwise(spans))


@settings(max_examples=400, deadline=None)
@given(ODD_TEXT, st.integers(0, 60))
def test_a_separable_cut_changes_no_token(tokenizer: Tokenizer, text: str, position: int) -> None:
    if tokenizer.separable(text, position):
        whole, left, right = tokenizer.encode_batch([text, text[:position], text[position:]])
        assert left[1:-1] + right[1:-1] == whole[1:-1]
        before = sum(start < position for start, _ in tokenizer.offsets(text).tolist())
        assert before == len(left) - 2


@pytest.mark.parametrize("shift", range(0, 12, 2))
def test_pieces_of_a_long_text_give_the_tokens_of_the_whole(tokenizer: Tokenizer, shift: int) -> None:
    text = " " * shift + PROSE * (3 * PIECE_CHARS // len(PROSE))
    assert len(list(tokenizer.iter_offsets(text))) > 2
    one = tokenizer.offsets(PROSE).tolist()
    expected = [[a + i, b + i] for i in range(shift, len(text), len(PROSE)) for a, b in one]
    assert tokenizer.offsets(text).tolist() == expected
    assert tokenizer.count(text) == len(expected)


def test_a_long_line_without_spaces_takes_linear_time(tokenizer: Tokenizer) -> None:
    def seconds(size: int) -> float:
        text = os.urandom(size // 2).hex()
        started = time.process_time()
        assert tokenizer.count(text) > size // 16
        return time.process_time() - started

    seconds(50_000)
    # Whatever else the machine does makes it slower, never faster.
    assert any(seconds(800_000) < 8 * 2.5 * max(seconds(100_000), 0.02) for _ in range(3))

# SPDX-License-Identifier: GPL-2.0-only
"""Terms of texts and questions, and the lexicon that carries a question's words over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigos.errors import ConfigError
from bigos.lexical import TermVector, fold, passage_vector, term_number, terms, vector
from bigos.lexicon import TRANSLATION_WEIGHT, Lexicon, read_lexicon

LEXICON = Lexicon(
    [
        ("dzielnik", "divider"),
        ("dzielnik", "div"),
        ("zegar", "clock"),
        ("magistrala", "bus"),
        ("pin", "pin"),
        ("klucz", "key"),
        ("drzewo urządzeń", "device tree"),
        ("ławka", "bench"),
    ]
)
SHIPPED = Path(__file__).resolve().parents[2] / "data" / "lexicon"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Dzielnika zegara", ["dziel", "zegar"]),
        ("źródło ŹRÓDŁA zrodlo", ["zrodl", "zrodl", "zrodl"]),
        ("spi_imx_can_dma()", ["spi", "imx", "dma", "spi_imx_can_dma"]),
        ("canDMATransfer", ["dma", "trans", "candmatransfer"]),
        ('"fsl,imx8mm"', ["fsl", "imx", "8", "mm", "imx8mm", "fsl,imx8mm"]),
        ("CONFIG_SPI_IMX=y", ["confi", "spi", "imx", "config_spi_imx", "y"]),
        ("what is the clock", ["clock"]),
        ("tcp/ip, v1.2", ["tcp", "ip", "v", "1", "2", "12", "v1", "v1.2", "v12"]),
        ("i.MX8M", ["mx", "8", "m", "imx", "mx8m", "i.mx8m", "imx8m"]),
        ("OP-TEE read-only", ["op", "tee", "optee", "op-tee", "read", "reado", "read-only"]),
    ],
)
def test_a_text_gives_words_cut_short_parts_of_identifiers_and_identifiers(text: str, wanted: list[str]) -> None:
    assert list(terms(text)) == wanted


def test_folding_takes_marks_off_and_keeps_letters() -> None:
    assert fold("Zażółć gęślą JAŹŃ") == "zazolc gesla jazn"
    assert fold("Straße ÉTÉ Ωμέγα") == "straße ete ωμεγα"


@given(st.text())
def test_any_text_has_terms_that_a_vector_can_hold(text: str) -> None:
    found = passage_vector([text])
    assert len(set(found.indices)) == len(found.indices) == len(found.values)
    assert all(0 <= index < 1 << 32 for index in found.indices)
    assert all(value > 0 for value in found.values)
    assert bool(found) == any(True for _ in terms(text))


@given(st.lists(st.sampled_from(["clock", "divider", "spi_imx", "zegar", "canDMA"]), min_size=1, max_size=30))
def test_what_a_passage_says_is_found_by_asking_for_it(words: list[str]) -> None:
    asked = Lexicon().question_vector(" ".join(words), None)
    assert set(asked.indices) == set(passage_vector([" ".join(words)], {"spi_imx", "canDMA"} & set(words)).indices)


def test_where_a_name_is_defined_it_weighs_more_than_where_it_is_used() -> None:
    asked = Lexicon().question_vector("who calls spi_imx_can_dma", "en")
    weights = dict(zip(asked.indices, asked.values, strict=True))

    def likeness(text: str, *defined: str) -> float:
        found = passage_vector([text], defined)
        return sum(value * weights.get(index, 0.0) for index, value in zip(found.indices, found.values, strict=True))

    used = likeness("if (spi_imx_can_dma(spi) || spi_imx_can_dma(other))", "spi_imx_probe")
    assert likeness("bool spi_imx_can_dma(spi)", "spi_imx_can_dma") > used
    assert used > likeness("the clock of the bus", "clock") == 0


def test_a_term_said_again_counts_less_each_time_and_in_a_long_text_less_than_in_a_short_one() -> None:
    def weight(text: str) -> float:
        (number,) = vector({"clock": 1}).indices
        found = passage_vector([text])
        return dict(zip(found.indices, found.values, strict=True))[number]

    once, twice, thrice = (weight("clock " * times) for times in (1, 2, 3))
    assert 0 < thrice - twice < twice - once < once
    assert weight("clock " + "other " * 300) < once


def test_terms_that_share_a_number_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigos.lexical.zlib.crc32", lambda _bytes: 7)
    assert vector({"a": 1, "b": 2}) == TermVector((7,), (3,))


@pytest.mark.parametrize(
    ("word", "language", "wanted"),
    [
        ("dzielnik", "pl", ["divider", "div"]),
        ("dzielnikami", "pl", ["divider", "div"]),
        ("magistralami", "pl", ["bus"]),
        ("pinu", "pl", ["pin"]),
        ("lawce", "pl", []),
        ("lawka", "pl", ["bench"]),
        ("dividers", "en", ["dzielnik"]),
        ("keys", "en", ["klucz"]),
        ("divider", "pl", []),
        ("dzielnik", "en", []),
        ("divider", None, ["dzielnik"]),
        ("zegarmistrz", "pl", []),
        ("clockwork", "en", ["zegar"]),
        ("x", None, []),
    ],
)
def test_an_inflected_word_finds_its_base_forms_translations(
    word: str, language: str | None, wanted: list[str]
) -> None:
    assert LEXICON.translations(word, language) == wanted


def test_a_question_brings_its_translations_with_less_weight() -> None:
    asked = LEXICON.question_vector("jak ustawić dzielnik", "pl")
    wanted = vector({"ustaw": 1, "dziel": 1, "divid": TRANSLATION_WEIGHT, "div": TRANSLATION_WEIGHT})
    assert dict(zip(asked.indices, asked.values, strict=True)) == dict(zip(wanted.indices, wanted.values, strict=True))


@pytest.mark.parametrize(
    ("question", "language", "term"),
    [
        ("węzeł drzewa urządzeń", "pl", "tree"),
        ("węzeł drzewa urządzeń", None, "devic"),
        ("a device tree node", "en", "drzew"),
    ],
)
def test_two_words_that_mean_something_of_their_own_are_translated(
    question: str, language: str | None, term: str
) -> None:
    asked = LEXICON.question_vector(question, language)
    assert vector({term: 1}).indices[0] in asked.indices
    assert vector({"tree": 1}).indices[0] not in LEXICON.question_vector("drzewa i urządzenia", "pl").indices


@pytest.mark.parametrize(
    ("question", "language", "wanted"),
    [
        ("jak ustawić dzielnik zegara?", "pl", [{"ustaw"}, {"dziel", "divid", "div"}, {"zegar", "clock"}]),
        ("dzielnik i dzielnika; divider", "pl", [{"dziel", "divid", "div"}]),
        ("drzewo urządzeń", "pl", [{"drzew"}, {"urzad"}]),
        ("mx51_clkdiv", "en", [{"mx"}, {"clkdi"}, {"mx51", "mx51_clkdiv"}, {"= mx51"}, {"= mx51_clkdiv"}]),
        (
            "płytka i.MX8M",
            None,
            [
                {"plytk"},
                {"mx"},
                {"imx"},
                {"mx8m", "i.mx8m", "imx8m"},
                {"= mx8m"},
                {"= i.mx8m"},
                {"= imx8m"},
            ],
        ),
        ("8 M", None, [{"8"}, {"m"}]),
        ("CONFIG_SPI", None, [{"confi"}, {"spi"}, {"= config_spi", "= spi"}]),
        ("dzielnik", None, [{"dziel", "divid", "div"}]),
        ("jak i kiedy", "pl", []),
        ("\ud800?", None, []),
    ],
)
def test_each_word_of_a_question_is_one_concept_with_its_translations(
    question: str, language: str | None, wanted: list[set[str]]
) -> None:
    assert LEXICON.concepts(question, language) == tuple(frozenset(map(term_number, terms)) for terms in wanted)


@pytest.mark.parametrize(
    ("question", "language", "wanted"),
    [
        ("jak ustawić dzielnik zegara i.MX8M?", "pl", "ustawić divider clock i.MX8M"),
        ("węzeł drzewa urządzeń", "pl", "węzeł device tree"),
        ("the divider of spi_imx_clk", "en", "dzielnik spi_imx_clk"),
        ("spi_imx_can_dma", "pl", None),
        ("jak i kiedy", "pl", None),
        ("dzielnik", None, None),
        ("dzielnik", "de", None),
        ("", "pl", None),
    ],
)
def test_a_gloss_is_the_question_word_by_word_in_the_other_language(
    question: str, language: str | None, wanted: str | None
) -> None:
    gloss = LEXICON.gloss(question, language)
    assert (gloss.text if gloss else None) == wanted
    if gloss:
        assert {gloss.language, language} == {"pl", "en"}


def test_a_symbol_is_looked_for_as_kconfig_and_as_c_call_it() -> None:
    asked = set(LEXICON.question_vector("CONFIG_SPI_IMX", None).indices)
    assert set(passage_vector(["CONFIG_SPI_IMX=y"]).indices) - set(passage_vector(["y"]).indices) <= asked
    assert set(passage_vector(["SPI_IMX"]).indices) <= asked


def test_a_word_that_is_asked_for_itself_keeps_its_weight() -> None:
    assert set(LEXICON.question_vector("div dzielnik", "pl").values) == {1.0, TRANSLATION_WEIGHT}
    number = vector({"div": 1}).indices[0]
    asked = LEXICON.question_vector("dzielnik div", "pl")
    assert dict(zip(asked.indices, asked.values, strict=True))[number] == 1.0


@pytest.mark.parametrize("text", ["", "the of a", "?!", "\ud800"])
def test_a_question_without_words_has_an_empty_vector_or_one_that_harms_nothing(text: str) -> None:
    assert len(LEXICON.question_vector(text, None).indices) <= 1


def test_the_lexicon_that_is_shipped_is_read_and_knows_the_trade() -> None:
    lexicon = read_lexicon(SHIPPED)
    assert "divider" in lexicon.translations("dzielnika", "pl")
    assert "interrupt" in lexicon.translations("przerwania", "pl")
    assert "próg" in lexicon.translations("threshold", "en")
    for file in SHIPPED.glob("*.tsv"):
        assert "SPDX-License-Identifier: " in file.read_text(encoding="utf-8").split("\n")[0]


def test_no_folder_is_an_empty_lexicon_unless_it_was_named(tmp_path: Path) -> None:
    assert read_lexicon(tmp_path / "none").translations("dzielnik", "pl") == []
    (tmp_path / "file").touch()
    for name in ("none", "file"):
        with pytest.raises(ConfigError, match="is no folder"):
            read_lexicon(tmp_path / name, required=True)


def test_a_hundred_thousand_joints_take_no_longer_than_their_length() -> None:
    few, many = (len(list(terms("a.b_c-" * count))) for count in (100, 20_000))
    assert many > 100 * few


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"dzielnik\n", "line 1 is no entry"),
        (b"# x\n\ndzielnik\t \n", "line 3 is no entry"),
        (b"\xff\t\xfe", "is not UTF-8"),
    ],
)
def test_a_file_that_is_no_lexicon_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "mine.tsv").write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(words)) as raised:
        read_lexicon(tmp_path)
    assert "mine.tsv" in raised.value.message

# SPDX-License-Identifier: GPL-2.0-only
"""Bytes become the text that their author wrote, in whatever encoding; line ends and unseen characters are settled."""

from __future__ import annotations

import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigos.loaders.encoding import clean, decode, unmarked_unicode

POLISH = "Zażółć gęślą jaźń – „pchnąć w tę łódź jeża”. ŻÓŁTE ŹDŹBŁA, ŚWIĘTO."
LETTERS = "Każda książka o jeździectwie opisuje, że koń potrafi być uparty, gdy się go źle prowadzi. Źródło: ŁÓDŹ."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_with_and_without_a_mark(encoding: str) -> None:
    text, _, warnings = decode(POLISH.encode(encoding))
    assert (text, warnings) == (POLISH, ())


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
        (b"\xff\xfe\0\0", "utf-32-le"),
        (b"\0\0\xfe\xff", "utf-32-be"),
    ],
)
def test_byte_order_marks_of_either_order(mark: bytes, encoding: str) -> None:
    assert decode(mark + POLISH.encode(encoding))[0] == POLISH


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_may_have_tables_and_arrows(encoding: str) -> None:
    table = "┌──────────┬─────────┐\n│ zażółć   │ gęślą → │\n└──────────┴─────────┘\nBezpieczne wątki – „tak”.\n" * 5
    assert decode(table.encode(encoding))[:2] == (table, encoding)


@pytest.mark.parametrize("values", [range(1, 32), range(9, 64), range(0x60, 0xA0)])
@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("order", ["little", "big"])
def test_small_numbers_are_no_text(values: range, width: int, order: Literal["little", "big"]) -> None:
    head = b"".join(value.to_bytes(width, order) for value in list(values) * 20)
    assert unmarked_unicode(head) is None


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_encodings_without_a_mark_when_it_can_be_nothing_else(encoding: str) -> None:
    assert decode(POLISH.encode(encoding))[:2] == (POLISH, encoding)


@pytest.mark.parametrize("encoding", ["cp1250", "iso-8859-2", "mac_latin2", "cp852"])
def test_polish_legacy_encodings_are_told_apart(encoding: str) -> None:
    assert decode(LETTERS.encode(encoding)) == (LETTERS, encoding, ())


@pytest.mark.parametrize("encoding", ["cp1250", "iso-8859-2", "mac_latin2", "cp852"])
@pytest.mark.parametrize(
    "text", ["książka ważna", "święto", "ŚCIEŻKA", "wejście i wyjście", "/* częstotliwość */ int f;"]
)
def test_a_few_letters_are_enough(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding))[0] == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("L'été dernier, des crêpes à la forêt près de Genève, voilà.", "cp1252"),
        ("Über die Größe der Straße läßt sich schön streiten.", "cp1252"),
        ("El niño comió una manzana; ¿qué más quería?", "cp1252"),
        ("© 2003 Jean-Pierre Müller", "cp1252"),
        ("“Quoted” – the text’s end…", "cp1252"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250"),
        ("Árvíztűrő tükörfúrógép", "iso-8859-2"),
        ("┌──────┐\n│ Żółw │\n├──────┤\n└──────┘", "cp852"),
        ("Съешь ещё этих мягких французских булок, да выпей чаю.", "cp1251"),
    ],
)
def test_other_languages_are_not_made_polish(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding))[0] == text


def test_a_long_english_text_with_one_polish_name_is_judged_by_the_name() -> None:
    text = "All work and no play. " * 5000 + "Wacław Sierpiński, Łódź" + " Nothing else here." * 5000
    for encoding in ("cp1250", "iso-8859-2"):
        assert decode(text.encode(encoding))[0] == text


def test_an_encoding_that_the_file_names_decides_what_the_bytes_leave_open() -> None:
    data = b"wi\xb9z"
    assert decode(data)[0] == decode(data, "windows-1250")[0] == "wiąz"
    assert decode(data, "iso-8859-2")[0] == "wišz"
    russian = "Привет".encode("koi8-r")
    assert decode(russian, "koi8-r")[:2] == ("Привет", "koi8-r")


@pytest.mark.parametrize("lie", ["iso-8859-1", "utf-16", "no-such-encoding", "base64", ""])
def test_a_false_declaration_does_not_win_over_valid_utf_8(lie: str) -> None:
    assert decode(POLISH.encode(), lie)[0] == POLISH


def test_a_declared_iso_8859_2_that_is_windows_1250_is_seen_through() -> None:
    assert decode(LETTERS.encode("cp1250"), "iso-8859-2")[0] == LETTERS


def test_utf_8_with_a_few_broken_bytes_stays_utf_8_and_warns() -> None:
    data = LETTERS.encode() + b" broken \xb9 here \xff. " + LETTERS.encode()
    text, encoding, warnings = decode(data)
    assert text == f"{LETTERS} broken \ufffd here \ufffd. {LETTERS}"
    assert encoding == "utf-8"
    assert len(warnings) == 1


def test_a_text_cut_inside_a_character_stays_utf_8() -> None:
    assert decode("jaźń i łąka ż".encode()[:-1])[0] == "jaźń i łąka \ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\rb\r", "a\nb\n"),
        (b"10%\r20%\ndone\n", "10%\r20%\ndone\n"),
        (b"a\r\nb\rc", "a\nb\rc"),
        (b"a\x0cb\x1cc\xc2\x85d\xe2\x80\xa8e\n", "a\x0cb\x1cc\x85d\u2028e\n"),
    ],
)
def test_only_what_an_editor_counts_is_a_line_end(data: bytes, text: str) -> None:
    assert decode(data)[0] == text


@given(st.binary())
def test_no_bytes_make_it_fail(data: bytes) -> None:
    text, _, _ = decode(data)
    text.encode("utf-8")


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_utf_8_comes_back_as_it_was(text: str) -> None:
    data = text.encode()
    if (
        not data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))
        and "\r" not in text
        and "\0" not in text
    ):
        assert decode(data)[0] == text


def test_clean_removes_what_is_not_seen_and_keeps_every_line() -> None:
    dirty = "za\u00adżółć\u200b \x1b[1;32mgęślą\x1b[0m\x07 N\bNA\bAZ\bZ _\bx\x0b\x0c\u2028\u0085koniec\ufeff\n\tx\0"
    assert clean(dirty) == "zażółć gęślą NAZ x    koniec\n\tx"


def test_clean_composes_letters() -> None:
    assert clean(unicodedata.normalize("NFD", POLISH)) == POLISH


@given(st.text())
def test_clean_is_stable_and_never_moves_a_line(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert once.count("\n") == text.count("\n")
    assert unicodedata.is_normalized("NFC", once)
    once.encode("utf-8")

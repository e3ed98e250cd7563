# SPDX-License-Identifier: GPL-2.0-only
"""Layout, hyphens, furniture and legibility on their own: nothing is lost, and only what they are for is changed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigos.loaders import LoadOptions, pdf
from bigos.loaders.hyphens import MARK, Hyphens
from bigos.loaders.legibility import judge, mend
from bigos.loaders.pdf_columns import gutters
from bigos.loaders.pdf_furniture import without_furniture
from bigos.loaders.pdf_layout import by_columns, flow, lay_out
from bigos.loaders.pdf_lines import Line, spans
from bigos.types import SourceFile
from pdf_files import PdfFile, PdfPage

WORDS = st.lists(st.text("abcdefóżź", min_size=1, max_size=9), min_size=1, max_size=9).map(" ".join)
LINES = st.lists(
    st.builds(
        lambda text, left, top, size: Line(text, left, top, left + 0.5 * size * len(text), top + size, size),
        WORDS,
        st.floats(0, 500),
        st.floats(0, 800),
        st.floats(4, 40),
    ),
    max_size=30,
)


def letters(texts: list[str]) -> Counter[str]:
    return Counter("".join("".join(texts).split()))


@given(LINES)
def test_every_letter_of_a_page_is_in_its_paragraphs(lines: list[Line]) -> None:
    assert letters([paragraph.text for paragraph in lay_out(lines)]) == letters([line.text for line in lines])


@given(LINES.filter(bool))
def test_ordering_by_columns_only_orders(lines: list[Line]) -> None:
    assert sorted(by_columns(lines)) == sorted(lines)


@given(st.lists(st.sampled_from(["a", "bc", " ", "\t", "\r\n", "\r", "\n", MARK]), max_size=20).map("".join))
def test_lines_are_found_at_their_places_whatever_ends_them(text: str) -> None:
    words, places = spans(text)
    assert words == [line for piece in re.findall(f"[^\r\n{MARK}]+{MARK}?|{MARK}", text) if (line := piece.strip())]
    for line, first, last in zip(words, places[::2], places[1::2], strict=True):
        assert text[first : first + len(line)] == line
        assert last == max(first, first + len(line.rstrip(MARK)) - 1)


@given(st.lists(st.sampled_from(["ab", "Ż", "self", "-", "\u2010", "_", " ", MARK]), max_size=20).map("".join))
def test_joining_broken_words_changes_nothing_but_hyphens(text: str) -> None:
    hyphens = Hyphens()
    hyphens.learn(text)
    assert re.sub("[-\u2010]", "", hyphens.resolve(text)) == re.sub(f"[-\u2010{MARK}]", "", text)


def test_a_sign_for_a_number_at_the_edge_is_not_taken_for_one() -> None:
    pages = [
        [Line(text, 50, 50, 90, 60, 10), Line("a b", 50, 90, 90, 100, 10)] for text in ("# 5", "7 8", "# 6", "8 9")
    ]
    assert len(list(without_furniture(iter(pages), 4))) == 4


@given(st.lists(LINES, max_size=12))
def test_only_lines_at_the_edges_that_come_again_are_left_out(pages: list[list[Line]]) -> None:
    kept = list(without_furniture(iter(pages), len(pages)))
    assert len(kept) == len(pages)
    for before, after in zip(pages, kept, strict=True):
        rest = iter(before)
        assert all(line in rest for line in after)  # in their order; two of a page may be equal
        assert len(before) - len(after) <= 4
    if len(pages) < 3:
        assert [list(page) for page in kept] == pages


def test_a_header_that_says_something_else_each_time_is_text() -> None:
    pages = []
    for number in range(9):
        header = Line(f"Dish number {7**number % 91}", 60, 30, 160, 40, 10)
        pages.append([header, Line("abcdefghi"[number] * 6, 60, 400, 66, 410, 10)])
    assert list(without_furniture(iter(pages), 9)) == pages


@given(WORDS, WORDS)
def test_joining_broken_words_changes_nothing_else(before: str, after: str) -> None:
    joined = Hyphens().resolve(f"{before}{MARK}{after}")
    assert joined in (before + after, f"{before}-{after}")
    assert Hyphens().resolve(before) == before


def test_a_hyphen_that_is_repeated_on_the_next_line_is_one() -> None:
    assert Hyphens().resolve(f"flaga biało{MARK}-czerwona") == "flaga biało-czerwona"


def test_recognised_lines_join_a_hyphen_that_is_repeated() -> None:
    text = flow(["grzyby rosną w lasach północno-", "-wschodniej części naszego kraju", "i nad jeziorami"])
    assert Hyphens().resolve(text).startswith("grzyby rosną w lasach północno-wschodniej części naszego kraju")


def test_recognised_lines_flow_where_they_fill_the_page() -> None:
    lines = ["the sourdough wants flour and", "warmth every morn-", "short", "ing it is stirred until it is", "done"]
    text = flow(lines)
    assert text.startswith("the sourdough wants flour and warmth every morn-\nshort\n")
    assert text.endswith("it is done")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("", "none"),
        (" \r\n ", "none"),
        ("17", "weak"),
        ("12.5 | 13.0 | 7", "weak"),
        ("Zakwas żytni robi się z mąki i wody, a dokarmia co dzień rano.", "good"),
        ("CCM_CCGR0 SPI_CLK GPIO_MUX DMA_IRQ UART_TX", "good"),
        ("日本語のテキスト", "good"),
        ("Εν αρχή ην ο Λόγος", "good"),
        ("\ufffdak\ufffd\ufffd \ufffdytni robi si\ufffd z m\ufffdki", "garbage"),
        ("\ue041\ue042\ue043 \ue044\ue045", "garbage"),
        ("7KH VRXUGRXJK ZDQWV IORXU DQG ZDUPWK. )HHG LW HDFK PRUQLQJ, VWLU LW ZLWK D ZRRGHQ VSRRQ", "garbage"),
        ("´¿¢Ã°£¢ ¿ðº˜ ´’«¢¬ ab", "garbage"),
    ],
)
def test_a_text_layer_is_judged_by_what_it_says(text: str, verdict: str) -> None:
    assert judge(text) == verdict


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("¿ó³ty, ci¹g³e i wiêc, mo¿na, ³¹ka", "żółty, ciągłe i więc, można, łąka"),
        ("¿ó³ty, ci±g³e i wiêc, mo¿na, ³±ka, ¶wit", "żółty, ciągłe i więc, można, łąka, świt"),
        ("wi˛ec ksi ˛a˙zka", "więc ksi ążka"),
        ("oﬃcial ﬁle", "official file"),
        ("\uf0b7 punkt", "• punkt"),
        ("x³ + y² is 3¹", "x³ + y² is 3¹"),
        ("żółty x³ y³ z³", "żółty x³ y³ z³"),
        ("plain text", "plain text"),
    ],
)
def test_only_what_a_wrong_map_did_is_mended(wrong: str, right: str) -> None:
    assert mend(wrong) == right


def test_a_gap_between_short_cells_is_no_gutter() -> None:
    from bigos.loaders.pdf_columns import Gap

    table = [(f"salt {number} g", [Gap(60, 200, 5)]) for number in range(12)]
    assert gutters(table) == []
    prose = [("twenty letters of text and twenty more of it", [Gap(240, 260, 23)])] * 12
    assert len(gutters(prose)) == 1


def test_a_form_in_xfa_gives_its_labels_and_values() -> None:
    xml = (
        '<template xmlns="http://www.xfa.org/schema/xfa-template/3.0/"><subform><draw><value><text>Nazwisko piekarza'
        "</text></value></draw><event><script>xfa.host.beep()</script></event></subform></template>"
    )
    catalog = "/AcroForm<</Fields[]/XFA[(template) 5 0 R]>>"
    data = bytes(PdfFile([PdfPage([(60, 700, 10, "Please wait...")])], catalog=catalog, image=xml.encode()))
    parsed = pdf.load(SourceFile(Path("/nowhere/a.pdf"), len(data), 0, 0), data, LoadOptions("never"))
    assert "Nazwisko piekarza" in parsed.text
    assert "beep" not in parsed.text

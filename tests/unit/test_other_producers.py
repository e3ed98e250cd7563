# SPDX-License-Identifier: GPL-2.0-only
"""Files as other programs write them: what they hide or repeat, and what only they write."""

from __future__ import annotations

import copy
import io
import zipfile
from typing import Any

import pytest

from data.loaders import make_documents as made
from loaded_documents import FIXTURES, blocks, failure, load
from pdf_files import PdfFile, PdfPage, paragraph

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
PROSE = "The sourdough wants flour and warmth, and each morning a wooden spoon. " * 4


def word(body: str, *, properties: bool = True) -> bytes:
    with zipfile.ZipFile(FIXTURES / "zapiski.docx") as archive:
        parts: dict[str, str | bytes] = {entry: archive.read(entry) for entry in archive.namelist()}
    parts["word/document.xml"] = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    if not properties:
        del parts["docProps/core.xml"]
    return made.zipped(parts)


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def test_a_word_document_without_properties_has_no_title_of_the_librarys() -> None:
    assert load("a.docx", word(f"<w:p>{run('Chleb')}</w:p>", properties=False)).title is None


def test_hidden_text_and_readings_of_a_word_document_are_left_out() -> None:
    ruby = f"<w:r><w:ruby><w:rt>{run('かん')}</w:rt><w:rubyBase>{run('漢')}</w:rubyBase></w:ruby></w:r>"
    hidden = run("ukryte", "<w:vanish/>") + run("jawne", '<w:vanish w:val="0"/>')
    assert load("a.docx", word(f"<w:p>{hidden}{ruby}{run('字')}</w:p>")).text == "jawne漢字"


def test_a_cell_that_spans_rows_is_in_each_of_them() -> None:
    def cell(text: str, merge: str = "") -> str:
        return f"<w:tc><w:tcPr>{merge}</w:tcPr><w:p>{run(text)}</w:p></w:tc>"

    start, more = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    wide = '<w:gridSpan w:val="2"/>'
    rows = (
        cell("razem", wide) + cell("waga", start),
        cell("żyto", start) + cell("1") + cell("", more),
        cell("", more) + cell("2") + cell("kg"),
        cell("") + cell("3"),
    )
    table = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    assert load("a.docx", word(table)).text == "razem | waga\nżyto | 1 | waga\nżyto | 2 | kg\n | 3"

    page = (
        "<table><tr><th rowspan=2>żyto<th colspan=2>waga<tr><td>1<td rowspan=3>kg<tr><td>pszenica<td>2"
        "<tr><td>owies<td>3</table>"
    )
    text = "żyto | waga\nżyto | 1 | kg\npszenica | 2 | kg\nowies | 3 | kg"
    assert load("a.html", f"<html><body>{page}</body></html>".encode()).text == text

    odt = (
        '<office:text><table:table><table:table-row><table:table-cell table:number-rows-spanned="2"><text:p>żyto'
        "</text:p></table:table-cell><table:table-cell><text:p>1</text:p></table:table-cell></table:table-row>"
        "<table:table-row><table:covered-table-cell/><table:table-cell><text:p>2</text:p></table:table-cell>"
        "</table:table-row></table:table></office:text>"
    )
    assert load("a.odt", made.odf("text", odt)).text == "żyto | 1\nżyto | 2"


def test_a_long_cell_that_spans_rows_is_shown_once() -> None:
    page = f"<table><tr><td rowspan=3>{'opis ' * 40}<td>1<tr><td>2<tr><td>3</table>"
    assert load("a.html", f"<html><body>{page}</body></html>".encode()).text.endswith("opis | 1\n2\n3")


def test_a_hidden_section_and_the_readings_of_an_odt_are_left_out() -> None:
    body = (
        '<office:text><text:section text:display="none"><text:p>ukryte</text:p></text:section><text:p><text:ruby>'
        "<text:ruby-base>漢字</text:ruby-base><text:ruby-text>かんじ</text:ruby-text></text:ruby></text:p></office:text>"
    )
    assert load("a.odt", made.odf("text", body)).text == "漢字"


def test_a_text_box_with_a_formula_is_read_on_its_slide() -> None:
    from pptx import Presentation

    deck: Any = Presentation()
    shape = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_textbox(0, 0, 99, 99)
    shape.text_frame.text = "Pole koła "
    box = shape._element
    spaces = {
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    }
    choice = box.makeelement(f"{{{spaces['mc']}}}AlternateContent", {}, spaces)
    box.getparent().replace(box, choice)
    for name, inside in (("Choice", box), ("Fallback", copy.deepcopy(box))):
        option = choice.makeelement(f"{{{spaces['mc']}}}{name}", {})
        option.append(inside)
        choice.append(option)
    paragraph_of_box = box.txBody.p_lst[0]
    formula = paragraph_of_box.makeelement(f"{{{spaces['m']}}}oMath", {})
    letters = formula.makeelement(f"{{{spaces['m']}}}t", {})
    letters.text = "πr²"
    formula.append(letters)
    paragraph_of_box.append(formula)
    whole = io.BytesIO()
    deck.save(whole)
    assert load("a.pptx", whole.getvalue()).text == "Pole koła πr²"


def test_hidden_and_deleted_text_of_an_rtf_is_left_out() -> None:
    body = rb"a{\v ukryte {\b x}}b\v dalej\v0 c{\deleted skreslone}{\revised wstawione}\par\viewkind4 \\v d\par"
    assert load("a.rtf", rb"{\rtf1\ansi " + body + b"}").text == "abcwstawione\n\\v d"


FICTION_BOOK = (
    '<?xml version="1.0"?><FictionBook><description><title-info><book-title>Piekarz</book-title><annotation><p>O '
    "chlebie.</p></annotation></title-info></description><body><section><title><p>Rozdział I</p><p>Mąka</p></title>"
    "<p>Żyto <emphasis>i pszenica</emphasis>.</p><p>Woda.</p><section><title><p>Sól</p></title><p>Szczypta.</p>"
    "</section></section></body></FictionBook>"
)


def test_a_title_of_two_lines_and_the_annotation_of_a_fiction_book() -> None:
    assert blocks(load("a.fb2", FICTION_BOOK.encode())) == [
        ((), "O chlebie."),
        (("Rozdział I Mąka",), "Rozdział I\nMąka\n\nŻyto i pszenica.\n\nWoda."),
        (("Rozdział I Mąka", "Sól"), "Sól\n\nSzczypta."),
    ]


def test_what_a_tag_that_is_never_closed_has_swallowed_stays_in_paragraphs() -> None:
    document = load("a.fb2", FICTION_BOOK.replace("</emphasis>", "").encode())
    assert "Żyto i pszenica.\n\nWoda.\n\nSól\n\nSzczypta." in document.text


def encrypted(target: str) -> bytes:
    method = "http://www.w3.org/2001/04/xmlenc#aes256-cbc"
    entries = made.epub_entries()
    entries["META-INF/encryption.xml"] = (
        f'<encryption><EncryptedData><EncryptionMethod Algorithm="{method}"/><CipherData><CipherReference '
        f'URI="{target}"/></CipherData></EncryptedData></encryption>'
    )
    return made.zipped(entries)


def test_an_encrypted_chapter_is_drm_whatever_its_extension_and_an_encrypted_font_is_not() -> None:
    assert failure("a.epub", encrypted("OEBPS/tekst/a.xht")).reason == "DRM"
    assert failure("a.epub", encrypted("OEBPS/tekst/chapter")).reason == "DRM"
    assert load("a.epub", encrypted("OEBPS/fonts/a.otf")).text


def body(inner: str, title: str = "") -> str:
    return load("a.html", f"<html><head><title>{title}</title></head><body>{inner}</body></html>".encode()).text


def test_a_header_with_the_heading_that_the_page_is_named_after_is_text() -> None:
    header = "<header><h1>Zakwas</h1><p>Jan Piekarz</p><nav>menu</nav></header>"
    assert body(f"{header}<h1>Mąka</h1><p>{PROSE}</p>", "Zakwas żytni").startswith("Zakwas\n\nJan Piekarz\n\nMąka")
    assert body(f"{header}<h1>Mąka</h1><p>{PROSE}</p>", "Mąka – Zakwas").startswith("Mąka")
    assert body(f'<header><h1><a href="/">Zakwas</a></h1></header><p>{PROSE}</p>').startswith("The sourdough")


def test_footnotes_and_boxes_in_an_article_are_text_and_what_else_stands_aside_is_not() -> None:
    note = '<aside class="footnote brackets" role="doc-footnote"><p>Przypis.</p></aside>'
    assert "Przypis." in body(f"<p>{PROSE}</p>{note}")
    assert "Uwaga." in body(f"<main><p>{PROSE}</p><aside><p>Uwaga.</p></aside></main>")
    assert "— Piekarz" in body(f"<p>{PROSE}</p><blockquote>Cytat<footer>— Piekarz</footer></blockquote>")
    more = '<aside><a href="1">Czytaj też jeden</a> <a href="2">i drugi</a></aside>'
    assert "Czytaj" not in body(f"<main><p>{PROSE}</p>{more}</main>")
    assert "Reklama" not in body(f"<p>{PROSE}</p><aside>Reklama</aside>")
    assert body("<p><ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby></p>") == "漢字"


@pytest.mark.parametrize(
    "notice",
    [
        "<div class='x1'><div><p>Ta strona używa plików cookies.</p><button>Akceptuję</button></div></div>",
        "<section>We use cookies. By using this site you agree. <a href='/privacy'>More</a></section>",
        "<div><div><div>Używamy ciasteczek, na co wyrażasz zgodę.<input type=button value=OK></div></div></div>",
    ],
)
def test_a_box_that_asks_to_agree_to_cookies_is_left_out_whatever_it_is_called(notice: str) -> None:
    assert body(f"{notice}<div><h1>Chleb</h1><p>{PROSE}</p></div>") == f"Chleb\n\n{PROSE.strip()}"
    assert body(f"<main>{notice}<p>{PROSE}</p></main>") == PROSE.strip()


def test_a_page_about_cookies_is_text() -> None:
    about = f"<div><p>Pliki cookies służą do tego, by akceptować. {PROSE}</p><a href=x>więcej</a></div>"
    assert "Pliki cookies" in body(f"<p>Polityka prywatności</p>{about}")


def test_a_saved_page_without_pictures_is_a_page() -> None:
    page = (
        b'From: "Saved by Windows Internet Explorer 8"\r\nSubject: x\r\nMIME-Version: 1.0\r\n'
        b'Content-Type: text/html;\r\n\tcharset="iso-8859-2"\r\nContent-Transfer-Encoding: quoted-printable\r\n'
        b"Content-Location: http://x\r\n\r\n<html><body><h1>Bu=B3ka</h1><p>G=\r\nor=B1ca.</p></body></html>"
    )
    assert blocks(load("a.mht", page)) == [(("Bułka",), "Bułka\n\nGorąca.")]


def test_short_entries_titles_and_elements_do_not_run_into_each_other() -> None:
    bib = b'@book{k,author="Lem, S.",title={Solaris},year=1961}\n'
    assert load("a.bib", bib).text == "book k | author: Lem, S. | title: Solaris | year: 1961\n"
    tex = rb"\documentclass{article}\title{Chleb}\author{Jan}\begin{document}Tekst\end{document}"
    assert "Chleb Jan" in load("a.tex", tex).text
    tex = rb"\begin{frame}<1>[t]{Chleb}\textcolor[rgb]{1,0,0}{jest} \foreignlanguage{english}{bread}\end{frame}"
    assert load("a.tex", tex).text.split() == ["Chlebjest", "bread"]
    xml = b'<r><string name="app">Chleb <b>jest</b></string></r>'
    assert load("a.xml", xml).text == "string (name: app): Chleb jest"
    assert load("a.sub", b"{0}{25}Raz|dwa\n{26}{50}trzy\n").text == "Raz\ndwa\ntrzy"


def test_a_quotation_that_nobody_closes_adds_no_line() -> None:
    assert load("a.csv", b'a,b\n1,"x').text == "a | b\na: 1 | b: x"


def pages(*heads: str, size: float = 10, place: float = 800) -> str:
    """The text of a PDF whose pages begin with these, above prose that differs."""
    letters = "abcdefghijkl"
    return load(
        "a.pdf",
        bytes(
            PdfFile(
                [
                    PdfPage([(60, place, size, head), *paragraph(60, 760, f"Page {letter * 5}. {PROSE}")])
                    for head, letter in zip(heads, letters, strict=False)
                ]
            )
        ),
    ).text


@pytest.mark.parametrize("head", ["Rozdział {}", "Chapter {}. Bread", "Here begins page {} of our little book."])
def test_what_each_page_begins_with_for_itself_is_no_running_header(head: str) -> None:
    heads = [head.format(number) for number in range(1, 7)]
    text = pages(*heads)
    assert all(line in text for line in heads)


def test_a_large_line_with_a_number_of_its_own_is_a_heading() -> None:
    text = pages(*(f"Bochenek {number}" for number in range(1, 7)), size=16)
    assert all(f"Bochenek {number}" in text for number in range(1, 7))


def test_the_chapter_above_several_pages_is_a_running_header() -> None:
    text = pages(*(f"Rozdział {number // 3 + 1}. Chleb {number}" for number in range(3, 12)))
    assert "Rozdział" not in text


def test_headers_of_left_and_right_pages_of_a_short_article_are_left_out() -> None:
    text = pages("Chleb", "46 Jan Piekarz", "Zakwas 47", "48 Jan Piekarz", "Zakwas 49")
    assert "Chleb" in text
    assert "Piekarz" not in text
    assert "Zakwas" not in text


def test_a_hyphen_after_capitals_belongs_to_the_word() -> None:
    broken = ("Ten dom zbudowano w stylu z okresu XVIII-", "wiecznej fasady i dalej tak.")
    broken += ("A potem stał już tylko pusty i podupa-", "dał coraz bardziej z roku na rok.")
    lines = [(60, 700 - 12 * number, 10, line) for number, line in enumerate(broken)]
    text = load("a.pdf", bytes(PdfFile([PdfPage(lines)]))).text
    assert "XVIII-wiecznej" in text
    assert "podupadał" in text


def test_an_acute_that_groff_sets_behind_its_letter_is_a_part_of_it() -> None:
    from bigos.loaders.legibility import mend

    assert (
        mend("Tekst może zostac´ złamany, a kon´ stoi u Jones´a") == "Tekst może zostac´ złamany, a kon´ stoi u Jones´a"
    )
    assert mend("Żółty może zostac´ kon´ u Jones´a") == "Żółty może zostać koń u Jones´a"
    assert mend("Mógł zostac´ złamany z˙ elazem na ´swiat") == "Mógł zostać złamany ż elazem na świat"
    assert mend("It´s what you don´t say") == "It´s what you don´t say"


def test_a_text_layer_that_is_no_language_is_named_where_it_stands_for_want_of_ocr() -> None:
    turned = {code: 219 - code for code in range(97, 123)}
    page = PdfPage(paragraph(60, 780, PROSE))
    assert "for want of OCR: page 1" in load("a.pdf", bytes(PdfFile([page], to_unicode=turned))).warnings[0]
    assert load("a.pdf", bytes(PdfFile([page]))).warnings == ()


def test_an_archive_that_is_called_a_book_is_an_archive() -> None:
    refusal = failure("a.epub", made.zipped({"a.txt": "text"}))
    assert (refusal.reason, refusal.skipped) == ("archive", True)

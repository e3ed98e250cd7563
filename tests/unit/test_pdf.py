# SPDX-License-Identifier: GPL-2.0-only
"""PDFs through pdfium and pypdf: the right text in reading order with page and bookmark, or a reason."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from bigos.errors import DocumentError
from bigos.loaders import LoadOptions, content_hash, pdf
from bigos.loaders.sections import Parsed
from bigos.types import SourceFile
from pdf_files import PdfFile, PdfPage, paragraph

PROSE = (
    "Drożdże mnożą się w cieple, a w chłodzie śpią i czekają. Kto chce mieć dobry zakwas, ten karmi go co dzień mąką "
    "razową, miesza drewnianą łyżką i stawia przy piecu. Po pięciu dniach pachnie jak jabłka i można piec."
)
ENGLISH = (
    "The sourdough wants flour and warmth. Feed it each morning, stir it with a wooden spoon and keep it near the "
    "stove. After five days it smells of apples and is ready for the oven, where it will rise once more."
)
SHORT = [f"Only line number {word}" for word in ("one", "two", "three", "four", "five", "six", "seven", "eight")]


def load(file: PdfFile | bytes, options: LoadOptions | None = None) -> Parsed:
    data = bytes(file)
    return pdf.load(SourceFile(Path("/nowhere/a.pdf"), len(data), 0, 0), data, options or LoadOptions())


def reason(file: PdfFile | bytes, options: LoadOptions | None = None) -> tuple[str, bool]:
    with pytest.raises(DocumentError) as caught:
        load(file, options)
    return caught.value.reason, caught.value.skipped


def words(text: str) -> str:
    return " ".join(text.split())


def test_wrapped_lines_are_one_paragraph_with_their_page() -> None:
    parsed = load(PdfFile([PdfPage(paragraph(60, 780, PROSE)), PdfPage(paragraph(60, 780, ENGLISH))]))
    assert parsed.text == f"{PROSE}\n\n{ENGLISH}"
    assert [(block.page, block.text) for block in parsed.blocks] == [(1, PROSE), (2, ENGLISH)]
    assert all(parsed.text[b.char_start : b.char_start + len(b.text)] == b.text for b in parsed.blocks)
    assert all(block.line_start is None for block in parsed.blocks)


def test_lists_and_code_keep_their_lines() -> None:
    code = ["int main(void)", "{", "  return bake(loaf, 230);", "}"]
    lines = paragraph(60, 780, PROSE)
    lines += [(60, 700 - 12 * number, 10, line) for number, line in enumerate(code)]
    items = ["1. flour", "2. water", "3. a long rest in a bowl under a cloth"]
    lines += [(60, 620 - 12 * number, 10, line) for number, line in enumerate(items)]
    text = load(PdfFile([PdfPage(lines)])).text
    assert "\n".join([code[0], code[1], code[2].strip(), code[3]]) in text
    assert "\n".join(items) in text


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        ("karmi go mąką razo-", "wą i wodą", "karmi go mąką razową i wodą"),
        ("flaga jest biało-", "czerwona i stara", "flaga jest biało-czerwona i stara"),
        ("it was read by the e-", "mail program there", "it was read by the e-mail program there"),
        ("leży w północno-", "-wschodniej części kraju", "leży w północno-wschodniej części kraju"),
        ("it is a state-of-", "the-art oven", "it is a state-of-the-art oven"),
        ("it is a state-", "of-the-art oven", "it is a state-of-the-art oven"),
        ("keep it up-to-", "date and warm", "keep it up-to-date and warm"),
        ("it is sub-", "total or of-", "it is subtotal or of-"),
        ("the town of Bielsko-", "Biała has two names", "the town of Bielsko-Biała has two names"),
    ],
)
def test_a_word_broken_at_the_line_end_is_joined_and_keeps_the_hyphen_that_is_its_own(
    first: str, second: str, whole: str
) -> None:
    parsed = load(PdfFile([PdfPage([(60, 700, 10, first), (60, 688, 10, second), *paragraph(60, 600, ENGLISH)])]))
    assert words(parsed.text).startswith(whole)


def test_the_document_itself_tells_which_hyphens_belong_to_words() -> None:
    lines = [(60, 700, 10, "the bread is dark-"), (60, 688, 10, "brown when it is done")]
    plain = load(PdfFile([PdfPage([*lines, *paragraph(60, 600, ENGLISH)])]))
    assert "darkbrown" in plain.text
    telling = load(PdfFile([PdfPage([*lines, (60, 650, 10, "A dark-brown crust.")])]))
    assert "the bread is dark-brown when" in words(telling.text)


def test_columns_are_read_one_after_the_other_even_when_they_were_written_row_by_row() -> None:
    left = paragraph(50, 780, PROSE, 38)
    right = paragraph(320, 780, ENGLISH, 38)
    rows = [line for pair in zip(left, right, strict=False) for line in pair] + left[len(right) :] + right[len(left) :]
    text = words(load(PdfFile([PdfPage(rows)])).text)
    assert text == f"{PROSE} {ENGLISH}"


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_a_turned_page_gives_the_same_text(rotate: int) -> None:
    assert load(PdfFile([PdfPage(paragraph(60, 780, PROSE), rotate=rotate)])).text == PROSE


def test_text_that_runs_up_the_page_is_found_in_order() -> None:
    lines = paragraph(60, 780, ENGLISH)
    turned = "".join(
        f"BT /F 10 Tf 0 1 -1 0 {100 + 12 * number} 60 Tm <{line[3].encode().hex()}> Tj ET\n"
        for number, line in enumerate(lines)
    )
    assert words(load(PdfFile([PdfPage(operators=turned)])).text) == ENGLISH


def test_running_headers_footers_and_page_numbers_are_left_out() -> None:
    pages = [
        PdfPage([(60, 810, 9, "Księga zakwasów"), *paragraph(60, 780, f"{line}. {ENGLISH}"), (290, 30, 9, str(number))])
        for number, line in enumerate(SHORT, 17)
    ]
    text = load(PdfFile(pages)).text
    assert "Księga" not in text
    assert not any(f"\n{number}\n" in f"\n{text}\n" for number in range(17, 25))
    assert all(line in text for line in SHORT)


def test_headers_of_left_and_right_pages_are_left_out() -> None:
    pages = [
        PdfPage(
            [
                (60, 810, 9, f"{number} BAKING AT HOME" if number % 2 else f"THE OVEN {number}"),
                *paragraph(60, 780, f"Case {word}. {ENGLISH}"),
            ]
        )
        for number, word in enumerate(
            ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"), 30
        )
    ]
    text = load(PdfFile(pages)).text
    assert "BAKING" not in text
    assert "THE OVEN" not in text
    assert text.count("Case") == 12


def test_a_line_on_every_page_that_says_something_new_each_time_stays() -> None:
    pages = [PdfPage([(60, 700, 10, f"Page {number} of 9, batch {number * 7919 % 1000}")]) for number in range(1, 10)]
    parsed = load(PdfFile(pages))
    assert [block.text for block in parsed.blocks] == [page.lines[0][3] for page in pages]


def test_bookmarks_are_the_heading_trail_also_within_a_page() -> None:
    page = PdfPage(
        [
            (60, 780, 16, "1 Zakwas"),
            *paragraph(60, 750, PROSE),
            (60, 640, 12, "1.1 Mąka"),
            *paragraph(60, 620, ENGLISH),
        ]
    )
    outline = [("Zakwas", 1, 0, 800), ("Mąka", 2, 0, 656), ("Piec", 1, 1, None)]
    parsed = load(PdfFile([page, PdfPage(paragraph(60, 780, ENGLISH))], outline=outline))
    trails = [(block.page, block.heading_path, block.text[:8]) for block in parsed.blocks]
    assert trails == [
        (1, ("Zakwas",), "1 Zakwas"),
        (1, ("Zakwas", "Mąka"), "1.1 Mąka"),
        (2, ("Piec",), ENGLISH[:8]),
    ]


def test_a_bookmark_whose_words_are_not_on_the_page_begins_where_it_leads() -> None:
    page = PdfPage([*paragraph(60, 780, PROSE), *paragraph(60, 500, ENGLISH)])
    parsed = load(PdfFile([page], outline=[("Inne słowa", 1, 0, 515)]))
    assert [(block.heading_path, block.text) for block in parsed.blocks] == [((), PROSE), (("Inne słowa",), ENGLISH)]


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Księga zakwasów", "Księga zakwasów"),
        ("Microsoft Word - Księga zakwasów", "Księga zakwasów"),
        ("zakwas_final2.docx", None),
        ("untitled", None),
        ("", None),
        ("1", None),
    ],
)
def test_a_title_that_a_program_made_up_is_none(title: str, shown: str | None) -> None:
    assert load(PdfFile([PdfPage(paragraph(60, 780, PROSE))], title=title)).title == shown


@pytest.mark.parametrize("count", [3, 4, 12])
@pytest.mark.parametrize("lines", [1, 2, 3, 4])
def test_short_pages_that_are_all_alike_keep_their_text(count: int, lines: int) -> None:
    said = ("Certificate of attendance", "Participant number {}", "Warsaw, in spring", "The organisers")[:lines]
    pages = [
        PdfPage([(60, 780 - 60 * row, 11, line.format(number)) for row, line in enumerate(said)])
        for number in range(1, count + 1)
    ]
    parsed = load(PdfFile(pages))
    assert [block.page for block in parsed.blocks] == list(range(1, count + 1))
    for number, block in enumerate(parsed.blocks, 1):
        assert words(block.text) == words(" ".join(said).format(number))


def test_a_page_with_nothing_but_a_header_is_empty_where_others_have_text() -> None:
    header = [(60, 800, 9, "Bread and time"), (290, 30, 9, "{}")]
    pages = [
        PdfPage(
            [(x, y, size, text.format(number)) for x, y, size, text in header]
            + ([] if number == 4 else paragraph(60, 700, f"{PROSE} {number * 7919}. {ENGLISH}"))
        )
        for number in range(1, 8)
    ]
    assert [block.page for block in load(PdfFile(pages)).blocks] == [1, 2, 3, 5, 6, 7]


def test_a_sentence_that_goes_on_over_the_page_is_not_cut() -> None:
    first = PdfPage(paragraph(60, 780, "The crust is dark because the oven was hotter than anybody in the"))
    second = PdfPage(paragraph(60, 780, "village had ever seen it, and so was the baker."))
    assert "anybody in the village had" in load(PdfFile([first, second])).text


@pytest.mark.parametrize("algorithm", ["RC4-40", "AES-128"])
def test_an_empty_password_opens_a_file_and_a_real_one_is_asked_for(algorithm: str) -> None:
    pypdf = pytest.importorskip("pypdf")
    plain = bytes(PdfFile([PdfPage(paragraph(60, 780, PROSE))]))

    def encrypted(password: str) -> bytes:
        writer = pypdf.PdfWriter(io.BytesIO(plain))
        writer.encrypt(user_password=password, owner_password="owner", algorithm=algorithm)
        whole = io.BytesIO()
        writer.write(whole)
        return whole.getvalue()

    try:
        open_file = encrypted("")
    except pypdf.errors.DependencyError:
        pytest.skip("pypdf needs the cryptography package to write this")
    assert load(open_file).text == PROSE
    assert reason(encrypted("zażółć")) == ("needs a password", False)


def test_a_font_without_a_usable_map_is_no_text_layer() -> None:
    unmapped = dict.fromkeys((*range(97, 123), *range(128, 141)), 0xFFFD)
    assert reason(
        PdfFile([PdfPage(paragraph(60, 780, PROSE))], to_unicode={code: 0xE000 + code for code in range(32, 141)})
    ) == (
        "needs OCR",
        False,
    )
    lossy = load(PdfFile([PdfPage(paragraph(60, 780, "ABCDEF GHIJKL " + PROSE))], to_unicode=unmapped))
    assert "\ufffd" not in lossy.text
    assert "ABCDEF" in lossy.text


def test_letters_that_no_language_has_are_no_text_layer() -> None:
    shifted = "".join(chr(ord(letter) - 29) if letter.isalpha() and letter.isascii() else letter for letter in ENGLISH)
    page = PdfPage(paragraph(60, 780, shifted.replace("\x7f", " ")))
    recogniser = Reads({1: "What the page shows."})
    assert load(PdfFile([page]), LoadOptions(recogniser=recogniser)).text == "What the page shows."


def test_polish_letters_that_were_read_as_latin_1_are_mended() -> None:
    wrong = {128 + number: ord(letter) for number, letter in enumerate("¹æê³ñóœŸ¿")}
    text = load(
        PdfFile([PdfPage(paragraph(60, 780, PROSE))], to_unicode={**{c: c for c in range(32, 127)}, **wrong})
    ).text
    assert text == PROSE


class Reads:
    """A recogniser that knows what is on the pages; it keeps what it was asked."""

    def __init__(self, texts: dict[int, str | None], refusal: DocumentError | None = None) -> None:
        self.texts = texts
        self.refusal = refusal
        self.asked: list[int] = []
        self.digests: list[str] = []

    def recognise_pdf(self, data, digest, sizes):
        from bigos.recognition import RecognisedPage

        self.digests.append(digest)
        if self.refusal:
            raise self.refusal
        for page in sizes:
            self.asked.append(page)
            text = self.texts.get(page)
            yield RecognisedPage(page, text, None if text is not None else "took more than 90 s")

    def recognise_images(self, digest, pages, image):
        raise AssertionError("a PDF's pages are drawn by the recogniser")


SCAN = PdfPage(operators="q 595 0 0 842 0 0 cm /Im Do Q")
STAMPED = PdfPage([(500, 20, 8, "Strona 3 wpis")], operators="q 595 0 0 842 0 0 cm /Im Do Q")


def test_only_pages_without_text_are_recognised_and_stand_in_their_place() -> None:
    recogniser = Reads({2: "Skan z kuch-\nni.\n\nDrugi akapit.", 3: "Skan ze stemplem i więcej słów."})
    file = PdfFile([PdfPage(paragraph(60, 780, PROSE)), SCAN, STAMPED, PdfPage(paragraph(60, 780, ENGLISH)), PdfPage()])
    parsed = load(file, LoadOptions(recogniser=recogniser))
    assert recogniser.asked == [2, 3]
    assert [(block.page, block.text) for block in parsed.blocks] == [
        (1, PROSE),
        (2, "Skan z kuchni.\n\nDrugi akapit."),
        (3, "Skan ze stemplem i więcej słów."),
        (4, ENGLISH),
    ]
    assert parsed.warnings == ()


def test_an_invisible_layer_over_a_scan_is_its_text() -> None:
    layered = PdfPage([(60, 780, 10, "Layer of words here")], SCAN.operators, text_operators="3 Tr")
    recogniser = Reads({1: "Many more words than the layer has on this very page"})
    assert load(PdfFile([layered]), LoadOptions(recogniser=recogniser)).text == "Layer of words here"
    assert recogniser.asked == []


def test_the_policy_always_recognises_every_page_and_never_none() -> None:
    recogniser = Reads({1: "Read from the image.", 2: ""})
    file = PdfFile([PdfPage(paragraph(60, 780, PROSE)), PdfPage(paragraph(60, 780, ENGLISH))])
    parsed = load(file, LoadOptions(ocr="always", recogniser=recogniser))
    assert [block.text for block in parsed.blocks] == ["Read from the image.", ENGLISH]
    never = Reads({})
    assert reason(PdfFile([SCAN]), LoadOptions(ocr="never", recogniser=never)) == ("needs OCR", True)
    assert never.asked == []


def test_without_ocr_the_pages_that_have_text_are_kept_and_the_others_are_named() -> None:
    refusal = DocumentError("needs OCR", "tesseract is not installed", fix="sudo apt install tesseract-ocr")
    options = LoadOptions(recogniser=Reads({}, refusal))
    parsed = load(PdfFile([PdfPage(paragraph(60, 780, PROSE)), SCAN, SCAN]), options)
    assert parsed.text == PROSE
    assert parsed.warnings == (
        "left out, as OCR was not to be had: pages 2, 3 (tesseract is not installed: sudo apt install tesseract-ocr)",
    )
    assert reason(PdfFile([SCAN]), options) == ("needs OCR", False)


def test_a_page_that_took_too_long_is_named_and_a_scan_of_such_pages_fails() -> None:
    parsed = load(PdfFile([SCAN, SCAN]), LoadOptions(recogniser=Reads({1: "Tylko ta."})))
    assert parsed.text == "Tylko ta."
    assert parsed.warnings == ("not recognised: page 2 (took more than 90 s)",)
    assert reason(PdfFile([SCAN]), LoadOptions(recogniser=Reads({}))) == ("OCR failed", False)


def test_values_of_a_form_and_names_of_attached_files_are_text() -> None:
    field = (
        "<</Type/Annot/Subtype/Widget/FT/Tx/T(nazwisko)/TU(Nazwisko)/V(Piekarska)/Rect[60 700 300 720]/F 4"
        "/DA(/F 10 Tf 0 g)>>"
    )
    page = PdfPage(paragraph(60, 780, PROSE), annotations=[field])
    data = bytes(PdfFile([page], catalog="/AcroForm<</Fields[7 0 R]/DR<</Font<</F 3 0 R>>>>/DA(/F 10 Tf 0 g)>>"))
    assert load(data).text.startswith(PROSE)
    assert "Piekarska" in load(data).text
    named = "/Names<</EmbeddedFiles<</Names[(a)<</Type/Filespec/F(przepis.txt)/UF(przepis.txt)/EF<</F 4 0 R>>>>]>>>>"
    parsed = load(PdfFile([PdfPage(paragraph(60, 780, PROSE))], catalog=named))
    assert parsed.text == f"{PROSE}\n\nAttached files:\nprzepis.txt"
    assert parsed.warnings == ("1 attached file is not opened",)


def test_text_beside_the_page_is_left_out_and_white_text_is_not() -> None:
    page = PdfPage([(60, 700, 10, "on the page"), (700, 650, 10, "beside it"), (60, -40, 10, "below it")])
    white = PdfPage([(60, 700, 10, "White words")], text_operators="1 g")
    assert load(PdfFile([page, white])).text == "on the page\n\nWhite words"


def test_a_page_without_anything_is_empty_and_a_drawing_is_looked_at() -> None:
    assert load(PdfFile([PdfPage(), PdfPage()])).text == ""
    recogniser = Reads({1: ""})
    drawing = PdfFile([PdfPage(operators="10 10 m 200 300 l S")])
    assert load(drawing, LoadOptions(recogniser=recogniser)).text == ""
    assert recogniser.asked == [1]


@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.9])
def test_a_file_cut_short_is_a_reason_or_what_is_left_of_it(share: float) -> None:
    data = bytes(PdfFile([PdfPage(paragraph(60, 780, ENGLISH)) for _ in range(4)]))
    try:
        text = load(data[: int(len(data) * share)]).text
    except DocumentError as error:
        assert error.reason == "damaged"
    else:
        assert text == "" or words(text) in words(" ".join([ENGLISH] * 4))


def test_a_file_without_its_end_gives_the_pages_that_are_left() -> None:
    data = bytes(PdfFile([PdfPage(paragraph(60, 780, f"Bread {number}. {ENGLISH}")) for number in range(1, 5)]))
    # Neither what leads to the pages nor the last page; some programs write the former first, some last.
    body = data[data.index(b"3 0 obj") : data.rindex(b"/Contents")]
    parsed = load(b"%PDF-1.7\n" + body)
    assert [words(block.text) for block in parsed.blocks] == [words(f"Bread {n}. {ENGLISH}") for n in range(1, 4)]
    assert [block.page for block in parsed.blocks] == [1, 2, 3]
    assert parsed.warnings == (
        "the file is damaged or cut short, and has no order of its pages; what is left of them was read",
    )


def test_what_is_recognised_of_a_damaged_file_is_kept_under_the_hash_of_the_file() -> None:
    data = bytes(PdfFile([SCAN]))
    cut = data[: data.index(b"xref\n")].replace(b"/Catalog", b"/Katalog")
    recogniser = Reads({1: ENGLISH})
    assert load(cut, LoadOptions(recogniser=recogniser)).text == ENGLISH
    assert recogniser.digests == [content_hash(cut)]


def test_a_damaged_file_without_text_is_damaged_and_not_empty() -> None:
    data = bytes(PdfFile([PdfPage()]))
    assert reason(data[: data.index(b"xref\n")].replace(b"/Catalog", b"/Katalog")) == ("damaged", False)


def test_junk_around_a_file_does_no_harm() -> None:
    data = bytes(PdfFile([PdfPage(paragraph(60, 780, ENGLISH))]))
    assert load(b"\xef\xbb\xbfjunk\n" + data + b"\0" * 5000).text == ENGLISH


def test_loops_end() -> None:
    data = bytes(PdfFile([PdfPage(paragraph(60, 780, ENGLISH))], outline=[("A", 1, 0, None), ("B", 1, 0, None)]))
    loop = data.replace(b"/Kids[7 0 R]", b"/Kids[2 0 R]")
    started = time.monotonic()
    assert reason(loop) == ("damaged", False)
    first = data.index(b"/Next ")
    number = data[first : data.index(b" 0 R", first)].split()[1]
    circular = data.replace(b"/Next " + number, b"/Next " + str(int(number) - 1).encode())
    assert circular != data
    assert load(circular).text == ENGLISH
    assert time.monotonic() - started < 60


def test_many_pages_are_read_in_the_memory_of_a_few() -> None:
    import tracemalloc

    pages = []
    for number in range(1, 251):
        story = " ".join(f"Loaf {number} of batch {number * part * 7919 % 9973}. {ENGLISH}" for part in range(1, 6))
        pages.append(PdfPage([*paragraph(60, 780, story), (290, 30, 9, str(number))]))
    data = bytes(PdfFile(pages))
    tracemalloc.start()
    try:
        parsed = load(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(parsed.blocks) == 250
    assert parsed.blocks[176].page == 177
    # The text is held as paragraphs and as a whole; the lines with their places would be ten times as much.
    assert peak < 6 * len(parsed.text)

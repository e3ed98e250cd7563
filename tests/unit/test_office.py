# SPDX-License-Identifier: GPL-2.0-only
"""Word, PowerPoint and Excel: the text in reading order with headings, slides and sheets; hostile packages refused."""

from __future__ import annotations

import io
import itertools
import re
import zipfile
from collections.abc import Callable

import pytest

from bigos.errors import DocumentError
from bigos.loaders.docx_numbering import Numbering
from bigos.loaders.markup import parse_xml
from bigos.loaders.optional import require
from bigos.loaders.sheet_rows import Budget, row_lines
from data.loaders import make_documents as made
from loaded_documents import FIXTURES, blocks, failure, load, load_fixture

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
Change = Callable[[dict[str, bytes]], None]


def changed(name: str, change: Change) -> bytes:
    """A fixture with its parts changed by name."""
    with zipfile.ZipFile(FIXTURES / name) as archive:
        parts = {entry: archive.read(entry) for entry in archive.namelist()}
    change(parts)
    return made.zipped(dict(parts))


def word(body: str, **parts: str) -> bytes:
    """The Word fixture with another body, and with parts such as styles='<w:style .../>'."""

    def change(entries: dict[str, bytes]) -> None:
        spaces = (
            f'{W} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
            'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
            'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
        )
        entries["word/document.xml"] = f"<w:document {spaces}><w:body>{body}<w:sectPr/></w:body></w:document>".encode()
        relations = entries["word/_rels/document.xml.rels"].decode()
        for name, inside in parts.items():
            root = "numbering" if name == "numbering" else name
            entries[f"word/{name}.xml"] = f"<w:{root} {spaces}>{inside}</w:{root}>".encode()
            if f"/{name}.xml" not in relations and f'"{name}.xml' not in relations:
                kind = f"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{name}"
                relations = relations.replace(
                    "</Relationships>",
                    f'<Relationship Id="x{name}" Type="{kind}" Target="{name}.xml"/></Relationships>',
                )
        entries["word/_rels/document.xml.rels"] = relations.encode()

    return changed("zapiski.docx", change)


def paragraph(text: str, style: str = "", more: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{named}{more}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def test_a_word_document_has_its_headings_tables_and_lists() -> None:
    document = load_fixture("zapiski.docx")
    assert document.title == "Zapiski z suszarni"
    top = "Zapiski z suszarni"
    assert blocks(document) == [
        ((top,), top),
        ((top, "Przygotowanie"), "Przygotowanie\n\nZażółć gęślą jaźń, a potem umyj owoce."),
        (
            (top, "Przygotowanie", "Czasy suszenia"),
            "Czasy suszenia\n\nOwoc | Godziny\nJabłka | 8\nŚliwki | 20",
        ),
        ((top, "Storage"), "Storage\n\n- Keep in jars.\n- Label the jars."),
    ]


@pytest.mark.parametrize(
    ("styles", "style", "more", "level"),
    [
        ('<w:style w:styleId="Nagwek2"><w:name w:val="heading 2"/></w:style>', "Nagwek2", "", 2),
        ('<w:style w:styleId="Moj"><w:name w:val="Nagłówek 3"/></w:style>', "Moj", "", 3),
        (
            '<w:style w:styleId="A"><w:name w:val="Rozdział"/><w:basedOn w:val="B"/></w:style><w:style w:styleId="B">'
            '<w:name w:val="x"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>',
            "A",
            "",
            1,
        ),
        ("", "", '<w:outlineLvl w:val="3"/>', 4),
        ('<w:style w:styleId="H"><w:name w:val="heading 1"/></w:style>', "H", '<w:outlineLvl w:val="9"/>', None),
        (
            '<w:style w:styleId="A"><w:name w:val="a"/><w:basedOn w:val="B"/></w:style>'
            '<w:style w:styleId="B"><w:name w:val="b"/><w:basedOn w:val="A"/></w:style>',
            "A",
            "",
            None,
        ),
        ("", "NoSuchStyle", "", None),
    ],
)
def test_a_heading_is_what_its_outline_level_or_style_says_in_any_language(
    styles: str, style: str, more: str, level: int | None
) -> None:
    outer = paragraph("Całość", more='<w:outlineLvl w:val="0"/>') if level != 1 else ""
    document = load("a.docx", word(outer + paragraph("Wstęp", style, more) + paragraph("Treść"), styles=styles))
    path = document.blocks[-1].heading_path
    above = ("Całość",) if outer else ()
    assert path == ((*above, "Wstęp") if level else above)


def test_notes_follow_the_paragraph_that_refers_to_them() -> None:
    body = (
        '<w:p><w:r><w:t>Jeden</w:t><w:footnoteReference w:id="2"/><w:endnoteReference w:id="2"/></w:r></w:p>'
        + paragraph("Dwa")
    )
    document = load(
        "a.docx",
        word(
            body,
            footnotes='<w:footnote w:type="separator" w:id="0"><w:p><w:r><w:t>---</w:t></w:r></w:p></w:footnote>'
            f'<w:footnote w:id="2">{paragraph("Przypis dolny.")}</w:footnote>',
            endnotes=f'<w:endnote w:id="2">{paragraph("Przypis końcowy.")}</w:endnote>',
        ),
    )
    assert document.text == "Jeden\n\n[1] Przypis dolny.\n\n[2] Przypis końcowy.\n\nDwa"


def test_a_text_box_is_read_once_and_deleted_text_field_codes_and_contents_never() -> None:
    box = f"<w:txbxContent>{paragraph('W ramce')}</w:txbxContent>"
    body = (
        f"<w:p><w:r><w:t>Przed</w:t><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wps:wsp>{box}</wps:wsp>"
        f"</w:drawing></mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
        "<w:del><w:r><w:delText>usunięte</w:delText></w:r></w:del><w:ins><w:r><w:t> i wstawione</w:t></w:r></w:ins>"
        "<w:r><w:instrText>HYPERLINK x</w:instrText></w:r><w:hyperlink><w:r><w:t> łącze</w:t></w:r></w:hyperlink>"
        "<w:r><w:tab/><w:t>po</w:t><w:br/><w:t>wiersz</w:t></w:r></w:p>"
        + paragraph("Wstęp 3", "Spis")
        + f"<w:sdt><w:sdtPr/><w:sdtContent>{paragraph('W kontrolce')}</w:sdtContent></w:sdt>"
    )
    styles = '<w:style w:styleId="Spis"><w:name w:val="toc 1"/></w:style>'
    assert load("a.docx", word(body, styles=styles)).text == (
        "Przed i wstawione łącze\tpo\nwiersz\n\nW ramce\n\nW kontrolce"
    )


def test_a_table_of_one_column_is_a_frame_and_cells_hold_all_they_have() -> None:
    def cell(inside: str) -> str:
        return f"<w:tc>{inside}</w:tc>"

    inner = f"<w:tbl><w:tr>{cell(paragraph('i'))}{cell(paragraph('j'))}</w:tr></w:tbl>"
    title = paragraph("Tytuł", more='<w:outlineLvl w:val="0"/>')
    frame = f"<w:tbl><w:tr>{cell(title)}</w:tr></w:tbl>"
    both = cell(paragraph("a") + paragraph("b")) + cell(inner)
    data = f"<w:tbl><w:tr>{both}</w:tr><w:tr>{cell('')}{cell('')}</w:tr></w:tbl>"
    assert blocks(load("a.docx", word(frame + data))) == [(("Tytuł",), "Tytuł\n\na b | i j")]


NUMBERS = (
    f'<w:numbering {W}><w:abstractNum w:abstractNumId="0">'
    '<w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="decimal"/><w:lvlText w:val="§ %1."/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%2)"/></w:lvl>'
    '<w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1.%2.%3"/></w:lvl>'
    '<w:lvl w:ilvl="3"><w:numFmt w:val="bullet"/><w:lvlText w:val="•"/></w:lvl></w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="0"/>'
    '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num></w:numbering>'
)


def test_list_numbers_are_counted_as_word_shows_them() -> None:
    numbering = Numbering(parse_xml(NUMBERS.encode()))
    asked = [("1", 0), ("1", 1), ("1", 1), ("1", 2), ("1", 0), ("1", 1), ("1", 3), ("2", 0), ("2", 0), ("1", 0)]
    assert [numbering.next(num, level) for num, level in asked] == [
        "§ 3. ", "a) ", "b) ", "3.b.I ", "§ 4. ", "a) ", "      - ", "§ 1. ", "§ 2. ", "§ 3. ",
    ]  # fmt: skip
    assert [numbering.next(*odd) for odd in (("0", 0), ("9", 0), ("1", 8), ("1", -1), ("1", 99))] == [""] * 5
    assert Numbering(None).next("1", 0) == ""


def test_slides_are_pages_under_their_titles_with_notes_tables_and_groups() -> None:
    document = load_fixture("zapiski.pptx")
    assert document.title == "Zapiski z suszarni"
    assert [(block.page, block.heading_path, block.text) for block in document.blocks] == [
        (1, ("Dlaczego suszyć",), "Dlaczego suszyć\n\nSmak zostaje\n- bez cukru\n\nPrzypomnij o słoikach."),
        (2, ("Drying times",), "Drying times\n\nFruit | Hours\nApples | 8\n\nW grupie kształtów"),
    ]


def test_a_slide_that_is_missing_costs_itself_and_the_others_keep_their_numbers() -> None:
    document = load("a.pptx", changed("zapiski.pptx", lambda parts: parts.pop("ppt/slides/slide1.xml") and None))
    assert [(block.page, block.heading_path) for block in document.blocks] == [(2, ("Drying times",))]
    assert document.warnings == ("a slide is missing from the file",)


def test_a_chart_tells_its_names_and_a_presentation_without_a_title_is_called_by_its_first_slide() -> None:
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Cm

    deck = Presentation()
    deck.core_properties.title = "PowerPoint Presentation"
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Zbiory\vroku"
    data = CategoryChartData()
    data.categories = ["Jabłka", "Śliwki"]
    data.add_series("Rok 2026", (12.5, 7.0))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Cm(1), Cm(5), Cm(8), Cm(8), data)
    whole = io.BytesIO()
    deck.save(whole)
    document = load("a.pptx", whole.getvalue())
    assert document.title == "Zbiory roku"
    assert document.text == "Zbiory\nroku\n\nRok 2026\nJabłka\nŚliwki"


def test_sheets_are_pages_and_each_row_carries_its_columns_names() -> None:
    document = load_fixture("zapiski.xlsx")
    assert document.title == "Zapiski z suszarni"
    assert [(block.page, block.heading_path, block.text) for block in document.blocks] == [
        (
            1,
            ("Zbiory",),
            "Zbiory\nDziennik suszenia\nOwoc | Waga (kg) | Data\nOwoc: Jabłka | Waga (kg): 12.5 | Data: 2026-09-14\n"
            "Owoc: Śliwki | Waga (kg): 7 | Data: 2026-10-02 18:30:00",
        ),
        (2, ("Numbers",), "Numbers\n1 | 2\n3 | 0.3"),
    ]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([["a", "b"], ["1", ""], ["", "2"], ["1", "2"]], ["a | b", "1", "2", "a: 1 | b: 2"]),
        ([["Region", "2023", "2024"], ["x", "1", "2"]], ["Region | 2023 | 2024", "Region: x | 2023: 1 | 2024: 2"]),
        ([["x", "1"], ["y", "2"]], ["x | 1", "y | 2"]),
        ([["", "a", "b"], ["k", "1", "2", "z"]], ["a | b", "k | a: 1 | b: 2 | z"]),
        ([["a:", "b\nc"], ["p\n q", " "], ["p", "q"]], ["a: | b c", "p q", "a: p | b c: q"]),
        ([[""], [], [" "]], []),
    ],
)
def test_rows_read_as_lines_that_are_understood_alone(rows: list[list[str]], lines: list[str]) -> None:
    assert list(row_lines(rows)) == lines


def test_a_table_is_read_as_far_as_the_budget_goes() -> None:
    budget = Budget()
    assert list(budget.rows([["a", ""], ["b", "c"]])) == [["a", ""], ["b", "c"]]
    assert budget.warning is None
    cells = itertools.repeat(["x"] * 1000 + [""] * 100, 2000)
    assert sum(1 for _ in budget.rows(cells)) == 999
    assert budget.warning == "only the first 1,000,000 filled cells are read"
    assert list(budget.rows([["a"]])) == []
    long = Budget()
    assert sum(1 for _ in long.rows([["x" * 30_000_000]] * 9)) == 3
    assert long.warning == "only the first 100,000,000 characters of cells are read"


def test_formulas_show_their_last_value_and_odd_styles_cost_only_the_dates() -> None:
    def formula(parts: dict[str, bytes]) -> None:
        sheet = parts["xl/worksheets/sheet2.xml"]
        parts["xl/worksheets/sheet2.xml"] = sheet.replace(b"<v>3</v>", b"<f>1+2</f><v>3</v>")

    assert "3 | 0.3" in load("a.xlsx", changed("zapiski.xlsx", formula)).text

    def style(parts: dict[str, bytes]) -> None:
        parts["xl/styles.xml"] = parts["xl/styles.xml"].replace(b'numFmtId="0"', b'numFmtId="none"', 1)

    document = load("a.xlsx", changed("zapiski.xlsx", style))
    assert "Owoc: Jabłka | Waga (kg): 12.5 | Data: 46279" in document.text
    assert document.warnings == ("the styles cannot be read: dates are shown as numbers of days",)


def as_strict(parts: dict[str, bytes]) -> None:
    for name, data in parts.items():
        parts[name] = re.sub(
            rb"http://schemas.openxmlformats.org/(officeDocument|wordprocessingml|presentationml|drawingml)/2006/"
            rb"(relationships|main)",
            rb"http://purl.oclc.org/ooxml/\1/\2",
            data,
        )


def with_macros(parts: dict[str, bytes]) -> None:
    for plain, macros in (
        (b"openxmlformats-officedocument.wordprocessingml.document.main", b"ms-word.document.macroEnabled.main"),
        (
            b"openxmlformats-officedocument.presentationml.presentation.main",
            b"ms-powerpoint.presentation.macroEnabled.main",
        ),
    ):
        parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(plain, macros)


def without_picture(parts: dict[str, bytes]) -> None:
    for name in ("word/_rels/document.xml.rels", "ppt/slides/_rels/slide1.xml.rels"):
        if name in parts:
            image = b'<Relationship Id="i9" Type="http://x/image" Target="media/gone.png"/></Relationships>'
            parts[name] = parts[name].replace(b"</Relationships>", image)


def test_a_damaged_part_of_a_package_costs_what_is_damaged_in_it() -> None:
    def change(parts: dict[str, bytes]) -> None:
        parts["docProps/core.xml"] = b"\0"
        parts["word/document.xml"] = parts["word/document.xml"].replace(b"Storage", b"Storage & <jars")

    document = load("a.docx", changed("zapiski.docx", change))
    assert document.title == "Zapiski z suszarni"
    assert document.text.startswith(load_fixture("zapiski.docx").text.split("Storage")[0])
    assert "Storage" in document.text
    assert [warning.split()[0] for warning in sorted(document.warnings)] == ["docProps/core.xml", "word/document.xml"]


@pytest.mark.parametrize("change", [as_strict, with_macros, without_picture])
@pytest.mark.parametrize("name", ["zapiski.docx", "zapiski.pptx"])
def test_what_the_libraries_refuse_is_read_all_the_same(name: str, change: Change) -> None:
    assert blocks(load(name, changed(name, change))) == blocks(load_fixture(name))


LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "LOL">'
    + "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True))
    + '<!ENTITY z SYSTEM "file:///etc/passwd">]>'
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("zapiski.docx", "word/document.xml"),
        ("zapiski.docx", "word/_rels/document.xml.rels"),
        ("zapiski.pptx", "ppt/slides/slide1.xml"),
        ("zapiski.xlsx", "xl/worksheets/sheet1.xml"),
        ("zapiski.xlsx", "xl/workbook.xml"),
    ],
)
def test_a_document_type_in_an_office_file_is_refused(name: str, part: str, encoding: str) -> None:
    def change(parts: dict[str, bytes]) -> None:
        body = re.sub(rb"<\?xml[^>]*\?>", b"", parts[part]).decode()
        parts[part] = (f'<?xml version="1.0" encoding="{encoding}"?>{LAUGHS}{body}').encode(encoding)

    error = failure(name, changed(name, change))
    assert error.reason == "damaged"
    assert "document type" in error.message


@pytest.mark.parametrize("name", ["zapiski.docx", "zapiski.pptx", "zapiski.xlsx", "ziola.odt", "ziola.ods"])
def test_an_office_zip_bomb_is_refused(name: str) -> None:
    def change(parts: dict[str, bytes]) -> None:
        parts["docProps/more.xml"] = b"<a>" + b" " * 30_000_000

    assert failure(name, changed(name, change)).reason == "too large when unpacked"


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_an_encrypted_office_file_needs_a_password(name: str) -> None:
    ole = bytearray(made.old_word())
    stream = "EncryptedPackage".encode("utf-16-le") + b"\0\0"
    ole[512 + 128 : 512 + 128 + len(stream)] = stream
    error = failure(name, bytes(ole))
    assert (error.reason, error.skipped) == ("needs a password", False)
    assert error.fix


def test_a_zip_file_with_encrypted_entries_needs_a_password() -> None:
    data = bytearray((FIXTURES / "zapiski.docx").read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    assert failure("a.docx", bytes(data)).reason == "needs a password"


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx"])
def test_a_zip_file_that_is_no_office_file_is_damaged(name: str) -> None:
    kinds = made.zipped({"[Content_Types].xml": "<Types/>", "_rels/.rels": "<Relationships/>"})
    for data in (made.zipped({"[Content_Types].xml": b"\xff"}), kinds):
        assert failure(name, data).reason == "damaged"


@pytest.mark.parametrize("name", ["zapiski.docx", "zapiski.pptx", "zapiski.xlsx"])
def test_a_file_cut_short_or_with_a_missing_part_is_told_as_that(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    for tenth in range(10):
        assert failure(name, whole[: len(whole) * tenth // 10 + 64]).reason in ("damaged", "binary", "empty")
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        parts = archive.namelist()
    for part in parts:
        try:
            document = load(name, changed(name, lambda entries, part=part: entries.pop(part) and None))  # type: ignore[misc]
        except DocumentError as error:
            assert error.reason in ("damaged", "empty"), (part, error.message)
        else:
            assert document.text


def test_a_package_that_is_not_installed_is_named_with_its_command() -> None:
    with pytest.raises(DocumentError) as caught:
        require("bigos_no_such_module", "python-nonesuch")
    assert caught.value.reason == "needs python-nonesuch"
    assert caught.value.fix == "pip install python-nonesuch"

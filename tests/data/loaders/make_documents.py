# SPDX-License-Identifier: GPL-2.0-only
"""Writes the ebooks and office files of this folder: `python make_documents.py`. The words are this project's own."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
TITLE = "Zapiski z suszarni"
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="OEBPS/package.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
ODF = " ".join(
    f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for short, name in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("draw", "drawing"),
        ("presentation", "presentation"),
        ("meta", "meta"),
    )
)


def zipped(entries: dict[str, str | bytes]) -> bytes:
    """A ZIP file with a fixed date, `mimetype` first and stored."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return whole.getvalue()


def xhtml(body: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f"<head><title>{TITLE}</title></head><body>{body}</body></html>"
    )


def epub_entries() -> dict[str, str | bytes]:
    """An EPUB 3: a chapter with headings, one without that the navigation cuts in two, one that continues it, notes."""
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/package.opf": (
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">x</dc:identifier>'
            f"<dc:title>{TITLE}</dc:title><dc:language>pl</dc:language></metadata><manifest>"
            '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
            '<item id="a" href="tekst/Rozdzia%C5%82%201.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="b" href="tekst/b.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="c" href="tekst/c.xhtml" media-type="application/xhtml+xml"/>'
            '<item id="img" href="cover.jpg" media-type="image/jpeg" properties="cover-image"/>'
            '</manifest><spine><itemref idref="a"/><itemref idref="b"/><itemref idref="c"/></spine></package>'
        ),
        "OEBPS/nav.xhtml": xhtml(
            '<nav epub:type="toc"><h1>Spis treści</h1><ol>'
            '<li><a href="tekst/Rozdzia%C5%82%201.xhtml">1. Grzyby</a></li>'
            '<li><a href="tekst/b.xhtml">Owoce</a><ol><li><a href="tekst/b.xhtml#sliwki">Śliwki</a></li></ol></li>'
            "</ol></nav>"
        ),
        "OEBPS/tekst/Rozdział 1.xhtml": xhtml(
            "<section><h1>Grzyby</h1><p>Borowiki suszy się w&nbsp;czterdziestu stopniach.</p>"
            '<h2>Przechowywanie</h2><p>W szczelnym słoiku, z dala od światła.<span epub:type="pagebreak">17</span></p>'
            "</section>"
        ),
        "OEBPS/tekst/b.xhtml": xhtml(
            '<p>Jabłka kroi się w krążki.</p><p><a id="sliwki"/>Śliwki suszy się w całości.</p>'
            '<aside epub:type="footnote"><p>Węgierki są najlepsze.</p></aside>'
        ),
        "OEBPS/tekst/c.xhtml": xhtml("<p>Gotowe śliwki są miękkie i nie kleją się do palców.</p>"),
    }


def mobi(title: str = TITLE, encryption: int = 0) -> bytes:
    """A Mobipocket 6 book, not compressed, in windows-1252 as the first readers wanted it."""
    html = (
        '<html><head><meta http-equiv="content-type" content="text/html; charset=windows-1252"/></head><body>'
        "<h1>Drying fruit</h1><p>Slice the apples thinly \x96 about 4\xa0mm \x96 and core them.</p>"
        "<mbp:pagebreak/><h1>Cr\xe8me de p\xeache</h1><p>Purée keeps for a week.</p></body></html>"
    ).encode("latin-1")
    name = title.encode("utf-8")
    header = bytearray(b"\xff" * (16 + 232))
    struct.pack_into(">HHLHHHH", header, 0, 1, 0, len(html), 1, 4096, encryption, 0)
    header[16:20] = b"MOBI"
    struct.pack_into(">LLLLL", header, 20, 232, 2, 1252, 1, 6)
    struct.pack_into(">LLL", header, 0x50, 2, len(header), len(name))
    struct.pack_into(">L", header, 0x6C, 2)
    struct.pack_into(">L", header, 0x80, 0)
    struct.pack_into(">H", header, 0xF2, 0)
    return palm([bytes(header) + name + b"\0" * 4, html, b"\xe9\x8e\r\n"], b"BOOKMOBI")


def palm(records: list[bytes], kind: bytes) -> bytes:
    """A Palm database of these records."""
    start = 78 + 8 * len(records) + 2
    index = b""
    for number, record in enumerate(records):
        index += struct.pack(">LL", start, number)
        start += len(record)
    head = struct.pack(">32sHHLLLLLL", b"Zapiski_suszarni", 0, 0, 0, 0, 0, 0, 0, 0) + kind
    head += struct.pack(">LLH", len(records), 0, len(records))
    return head + index + b"\0\0" + b"".join(records)


def palm_doc(text: bytes) -> bytes:
    """The format of the first Palm readers: plain text, with a name of 31 bytes."""
    parts = [text[at : at + 4096] for at in range(0, len(text), 4096)]
    return palm([struct.pack(">HHLHHL", 1, 0, len(text), len(parts), 4096, 0), *parts], b"TEXtREAd")


def fb2() -> bytes:
    text = (
        '<?xml version="1.0" encoding="windows-1250"?>\n'
        '<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0" xmlns:l="http://www.w3.org/1999/xlink">'
        f"<description><title-info><book-title>{TITLE}</book-title></title-info></description><body>"
        "<section><title><p>Część pierwsza</p></title><section><title><p>Zioła</p></title>"
        "<p>Miętę zbiera się <strong>przed</strong> kwitnieniem.</p><poem><stanza><v>Mięta, melisa,</v><v>szałwia</v>"
        "</stanza></poem><table><tr><th>Zioło</th><th>Dni</th></tr><tr><td>Mięta</td><td>6</td></tr></table></section>"
        '</section></body><body name="notes"><section><p>Nigdy na słońcu.</p></section></body>'
        '<binary id="c.jpg" content-type="image/jpeg">QUJD</binary></FictionBook>'
    )
    return text.encode("cp1250")


def docx() -> bytes:
    from docx import Document

    document = Document()
    document.core_properties.title = TITLE
    document.add_heading(TITLE, 0)
    document.add_heading("Przygotowanie", 1)
    document.add_paragraph("Zażółć gęślą jaźń, a potem umyj owoce.")
    document.add_heading("Czasy suszenia", 2)
    table = document.add_table(0, 2)
    for row in (("Owoc", "Godziny"), ("Jabłka", "8"), ("Śliwki", "20")):
        for cell, words in zip(table.add_row().cells, row, strict=True):
            cell.text = words
    document.add_heading("Storage", 1)
    document.add_paragraph("Keep in jars.", style="List Bullet")
    document.add_paragraph("Label the jars.", style="List Bullet")
    whole = io.BytesIO()
    document.save(whole)
    return whole.getvalue()


def pptx() -> bytes:
    from pptx import Presentation
    from pptx.util import Cm

    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "Dlaczego suszyć"
    first.placeholders[1].text = "Smak zostaje"
    deeper = first.placeholders[1].text_frame.add_paragraph()
    deeper.text, deeper.level = "bez cukru", 1
    first.notes_slide.notes_text_frame.text = "Przypomnij o słoikach."
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Drying times"
    table = second.shapes.add_table(2, 2, Cm(1), Cm(4), Cm(8), Cm(2)).table
    for place, words in enumerate(("Fruit", "Hours", "Apples", "8")):
        table.cell(place // 2, place % 2).text = words
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(Cm(1), Cm(9), Cm(5), Cm(1)).text_frame.text = "W grupie kształtów"
    deck.core_properties.title = TITLE
    whole = io.BytesIO()
    deck.save(whole)
    return whole.getvalue()


def xlsx() -> bytes:
    import datetime

    from openpyxl import Workbook

    book = Workbook()
    book.properties.title = TITLE
    sheet = book.active
    sheet.title = "Zbiory"
    sheet.append(["Dziennik suszenia"])
    sheet.append(["Owoc", "Waga (kg)", "Data"])
    sheet.append(["Jabłka", 12.5, datetime.datetime(2026, 9, 14)])
    sheet.append(["Śliwki", 7.0, datetime.datetime(2026, 10, 2, 18, 30)])
    other = book.create_sheet("Numbers")
    other.append([1, 2])
    other.append([3, 0.1 + 0.2])
    whole = io.BytesIO()
    book.save(whole)
    return whole.getvalue()


def odf(kind: str, body: str) -> bytes:
    """One of the three OpenDocument formats around a body."""
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": (
                f"<office:document-content {ODF}><office:body>{body}</office:body></office:document-content>"
            ),
            "meta.xml": (
                f'<office:document-meta {ODF} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
                f"<dc:title>{TITLE}</dc:title></office:meta></office:document-meta>"
            ),
            "META-INF/manifest.xml": "<manifest/>",
        }
    )


ODT_BODY = (
    "<office:text><text:tracked-changes><text:p>skreślone</text:p></text:tracked-changes>"
    '<text:h text:outline-level="1">Suszenie\n   ziół</text:h><text:p>Mięta<text:s text:c="2"/>'
    "i melisa<text:note><text:note-citation>1"
    "</text:note-citation><text:note-body><text:p>Zbierana rano.</text:p></text:note-body></text:note> schną w cieniu."
    "</text:p><text:list><text:list-item><text:p>na sitach</text:p><text:list><text:list-item><text:p>cienko</text:p>"
    '</text:list-item></text:list></text:list-item></text:list><text:h text:outline-level="2">Czasy</text:h>'
    "<table:table><table:table-row><table:table-cell><text:p>Zioło</text:p></table:table-cell><table:table-cell>"
    "<text:p>Dni</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell><text:p>Mięta</text:p>"
    "</table:table-cell><table:table-cell><text:p>6</text:p></table:table-cell></table:table-row></table:table>"
    "</office:text>"
)
ODP_BODY = (
    '<office:presentation><draw:page draw:name="p1"><draw:frame presentation:class="title"><draw:text-box><text:p>'
    "Zioła w kuchni</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box><text:p>Mięta do herbaty</text:p>"
    "</draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>Pokaż słoik.</text:p>"
    "</draw:text-box></draw:frame></presentation:notes></draw:page><draw:page><draw:frame><draw:text-box><text:p>"
    "The end</text:p></draw:text-box></draw:frame></draw:page></office:presentation>"
)
ODS_BODY = (
    '<office:spreadsheet><table:table table:name="Zioła"><table:table-row><table:table-cell><text:p>Zioło</text:p>'
    "</table:table-cell><table:table-cell><text:p>Zebrane</text:p></table:table-cell></table:table-row><table:table-row>"
    '<table:table-cell><text:p>Szałwia</text:p></table:table-cell><table:table-cell office:value-type="date" '
    'office:date-value="2026-06-21"><text:p>21.06.26</text:p></table:table-cell>'
    '<table:table-cell table:number-columns-repeated="16382"/></table:table-row>'
    '<table:table-row table:number-rows-repeated="1048574"><table:table-cell table:number-columns-repeated="16384"/>'
    "</table:table-row></table:table></office:spreadsheet>"
)
FODT = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document {ODF} office:mimetype='
    '"application/vnd.oasis.opendocument.text"><office:body>' + ODT_BODY + "</office:body></office:document>"
)
RTF = rb"""{\rtf1\ansi\ansicpg1250\deff0{\fonttbl{\f0\froman\fcharset238 Times;}}{\info{\title Zapiski z suszarni}}
{\stylesheet{\s1\outlinelevel0 heading 1;}}{\header stopka}
\pard\plain\s1\outlinelevel0 Suszenie \'9cliwek\par
\pard\plain W\'eagierki susz\'b9 si\'ea dob\'ea{\footnote \pard\plain Albo d\u322?u\u380?ej.\par}.\par
\trowd\cellx1\cellx2\pard\intbl Owoc\cell Godziny\cell\row\pard\intbl \'8cliwki\cell 20\cell\row
\pard\plain\s2\outlinelevel1 Storage\par\pard Keep {\b dry} \emdash  always.\par}
"""
NOTEBOOK = """{"nbformat": 4, "nbformat_minor": 5, "metadata": {"language_info": {"name": "python"}}, "cells": [
{"cell_type": "markdown", "metadata": {}, "source": ["# Ubytek masy\\n", "\\n", "Waga przed i po suszeniu."]},
{"cell_type": "code", "execution_count": 1, "metadata": {}, "source": "# kilogramy\\nprint(12.5 - 2.1)",
 "outputs": [{"output_type": "stream", "name": "stdout", "text": ["10.4\\n"]},
  {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}}]},
{"cell_type": "markdown", "metadata": {}, "source": "## Błędy"},
{"cell_type": "code", "metadata": {}, "source": "1 / 0", "outputs": [{"output_type": "error", "ename":
 "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\\u001b[31mTraceback\\u001b[0m"]}]}]}
"""


def old_word() -> bytes:
    """The envelope of a Word 97 file as far as it says what it is; there is no document in it."""
    sector = bytearray(512)
    sector[:8] = bytes.fromhex("d0cf11e0a1b11ae1")
    struct.pack_into("<5H", sector, 24, 0x3E, 3, 0xFFFE, 9, 6)
    directory = bytearray(512)
    for place, name in enumerate(("Root Entry", "WordDocument")):
        text = name.encode("utf-16-le") + b"\0\0"
        directory[128 * place : 128 * place + len(text)] = text
        struct.pack_into("<HBB", directory, 128 * place + 64, len(text), 5 - 3 * place, 1)
    return bytes(sector + directory)


def main() -> None:
    files = {
        "zapiski.epub": zipped(epub_entries()),
        "drying.mobi": mobi(),
        "zapiski.fb2": fb2(),
        "zapiski.docx": docx(),
        "zapiski.pptx": pptx(),
        "zapiski.xlsx": xlsx(),
        "ziola.odt": odf("text", ODT_BODY),
        "ziola.odp": odf("presentation", ODP_BODY),
        "ziola.ods": odf("spreadsheet", ODS_BODY),
        "ziola.fodt": FODT.encode(),
        "sliwki.rtf": RTF,
        # Laid out as the formatter of the code does, which reads notebooks too.
        "ubytek.ipynb": (json.dumps(json.loads(NOTEBOOK), indent=1, ensure_ascii=False) + "\n").encode(),
        "stary.doc": old_word(),
    }
    for name, data in files.items():
        (HERE / name).write_bytes(data)


if __name__ == "__main__":
    main()

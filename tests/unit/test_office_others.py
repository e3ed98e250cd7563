# SPDX-License-Identifier: GPL-2.0-only
"""OpenDocument, RTF, notebooks, and the old Office formats that LibreOffice converts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from bigos.errors import DocumentError
from bigos.loaders import LoadOptions
from bigos.loaders.external import run_converter, scratch_folder
from data.loaders import make_documents as made
from loaded_documents import FIXTURES, blocks, failure, load, load_fixture, program
from processes import is_running, until


@pytest.mark.parametrize(("name", "title"), [("ziola.odt", "Zapiski z suszarni"), ("ziola.fodt", "Suszenie ziół")])
def test_an_odt_has_its_headings_lists_notes_and_tables(name: str, title: str) -> None:
    document = load_fixture(name)
    assert document.title == title
    assert blocks(document) == [
        (
            ("Suszenie ziół",),
            "Suszenie ziół\n\nMięta  i melisa schną w cieniu.\n\n[1] Zbierana rano.\n\n- na sitach\n  - cienko",
        ),
        (("Suszenie ziół", "Czasy"), "Czasy\n\nZioło | Dni\nMięta | 6"),
    ]


def test_a_table_in_a_cell_of_an_odt_is_read_once() -> None:
    def table(*cells: str) -> str:
        inside = "".join(f"<table:table-cell>{cell}</table:table-cell>" for cell in cells)
        row = f"<table:table-row>{inside}</table:table-row>"
        return f"<table:table><table:table-header-rows>{row}</table:table-header-rows></table:table>"

    a, b = "<text:p>a</text:p>", "<text:p>b</text:p>"
    assert load("a.odt", made.odf("text", f"<office:text>{table(a, table(b, b))}</office:text>")).text == "a | b b"
    assert load("a.odt", made.odf("text", f"<office:text>{table(a + table(b))}</office:text>")).text == "a\n\nb"


def test_an_odp_has_a_page_a_slide_and_the_notes() -> None:
    assert [(block.page, block.heading_path, block.text) for block in load_fixture("ziola.odp").blocks] == [
        (1, ("Zioła w kuchni",), "Zioła w kuchni\n\nMięta do herbaty\n\nPokaż słoik."),
        (2, (), "The end"),
    ]


def test_an_ods_has_a_page_a_sheet_and_no_end_of_repeated_blanks() -> None:
    assert [(block.page, block.heading_path, block.text) for block in load_fixture("ziola.ods").blocks] == [
        (1, ("Zioła",), "Zioła\nZioło | Zebrane\nZioło: Szałwia | Zebrane: 2026-06-21")
    ]


def test_a_sheet_filled_to_its_edges_by_repetition_is_bounded() -> None:
    body = (
        '<office:spreadsheet><table:table table:name="x"><table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell table:number-columns-repeated="16384"><text:p>krem</text:p></table:table-cell>'
        "</table:table-row></table:table></office:spreadsheet>"
    )
    document = load("a.ods", made.odf("spreadsheet", body))
    assert len(document.text) < 20_000_000
    assert document.warnings == () or "only the first" in document.warnings[0]


def test_an_encrypted_odt_needs_a_password() -> None:
    whole = made.zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": b"\x93\x11\x80",
            "META-INF/manifest.xml": "<manifest><file-entry><encryption-data/></file-entry></manifest>",
        }
    )
    error = failure("a.odt", whole)
    assert (error.reason, error.skipped) == ("needs a password", False)


def test_entities_in_an_odt_are_neither_fetched_nor_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("TAJNE")
    laughs = "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True))
    doctype = f'<!DOCTYPE x [<!ENTITY x SYSTEM "file://{secret}"><!ENTITY a "LOL">{laughs}]>'
    text = f"{doctype}<office:document-content {made.ODF}><office:body><office:text><text:p>przed &x;&i; po</text:p>"
    text += "</office:text></office:body></office:document-content>"
    whole = made.zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": text})
    try:
        shown = load("a.odt", whole).text
    except DocumentError as error:
        assert error.reason == "damaged"
    else:
        assert "TAJNE" not in shown
        assert "LOL" not in shown
        assert len(shown) < 100


def test_an_rtf_has_its_headings_cells_notes_and_polish_letters() -> None:
    document = load_fixture("sliwki.rtf")
    assert document.title == "Zapiski z suszarni"
    assert blocks(document) == [
        (
            ("Suszenie śliwek",),
            "Suszenie śliwek\nWęgierki suszą się dobę [ Albo dłużej. ].\nOwoc | Godziny\nŚliwki | 20",
        ),
        (("Suszenie śliwek", "Storage"), "Storage\nKeep dry — always."),
    ]


@pytest.mark.parametrize(
    ("header", "body", "text"),
    [
        (rb"\ansicpg1250", rb"\'b9\'ea\'9c\'bf", "ąęśż"),
        (rb"\ansicpg1250{\fonttbl{\f0\fcharset0 A;}}\f0", rb"\'b9\'ea", "ąę"),
        (rb"\ansicpg1250{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset238 B;}}", rb"{\f0 \'e0}{\f1 \'b9}", "àą"),
        (rb"\ansicpg1252{\fonttbl{\f0\fcharset238 A;}}\f0", rb"\'b9", "ą"),
        (rb"\ansicpg1250", "\u0105\u0119".encode("cp1250"), "ąę"),
        (rb"\ansicpg1252", rb"\u322?\u243\'f3d\u378 z", "łódź"),
        (rb"\ansicpg1252", rb"\uc1\u-10179?\u-8704?", "\U0001f600"),
        (rb"\ansicpg1252", rb"a{\pict\bin4 }{}\}c", "ac"),
        (rb"\ansicpg1252", b"a{\\pict " + b"0f" * 5000 + b"}c", "ac"),
        (rb"\ansicpg1252", rb"\uc a\u99999999b\u-99999c\u9999999999999999d", "abcd"),
        (rb"\ansicpg1252", rb"a\~b\_c\-d", "a\xa0b\u2011cd"),
        (rb"\ansicpg1252", rb"{\*\unknown hidden}\{x\}", "{x}"),
    ],
)
def test_rtf_characters_come_from_the_code_page_that_the_text_is_in(header: bytes, body: bytes, text: str) -> None:
    between = b"" if header.endswith(b"}") else b" "
    assert load("a.rtf", rb"{\rtf1\ansi" + header + between + body + b"}").text == text


def test_the_title_of_an_rtf_is_the_one_in_unicode() -> None:
    info = rb"{\info{\upr{\title \'3f\'f3\'3f}{\*\ud{\title \u322\'3f\u243\'f3\u380\'3fko}}}}"
    assert load("a.rtf", rb"{\rtf1\ansi\ansicpg1252" + info + rb"\pard x\par}").title == "łóżko"


@pytest.mark.parametrize(
    ("style", "used", "path"),
    [
        (rb"{\s1\ql\sbasedon0 heading 1;}", rb"\s1", ("Wstęp",)),
        (rb"{\s15\f2\af9 Nag\'b3\'f3wek 2;}", rb"\s15", ("Wstęp",)),
        (rb"{\s3\outlinelevel1\fs28 Moje;}", rb"\s3", ("Wstęp",)),
        (rb"{\s3\fs28 Moje;}{\s30 heading 1;}", rb"\s3", ()),
        (rb"{\s60\brsp80 Title;}", rb"\s60", ("Wstęp",)),
        (b"", rb"\outlinelevel9", ()),
    ],
)
def test_an_rtf_heading_is_one_by_its_style_too(style: bytes, used: bytes, path: tuple[str, ...]) -> None:
    body = (
        rb"{\stylesheet"
        + style
        + rb"}\pard"
        + used
        + rb" Wst\u281?p\par\pard {\listtext\u61623 ?\tab}Tre\u347?\u263?\par}"
    )
    document = load("a.rtf", rb"{\rtf1\ansi\ansicpg1250" + body)
    assert document.text == "Wstęp\n- Treść"
    assert document.blocks[-1].heading_path == path


def test_a_paragraph_in_a_heading_style_of_an_odt_is_a_heading() -> None:
    styles = (
        '<office:automatic-styles><style:style style:name="P1" style:family="paragraph" '
        'style:parent-style-name="Heading_20_2"/><style:style style:name="Heading_20_2" style:family="paragraph"/>'
        '<style:style style:name="P2" style:family="paragraph" style:parent-style-name="P2"/></office:automatic-styles>'
    )
    body = (
        '<office:text><text:p text:style-name="Title">Całość</text:p><text:p text:style-name="P1">Wstęp</text:p>'
        '<text:p text:style-name="P2">Treść</text:p></office:text>'
    )
    whole = (
        f'<?xml version="1.0"?><office:document {made.ODF} '
        'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0">'
        f"{styles}<office:styles/><office:body>{body}</office:body></office:document>"
    )
    titles = '<office:styles><style:style style:name="Title" style:family="paragraph"/></office:styles>'
    document = load("a.fodt", whole.replace("<office:styles/>", titles).encode())
    assert document.blocks[-1].heading_path == ("Całość", "Wstęp")
    assert document.title == "Całość"
    named = "<office:meta><dc:title xmlns:dc='d'>Nazwa</dc:title></office:meta><office:body>"
    assert load("a.fodt", whole.replace("<office:body>", named).encode()).title == "Nazwa"


def test_a_notebook_is_its_cells_with_what_they_printed() -> None:
    document = load_fixture("ubytek.ipynb")
    assert document.kind == "document"
    assert {block.line_start for block in document.blocks} == {None}
    assert [(path, text.rstrip("\n")) for path, text in blocks(document)] == [
        (
            ("Ubytek masy",),
            "# Ubytek masy\n\nWaga przed i po suszeniu.\n\n```python\n# kilogramy\nprint(12.5 - 2.1)\n```\n\n"
            "```\n10.4\n```\n\n```\n<Figure>\n```",
        ),
        (
            ("Ubytek masy", "Błędy"),
            "## Błędy\n\n```python\n1 / 0\n```\n\n```\nZeroDivisionError: division by zero\n```",
        ),
    ]
    assert "iVBOR" not in document.text


def test_a_notebook_of_the_third_version_and_one_with_fences_and_floods_in_it() -> None:
    old = {"worksheets": [{"cells": [
        {"cell_type": "heading", "level": 2, "source": ["Stary"]},
        {"cell_type": "code", "input": ["s = '''\n````\n'''"], "outputs": [{"text": "x" * 90_000}]},
    ]}]}  # fmt: skip
    document = load("a.ipynb", json.dumps(old).encode())
    assert document.blocks[0].heading_path == ("Stary",)
    assert "`````\ns = '''\n````\n'''\n`````" in document.text
    assert len(document.text) < 21_000
    assert document.warnings == ("outputs are cut after 20,000 characters",)


@pytest.mark.parametrize(
    "text", ["[1]", "{}", '{"cells": 3}', "{", "[" * 100_000, '{"worksheets": 1}', "null", '{"cells": [}']
)
def test_what_is_no_notebook_is_damaged(text: str) -> None:
    assert failure("a.ipynb", text.encode()).reason == "damaged"


def test_a_notebook_with_odd_cells_keeps_the_others() -> None:
    cells = [None, 3, {"cell_type": "code"}, {"source": 7}, {"cell_type": "markdown", "source": ["# A", 4]}]
    document = load("a.ipynb", json.dumps({"cells": cells, "metadata": []}).encode())
    assert document.text.strip() == "# A"


def test_an_old_office_file_without_libreoffice_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    error = failure("a.doc", made.old_word())
    assert (error.reason, error.skipped) == ("needs LibreOffice", False)
    assert "libreoffice-writer" in error.fix


CONVERT = """
for argument; do last=$argument; done
case " $* " in *" --convert-to docx "*) ;; *) echo "wrong format: $*"; exit 1 ;; esac
case " $* " in *"-env:UserInstallation=file://"*) ;; *) echo "no profile"; exit 1 ;; esac
test -s "$last" || exit 1
test "$HOME" = "$PWD" || exit 1
grep -q 'ooInetProxyType" oor:op="fuse"><value>2<' profile/user/registrymodifications.xcu || exit 1
"""


def test_libreoffice_converts_an_old_word_file_which_is_then_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "soffice", f'{CONVERT}cp {FIXTURES}/zapiski.docx "${{last%.doc}}.docx"\n', monkeypatch)
    scratch = tmp_path / "scratch"
    document = load("a.doc", made.old_word(), LoadOptions(scratch=scratch))
    assert document.format == "legacy-office"
    assert blocks(document) == blocks(load_fixture("zapiski.docx"))
    assert list(scratch.iterdir()) == []


def test_a_scratch_folder_that_cannot_be_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "soffice", "exit 0\n", monkeypatch)
    (tmp_path / "file").write_text("x")
    for name, data in (("a.doc", made.old_word()), ("a.mobi", made.mobi())):
        error = failure(name, data, LoadOptions(scratch=tmp_path / "file" / "scratch"))
        assert error.reason == "no scratch space"
        assert error.fix.startswith("df -h")


def test_a_file_that_libreoffice_cannot_read_is_damaged_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "soffice", "echo 'source file could not be loaded'\n", monkeypatch)
    error = failure("a.doc", made.old_word(), LoadOptions(scratch=tmp_path))
    assert error.reason == "damaged"
    assert "could not be loaded" in error.message


def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "child"
    program(tmp_path / "bin", "hang", f"sleep 600 & echo $! > {note}; wait\n", monkeypatch)
    began = time.monotonic()
    with scratch_folder(tmp_path / "scratch") as folder, pytest.raises(DocumentError) as caught:
        run_converter(["hang"], folder, {}, name="hang", seconds=1.0)
    assert caught.value.reason == "timed out"
    assert time.monotonic() - began < 60
    child = int(note.read_text())
    until(lambda: not is_running(child))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_program_cannot_use_the_processor_for_ever_even_when_nobody_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_it = "while test $(ulimit -t) = unlimited; do sleep 0.01; done\n"
    program(tmp_path / "bin", "tell", wait_for_it + "ulimit -Ht\n", monkeypatch)
    with scratch_folder(tmp_path) as folder:
        assert run_converter(["tell"], folder, {}, name="tell", seconds=30.0) == "121"


def test_a_child_that_outlives_its_program_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "child"
    program(tmp_path / "bin", "leave", f"sleep 600 & echo $! > {note}; echo done\n", monkeypatch)
    with scratch_folder(None) as folder:
        assert run_converter(["leave"], folder, {}, name="leave") == "done"
    child = int(note.read_text())
    until(lambda: not is_running(child))


def test_an_ole_file_of_another_program_is_skipped() -> None:
    other = made.old_word().replace("WordDocument".encode("utf-16-le"), "SomethingNew".encode("utf-16-le"))
    assert failure("a.doc", other).reason == "damaged"
    error = failure("a.mobi", other)
    assert (error.reason, error.skipped) == ("unknown format", True)


@pytest.mark.parametrize("name", ["ziola.odt", "ziola.odp", "ziola.ods", "ziola.fodt", "sliwki.rtf", "ubytek.ipynb"])
def test_a_file_cut_short_anywhere_is_read_in_part_or_refused(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    for tenth in range(10):
        try:
            document = load(name, whole[: len(whole) * tenth // 10 + 1])
        except DocumentError as error:
            assert error.reason in ("damaged", "empty", "archive"), error.reason
        else:
            assert document.text

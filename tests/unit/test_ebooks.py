# SPDX-License-Identifier: GPL-2.0-only
"""Ebooks: the chapters' text under the titles of the table of contents, and what is broken costs only itself."""

from __future__ import annotations

import io
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigos.errors import DocumentError
from bigos.loaders import LoadOptions
from bigos.loaders.assembly import Assembly
from bigos.loaders.container import open_container
from bigos.loaders.epub import joined
from data.loaders import make_documents as made
from loaded_documents import FIXTURES, blocks, failure, load, program


def epub(changes: dict[str, str | bytes | None]) -> bytes:
    """The fixture with some entries replaced; None removes one."""
    entries = {**made.epub_entries(), **changes}
    return made.zipped({name: data for name, data in entries.items() if data is not None})


def package(spine: str = '<itemref idref="a"/><itemref idref="b"/><itemref idref="c"/>', *, extra: str = "") -> str:
    whole = str(made.epub_entries()["OEBPS/package.opf"])
    start, end = whole.index("<spine>"), whole.index("</spine>")
    return (whole[: start + 7] + spine + whole[end:]).replace("</manifest>", extra + "</manifest>")


def test_an_epub_is_its_chapters_under_the_titles_of_its_navigation() -> None:
    document = load("a.epub", (FIXTURES / "zapiski.epub").read_bytes())
    assert document.title == "Zapiski z suszarni"
    assert document.warnings == ()
    assert {(block.page, block.line_start) for block in document.blocks} == {(None, None)}
    assert blocks(document) == [
        (("1. Grzyby",), "Grzyby\n\nBorowiki suszy się w czterdziestu stopniach."),
        (("1. Grzyby", "Przechowywanie"), "Przechowywanie\n\nW szczelnym słoiku, z dala od światła."),
        (("Owoce",), "Jabłka kroi się w krążki."),
        (
            ("Owoce", "Śliwki"),
            "Śliwki suszy się w całości.\n\nWęgierki są najlepsze.\n\n"
            "Gotowe śliwki są miękkie i nie kleją się do palców.",
        ),
    ]


def ncx(folder: str = "") -> str:
    return (
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint id="1"><navLabel><text>Grzyby</text>'
        f'</navLabel><content src="{folder}tekst/Rozdzia%C5%82%201.xhtml"/></navPoint><navPoint id="2"><navLabel><text>'
        f'Owoce</text></navLabel><content src="{folder}tekst/b.xhtml"/><navPoint id="3"><navLabel><text>Śliwki</text>'
        f'</navLabel><content src="{folder}tekst/b.xhtml#sliwki"/></navPoint></navPoint></navMap></ncx>'
    )


@pytest.mark.parametrize(("name", "folder"), [("toc.ncx", ""), ("inny/toc.ncx", "../"), ("inny/toc.ncx", "")])
@pytest.mark.parametrize("nav", [None, made.xhtml("<p>no table here</p>"), "<html"])
def test_the_ncx_of_an_epub_2_gives_the_titles_where_there_is_no_navigation(
    nav: str | None, name: str, folder: str
) -> None:
    document = load(
        "a.epub",
        epub(
            {
                "OEBPS/nav.xhtml": nav,
                "OEBPS/" + name: ncx(folder),
                "OEBPS/package.opf": package(
                    extra=f'<item id="ncx" href="{name}" media-type="application/x-dtbncx+xml"/>'
                ),
            }
        ),
    )
    assert [path for path, _ in blocks(document)] == [
        ("Grzyby",), ("Grzyby", "Przechowywanie"), ("Owoce",), ("Owoce", "Śliwki"),
    ]  # fmt: skip


def test_a_chapter_with_a_heading_of_its_own_does_not_continue_the_one_before() -> None:
    changed = epub({"OEBPS/tekst/c.xhtml": made.xhtml("<h2>Posłowie</h2><p>Dziękuję.</p>")})
    assert blocks(load("a.epub", changed))[-1] == (("Posłowie",), "Posłowie\n\nDziękuję.")


CHAPTERS = ("Borowiki suszy się w", "W szczelnym słoiku", "krążki", "Śliwki suszy się", "Gotowe śliwki")


@pytest.mark.parametrize(
    ("changes", "missing", "warning"),
    [
        ({"mimetype": None}, (), None),
        ({"META-INF/container.xml": None}, (), None),
        ({"META-INF/container.xml": "<container"}, (), None),
        ({"META-INF/container.xml": made.CONTAINER.replace("OEBPS/p", "gone/p")}, (), None),
        ({"OEBPS/package.opf": package().replace("</spine></package>", "")}, (), None),
        ({"OEBPS/package.opf": package().replace(' xmlns="http://www.idpf.org/2007/opf"', "")}, (), None),
        ({"OEBPS/package.opf": package(spine="")}, (), "no reading order"),
        ({"OEBPS/package.opf": None}, (), "package document of the book cannot be read"),
        ({"OEBPS/package.opf": ""}, (), "package document of the book cannot be read"),
        (
            {"OEBPS/package.opf": package('<itemref idref="zzz"/><itemref idref="a"/><itemref/><itemref idref="b"/>')},
            ("Gotowe śliwki",),
            "does not list: zzz",
        ),
        ({"OEBPS/package.opf": package(extra='<item/><item id="q"/><item href="w"/>')}, (), None),
        ({"OEBPS/tekst/b.xhtml": None}, ("krążki", "Śliwki suszy się"), "missing from the book: OEBPS/tekst/b.xhtml"),
        ({"OEBPS/tekst/b.xhtml": b"\x93\7" * 900}, ("krążki", "Śliwki suszy się"), "no text: OEBPS/tekst/b.xhtml"),
        ({"OEBPS/tekst/b.xhtml": "<p>krążki<p>Śliwki suszy się<b>"}, (), None),
        ({"OEBPS/nav.xhtml": None}, (), None),
        ({"OEBPS/nav.xhtml": "\0\1\2"}, (), "table of contents"),
        ({"../../../../tmp/bigos-slip.txt": "x", "/tmp/bigos-slip.txt": "x"}, (), None),
        ({"OEBPS/cover.jpg": b"\xff\xd8"}, (), None),
    ],
)
def test_what_is_broken_in_an_epub_costs_only_itself(
    changes: dict[str, str | bytes | None], missing: tuple[str, ...], warning: str | None
) -> None:
    document = load("a.epub", epub(changes))
    assert [words for words in CHAPTERS if words not in document.text] == list(missing)
    assert bool(warning) == bool(document.warnings)
    assert warning is None or warning in document.warnings[0]
    assert not Path("/tmp/bigos-slip.txt").exists()


def test_a_book_that_lies_in_a_folder_of_its_zip_file_is_read() -> None:
    moved = {"ksiazka/" + name: data for name, data in made.epub_entries().items()}
    document = load("a.epub", made.zipped(moved))
    assert all(words in document.text for words in CHAPTERS)
    assert document.blocks[0].heading_path == ("1. Grzyby",)


def test_a_book_that_lacks_most_of_its_files_does_not_list_them_all() -> None:
    items = "".join(f'<item id="x{n}" href="x{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(3000))
    spine = '<itemref idref="a"/>' + "".join(f'<itemref idref="x{n}"/>' for n in range(3000))
    document = load("a.epub", epub({"OEBPS/package.opf": package(spine, extra=items)}))
    assert "Borowiki" in document.text
    assert len(document.warnings) == 21
    assert document.warnings[-1] == "and 2,980 more of the kind"


@pytest.mark.parametrize(
    ("asked", "entry"),
    [
        ("tekst/Zażółć 1.xhtml", "tekst/Zażółć 1.xhtml"),
        ("tekst/Za%C5%BC%C3%B3%C5%82%C4%87%201.xhtml", "tekst/Zażółć 1.xhtml"),
        (unicodedata.normalize("NFD", "tekst/Zażółć 1.xhtml"), "tekst/Zażółć 1.xhtml"),
        ("TEKST/zażółć 1.XHTML", "tekst/Zażółć 1.xhtml"),
        ("tekst/../tekst\\Zażółć 1.xhtml", "tekst/Zażółć 1.xhtml"),
        ("../../../tekst/a%b.xhtml", "tekst/a%b.xhtml"),
        ("tekst/a%25b.xhtml", "tekst/a%b.xhtml"),
        ("/etc/passwd", None),
        ("", None),
        ("tekst", None),
    ],
)
def test_entries_are_found_as_careless_producers_name_them(asked: str, entry: str | None) -> None:
    container = open_container(made.zipped({"tekst/Zażółć 1.xhtml": "x", "tekst/a%b.xhtml": "y"}))
    assert container.find(asked) == entry


@pytest.mark.parametrize("encoding", ["cp852", "cp1250", "utf-8"])
def test_names_in_a_code_page_that_the_container_does_not_tell_are_found(encoding: str) -> None:
    garbled = "rozdział zażółć.xhtml".encode(encoding).decode("cp437")  # what zipfile makes of them
    container = open_container(made.zipped({garbled: "x"}))
    assert container.find("rozdzia%C5%82%20Za%C5%BC%C3%B3%C5%82%C4%87.xhtml") == garbled


@pytest.mark.parametrize("change", [str.upper, str.title])
def test_the_table_of_contents_knows_its_chapters_in_another_spelling(change: Callable[[str], str]) -> None:
    whole = made.epub_entries()
    names = [name for name in whole if name.startswith("OEBPS/tekst/")]
    spelled = {change(name) if name in names else name: data for name, data in whole.items()}
    assert spelled.keys() != whole.keys()
    assert blocks(load("a.epub", made.zipped(spelled))) == blocks(load("a.epub", made.zipped(whole)))


def test_a_chapter_whose_bytes_are_damaged_costs_that_chapter() -> None:
    data = epub({})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entry = archive.getinfo("OEBPS/tekst/b.xhtml")
    place = entry.header_offset + 30 + len(entry.filename) + entry.compress_size // 2
    document = load("a.epub", data[:place] + bytes((data[place] ^ 0xFF,)) + data[place + 1 :])
    assert "Borowiki" in document.text
    assert "Gotowe śliwki" in document.text
    assert "krążki" not in document.text
    assert "OEBPS/tekst/b.xhtml cannot be unpacked" in document.warnings[0]


def encryption(method: str, target: str) -> str:
    return (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" '
        f'xmlns:e="http://www.w3.org/2001/04/xmlenc#">'
        f'<e:EncryptedData><e:EncryptionMethod Algorithm="{method}"/><e:CipherData><e:CipherReference URI="{target}"/>'
        "</e:CipherData></e:EncryptedData></encryption>"
    )


AES = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"


@pytest.mark.parametrize(
    ("sign", "scheme"),
    [("META-INF/rights.xml", "Adobe ADEPT"), ("META-INF/license.lcpl", "Readium LCP"), ("META-INF/sinf.xml", "Apple")],
)
def test_an_encrypted_book_is_told_as_drm_and_not_indexed_as_noise(sign: str, scheme: str) -> None:
    changes: dict[str, str | bytes | None] = {
        "META-INF/encryption.xml": encryption(AES, "OEBPS/tekst/b.xhtml"),
        "OEBPS/tekst/b.xhtml": bytes(range(256)),
        sign: "x",
    }
    error = failure("a.epub", epub(changes))
    assert error.reason == "DRM"
    assert not error.skipped
    assert scheme in error.message
    assert error.fix


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("http://www.idpf.org/2008/embedding", "OEBPS/a.xhtml"),
        ("http://ns.adobe.com/pdf/enc#RC", "OEBPS/fonts/a.otf"),
        (AES, "OEBPS/film.mp4"),
    ],
)
def test_obfuscated_fonts_and_encrypted_films_are_no_drm_of_the_text(method: str, target: str) -> None:
    document = load("a.epub", epub({"META-INF/encryption.xml": encryption(method, target)}))
    assert all(words in document.text for words in CHAPTERS)


def test_entities_are_neither_fetched_nor_expanded(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("TAJNE")
    head = f'<?xml version="1.0"?><!DOCTYPE html [<!ENTITY x SYSTEM "file://{secret}"><!ENTITY a "LOL">'
    laughs = "".join(f'<!ENTITY {new} "{f"&{old};" * 10}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True))
    body = '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>przed &x; &i; po</p></body></html>'
    document = load("a.epub", epub({"OEBPS/tekst/b.xhtml": f"{head}{laughs}]>{body}"}))
    assert "TAJNE" not in document.text
    assert "LOL" not in document.text
    assert "przed" in document.text
    assert len(document.text) < 1000
    opf = (
        package()
        .replace("<package", f"{head.replace(' html', ' package')}{laughs}]><package")
        .replace(made.TITLE, "&x;&i;")
    )
    document = load("a.epub", epub({"OEBPS/package.opf": opf[opf.index("<?xml") :]}))
    assert document.title is None
    assert all(words in document.text for words in CHAPTERS)


def test_a_zip_bomb_is_refused_before_it_is_unpacked() -> None:
    error = failure("a.epub", epub({"OEBPS/tekst/b.xhtml": b" " * 20_000_000}))
    assert error.reason == "too large when unpacked"
    assert "200 times" in error.message


def test_a_zip_file_with_more_entries_than_any_book_is_refused() -> None:
    entry = b"PK\x01\x02" + bytes(24) + b"\x01\0" + bytes(16) + b"a"
    count = 50_001
    directory = entry * count
    # The local header in front makes the content an EPUB; the directory is what a reader goes by.
    front = epub({})
    front = front[: front.index(b"PK\x01\x02")]
    counts = count.to_bytes(2, "little") * 2
    end = counts + len(directory).to_bytes(4, "little") + len(front).to_bytes(4, "little") + b"\0\0"
    error = failure("a.epub", front + directory + b"PK\x05\x06\0\0\0\0" + end)
    assert error.reason == "too large when unpacked"
    assert "50,001 entries" in error.message


def test_an_entry_that_says_it_is_smaller_than_it_is_costs_itself() -> None:
    data = bytearray(epub({"OEBPS/tekst/b.xhtml": b"<p>" + b"krem " * 4_000_000}))
    place = data.index(b"OEBPS/tekst/b.xhtml", data.index(b"PK\x01\x02")) - 46
    assert data[place : place + 4] == b"PK\x01\x02"
    data[place + 24 : place + 28] = (1000).to_bytes(4, "little")
    document = load("a.epub", bytes(data))
    assert "cannot be unpacked" in document.warnings[0]
    assert "Gotowe śliwki" in document.text


def test_a_fiction_book_has_its_sections_titles_and_no_pictures() -> None:
    plain = (FIXTURES / "zapiski.fb2").read_bytes()
    expected = [
        (("Część pierwsza",), "Część pierwsza"),
        (
            ("Część pierwsza", "Zioła"),
            "Zioła\n\nMiętę zbiera się przed kwitnieniem.\n\nMięta, melisa,\nszałwia\n\nZioło | Dni\nMięta | 6",
        ),
        (("notes",), "Nigdy na słońcu."),
    ]
    for name, data in (("a.fb2", plain), ("a.fb2.zip", made.zipped({"a.fb2": plain})), ("a.txt", plain)):
        document = load(name, data)
        assert document.format == "fb2"
        assert document.title == "Zapiski z suszarni"
        assert blocks(document) == expected
    cut = load("a.fb2", plain[: plain.index(b"kwitnieniem") + 20])
    assert "przed kwitnieniem" in cut.text
    assert "as far as its markup goes" in cut.warnings[0]


def test_a_mobi_book_is_read_in_its_code_page_and_leaves_no_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    elsewhere = tmp_path / "tmp"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    document = load("a.mobi", (FIXTURES / "drying.mobi").read_bytes(), LoadOptions(scratch=scratch))
    assert document.title == "Zapiski z suszarni"
    assert blocks(document) == [
        (("Drying fruit",), "Drying fruit\n\nSlice the apples thinly – about 4 mm – and core them."),
        (("Crème de pêche",), "Crème de pêche\n\nPurée keeps for a week."),
    ]
    assert capfd.readouterr().out == ""
    assert list(scratch.iterdir()) == []
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("data", [made.mobi(encryption=2), made.mobi(encryption=1), b"\xeaDRMION\xee" + bytes(100)])
def test_a_mobi_book_with_drm_is_told_as_that(data: bytes) -> None:
    error = failure("a.azw", data)
    assert (error.reason, error.skipped) == ("DRM", False)


@pytest.mark.parametrize(("data", "name"), [(b"TPZ0" + bytes(100), "Topaz"), (b"CONT\x02\0" + bytes(100), "KFX")])
def test_books_that_nothing_reads_are_skipped_by_name(data: bytes, name: str) -> None:
    error = failure("a.azw", data)
    assert (error.reason, error.skipped) == ("unknown format", True)
    assert name in error.message


def test_a_palm_doc_is_its_text_in_the_encoding_it_is_in() -> None:
    text = "Rozdział 1\r\n\r\nZażółć gęślą jaźń: 2 < 3.\r\n" * 300
    document = load("a.prc", made.palm_doc(text.encode("cp1250")))
    assert document.title == "Zapiski suszarni"
    assert document.text == text.replace("\r\n", "\n").strip()


def test_a_mobi_book_whose_index_is_broken_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    whole = bytearray(made.mobi())
    start = int.from_bytes(whole[78:82], "big")
    whole[start + 0xF4 : start + 0xF8] = (1).to_bytes(4, "big")  # its table of contents is where its text is
    document = load("a.mobi", bytes(whole))
    assert "Slice the apples thinly – about 4 mm – and core them." in document.text
    assert document.blocks[-1].heading_path == ("Crème de pêche",)
    assert "without its table of contents" in document.warnings[0]


def test_an_epub_named_azw3_is_an_epub() -> None:
    assert load("a.azw3", epub({})).format == "epub"


def broken_mobi() -> bytes:
    """One whose text is packed in a way that there is not."""
    whole = bytearray(made.mobi())
    start = int.from_bytes(whole[78:82], "big")
    whole[start : start + 2] = b"\x33\x33"
    return bytes(whole)


def test_calibre_reads_what_the_unpacker_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert failure("a.mobi", broken_mobi()).reason == "damaged"
    program(
        tmp_path / "bin", "ebook-convert",
        f'echo noise; test -n "$CALIBRE_CONFIG_DIRECTORY" && test -s "$1" && cp {FIXTURES}/zapiski.epub "$2"\n',
        monkeypatch,
    )  # fmt: skip
    document = load("a.mobi", broken_mobi(), LoadOptions(scratch=scratch))
    assert all(words in document.text for words in CHAPTERS)
    assert list(scratch.iterdir()) == []


def test_the_reason_is_calibres_when_it_fails_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "ebook-convert", "echo 'not a book' >&2; exit 3\n", monkeypatch)
    error = failure("a.mobi", broken_mobi())
    assert error.reason == "damaged"
    assert "not a book" in error.message


@pytest.mark.parametrize("name", ["zapiski.epub", "zapiski.fb2", "drying.mobi"])
def test_a_file_cut_short_anywhere_is_read_in_part_or_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    whole = (FIXTURES / name).read_bytes()
    for tenth in range(10):
        try:
            document = load(name, whole[: len(whole) * tenth // 10 + 1])
        except DocumentError as error:
            assert error.reason in ("damaged", "empty", "binary", "archive", "unknown format"), error.reason
        else:
            assert document.text


TITLES = st.lists(st.text(st.characters(categories=("Lu", "Ll", "Nd", "Zs")), min_size=1, max_size=8), max_size=4)


@given(TITLES, TITLES)
def test_joined_trails_repeat_nothing_and_invent_nothing(above: list[str], headings: list[str]) -> None:
    trail = joined(tuple(above), tuple(headings))
    assert set(trail) <= {*above, *headings}
    assert len(trail) <= len(above) + len(headings)
    if above or headings:
        assert trail


PIECES = st.lists(
    st.tuples(
        st.text(st.sampled_from("ab ż\n\r\t\x00\u200b\xa0\u2028"), max_size=12),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([(), ("a",), ("a", "b")]),
        st.sampled_from([None, "x", "y"]),
    ),
    max_size=12,
)


@given(PIECES)
def test_an_assembled_text_has_exact_blocks_and_loses_no_letter(
    pieces: list[tuple[str, int | None, tuple[str, ...], str | None]],
) -> None:
    whole = Assembly()
    for text, page, path, run in pieces:
        whole.add(text, page=page, heading_path=path, run=run)
    parsed = whole.parsed()
    letters = [char for text, *_ in pieces for char in text if char in "abż"]
    assert [char for char in parsed.text if char in "abż"] == letters
    assert not set(parsed.text) & set("\r\x00\u200b\u2028")
    assert "\n\n\n" not in parsed.text
    end = 0
    for block in parsed.blocks:
        assert block.text == parsed.text[block.char_start : block.char_start + len(block.text)]
        assert block.text.strip()
        assert not parsed.text[end : block.char_start].strip()
        end = block.char_start + len(block.text)
    assert not parsed.text[end:].strip()

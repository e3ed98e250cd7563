# SPDX-License-Identifier: GPL-2.0-only
"""Text, Markdown, reST and code: the text is the file, and blocks know their lines and their headings."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bigos.errors import DocumentError
from bigos.loaders import content_hash, load_document
from bigos.types import Document, SourceFile

FIXTURES = Path(__file__).parents[1] / "data" / "loaders"
LINED = ("a.txt", "a.md", "a.rst")

markdown_lines = st.lists(
    st.sampled_from(
        [
            "# jeden",
            "## dwa ##",
            "trzy",
            "===",
            "---",
            "",
            "    # kod",
            "```c",
            "```",
            "~~~~",
            "- punkt",
            "1. raz",
            "> cyt",
            "<!-- # x",
            "-->",
            "<pre>",
            "</pre>",
            "####### siedem",
            "#",
            "a b",
            "***",
            "\ttab",
            "+++",
            "title: x",
            "ż́",
        ]
    ),
    max_size=25,
)


def load(name: str, data: bytes | str) -> Document:
    raw = data.encode() if isinstance(data, str) else data
    return load_document(SourceFile(Path("/nowhere") / name, len(raw), 0, 0), raw, content_hash(raw))


LINE_FOR_LINE = frozenset(
    ("text", "markdown", "rst", "code", "asciidoc", "org", "latex", "bibtex", "csv", "json", "jsonl", "xml")
)


def check_blocks(document: Document) -> None:
    """Blocks index into the text, in order, without overlap, and hold every character that is not white space."""
    end = 0
    for block in document.blocks:
        assert block.text == document.text[block.char_start : block.char_start + len(block.text)]
        assert block.char_start >= end
        assert not document.text[end : block.char_start].strip()
        assert block.text.strip()
        end = block.char_start + len(block.text)
        if document.format in LINE_FOR_LINE:
            assert block.line_start == document.text.count("\n", 0, block.char_start) + 1
        else:
            assert (block.line_start is not None) == (document.format == "subtitles")
    assert not document.text[end:].strip()


def trails(document: Document) -> list[tuple[int | None, tuple[str, ...]]]:
    return [(block.line_start, block.heading_path) for block in document.blocks]


@pytest.mark.parametrize("path", sorted(filter(Path.is_file, FIXTURES.iterdir())), ids=lambda path: path.name)
def test_blocks_of_every_fixture_cover_its_text(path: Path) -> None:
    try:
        check_blocks(load(path.name, path.read_bytes()))
    except DocumentError as error:
        # Programs that this machine may lack; what is in stary.doc is damaged for one that has it.
        assert error.reason.startswith("needs ") or path.name == "stary.doc"


@settings(deadline=None)
@given(st.sampled_from(LINED), st.one_of(st.text(), markdown_lines.map("\n".join)))
def test_blocks_cover_any_text(name: str, text: str) -> None:
    try:
        check_blocks(load(name, text.encode("utf-8", "replace")))
    except DocumentError as error:
        assert error.reason in ("empty", "binary")


def test_markdown_headings_give_the_trail_and_fences_hide_false_ones() -> None:
    document = load("notes.md", (FIXTURES / "notes.md").read_bytes())
    assert document.title == "Notatki: zegar magistrali"
    assert trails(document) == [
        (1, ()),
        (6, ()),
        (9, ("Zegar główny",)),
        (16, ("Zegar główny", "Dzielnik")),
        (31, ("Zegar główny", "Dzielnik", "Szczegóły")),
    ]
    assert document.blocks[0].text.startswith("---\ntitle:")
    assert document.text == (FIXTURES / "notes.md").read_text()


@settings(max_examples=300, deadline=None)
@given(markdown_lines)
def test_markdown_headings_are_those_of_commonmark(lines: list[str]) -> None:
    text = "wstęp\n\n" + "\n".join(lines) + "\n"
    document = load("a.md", text)
    parser = MarkdownIt("commonmark").disable("inline")
    expected = [
        token.map[0] + 1 for token in parser.parse(document.text) if token.type == "heading_open" and not token.level
    ]
    starts = [block.line_start for block in document.blocks]
    # Quotes, lists and raw HTML may reach further in CommonMark than a line scanner follows them.
    if not any(line[:1] in ("-", "1", ">", "<", " ", "\t") and line != "---" for line in lines):
        assert [start for start in starts if start != 1] == expected


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: 'It''s'\n---\n# H\n", "It's"),
        ('+++\ntitle = "Toml"\n+++\n# H\n', "Toml"),
        ("---\ntags: [a]\n...\n# Nagłówek *ważny* `kod` [łącze](http://x)\n", "Nagłówek ważny kod łącze"),
        ("## only a second level\n", None),
        ("---\njust a rule\n---\n", None),
        ("# First\n# Second\n", "First"),
    ],
)
def test_markdown_title_is_front_matter_or_the_first_heading(text: str, title: str | None) -> None:
    assert load("a.md", text).title == title


def test_an_unclosed_fence_hides_headings_to_the_end_and_loses_nothing() -> None:
    document = load("a.md", "# A\n\n```c\n## no\n\ntext\n")
    assert trails(document) == [(1, ("A",))]
    assert document.text.endswith("text\n")


def test_a_paragraph_above_a_rule_is_not_a_heading() -> None:
    assert trails(load("a.md", "słowo " * 100 + "\n---\nreszta\n")) == [(1, ())]


def test_rst_titles_have_the_levels_of_their_first_use() -> None:
    assert trails(load("guide.rst", (FIXTURES / "guide.rst").read_bytes())) == [
        (1, ("Podręcznik",)),
        (7, ("Podręcznik", "Budowa")),
        (17, ("Podręcznik", "Budowa", "Szczegóły")),
        (22, ("Podręcznik", "Użycie")),
    ]


def test_an_rst_include_is_text_and_reads_no_file() -> None:
    document = load("a.rst", "T\n=\n\nTytuł\n=====\n\n.. include:: /etc/hostname\n")
    assert document.text.endswith(".. include:: /etc/hostname\n")
    assert document.title == "Tytuł"


def test_a_formatted_manual_page_has_sections_and_its_first_line_as_title() -> None:
    document = load("gotuj.1.txt", (FIXTURES / "gotuj.1.txt").read_bytes())
    assert document.title == "gotuj - przygotowuje potrawę z podanego przepisu"
    assert trails(document) == [
        (1, ()),
        (3, ("NAZWA",)),
        (7, ("SKŁADNIA",)),
        (10, ("OPCJE",)),
        (14, ("OPCJE", "Opcje zaawansowane")),
        (18, ("ZOBACZ TAKŻE",)),
    ]


def test_overstrikes_of_a_saved_manual_page_are_undone() -> None:
    text = (FIXTURES / "gotuj.1.txt").read_text()
    struck = text.replace("OPCJE", "".join(f"{letter}\b{letter}" for letter in "OPCJE")).replace(
        "PRZEPIS", "_\bP_\bRZEPIS"
    )
    assert load("gotuj.1.txt", struck).text == text


def test_capitals_in_ordinary_text_are_not_headings() -> None:
    assert trails(load("a.txt", "WAŻNE\n\n   wcięty tekst\n\nDALEJ\n\n   tekst\n")) == [(1, ())]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_code_is_the_file_but_for_line_ends_and_mark(ending: str, mark: bytes) -> None:
    text = (FIXTURES / "divider.c").read_text() + "/* e\u0301 \u200b\u00ad\u2028 */"
    document = load("divider.c", mark + text.replace("\n", ending).encode())
    assert document.text == text
    assert (document.kind, document.code_language, document.title) == ("code", "c", None)
    assert trails(document) == [(1, ()), (4, ("divider",)), (8, ())]


def test_form_feeds_and_foreign_separators_do_not_shift_lines() -> None:
    text = "a\x0cb\u2028c\x1cd\u0085e\n\n# Nagłówek\n"
    assert trails(load("a.md", text)) == [(1, ()), (3, ("Nagłówek",))]


def test_a_nul_late_in_source_code_makes_it_binary_and_in_a_log_disappears() -> None:
    data = b"int a;\n" * 2000 + b"\0" + b"int b;\n"
    with pytest.raises(DocumentError) as caught:
        load("a.c", data)
    assert (caught.value.reason, caught.value.skipped) == ("binary", True)
    assert load("a.log", data).text == data.replace(b"\0", b"").decode()


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html", "a.json"])
@pytest.mark.parametrize("unit", ["a", "=", "[", "#", "ż", "<", "\b", "\x1b]", "`", "- ", "<!--"])
def test_one_enormous_line_takes_linear_time(name: str, unit: str) -> None:
    data = ("x" + unit * 2_000_000).encode()  # anything quadratic would take hours
    try:
        document = load(name, data)
    except DocumentError as error:
        assert error.reason in ("empty", "binary")
    else:
        check_blocks(document)


def test_the_source_of_a_manual_page_gives_what_the_page_says() -> None:
    document = load("susz.8", (FIXTURES / "susz.8").read_bytes())
    assert document.title == "susz - suszy grzyby w piëcu"
    assert trails(document) == [
        (6, ("NAZWA",)),
        (8, ("SKŁADNIA I OPCJE",)),
        (12, ("SKŁADNIA I OPCJE", "Temperatura")),
    ]
    assert document.text.splitlines()[5:] == [
        "NAZWA",
        "susz - suszy grzyby w piëcu",
        "SKŁADNIA I OPCJE",
        "susz",
        "[-t",
        "stopnie]",
        "Temperatura",
        "",
        "--temperatura=stopnie",
        "Od 40 do 50 °, nigdy więcej; • zob.",
        "grzyby(5).",
        "",
        "•",
        "Ostatni punkt \\ koniec",
    ]


def test_mdoc_macros_that_call_each_other_are_read() -> None:
    page = (
        ".Dd October 1, 2026\n.Dt SUSZ 8\n.Os\n.Sh NAME\n.Nm susz\n.Nd suszy grzyby\n.Sh SYNOPSIS\n.Nm\n"
        ".Op Fl t Ar stopnie\n.Bl -tag\n.It Fl v , Fl -verbose\nMówi więcej, zob.\n.Xr grzyby 5 .\n.El\n"
    )
    document = load("susz.8", page)
    assert document.title == "susz - suszy grzyby"
    words = " ".join(document.text.split())
    assert words == "NAME susz - suszy grzyby SYNOPSIS susz [-t stopnie] - -v, --verbose Mówi więcej, zob. grzyby(5)."


def test_a_text_about_manual_pages_is_no_manual_page() -> None:
    text = "A page begins like this:\n.TH LS 1\n.SH NAME\nls\n"
    assert load("a.txt", text).text == text
    listing = '.\\" only a comment\n.PP\ntext\n'
    assert load("a.txt", listing).text == listing

# SPDX-License-Identifier: GPL-2.0-only
"""Text formats with a structure of their own: what they say comes out, what they only mark up does not."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigos.errors import DocumentError
from bigos.loaders import content_hash, load_document
from bigos.types import Document, SourceFile

FIXTURES = Path(__file__).parents[1] / "data" / "loaders"
LINED = ("a.csv", "a.tsv", "a.json", "a.jsonl", "a.xml", "a.tex", "a.bib", "a.adoc", "a.org")
UNLINED = ("a.srt", "a.vtt", "a.ass", "a.sub", "a.eml", "a.mbox", "a.mht")


def load(name: str, data: bytes | str) -> Document:
    raw = data if isinstance(data, bytes) else data.encode()
    return load_document(SourceFile(Path("/nowhere") / name, len(raw), 0, 0), raw, content_hash(raw))


def fixture(name: str) -> Document:
    return load(name, (FIXTURES / name).read_bytes())


def trails(document: Document) -> list[tuple[int | None, tuple[str, ...]]]:
    return [(block.line_start, block.heading_path) for block in document.blocks]


def check_blocks(document: Document) -> None:
    end = 0
    for block in document.blocks:
        assert block.text == document.text[block.char_start : block.char_start + len(block.text)]
        assert not document.text[end : block.char_start].strip()
        end = block.char_start + len(block.text)
    assert not document.text[end:].strip()


def line_of(document: Document, words: str) -> int | None:
    """The source line where `words` stand, by the block that holds them."""
    at = document.text.index(words)
    block = next(block for block in reversed(document.blocks) if block.char_start <= at)
    return None if block.line_start is None else block.line_start + document.text.count("\n", block.char_start, at)


def test_csv_rows_carry_the_names_of_their_columns() -> None:
    document = fixture("zbiory.csv")
    assert document.text == (
        "Gatunek | Waga w kg | Uwagi\n"
        "Gatunek: Borowik | Waga w kg: 1,2 | Uwagi: pod świerkiem;\ndrugi rok z rzędu\n"
        "Gatunek: Kurka | Waga w kg: 0,4"
    )
    assert line_of(document, "Kurka") == 4


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("a,b\n1,2\n", "a | b\na: 1 | b: 2"),
        ("a\tb\n1\t2,5\n", "a | b\na: 1 | b: 2,5"),
        ("a|b\n1|2\n", "a | b\na: 1 | b: 2"),
        ("sep=;\na;b\n1;2\n", "\na | b\na: 1 | b: 2"),
        ("1,2\n3,4\n", "1 | 2\n3 | 4"),
        ("name,name\nx,y\n", "name | name\nx | y"),
        ("a,b\n5,6\n1,2,3\n4\n", "a | b\na: 5 | b: 6\na: 1 | b: 2 | 3\na: 4"),
        ("\n\na,b\n\n1,2\n", "\n\na | b\n\na: 1 | b: 2"),
        ('a,b\n"x, ""y""",z\n', 'a | b\na: x, "y" | b: z'),
        ("a,b\r\n1,2\r\n", "a | b\na: 1 | b: 2"),
        ("only one column\nof words\n", "only one column\nof words\n"),
        ("imię,kwota\nJan,\n,7\n,\n", "imię | kwota\nimię: Jan\nkwota: 7\n"),
    ],
)
def test_csv_dialects_are_recognised(data: str, text: str) -> None:
    assert load("a.csv", data).text == text


def test_a_quotation_mark_that_nobody_closed_loses_no_line() -> None:
    data = 'a,b\n1,"x\n' + "2,3\n" * 60_000 + "last,row\n"
    document = load("a.csv", data)
    assert line_of(document, "last") == 60_003
    assert "quotation mark" in document.warnings[0]


def test_long_names_of_columns_do_not_make_a_file_many_times_as_long() -> None:
    names = ",".join(f"a rather long name of column {number}" for number in range(50))
    document = load("a.csv", names + "\n" + ("1," * 49 + "1\n") * 2000)
    assert len(document.text) < 10 * (len(names) + 2000 * 100) + 20_000
    assert "names of the columns" in document.warnings[0]


def test_json_says_key_and_value_on_the_lines_of_the_file() -> None:
    document = fixture("zbiory.json")
    assert [line.strip() for line in document.text.splitlines()] == [
        "",
        "las: Puszcza Knyszyńska",
        "zbiory:",
        "borowik.kg: 1.2 | borowik.uwagi: pod świerkiem drugi rok",
        "kurka.kg: 0.4 | kurka.miejsca: brzeg, polana",
        "",
        "koniec: true",
        "",
    ]
    assert trails(document) == [(1, ()), (3, ("zbiory",)), (7, ())]


def test_jsonl_has_a_record_a_line() -> None:
    assert fixture("zbiory.jsonl").text == (
        "gatunek: borowik | kg: 1.2 | kto.imię: Jan\ngatunek: kurka | kg: 0.4 | miejsca: brzeg, polana\n"
    )


def test_json_without_lines_is_laid_out_and_claims_no_lines() -> None:
    record = {"id": 1, "notes": ["a", "b"], "who": {"name": "Jan"}, "text": "one\ntwo", "none": None}
    document = load("a.json", json.dumps([record, record] * 30))
    laid_out = "id: 1\nnotes: a, b\nwho:\n  name: Jan\ntext: one\ntwo\nnone: null\n\n"
    assert document.text == laid_out * 60
    assert {block.line_start for block in document.blocks} == {None}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ('{"a": {"b": {}}, "c": [], "d": [[1, 2], [3]]}', "a.b: | c: | d: 1, 2 | 3"),
        ('[{"a": 1}, {"a": 2}]', "a: 1 | a: 2"),
        ('{"a": "cut off', "a: cut, off"),
        ('{"a": 1}}}]] {"b": 2}', "a: 1 | b: 2"),
        ('{"a": "\\ud83d\\ude00 \\u200b\\u0007x \\q"}', "a: \\ud83d\\ude00 \\u200b\\u0007x \\q"),
        ('{"a": "\\ud83d\\ude00 \\u200b\\u0007e\\u0301"}', "a: \U0001f600 é"),
        ('// why\n{"a": 1}', '// why\n{"a": 1}'),
        ("no JSON, at all", "no JSON, at all"),
    ],
)
def test_json_that_is_odd_still_says_what_it_says(data: str, text: str) -> None:
    assert load("a.json", data).text == text


def test_encoded_data_in_json_and_xml_is_left_out_with_a_warning() -> None:
    blob = "iVBORw0KGgo" * 1000
    for document in (load("a.json", json.dumps({"img": blob, "t": "słowo"})), load("a.xml", f"<a><i>{blob}</i></a>")):
        assert "iVBOR" not in document.text
        assert "encoded data" in document.warnings[0]


def test_xml_names_what_holds_the_text_and_expands_nothing() -> None:
    document = fixture("katalog.xml")
    assert [line for line in document.text.splitlines() if line] == [
        "wpis id: g1, sezon: jesień | gatunek: Borowik | Rośnie",
        "pod świerkiem, &lato;.",
        "Suszenie",
        "Kapelusze & trzony.",
        "zapis: Nie myć wcale",
        "stopka: &plik;",
    ]
    assert trails(document) == [(1, ()), (10, ("Suszenie",)), (14, ())]
    assert document.title == "Suszenie"
    assert line_of(document, "zapis") == 12
    assert "ukryta" not in document.text


def test_docbook_sections_nest_by_their_titles() -> None:
    document = load(
        "a.xml",
        "<book><title>Book</title>\n<chapter><title>One</title><para>See <b>this</b> <i>now</i>.</para>\n"
        "<section><title>Deep</title><para>deep text</para></section>\n<para>after</para></chapter>\n"
        "<chapter><title>Two</title><para>last</para></chapter></book>",
    )
    assert [(block.heading_path, block.text.split(" | ")[-1].strip()) for block in document.blocks] == [
        (("Book",), "Book"),
        (("Book", "One"), "See this now."),
        (("Book", "One", "Deep"), "deep text"),
        (("Book", "One"), "after"),
        (("Book", "Two"), "last"),
    ]


def test_a_feed_has_its_entries_as_headings_and_no_escaped_markup() -> None:
    document = load(
        "a.rss",
        "<rss><channel><title>Kanał</title>\n<item><title>Wpis</title><description>&lt;p&gt;Treść&lt;/p&gt;"
        "</description></item></channel></rss>",
    )
    assert document.blocks[-1].heading_path == ("Kanał", "Wpis")
    assert "description: Treść" in " ".join(document.text.split())


def test_an_entity_bomb_stays_as_small_as_it_is_written() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    document = load("a.xml", f'<!DOCTYPE a [<!ENTITY e0 "ha">{entities}]><a><t>&e11;</t></a>')
    assert document.text == "t: &e11;"


def test_latex_gives_words_formulas_and_sections_and_not_its_commands() -> None:
    document = fixture("rozprawa.tex")
    assert document.title == "O suszeniu grzybów"
    assert trails(document) == [
        (1, ()),
        (9, ("Wstęp",)),
        (11, ("Wstęp", "Wzory")),
        (27, ("Koniec",)),
    ]
    lines = document.text.splitlines()
    assert lines[9].strip() == "Grzyby Zob. [kowalski]. suszy się – zawsze – w cieple; 90% z nich to woda."
    assert lines[11:15] == ["Masa $m = \\rho V$ oraz", "\\begin{equation}", "  t = \\frac{a}{b}", "\\end{equation}"]
    assert lines[16].strip() == "Borowik | 8 godzin"
    assert lines[20] == "- Pierwszy krok"
    assert lines[24] == "susz(grzyb); % nie uwaga"
    for gone in ("kompilować", "inputenc", "gatunek", "textbf", "uwaga\n\\", "hline", "nikt", "label"):
        assert gone not in document.text
    assert "Zobacz rozdział" in document.text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"\'a \k a \k{e} \L\'od\'z \.z \c{c} \v{s} \H{o} \"u \~n {\o}", "á ą ę Łódź ż ç š ő ü ñ ø"),
        (r"``a'' ,,b'' c---d", "“a” „b” c—d"),
        (r"\foo{word} \bar[x]{y} \baz", "word y"),
        (r"\verb|\x{y}| \verb+a|b+", r"\x{y} a|b"),
        (r"50\% \& 3\$ a\_b \{c\}", "50% & 3$ a_b {c}"),
        (r"$a_{1} \to b$ and \(c\) and \[d\]", r"$a_{1} \to b$ and \(c\) and \[d\]"),
        (r"see \ref{x} and \cite{a,b} \citep[p.~3]{c}", "see and [a,b] [c]"),
        (r"\href{https://example.org}{the page}", "the page"),
    ],
)
def test_latex_commands_become_what_they_print(source: str, text: str) -> None:
    assert " ".join(load("a.tex", source).text.split()) == text


@pytest.mark.parametrize("blank", ["\n", " ", ""])
def test_latex_that_stands_on_one_line_keeps_all_its_words(blank: str) -> None:
    parts = (
        r"\title{O zupach}",
        r"\begin{document}",
        r"\maketitle",
        r"\section{Żur}",
        "Zakwas stoi.",
        r"\end{document}",
    )
    document = load("a.tex", blank.join(parts))
    assert document.text.split() == ["O", "zupach", "Żur", "Zakwas", "stoi."]
    assert document.blocks[-1].heading_path == ("Żur",)


def test_bibtex_has_a_section_a_work() -> None:
    document = fixture("zrodla.bib")
    assert trails(document) == [(1, ("O Suszeniu grzybów",)), (7, ("Zupy",))]
    assert "author: Kowalski, Jan and Nowak, Łucja\n title: O Suszeniu grzybów\n year: 2019" in document.text
    assert "book nowak | title: Zupy | year: 1987" in document.text


def test_asciidoc_titles_of_both_kinds_are_headings_and_listings_hide_false_ones() -> None:
    document = fixture("spis.adoc")
    assert document.title == "Spis grzybów"
    assert trails(document) == [
        (1, ("Spis grzybów",)),
        (7, ("Spis grzybów", "Grzyby jadalne")),
        (15, ("Spis grzybów", "Suszenie")),
        (20, ("Spis grzybów", "Suszenie", "Przechowywanie")),
    ]


def test_org_headings_lose_their_keywords_and_tags() -> None:
    document = fixture("plan.org")
    assert document.title == "Plan na jesień"
    assert trails(document) == [
        (1, ()),
        (2, ("Wyprawa do lasu",)),
        (4, ("Wyprawa do lasu", "Co zabrać")),
        (7, ("Zapasy z zeszłego roku",)),
    ]


def test_subtitles_are_what_is_said_and_know_their_lines() -> None:
    document = fixture("wyklad.srt")
    assert document.text == "Dzień dobry, dziś o grzybach.\nZbieramy je\njesienią & latem.\nDo 12\n12"
    assert [block.line_start for block in document.blocks] == [3, 7, 12]


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        (
            "a.vtt",
            "WEBVTT - t\n\nNOTE\nno\n\nid\n00:01.000 --> 00:02.000 align:left\n<v Jan>Hej <c.b>ty</c>\n",
            "Jan: Hej ty",
        ),
        ("a.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\na\n\n00:02.000 --> 00:03.000\na\nb\n", "a\nb"),
        ("a.sub", "{1}{1}23.976\n{10}{20}{y:i}Raz|dwa\n{30}{40}trzy\n", "Raz\ndwa\ntrzy"),
        ("a.sub", "[10][20]/Raz|dwa\n[30][40]trzy\n[50][60]i\n", "Raz\ndwa\ntrzy\ni"),
        ("a.sub", "00:00:01:Raz|dwa\n00:00:02:trzy\n00:00:03:i\n", "Raz\ndwa\ntrzy\ni"),
        ("a.sub", "[INFORMATION]\n00:00:01.00,00:00:03.00\nRaz[br]dwa\n\n00:00:04.00,00:00:05.00\ni\n", "Raz\ndwa\ni"),
        (
            "a.ass",
            "[Events]\nFormat: Start, End, Text\nComment: 0,1,no\nDialogue: 0,1,{\\i1}Tak, {\\i0}nie\\Ni\n"
            "Dialogue: 1,2,{\\p1}m 0 0 l 1 1{\\p0}\n",
            "Tak, nie\ni",
        ),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\na\n\n2\n00:00:03,000 --> 00:00:04,000\n", "a"),
        ("a.srt", "no subtitles\nat all\n", "no subtitles\nat all"),
    ],
)
def test_every_kind_of_subtitles_is_read(name: str, data: str, text: str) -> None:
    assert load(name, data).text == text


def test_a_message_is_its_headers_its_text_once_and_the_names_of_its_attachments() -> None:
    document = fixture("zamowienie.eml")
    assert document.title == "Zamówienie grzybów"
    assert document.text == (
        "From: Jan Żółw <jan@example.org>\nTo: sklep@example.org\nDate: Mon, 7 Oct 2024 10:00:00 +0200\n"
        "Subject: Zamówienie grzybów\n\nProszę o 5 kg borowików.\n\nAttachment: cennik.pdf (application/pdf)"
    )
    assert trails(document) == [(None, ("Zamówienie grzybów",))]


def test_a_mailbox_has_a_section_a_message_and_a_bad_one_costs_no_other() -> None:
    document = load(
        "Inbox",
        b"From jan@x Mon Jan  1 10:00:00 2024\nSubject: =?iso-8859-2?Q?=A3=F3d=BC?=\n"
        b"Content-Type: text/html; charset=windows-1250\nContent-Transfer-Encoding: quoted-printable\n\n"
        b"<nav>MENU</nav><p>za=BF=F3=B3=E6</p>\n\n"
        b"From x@y Tue Jan  2 10:00:00 2024\nSubject: =?nosuch?Q?=FF?= raw \xb3\xf3d\xbc\n"
        b"Content-Type: text/plain; charset=nosuch\n\n>From here \xbf\xf3\xb3w \xe6ma\n\n"
        b"From x@y Tue Jan  2 10:00:00 2024\nSubject: Outer\nContent-Type: message/rfc822\n\n"
        b"Subject: Inner\n\ninner text\n",
    )
    assert document.format == "mail"
    paths = [block.heading_path for block in document.blocks]
    assert (paths[0], paths[2], paths[3]) == (("Łódź",), ("Outer",), ("Outer", "Inner"))
    assert "zażółć" in document.blocks[0].text
    assert "From here żółw ćma" in document.blocks[1].text
    assert "MENU" not in document.text
    assert document.title is None


def test_a_saved_page_is_its_main_part_in_the_charset_of_its_header() -> None:
    document = fixture("strona.mhtml")
    assert (document.format, document.title) == ("mhtml", "Grzyby jesienią")
    assert document.text == "Grzyby jesienią\n\nŻółte kurki i brązowe borowiki."
    assert document.blocks[0].heading_path == ("Grzyby jesienią",)


def test_a_saved_page_without_a_page_is_damaged() -> None:
    with pytest.raises(DocumentError, match="no HTML page") as caught:
        load("a.mht", "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n--x\n\nplain\n--x--\n")
    assert caught.value.reason == "damaged"


pieces = st.lists(
    st.sampled_from(
        [
            *('"', "'", ",", ";", "\t", "\n", "\n\n", " ", "{", "}", "[", "]", ":", "\\", "%", "$", "&", "<", ">", "/"),
            *("<a>", "</a>", "<title>", "</title>", "<b c='d'>", "<!--", "-->", "<![CDATA[", "]]>", "<?", "?>", "&lt;"),
            *(
                "\\section{",
                "\\begin{verbatim}",
                "\\end{verbatim}",
                "\\[",
                "\\]",
                "\\item",
                "\\cite{",
                "\\title{",
                "\\k",
            ),
            *("@book{x,", "title = {", "},", "==", "= T", "----", "* a", "1", "słowo", "From a 10:00:00\n", "To: x\n"),
            *("00:00:01,000 --> 00:00:02,000\n", "{1}{2}", "Dialogue: 0", "WEBVTT", "Content-Type: multipart/mixed;\n"),
            *("<!DOCTYPE a [", "\r\n", "\r", "\u2028", "\0", "true", "null", "-1.5e3"),
        ]
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("name", [*LINED, *UNLINED])
@given(text=st.one_of(st.text(max_size=200), pieces.map("".join)))
def test_no_text_makes_a_loader_fail_and_lines_stay_where_they_are(name: str, text: str) -> None:
    raw = ("x" + text).encode("utf-8", "replace")  # never a mark of another format
    try:
        document = load(name, raw)
    except DocumentError as error:
        assert error.reason in ("empty", "binary") or (name == "a.mht" and error.reason == "damaged")
        return
    check_blocks(document)
    lines = text.replace("\r\n", "\n")
    lines = lines.replace("\r", "\n") if "\n" not in lines else lines
    for block in document.blocks:
        if name in LINED and block.line_start is not None:
            assert block.line_start == document.text.count("\n", 0, block.char_start) + 1
            assert document.text.count("\n") <= lines.count("\n")
        assert block.line_start is None or 1 <= block.line_start <= lines.count("\n") + 1


@pytest.mark.parametrize(
    "name", ["a.csv", "a.json", "a.jsonl", "a.xml", "a.tex", "a.bib", "a.srt", "a.sub", "a.eml", "a.mbox"]
)
@pytest.mark.parametrize(
    "unit", ['"', "[", '{"a":', "<a>", "<!--", "<a b='", "\\begin{equation}", "$a", "\\[", "@b{", "1,", "{1}{", "&lt;"]
)
def test_whatever_is_unclosed_reading_stays_linear(name: str, unit: str) -> None:
    data = unit * (120_000 // len(unit))  # quadratic takes minutes
    try:
        check_blocks(load(name, data))
    except DocumentError as error:
        assert error.reason == "empty"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("a.json", '{"id": 1, "tags": ["a", "b"]},'),
        ("a.json", "12,"),
        ("a.csv", "a,b,"),
        ("a.xml", "<r><n>Jan</n></r>"),
    ],
)
def test_one_enormous_line_takes_a_few_times_its_own_memory(name: str, unit: str) -> None:
    data = (("[" if name == "a.json" else "") + unit * (200_000 // len(unit))).encode()
    tracemalloc.start()
    load(name, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * len(data)

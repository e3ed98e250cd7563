# SPDX-License-Identifier: GPL-2.0-only
"""HTML: the text that a reader came for, and nothing of the page around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigos.errors import DocumentError
from bigos.loaders import content_hash, load_document
from bigos.types import Document, SourceFile

FIXTURES = Path(__file__).parents[1] / "data" / "loaders"


def load(page: bytes | str) -> Document:
    raw = page.encode() if isinstance(page, str) else page
    document = load_document(SourceFile(Path("/nowhere/a.html"), len(raw), 0, 0), raw, content_hash(raw))
    end = 0
    for block in document.blocks:
        assert block.text == document.text[block.char_start : block.char_start + len(block.text)]
        assert not document.text[end : block.char_start].strip()
        assert block.line_start is None
        end = block.char_start + len(block.text)
    assert end == len(document.text)
    return document


def body(inner: str) -> str:
    return load(f"<!DOCTYPE html><html><body>{inner}</body></html>").text


def test_a_page_gives_its_text_and_none_of_its_surroundings() -> None:
    document = load((FIXTURES / "page.html").read_bytes())
    assert document.title == "Suszenie grzybów – poradnik"
    assert [block.heading_path for block in document.blocks] == [
        ("Suszenie grzybów",),
        ("Suszenie grzybów", "Czas"),
        ("Suszenie grzybów", "Kolejność"),
    ]
    assert document.text == (
        "Suszenie grzybów\n\n"
        "Grzyby suszy się w temperaturze 40 – 50 °C. Kapelusze kroi się na plastry.\n\n"
        "Czas\n\n"
        "Gatunek | Godziny\nBorowik | 8\nMaślak zwyczajny | 12\n\n"
        "Kolejność\n\n"
        "- oczyścić\n  - nożem\n  - pędzelkiem\n- pokroić\n\n"
        'for g in borowik kurka; do\n\tsusz  "$g"\ndone\n\n'
        "Pierwszy wiersz\ndrugi wiersz\n\ntrzeci wiersz"
    )


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("<p>a<b>b</b>c <i>d</i> e</p>", "abc d e"),
        ("<p>a</p>b<p>c</p>", "a\n\nb\n\nc"),
        ("<div>a</div><div>b</div>", "a\n\nb"),
        ("<section>a</section><section>b</section>", "a\nb"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<p>&lt;b&gt; &amp; &oacute;&#380;&#x142; a&shy;b&#8203;c</p>", "<b> & óżł abc"),
        ("<p>&nosuch; &#x110000;</p>", "&nosuch; \ufffd"),
        ("<p>e&#x301;</p>", "é"),
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<ul><li></li><li>b</li></ul>", "- \n- b"),
        ("<ol><li>a<li>b<ul><li>c</ul><li>d</ol>", "1. a\n2. b\n  - c\n3. d"),
        ("<ol start=4><li>a<li value=9>b<li>c</ol>", "4. a\n9. b\n10. c"),
        ("<ol start=x><li><p>a</p><li>b</ol>", "1. a\n2. b"),
        ("<h2>A<a href=#a>¶</a></h2><h3><a href=#b>§</a>B</h3>c <a href=#>#</a>", "A\n\nB\n\nc"),
        ("<h2>C<a href=#c>#1</a></h2>d<a href=c>#</a>", "C#1\n\nd#"),
        ("<h2>A<span class=mw-editsection>[<a href=x>edytuj</a>]</span></h2>b", "A\n\nb"),
        ("<dl><dt>a<dd>b</dl>", "a\nb"),
        ("<table><tr><td>a<td>b<tr><td><td>d</table>", "a | b\n | d"),
        ("<table><caption>t</caption><tr><th>a</th></tr><tr><td>b<ul><li>c</ul></td></tr></table>", "t\na\nb c"),
        ("<table><tr><td><table><tr><td>a<td>b</table></td><td><p>x</p></td></tr></table>", "a | b\n\nx"),
        ("<pre>a\n  b\n\n\tc\n</pre>d", "a\n  b\n\n\tc\n\nd"),
        ("<p>a<!-- x -->b<?php y ?>c</p>", "abc"),
        ("x<svg><title>s</title><text>t</text></svg>y", "xy"),
        ("<p>a <select><option>o</select> <button>B</button><input value=v> b</p>", "a b"),
    ],
)
def test_inline_elements_join_and_block_elements_part(inner: str, text: str) -> None:
    assert body(inner) == text


def test_headings_nest_by_level_and_hold_one_line() -> None:
    document = load("<h2>A<br>a</h2>x<h4>B</h4>y<h3><a href=#>C</a></h3>z<h1>D</h1>")
    assert [(block.heading_path, block.text.split("\n\n")[-1]) for block in document.blocks] == [
        (("A a",), "x"),
        (("A a", "B"), "y"),
        (("A a", "C"), "z"),
        (("D",), "D"),
    ]
    assert document.title == "D"


LONG = "Zdanie o grzybach, które ma kilkanaście słów i należy do treści strony. " * 5


@pytest.mark.parametrize(
    "around",
    [
        "<nav>MENU</nav>{}",
        "<header>MENU</header>{}<footer>MENU</footer>",
        "<aside>MENU</aside>{}",
        "<div role=navigation>MENU</div>{}",
        "<div class='site-nav top'>MENU</div>{}",
        "<div id=breadcrumbs>MENU</div>{}",
        "<div class=cookieConsent>MENU</div>{}",
        "<div id=cookie-law-info-bar>MENU</div>{}",
        "<div id=onetrust-consent-sdk>MENU</div>{}",
        "<div class=cmplz-cookiebanner>MENU</div>{}",
        "<div id=CybotCookiebotDialog>MENU</div>{}",
        "<div class=qc-cmp2-container>MENU</div>{}",
        "<div class='rodo-popup'>MENU</div>{}",
        "{}<div class='related-posts'><h3>MENU</h3><ul><li>x</ul></div>",
        "{}<div class='sharedaddy sd-sharing'><h3>MENU</h3></div>",
        "{}<div class='social-media-links'>MENU</div>",
        "{}<div id=catlinks>MENU</div>",
        "<div class=toc><p>MENU</p><ul><li><a href=#a>a</a><li><a href=#b>b</a><li><a href=#c>c</a></ul></div>{}",
        "<div hidden>MENU</div>{}",
        "<p style='visibility : hidden'>MENU</p>{}",
        "<div aria-hidden=true>MENU</div>{}",
        "<div>MENU</div><main>{}</main>",
        "<div>MENU</div><article>{}</article>",
        "<div>MENU</div><div role=main>{}</div>",
        "<div><a>MENU</a><a>b</a><a>c</a><a>d</a></div><div>{}</div>",
        "<table><tr><td><a>MENU</a><br><a>b</a><br><a>c</a></td><td><h1>x</h1>{}</td></tr></table>",
        "<noscript>MENU</noscript>{}",
        "<script>MENU</script>{}",
        "<template><p>MENU</template>{}",
    ],
)
def test_menus_banners_and_hidden_things_are_left_out(around: str) -> None:
    text = body(around.format(f"<p>{LONG}</p>"))
    assert LONG.strip() in text
    assert "MENU" not in text


@pytest.mark.parametrize(
    "inner",
    [
        "<nav><p>TEKST</p></nav>",
        "<div class=menu>TEKST</div>",
        "<noscript>TEKST</noscript>",
        "<div hidden>TEKST</div>",
        "<main></main><p>TEKST</p>",
        "<ul><li><a>TEKST</a><li><a>b</a><li><a>c</a></ul>",
        "<span class=menuitem>TEKST</span>",
        "<div class=navigation><h1>t</h1>TEKST</div>",
        "<article><header><h1>TEKST</h1></header><p>x</p></article>",
    ],
)
def test_a_page_that_has_text_never_comes_out_empty(inner: str) -> None:
    assert "TEKST" in body(inner)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-2", "windows-1250", "iso-8859-1"])
@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-2", "windows-1250", "iso-8859-1", None])
def test_the_charset_is_what_the_bytes_say_before_what_the_page_says(encoding: str, declared: str | None) -> None:
    prose = "Straße für Käufer, größer" if encoding == "iso-8859-1" else "Książka źle opisuje święto i źródło"
    meta = f'<meta http-equiv="Content-Type" content="text/html; charset={declared}">' if declared else ""
    page = f"<!DOCTYPE html><html><head>{meta}</head><body><p>{prose}</p></body></html>"
    assert load(page.encode(encoding)).text == prose


def test_an_xhtml_declaration_is_no_obstacle() -> None:
    declaration = "<?xml version='1.0' encoding='iso-8859-2'?>\n"
    page = f"{declaration}<html xmlns='http://www.w3.org/1999/xhtml'><body><p>żółw</p><a id='x'/>b"
    assert load(page.encode("iso-8859-2")).text == "żółw\n\nb"


@pytest.mark.parametrize("tag", ["div", "b", "ul><li", "blockquote", "table><tr><td", "font color=red"])
def test_ten_thousand_levels_neither_crash_nor_lose_the_text(tag: str) -> None:
    text = body(f"<p>POCZĄTEK</p>{f'<{tag}>' * 10_000}ŚRODEK<p>KONIEC</p>")
    for word in ("POCZĄTEK", "ŚRODEK", "KONIEC"):
        assert word in text


def test_a_huge_attribute_is_not_text_and_costs_little() -> None:
    assert body(f"<p>a<img src='data:image/png;base64,{'iVBORw0K' * 500_000}'>b</p>") == "ab"


markup = st.lists(
    st.sampled_from(
        [
            "<p>",
            "</p>",
            "<div>",
            "</div>",
            "<table>",
            "<tr>",
            "<td>",
            "</table>",
            "<ul>",
            "<li>",
            "</ul>",
            "<h1>",
            "</h1>",
            "<h3>",
            "<pre>",
            "</pre>",
            "<nav>",
            "</nav>",
            "<br>",
            "<!--",
            "-->",
            "<script>",
            "</script>",
            "<a\xa0href=x>",
            "</a>",
            "<main>",
            "<",
            ">",
            "&",
            "&#0;",
            "słowo",
            "<b>",
            "</b>",
            "<![CDATA[",
            "<x-y\xa0z",
            "\"'",
            " ",
            "\n",
        ]
    ),
    max_size=40,
)


@settings(deadline=None)
@given(st.one_of(st.text(), markup.map("".join)))
def test_no_markup_makes_it_fail(page: str) -> None:
    try:
        load(("<html>" + page).encode("utf-8", "replace"))
    except DocumentError as error:
        assert error.reason in ("empty", "binary")


def test_contents_of_other_pages_are_the_text_of_a_page_of_contents() -> None:
    chapters = "".join(f"<li><a href=ch{number}.html>Rozdział {number}</a>" for number in range(5))
    assert body(f"<h1>Spis</h1><div class=toc><ul>{chapters}</ul></div>").endswith("- Rozdział 4")


@pytest.mark.parametrize(
    "page",
    [
        "<html><body style='visibility:hidden'><p>{}</p>",  # shown by a script when the page is ready
        "<html><body hidden>{}",
        "<html><body><div style='display:none' id=page><p>{}</p></div>",
        "<html><body><noscript><p>{}</p></noscript><script>app()</script>",
        "<html><body><main hidden>{}</main><div id=app></div>",
        "<html><frameset><frame src=a></frameset><noframes><body>{}</body></noframes>",
        "<html><body class='cookie-open nav-open'><p>{}</p>",
        "<html><body><p>{}</p><script>var x = '</body>",
        "<html><body><p>{}</p><!-- <p>never closed</p>",
    ],
)
def test_a_page_that_hides_all_of_its_text_still_has_it(page: str) -> None:
    assert LONG.strip() in load(page.format(LONG)).text


@pytest.mark.parametrize(
    ("real", "declared"),
    [
        ("cp1250", "iso-8859-2"),
        ("iso-8859-2", "windows-1250"),
        ("cp1250", "utf-8"),
        ("cp1250", "iso-8859-1"),
        ("cp1250", "x-user-defined"),
        ("utf-8-sig", "windows-1250"),
        ("utf-16", "utf-8"),
        ("utf-16-le", "utf-8"),
        ("cp852", "ibm852"),
    ],
)
def test_a_charset_that_the_page_names_wrongly_is_not_believed(real: str, declared: str) -> None:
    prose = "Zażółć gęślą jaźń, a ścieżka żółwia prowadzi nad wodę. Źródło świętej łąki."
    page = f"<html><head><meta charset={declared}></head><body><p>{prose}</p></body></html>"
    assert load(page.encode(real)).text == prose

# SPDX-License-Identifier: GPL-2.0-only
"""The definition that a line of source is in: in each language, whatever else is in the text, in linear time."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigos.loaders import content_hash, load_document
from bigos.source.definitions import MOST_NAMES, defined_names, line_trails, sections
from bigos.source.markers import GRAMMARS
from bigos.types import SourceFile

DATA = Path(__file__).parents[1] / "data" / "definitions"
LANGUAGES = sorted({*GRAMMARS, "asm", "kconfig", "patch"})


def marked(name: str) -> tuple[list[str], list[tuple[str, ...]]]:
    """The lines of a file in which the trail that is expected stands before each, and these trails."""
    lines, trails = [], []
    for row in (DATA / name).read_text().splitlines():
        trail, _, line = row.partition("|")
        lines.append(line)
        trails.append(tuple(part.strip() for part in trail.split(" > ") if part.strip()))
    return lines, trails


@pytest.mark.parametrize("file", sorted(path.name for path in DATA.iterdir()))
def test_each_line_is_in_the_definition_that_a_reader_sees_it_in(file: str) -> None:
    lines, expected = marked(file)
    found = line_trails(lines, file.partition("-")[0])
    shown = [f"{' > '.join(trail):40}|{line}" for trail, line in zip(found, lines, strict=True)]
    assert shown == [f"{' > '.join(trail):40}|{line}" for trail, line in zip(expected, lines, strict=True)]


ENDS = ("\n", "\r\n", "\r")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("file", "name"), [("c", "a.c"), ("python", "a.py"), ("devicetree", "a.dts")])
def test_line_ends_form_feeds_and_byte_order_marks_shift_nothing(file: str, name: str, mark: bytes, end: str) -> None:
    lines, trails = marked(file)
    lines = ["\f" + line if line[:1].isalpha() else line for line in lines]
    data = mark + end.join(lines).encode()
    document = load_document(SourceFile(Path("/nowhere") / name, len(data), 0, 0), data, content_hash(data))
    assert "\r" not in document.text
    found: dict[int, tuple[str, ...]] = {}
    for block in document.blocks:
        assert document.text[block.char_start : block.char_start + len(block.text)] == block.text
        assert block.line_start == 1 + document.text.count("\n", 0, block.char_start)
        for number, _ in enumerate(block.text.removesuffix("\n").split("\n"), start=block.line_start):
            found[number] = block.heading_path
    assert all(
        found[number] == trail
        for number, (line, trail) in enumerate(zip(lines, trails, strict=True), 1)
        if line.strip()
    )


PIECES = (
    *("{", "}", "};", "(", ")", ";", ":", "=", ",", "/*", "*/", "//", "#", "--", '"""', "'''", "\\", "@x(", "[a]", "|"),
    *("int f(void)", "struct a", "static int t[] = {", "class B", "def f(x):", "function f", "end", "endmodule", "is"),
    *("module m", "begin : b", "config A", 'menu "M"', "endmenu", "SYM_CODE_START(a)", ".macro m", ".endm", "a:"),
    *("@@ -1,2 +3,4 @@ int f(void)", "+++ b/a.c", "--- a/a.c", "-- ", "+", "-", "impl<T> A for B", "create table t"),
    *("\t", "  ", " ", "\f", "\n", "\n", "\n", "\n\n", "\x00", "\u2028", "żółć", "😀", "x" * 300, "template <class T>"),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LANGUAGES), st.lists(st.sampled_from(PIECES), max_size=60))
def test_whatever_the_text_sections_hold_all_of_it_in_order(language: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    found = list(sections(text, language))
    assert "".join(text[part.start : part.end] for part in found) == text
    assert [part.line for part in found] == [1 + text.count("\n", 0, part.start) for part in found]
    assert all(before.trail != after.trail for before, after in pairwise(found))
    for part in found:
        assert part.start == 0 or text[part.start - 1] == "\n"
        assert len(part.trail) <= MOST_NAMES
        assert all(name and name == " ".join(name.split()) for name in part.trail)


HOSTILE = {
    "one line of braces": lambda n: "{" * n,
    "a line a brace": lambda n: "{\n" * (n // 2),
    "closing braces": lambda n: "a {\n" * (n // 8) + "}\n" * (n // 4),
    "heads without a body": lambda n: "f(a)\n" * (n // 5),
    "heads that go on": lambda n: "f(\n" + " a,\n" * (n // 4),
    "heads in heads": lambda n: "f(\n" * (n // 3),
    "one word": lambda n: "a" * n,
    "words": lambda n: "static int " * (n // 11),
    "comment that never ends": lambda n: "/*\n" + "*\n" * (n // 2),
    "comments": lambda n: "# a\n" * (n // 4),
    "strings that open": lambda n: 'x = """\n' * (n // 8),
    "deeper and deeper": lambda n: "".join(" " * (i % 900) + "def f():\n" for i in range(n // 460)),
    "modules": lambda n: "module m;\n" * (n // 20) + "endfunction\n" * (n // 24),
    "menus": lambda n: 'menu "A"\n' * (n // 9),
    "hunks": lambda n: "+++ b/a.c\n" + "@@ -1,9 +1,9 @@ f(\n+{\n" * (n // 21),
    "patches in hunks": lambda n: "+++ b/a.patch\n@@ -1,99999 +1,99999 @@\n" + "++++ b/b.patch\n" * (n // 15),
    "white space": lambda n: " " * n + "x",
    "brackets": lambda n: ("[" * 239 + "\n") * (n // 240),
    "angles": lambda n: ("<" * 239 + "\n") * (n // 240),
    "labels": lambda n: ("a: " * 79 + "\n") * (n // 238),
    "names": lambda n: ("a b " * 59 + "\n") * (n // 237),
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_time_is_linear_in_a_hostile_text(shape: str) -> None:
    # Seconds a character differ by tens between texts; what is not linear differs by thousands.
    for language in LANGUAGES:
        text = HOSTILE[shape](10_000)
        begun = time.process_time()
        list(sections(text, language))
        assert time.process_time() - begun < 2, language


@pytest.mark.parametrize(
    ("text", "language", "names"),
    [
        (
            "static int used(void);\n\nint spi_imx_can_dma(struct spi *s)\n{\n\treturn used();\n}\n",
            "c",
            {"spi_imx_can_dma"},
        ),
        ("\treturn used();\n}\n\nstruct pair {\n\tint a;\n};\n", "c", {"pair"}),
        ("class Reader:\n    def read(self):\n        return other()\n", "python", {"Reader", "read"}),
        ("config SPI_IMX\n\tbool\n", "kconfig", {"SPI_IMX"}),
        ("a: b\n", None, set()),
        ("def f(): pass\n", "a language that nobody knows", set()),
    ],
)
def test_a_fragment_defines_what_begins_in_it(text: str, language: str | None, names: set[str]) -> None:
    assert defined_names(text, language) == names

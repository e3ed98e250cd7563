# SPDX-License-Identifier: GPL-2.0-only
"""Source code comes out as it is in the file, by the line; what a program wrote for machines is refused by name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bigos.chunking import chunk_document
from bigos.embedders import Window
from bigos.errors import DocumentError
from bigos.loaders import content_hash, load_document, read_source
from bigos.tokenizer import Tokenizer
from bigos.types import Chunk, Document, SourceFile
from vocabulary import TOKENIZER

ENDS = (
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\r\n",
    "\r",
    "\f",
    "\v",
    "\x85",
    "\u2028",
    "\u2029",
    "\n\n",
    "\r\n\r\n",
    "\f\n",
)
CODE = (
    "int main(void)",
    "{",
    "\treturn readl(base + 0x10);",
    "}",
    "",
    "\t",
    "   ",
    '\tcompatible = "fsl,imx8mm-ecspi";',
    "CONFIG_SPI_IMX=y",
    "// dzielnik zegara: żółć",
    "def f(x):",
    "    return x  # łańcuch",
    "x" * 300,
    "😀 e\u0301",
    "\ufeff",
)
sources = st.builds(
    lambda mark, pieces: mark + "".join(line + end for line, end in pieces).encode(),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(st.sampled_from(CODE), st.sampled_from(ENDS)), min_size=1, max_size=80),
)

MAX_CODE_BYTES = 1_000_000


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(TOKENIZER)


def load(name: str, data: bytes) -> Document:
    return load_document(SourceFile(Path("/nowhere") / name, len(data), 0, 0), data, content_hash(data))


def lines_of(data: bytes) -> list[str]:
    """The lines that an editor shows: of LF and CRLF; of CR where there is nothing else, as in files of old Macs."""
    text = data.decode("utf-8-sig")
    if "\n" not in text:
        return text.split("\r")
    return [line.removesuffix("\r") for line in text.split("\n")]


def check_lines(document: Document, chunks: list[Chunk], lines: list[str]) -> None:
    covered: set[int] = set()
    for chunk in chunks:
        assert chunk.line_start is not None and chunk.line_end is not None
        visible = chunk.text.strip()
        start = chunk.char_start + chunk.text.index(visible)
        shown = "\n".join(lines[chunk.line_start - 1 : chunk.line_end])
        assert visible in shown
        assert visible.count("\n") == chunk.line_end - chunk.line_start
        before = document.text[:start].rpartition("\n")[2]
        after = document.text[start + len(visible) :].partition("\n")[0]
        if not (before + after).strip():  # whole lines
            assert visible == shown.strip()
        covered.update(range(chunk.line_start, chunk.line_end + 1))
    assert {number for number, line in enumerate(lines, start=1) if line.strip()} <= covered


@settings(max_examples=120, deadline=None)
@given(sources, st.integers(8, 60), st.integers(0, 12))
@example(b"\xef\xbb\xbfint a;\r\n\r\n\fint b;\r\nint c;", 8, 0)
@example(b"int a;\rint b;\r\rint c;\r", 8, 2)
@example("int a;\u2028still one\u0085and one\nint b;\n".encode(), 8, 0)
def test_the_lines_of_each_chunk_are_those_of_the_file(
    tokenizer: Tokenizer, data: bytes, window: int, overlap: int
) -> None:
    try:
        document = load("a.c", data)
    except DocumentError as error:
        assert error.reason == "empty"
        return
    check_lines(document, list(chunk_document(document, tokenizer, Window(window, overlap))), lines_of(data))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_lines_of_each_chunk_are_what_sed_prints(tokenizer: Tokenizer, tmp_path: Path, end: bytes) -> None:
    file = tmp_path / "a.c"
    text = "".join(f"static int f{n}(void)\n{{\n\treturn {n};\f\u2028\n}}\n\n" for n in range(40))
    file.write_bytes(b"\xef\xbb\xbf" + text.encode().replace(b"\n", end))
    chunks = list(chunk_document(load("a.c", file.read_bytes()), tokenizer, Window(48, 8)))
    assert len(chunks) > 5
    for chunk in chunks:
        command = ["sed", "-n", f"{chunk.line_start},{chunk.line_end}p", file]
        shown = subprocess.run(command, capture_output=True, check=True).stdout
        assert shown.replace(b"\r\n", b"\n").decode("utf-8-sig").strip() == chunk.text.strip()


WORDS = "CONFIG_SPI_IMX fsl,imx8mm-ecspi spi_imx_clkdiv ECSPI_CTRL_POSTDIV_OFFSET readBytesInto %s/%08llx"


def test_the_names_in_code_come_through_as_they_are(tokenizer: Tokenizer) -> None:
    document = load("spi.c", f"/* {WORDS} */\n".encode())
    assert WORDS in "".join(chunk.text for chunk in chunk_document(document, tokenizer, Window(64, 0)))


PACKED = "function a(b){return b+1};" * 8
REFUSED = {
    "large.c": b"int a;\n" * (MAX_CODE_BYTES // 7 + 1),
    "bundle.js": b"/* licence */\n" + b"function a(b){return b+1};" * 400,
    "wrapped.js": (PACKED + "\n").encode() * 60,
    "style.css": b".a{color:red}" * 900,
    "small.min.js": b"var a=1;\n",
    "pnpm-lock.yaml": b"lockfileVersion: 9\n",
    "data.py": b"x = '" + b"a" * 20_000 + b"'\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_program_wrote_is_skipped_as_generated(name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load(name, REFUSED[name])
    assert (caught.value.reason, caught.value.skipped) == ("generated", True)
    assert caught.value.message


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("limit.c", b"int a;\n" * (MAX_CODE_BYTES // 7)),
        ("braces.c", b"int f(void)\n{\n" + b"{" * 3000 + b"}" * 3000 + b"\n}\n"),
        ("logo.py", b"LOGO = '" + b"a" * 20_000 + b"'\n" + b"def draw(canvas):\n    return canvas\n" * 700),
        ("one.js", b"export const add = (a, b) => a + b; " * 20),
        ("wide.js", b"    this.registers.push(new Register(base, 'control', 0x10, readOnly, description));\n" * 300),
        ("table.c", b"{ " + b"0x00, " * 600 + b"},\n"),
    ],
)
def test_what_a_person_wrote_is_taken_with_a_long_line_in_it(name: str, data: bytes) -> None:
    assert load(name, data).text.encode() == data


def test_a_file_that_has_more_in_it_than_stat_said_is_read_no_further_than_the_limit() -> None:
    # Size 0 by stat and thousands of bytes when read: a file that grows while it is read, as the system itself has it.
    file = Path("/proc/self/maps")
    status = file.stat()
    source = SourceFile(file, status.st_size, status.st_mtime_ns, status.st_ino)
    with pytest.raises(DocumentError) as caught:
        read_source(source, 1000)
    assert (caught.value.reason, caught.value.skipped) == ("too large", True)
    assert len(read_source(source, 10_000_000)) > 1000


def test_a_file_without_end_is_read_no_further_than_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "grows.c"
    file.write_bytes(b"int a;\n")
    source = SourceFile(file, 7, 0, file.stat().st_ino)
    os.truncate(file, 3 << 40)  # sparse: 3 TiB by now
    with pytest.raises(DocumentError, match="the limit is 1,000") as caught:
        read_source(source, 1000)
    assert caught.value.reason == "too large"

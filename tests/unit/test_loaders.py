# SPDX-License-Identifier: GPL-2.0-only
"""The registry: one format a file, chosen by content and name; reading is bounded; failures have a reason."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bigos import loaders
from bigos.errors import DocumentError
from bigos.loaders import FORMATS, LoadOptions, content_hash, detect, load_document, read_head, read_source
from bigos.loaders.content import Content, sniff, text_family
from bigos.types import Document, SourceFile

FIXTURES = Path(__file__).parents[1] / "data" / "loaders"


def source(path: Path) -> SourceFile:
    status = path.stat()
    return SourceFile(path, status.st_size, status.st_mtime_ns, status.st_ino)


def load(name: str, data: bytes) -> Document:
    return load_document(SourceFile(Path("/nowhere") / name, len(data), 0, 0), data, content_hash(data))


def zipped(*entries: tuple[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return whole.getvalue()


class Unseekable(io.RawIOBase):
    """A pipe to zipfile: what it writes there has no sizes in the entries' heads."""

    def __init__(self, target: io.BytesIO) -> None:
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        return self._target.write(data)  # type: ignore[arg-type]


def reason(name: str, data: bytes) -> tuple[str, bool]:
    with pytest.raises(DocumentError) as caught:
        load(name, data)
    return caught.value.reason, caught.value.skipped


@pytest.mark.parametrize(
    ("name", "head", "language"),
    [
        ("a.c", b"", "c"),
        ("a.h", b"struct a { int b; };", "c"),
        ("a.h", b'/* class of devices: */\n#ifdef __cplusplus\nextern "C" {\nclass Fwd;\n#endif', "c"),
        ("a.h", b"#pragma once\nnamespace spi {\nclass Bus : public Base {", "cpp"),
        ("a.h", b"template <typename T>\nT max(T a, T b);", "cpp"),
        ("A.CPP", b"", "cpp"),
        ("a.hpp", b"", "cpp"),
        ("a.py", b"", "python"),
        ("linux_6.1.bbappend", b"", "bitbake"),
        ("machine.inc", b"", "bitbake"),
        ("Makefile", b"", "make"),
        ("Makefile.am", b"", "make"),
        ("Kbuild", b"", "make"),
        ("Kconfig", b"", "kconfig"),
        ("Kconfig.debug", b"", "kconfig"),
        ("imx_v6_v7_defconfig", b"", "kconfig"),
        ("CMakeLists.txt", b"", "cmake"),
        ("meson.build", b"", "meson"),
        ("Dockerfile", b"", "dockerfile"),
        ("Dockerfile.dev", b"", "dockerfile"),
        ("top.v", b"", "verilog"),
        ("top.sv", b"", "systemverilog"),
        ("top.VHD", b"", "vhdl"),
        ("imx8mm.dtsi", b"", "devicetree"),
        ("entry.S", b"", "asm"),
        ("entry.s", b"", "asm"),
        ("u-boot.lds", b"", "linkerscript"),
        ("pins.xdc", b"", "tcl"),
        ("a.yml", b"", "yaml"),
        ("a.service", b"", "systemd"),
        ("getty@.service.in", b"", "systemd"),
        ("10-usb.rules", b"", "udev"),
        ("0001-fix.patch", b"", "patch"),
        ("config.h.in", b"", "c"),
        ("link.ld.orig", b"", "linkerscript"),
        ("run", b"#!/bin/sh\n", "shell"),
        ("run", b"#!/usr/bin/env -S LANG=C python3.11 -u\n", "python"),
        ("sensord.init", b"#! /bin/bash -e\n", "shell"),
        ("run", b"#!/opt/bin/frobnicate\n", "script"),
    ],
)
def test_source_code_is_known_by_its_name_or_its_first_line(name: str, head: bytes, language: str) -> None:
    found = detect(Path("/x") / name, head)
    assert (found.spec.kind, found.code_language) == ("code", language)


@pytest.mark.parametrize(
    ("name", "head", "format_name"),
    [
        ("a.txt", b"text", "text"),
        ("A.TXT", b"text", "text"),
        ("trailing.txt ", b"text", "text"),
        ("syslog.log", b"text", "text"),
        ("README", b"text", "text"),
        ("COPYING.MIT", b"text", "text"),
        ("GPL-2.0", b"text", "text"),
        ("ls.1", b"text", "text"),
        ("Dr. Nowak, notatki", b"text", "text"),
        (".gitignore", b"*.o", "text"),
        ("README.md", b"text", "markdown"),
        ("index.rst", b"text", "rst"),
        ("a.htm", b"<p>x", "html"),
        ("page.txt", b"\xef\xbb\xbf \n<!-- saved --><!DOCTYPE html><html>", "html"),
        ("page", b"<?xml version='1.0'?>\n<html xmlns='x'>", "html"),
        ("page.txt", "<html><body>x".encode("utf-16"), "html"),
        ("notes.html", b"no markup at all, 1 < 2", "text"),
        ("about.txt", b"the <html> element is the root", "text"),
        ("wide.txt", "zażółć".encode("utf-16-le"), "text"),
        ("page.pdf", b"<!DOCTYPE html><p>x", "html"),
        ("page.doc", b"<html><body>x", "html"),
        ("page", b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n", "mhtml"),
        ("page.doc", b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n", "mhtml"),
        ("letter.eml", b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n", "mail"),
        ("letter.eml", b"no header", "mail"),
        ("Inbox", b"From a@b Mon Jan  1 10:00:00 2024\nSubject: x\n\ny", "mail"),
        ("Inbox", b"From the beginning at 10:00 on\nwe read: nothing", "text"),
        ("saved.txt", b"From: a@b\r\nTo: c@d\r\nSubject: x\r\nDate: today\r\n\r\ny", "mail"),
        ("plan.txt", b"To: do\nFrom: then\n\nSubject: x\nDate: y\n", "text"),
        ("notes.pdf", b"plain text", "text"),
        ("notes.docx", b"plain text", "text"),
        ("table.doc", b"<?xml version='1.0'?>\n<w:wordDocument>", "xml"),
        ("feed.xml", b"<?xml version='1.0'?>\n<rss>", "xml"),
        ("page.xml", b"<?xml version='1.0'?>\n<html xmlns='x'>", "html"),
        ("book.xml", b"<?xml version='1.0'?>\n<FictionBook xmlns='x'>", "fb2"),
        ("page.html", b"%PDF-1.7\n", "pdf"),
        ("book.azw3", zipped(("mimetype", b"application/epub+zip")), "epub"),
        ("book.zip", zipped(("mimetype", b"application/epub+zip")), "epub"),
        ("letter.doc", b"{\\rtf1 x", "rtf"),
        ("letter.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "legacy-office"),
        ("letter.doc", zipped(("[Content_Types].xml", b"x"), ("word/document.xml", b"y")), "docx"),
        ("letter.docx", zipped(("[Content_Types].xml", b"x")), "docx"),
        ("book.epub", zipped(("a.xhtml", b"x")), "epub"),
        ("scan.pdf", b"\xff\xd8\xff\xe0\0", "image"),
        ("scan.txt", b"\x89PNG\r\n\x1a\n\0", "image"),
        ("broken.pdf", b"\0\1\2 no header", "pdf"),
        ("paper.2019", b"%PDF-1.4\n", "pdf"),
    ],
)
def test_documents_are_known_by_content_and_name_together(name: str, head: bytes, format_name: str) -> None:
    found = detect(Path("/x") / name, head)
    assert (found.spec.name, found.spec.kind, found.code_language) == (format_name, "document", None)


@pytest.mark.parametrize(
    "head", [b"\x7fELF\x02", b"SQLite format 3\0", b"text with \0 in it", bytes(range(1, 32)) * 20]
)
@pytest.mark.parametrize("name", ["a.txt", "a.c", "README", "a.html", "noextension"])
def test_binary_content_is_never_text_whatever_its_name(name: str, head: bytes) -> None:
    assert reason(name, head) == ("binary", True)


@pytest.mark.parametrize(
    "head",
    [
        zipped(("a.txt", b"text")),
        zipped(("META-INF/MANIFEST.MF", b"x"), ("a.class", b"y")),
        b"PK\x05\x06" + bytes(18),
        gzip.compress(b"text"),
        bz2.compress(b"text"),
        lzma.compress(b"text"),
        b"7z\xbc\xaf\x27\x1c\0\4",
        b"Rar!\x1a\x07\x01\x00",
        b"a.txt".ljust(257, b"\0") + b"ustar\x0000",
        lzma.compress(b"text", lzma.FORMAT_ALONE),
        b"\x1f\x9d\x90text",
        b"\x04\x22\x4d\x18text",
        b"MSCF" + bytes(4) + b"text",
        b"\xed\xab\xee\xdb\3\0",
        b"!<arch>\ndebian-binary   ",
        bytes(0x8001) + b"CD001\1",
    ],
    ids=range(16),  # what is compressed differs by the second, and names of tests must not
)
@pytest.mark.parametrize("name", ["a.txt", "a.zip", "a.tar.gz", "a.c", "noextension", "a.jar"])
def test_archives_are_not_opened_and_that_is_said(name: str, head: bytes) -> None:
    with pytest.raises(DocumentError, match="archives are not opened") as caught:
        detect(Path("/x") / name, head)
    assert (caught.value.reason, caught.value.skipped) == ("archive", True)


@pytest.mark.parametrize("extension", ["xlsb", "odg", "pages"])
def test_a_document_that_only_looks_like_an_archive_is_told_as_of_no_known_format(extension: str) -> None:
    with pytest.raises(DocumentError, match=f"no loader for .{extension} files") as caught:
        detect(Path(f"/x/a.{extension}"), zipped(("a.txt", b"text")))
    assert caught.value.reason == "unknown format"


@pytest.mark.parametrize(
    ("head", "family"),
    [
        (b"%PDF-1.7\n", "pdf"),
        (b"HTTP/1.1 200 OK\r\n\r\n%PDF-1.4\r\n1 0 obj\r\n", "pdf"),
        (b"\0" * 1000 + b"%PDF-1.4\n%\xe2\xe3\n1 0 obj\n", "pdf"),
        (b"\0" * 2000 + b"%PDF-1.4\n1 0 obj\n", "binary"),
        (b'#include <string.h>\nint pdf(char *p) { return !memcmp(p, "%PDF-", 5); }\n', None),
        (b"A PDF begins with\n%PDF-1.4 in its first line.\n", None),
        (zipped(("mimetype", b"application/epub+zip"), ("a.xhtml", b"x")), "epub"),
        (zipped(("META-INF/container.xml", b"x"), ("OEBPS/content.opf", b"x")), "epub"),
        (zipped(("mimetype", b"application/vnd.oasis.opendocument.text"), ("content.xml", b"x")), "odt"),
        (zipped(("mimetype", b"application/vnd.oasis.opendocument.text-template")), "odt"),
        (zipped(("mimetype", b"application/vnd.oasis.opendocument.presentation")), "odp"),
        (zipped(("mimetype", b"application/vnd.oasis.opendocument.spreadsheet")), "ods"),
        (zipped(("mimetype", b"application/vnd.oasis.opendocument.graphics")), "zip"),
        (zipped(("[Content_Types].xml", b"x"), ("_rels/.rels", b"x"), ("word/document.xml", b"x")), "docx"),
        (zipped(("[Content_Types].xml", b"x"), ("ppt/presentation.xml", b"x")), "pptx"),
        (zipped(("[Content_Types].xml", b"x"), ("xl/workbook.xml", b"x")), "xlsx"),
        (zipped(("[Content_Types].xml", b"x"), ("visio/document.xml", b"x")), "ooxml"),
        (zipped(("word/list.txt", b"x")), "zip"),
        (zipped(("book.fb2", b"x")), "fb2.zip"),
        (zipped(("one.fb2", b"x"), ("two.fb2", b"x")), "zip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "ole"),
        (b"{\\rtf1\\ansi", "rtf"),
        (b"Title".ljust(60, b"\0") + b"BOOKMOBI", "mobi"),
        (b"Title".ljust(60, b"\0") + b"TEXtREAd", "mobi"),
        (b"TPZ0\0\1", "topaz"),
        (b"\xeaDRMION\xee", "kfx"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"\xff\xd8\xff\xe0", "image"),
        (b"II*\0", "image"),
        (b"MM\0*", "image"),
        (b"GIF89a", "image"),
        (b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", "image"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "image"),
        (b"AT&TFORM\0\0", "djvu"),
        (b"\x7fELF\x02", "program"),
        (b"BMW i Mercedes", None),
        (b"GIF to format", None),
        (b"", None),
        ("zażółć".encode("utf-16"), None),
    ],
)
def test_the_first_bytes_say_what_binary_content_it_is(head: bytes, family: str | None) -> None:
    content = sniff(head)
    assert (content.family if content else None) == family


def test_a_zip_is_looked_through_however_its_sizes_are_written_and_wherever_the_head_ends() -> None:
    streamed = io.BytesIO()
    with zipfile.ZipFile(Unseekable(streamed), "w") as archive:  # sizes stand behind each entry
        archive.writestr("[Content_Types].xml", "x" * 1000)
        archive.writestr("word/document.xml", "y")
    whole = streamed.getvalue()
    assert sniff(whole) == Content("docx", "a ZIP archive")
    for end in range(4, len(whole)):
        content = sniff(whole[:end])
        assert content is not None
        assert content.family in ("zip", "ooxml", "docx")


@pytest.mark.parametrize(
    ("start", "family"),
    [
        ("<!DOCTYPE html>", "html"),
        ('<?xml version="1.0"?>\n<?xml-stylesheet href="a"?><html xmlns="x">', "html"),
        ('<?xml version="1.0"?>\n<FictionBook xmlns="x">', "fb2"),
        ("MIME-Version: 1.0\nContent-Type: multipart/related;\n\tboundary=x\n", "mhtml"),
        ('<?xml version="1.0"?><note>', "xml"),
        ("<p>a", "markup"),
        ("1 < 2", "plain"),
    ],
)
def test_text_is_known_by_how_it_begins(start: str, family: str) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le"):
        assert text_family(start.encode(encoding)) == family


def test_the_choice_is_logged_with_what_it_rests_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "bigos.loaders"):
        detect(Path("/x/page.txt"), b"<!DOCTYPE html><p>x")
    assert caplog.messages == ["page.txt: html by content, text by name: html"]


@pytest.mark.parametrize("name", ["d.xyz", "notes.txt~", "README~", ".a.txt.swp", "a.blend", "page.html~"])
def test_a_format_without_a_loader_is_unknown_and_named(name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        detect(Path("/x") / name, b"<!DOCTYPE html>" if "html" in name else b"some text")
    assert (caught.value.reason, caught.value.skipped) == ("unknown format", True)
    assert name[name.rindex(".") if "." in name else 0 :] in caught.value.message


def test_many_comments_before_the_text_cost_no_time() -> None:
    head = b"<!-- SPDX-License-Identifier: MIT -->\n" * 1000  # read in all possible ways it takes 2^1000 steps

    assert detect(Path("notes.md"), head + b"# Notes\n").spec.name == "markdown"
    assert detect(Path("notes.md"), head + b"<!DOCTYPE html><p>x").spec.name == "html"


def test_a_name_that_is_not_utf_8_is_no_obstacle() -> None:
    assert detect(Path(os.fsdecode(b"/x/\xb3\xf3d\xbc.txt")), b"x").spec.name == "text"
    with pytest.raises(DocumentError) as caught:
        detect(Path(os.fsdecode(b"/x/a.\xff\xfeq")), b"\0")
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", b"\xff\xfe\n\0", b"\xc2\xad\xe2\x80\x8b\n"])
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html"])
def test_a_document_without_a_visible_character_is_empty(name: str, data: bytes) -> None:
    assert reason(name, data) == ("empty", True)


def test_a_page_without_text_is_empty() -> None:
    assert reason("a.html", b"<!DOCTYPE html><html><head><title>x</title></head><body><img src=a></body>") == (
        "empty",
        True,
    )
    assert reason("a.html", b"<!DOCTYPE html><!-- only this -->") == ("empty", True)


def test_every_format_has_a_loader_that_exists_and_a_fixture() -> None:
    for spec in FORMATS:
        module, _, function = spec.loader.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
    formats = {
        detect(path, path.read_bytes()[: loaders.HEAD_BYTES]).spec.name for path in FIXTURES.iterdir() if path.is_file()
    }
    assert formats == {spec.name for spec in FORMATS}
    extensions = [extension for spec in FORMATS for extension in spec.extensions]
    assert len(extensions) == len(set(extensions))


def test_what_a_parser_throws_is_a_damaged_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "brittle_parser.py").write_text(
        "KINDS = {b'v': ValueError, b'm': MemoryError, b'r': RecursionError}\n"
        "def load(source, data, options):\n    raise KINDS[data]('why\\nso')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = loaders.FormatSpec("brittle", "document", "brittle_parser:load")
    origin = SourceFile(Path("/x/a.brittle"), 1, 0, 0)
    for data in (b"v", b"r"):
        with pytest.raises(DocumentError, match="why so") as caught:
            loaders._parse(spec, origin, data, LoadOptions())
        assert (caught.value.reason, caught.value.skipped) == ("damaged", False)
    with pytest.raises(MemoryError):
        loaders._parse(spec, origin, b"m", LoadOptions())


def test_reading_gives_the_bytes_and_a_hash_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 300_000 + b"y")
    assert read_source(source(path), 300_001) == path.read_bytes()
    assert read_head(source(path)) == b"x" * loaders.HEAD_BYTES
    assert content_hash(b"x") == content_hash(b"x") != content_hash(b"y")
    assert len(content_hash(b"")) == 32


def test_a_file_over_the_limit_is_refused_with_the_setting_that_raises_it(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.touch()
    os.truncate(path, 3 << 30)
    with pytest.raises(DocumentError) as caught:
        read_source(source(path), 1_000_000)
    assert (caught.value.reason, caught.value.skipped) == ("too large", True)
    assert "BIGOS_MAX_FILE_BYTES" in caught.value.fix


def test_a_file_that_grew_since_the_walk_is_read_whole_and_one_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"1")
    seen = source(path)
    path.write_bytes(b"1" * 200_000)
    assert len(read_source(seen, 200_000)) == 200_000
    # A file of /proc says that it has 0 bytes and gives more: the same to a reader as one that grows.
    endless = Path("/proc/self/environ")
    with pytest.raises(DocumentError) as caught:
        read_source(SourceFile(endless, 0, 0, 0), 3)
    assert caught.value.reason == "too large"


def test_what_cannot_be_read_is_unreadable_in_the_systems_words(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(DocumentError, match="Too many levels of symbolic links") as caught:
        read_source(SourceFile(tmp_path / "link", 0, 0, 0), 10)
    assert (caught.value.reason, caught.value.skipped) == ("unreadable", False)


def test_what_is_gone_has_vanished(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("was a folder")
    for path in (tmp_path / "gone", tmp_path / "file" / "a.txt"):
        with pytest.raises(DocumentError) as caught:
            read_source(SourceFile(path, 0, 0, 0), 10)
        assert (caught.value.reason, caught.value.skipped) == ("vanished", False)


def test_a_file_that_became_a_fifo_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path):
        with pytest.raises(DocumentError) as caught:
            read_source(SourceFile(path, 0, 0, 0), 10)
        assert caught.value.reason == "special file"


def test_parsers_are_imported_only_when_a_file_needs_them() -> None:
    script = "import sys, bigos.loaders; print([m for m in ('lxml', 'bs4', 'charset_normalizer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

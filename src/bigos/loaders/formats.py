# SPDX-License-Identifier: GPL-2.0-only
"""The formats that Bigos reads: one row each, the one table to extend.

To add a format, write a module with `load(source, data, options) -> Parsed`, then add a row: its extensions (each in
one row only) and, for a format with a signature of its own, `signatures`: the families of `content.py` that it is. A
file goes to the row that has its family, whatever its name; of two such rows the extension chooses, else the first.
Where the content only says "zip", "ooxml" or "binary", the row with the file's extension takes it. An "ole" file goes
to the row with the signature "ole" when its name is that of any binary format (an encrypted .docx is one). A row
without signatures is text, and is chosen by name. A text that only bears the name of a binary format is text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bigos.source import languages
from bigos.types import Kind


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """One format: how it is recognised, and the function that loads it.

    `loader` is "module:function", imported on first use; it takes (SourceFile, bytes, LoadOptions) and returns Parsed.
    """

    name: str
    kind: Kind
    loader: str
    extensions: frozenset[str] = field(default=frozenset())
    """Lower case, without the dot."""
    names: tuple[str, ...] = ()
    """File-name globs that hold when the extension says nothing."""
    bare: bool = False
    """Whether clean text in a file without an extension is this format."""
    signatures: frozenset[str] = field(default=frozenset())
    """Families of content (`content.Content.family`, `content.text_family`) that are this format; none for text."""
    version: int = 1
    """Goes up when the loader gives another text or other headings of the same file: files of this format are then read
    again."""
    images: bool = False
    """Whether its bytes are mostly images (a scanned book takes a megabyte a page): it has a limit of its own."""

    @property
    def binary(self) -> bool:
        """Whether its content is no text, so that its parser takes in more than it can look over."""
        return not self.signatures <= _TEXT_FAMILIES


_TEXT_FAMILIES = frozenset(("html", "mail", "markup", "mhtml", "plain", "xml"))

FORMATS: tuple[FormatSpec, ...] = (
    FormatSpec(
        "text",
        "document",
        "bigos.loaders.text:load",
        # ls.1 has no extension; sections of manuals that end with a letter do.
        frozenset(("txt", "text", "log", "nfo", "man", "1p", "3p", "3pm", "3x", "1ssl", "3ssl", "5ssl", "7ssl", "8x")),
        ("README*", "LICENSE*", "LICENCE*", "COPYING*", "CHANGELOG*", "ChangeLog*", "NEWS*", "TODO*", "AUTHORS*"),
        bare=True,
    ),
    FormatSpec("markdown", "document", "bigos.loaders.markdown:load", frozenset(("md", "markdown", "mdown", "mkd"))),
    FormatSpec("rst", "document", "bigos.loaders.text:load_rst", frozenset(("rst", "rest"))),
    FormatSpec(
        "html",
        "document",
        "bigos.loaders.html:load",
        frozenset(("html", "htm", "xhtml", "xht")),
        signatures=frozenset(("html", "xml", "markup")),
        version=2,
    ),
    FormatSpec(
        "mhtml",
        "document",
        "bigos.loaders.mhtml:load",
        frozenset(("mht", "mhtml")),
        signatures=frozenset(("mhtml",)),
        version=2,
    ),
    FormatSpec(
        "mail",
        "document",
        "bigos.loaders.mail:load",
        frozenset(("eml", "mbox", "mbx")),
        signatures=frozenset(("mail", "mhtml", "xml", "markup", "plain")),
        version=2,
    ),
    FormatSpec("asciidoc", "document", "bigos.loaders.outline_text:load_asciidoc", frozenset(("adoc", "asciidoc"))),
    FormatSpec("org", "document", "bigos.loaders.outline_text:load_org", frozenset(("org",))),
    FormatSpec("latex", "document", "bigos.loaders.latex:load", frozenset(("tex", "ltx", "latex")), version=2),
    FormatSpec("bibtex", "document", "bigos.loaders.latex:load_bibtex", frozenset(("bib",)), version=2),
    FormatSpec("csv", "document", "bigos.loaders.csv_table:load", frozenset(("csv", "tsv", "tab", "psv")), version=2),
    FormatSpec(
        "json", "document", "bigos.loaders.json_records:load", frozenset(("json", "geojson", "jsonld", "webmanifest"))
    ),
    FormatSpec("jsonl", "document", "bigos.loaders.json_records:load_lines", frozenset(("jsonl", "ndjson"))),
    FormatSpec(
        "xml",
        "document",
        "bigos.loaders.xml_text:load",
        frozenset(
            (
                *("xml", "xsd", "xsl", "xslt", "rng", "wsdl", "rss", "atom", "opml", "dbk", "docbook", "tei", "dita"),
                *("ditamap", "tmx", "xlf", "xliff", "resx", "plist"),
            )
        ),
        version=2,
    ),
    FormatSpec(
        "subtitles",
        "document",
        "bigos.loaders.subtitles:load",
        frozenset(("srt", "vtt", "ass", "ssa", "sub", "sbv")),
        version=2,
    ),
    FormatSpec(
        "pdf",
        "document",
        "bigos.loaders.pdf:load",
        frozenset(("pdf",)),
        signatures=frozenset(("pdf",)),
        images=True,
        version=2,
    ),
    FormatSpec(
        "djvu",
        "document",
        "bigos.loaders.djvu:load",
        frozenset(("djvu", "djv")),
        signatures=frozenset(("djvu",)),
        images=True,
    ),
    FormatSpec(
        "image",
        "document",
        "bigos.loaders.image:load",
        frozenset(("png", "jpg", "jpeg", "jpe", "tif", "tiff", "bmp", "webp", "gif", "jp2", "j2k")),
        signatures=frozenset(("image",)),
        images=True,
    ),
    FormatSpec(
        "epub",
        "document",
        "bigos.loaders.epub:load",
        frozenset(("epub",)),
        signatures=frozenset(("epub",)),
        version=2,
    ),
    FormatSpec(
        "mobi",
        "document",
        "bigos.loaders.mobi:load",
        frozenset(("mobi", "azw", "azw3", "azw4", "prc", "kfx")),
        signatures=frozenset(("mobi", "kfx", "topaz")),
        version=2,
    ),
    FormatSpec(
        "fb2",
        "document",
        "bigos.loaders.fb2:load",
        frozenset(("fb2", "fbz")),
        signatures=frozenset(("fb2", "fb2.zip")),
        version=2,
    ),
    FormatSpec(
        "docx",
        "document",
        "bigos.loaders.docx:load",
        frozenset(("docx", "docm", "dotx", "dotm")),
        signatures=frozenset(("docx",)),
        version=2,
    ),
    FormatSpec(
        "pptx",
        "document",
        "bigos.loaders.pptx:load",
        frozenset(("pptx", "pptm", "potx", "potm", "ppsx", "ppsm")),
        signatures=frozenset(("pptx",)),
        version=2,
    ),
    FormatSpec(
        "xlsx",
        "document",
        "bigos.loaders.xlsx:load",
        frozenset(("xlsx", "xlsm", "xltx", "xltm")),
        signatures=frozenset(("xlsx",)),
    ),
    FormatSpec(
        "odt",
        "document",
        "bigos.loaders.opendocument:load",
        frozenset(("odt", "ott")),
        signatures=frozenset(("odt",)),
        version=2,
    ),
    FormatSpec(
        "odp",
        "document",
        "bigos.loaders.opendocument:load",
        frozenset(("odp", "otp")),
        signatures=frozenset(("odp",)),
        version=2,
    ),
    FormatSpec(
        "ods",
        "document",
        "bigos.loaders.opendocument:load",
        frozenset(("ods", "ots")),
        signatures=frozenset(("ods",)),
        version=2,
    ),
    FormatSpec(
        "flat-odf",
        "document",
        "bigos.loaders.opendocument:load",
        frozenset(("fodt", "fodp", "fods")),
        signatures=frozenset(("xml",)),
        version=2,
    ),
    FormatSpec(
        "rtf",
        "document",
        "bigos.loaders.rtf:load",
        frozenset(("rtf",)),
        signatures=frozenset(("rtf",)),
        version=2,
    ),
    FormatSpec(
        "ipynb",
        "document",
        "bigos.loaders.notebook:load",
        frozenset(("ipynb",)),
    ),
    FormatSpec(
        "legacy-office",
        "document",
        "bigos.loaders.legacy_office:load",
        frozenset(("doc", "dot", "ppt", "pot", "pps", "xls", "xlt")),
        signatures=frozenset(("ole",)),
    ),
    # YAML, TOML and INI are code: they are configuration, and what is asked about them is where a key stands. JSON5 and
    # JSON with comments are written by hand for the same purpose.
    FormatSpec("code", "code", "bigos.loaders.code:load", frozenset(languages.EXTENSIONS) - {"json"}, version=3),
)

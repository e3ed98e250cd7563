# SPDX-License-Identifier: GPL-2.0-only
"""RTF through striprtf, prepared so that its code pages, headings, table cells and footnotes come through."""

from __future__ import annotations

import re
from collections.abc import Callable

from bigos.errors import DocumentError
from bigos.loaders.assembly import Assembly
from bigos.loaders.encoding import clean
from bigos.loaders.heading_styles import heading_level
from bigos.loaders.optional import require
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed, Trail, one_line
from bigos.types import SourceFile

_BIN = re.compile(rb"\\bin([0-9]{1,9}) ?")
# Pictures and embedded objects: a run of hexadecimal digits that is no text.
_HEX_RUN = re.compile(rb"[0-9a-fA-F\s]{256,}")
_RAW = re.compile(rb"[\x80-\xff]")
_CODE_PAGE = re.compile(r"\\ansicpg([0-9]{3,5})")
_CHARSETS = {"1250": 238, "1251": 204, "1253": 161, "1254": 162, "1255": 177, "1256": 178, "1257": 186}
_STYLE = re.compile(r"\{\\s([0-9]{1,5})(?![0-9])([^{}]{0,2000}?)(?<!\\)\}")
_FONT = re.compile(r"\\f[0-9]+ ?")
_USED_STYLE = re.compile(r"\\s([0-9]{1,5})(?![0-9]) ?")
_BULLET = re.compile(r"[ \t]*[\uf000-\uf0ff•·▪◦]\t")
_OUTLINE = re.compile(r"\\outlinelevel([0-9])(?![0-9]) ?")
_INFO_WITHIN = 1_000_000  # characters
_STYLES_WITHIN = 200_000  # characters
_CHARACTER = re.compile(r"\\u(-?[0-9]+)")
_SKIPPED = re.compile(r"\\uc(?![0-9a-z])")
_CELL = re.compile(r"\\(?:nest)?cell(?![a-z]) ?")
_NOTE = re.compile(r"\{(?:\\\*)?\\footnote(?![a-z])")
_HIDDEN = re.compile(r"(?<!\\)\\(?:v|deleted)(?:1(?![0-9])|(?![a-z0-9-])) ?")
_SWITCH = re.compile(r"(?<!\\)(?:[{}]|\\(?:v0|deleted0|plain|pard|cell|row)(?![a-z0-9]))")
_BRACE = re.compile(r"(?<!\\)[{}]")
_TITLE = re.compile(r"\{\\title ?([^{}]{0,2000})\}")
# Noncharacters, which no text may contain: before a heading with its level, and after a cell.
_HEADING_MARK, _CELL_MARK = "\ufdd0", "\ufdd1"
_HEADING = re.compile(_HEADING_MARK + "([0-9])")


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Paragraphs under the headings that have an outline level; page headers, pictures and text boxes are left out.

    Raises:
        DocumentError: "damaged" when it does not begin as RTF.
    """
    convert = require("striprtf.striprtf", "striprtf").rtf_to_text
    if not data.lstrip().startswith(b"{\\rtf"):
        raise DocumentError("damaged", "it does not begin as an RTF file does")
    source = _RAW.sub(lambda match: b"\\'%02x" % match[0][0], _HEX_RUN.sub(b"", _without_binary(data))).decode("ascii")
    source = _SKIPPED.sub(r"\\uc1", _CHARACTER.sub(_possible, _charsets(source)))
    titles = _TITLE.findall(source, 0, _INFO_WITHIN)
    page = _CODE_PAGE.search(source)

    def plain(group: str) -> str:
        """The text of a group that is set in no font."""
        return _whole(convert(f"{{\\rtf1\\ansi\\ansicpg{page[1] if page else '1252'} {group}}}", errors="replace"))

    # The last one: before it stands the same for programs that know no Unicode.
    title = one_line(clean(plain(titles[-1]))) if titles else ""
    source = _without_hidden(source)
    marked = _OUTLINE.sub(lambda match: match[0] + _mark(int(match[1]) + 1), _with_notes(source))
    levels = _style_levels(source, plain)
    marked = _USED_STYLE.sub(lambda match: match[0] + _mark(levels.get(match[1])), marked)
    marked = _CELL.sub(r"{\\uc1\\u64977 ?}", marked)
    return _assembled(_whole(convert(marked, errors="replace")), title or None)


def _style_levels(source: str, plain: Callable[[str], str]) -> dict[str, int]:
    """The numbers of the styles that are headings, with their levels."""
    levels = {}
    start = source.find("{\\stylesheet")
    # The table ends long before the text; whatever else looks like an entry has no such name.
    for style in _STYLE.finditer(source, start, start + _STYLES_WITHIN) if start >= 0 else ():
        outline = _OUTLINE.search(style[2])
        level = heading_level(plain(_FONT.sub("", style[2])).strip().removesuffix(";"))
        if outline and int(outline[1]) < 9:
            level = int(outline[1]) + 1
        if level is not None:
            levels[style[1]] = level
    return levels


def _mark(level: int | None) -> str:
    """A heading's mark as RTF that is part of the text, nothing for what is none."""
    return "" if level is None or level > 9 else f"{{\\uc1\\u{ord(_HEADING_MARK)} ?{level}}}"


def _without_binary(data: bytes) -> bytes:
    """Cut out what \\binN announces: N bytes that are no RTF."""
    parts, at = [], 0
    for match in _BIN.finditer(data):
        if match.start() >= at:
            parts.append(data[at : match.start()])
            at = match.end() + int(match[1])
    parts.append(data[at:])
    return b"".join(parts)


def _possible(match: re.Match[str]) -> str:
    """A character by its number, nothing for a number that is none's."""
    return match[0] if -0x8000 <= int(match[1][:12]) <= 0x10FFFF else ""


def _charsets(source: str) -> str:
    """Let charset 0 mean the document's code page, when no font has that page's own charset.

    Word gives Polish letters a font of charset 238. Programs that write all in one font of charset 0 mean the code
    page that they declare.
    """
    page = _CODE_PAGE.search(source)
    charset = _CHARSETS.get(page[1]) if page else None
    if charset is None or f"\\fcharset{charset}" in source:
        return source
    return re.sub(r"\\fcharset[01](?![0-9])", rf"\\fcharset{charset}", source)


def _with_notes(source: str) -> str:
    """Footnotes in brackets where they are referred to; as a destination of their own they would be skipped."""
    parts, at = [], 0
    for match in _NOTE.finditer(source):
        if match.start() < at:
            continue
        depth, end = 1, len(source)
        for brace in _BRACE.finditer(source, match.end()):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = brace.start()
                break
        parts += [source[at : match.start()], "{ [", re.sub(r"\\par(?![a-z])", " ", source[match.end() : end]), "]"]
        at = end
    parts.append(source[at:])
    return "".join(parts)


def _without_hidden(source: str) -> str:
    """Without the text that is hidden or, in a file with tracked changes, deleted: up to where its group ends or it is
    switched off. The groups in it go whole, and no brace loses its pair."""
    parts, at = [], 0
    for match in _HIDDEN.finditer(source):
        if match.start() < at:
            continue
        parts.append(source[at : match.start()])
        depth, at = 0, len(source)
        for token in _SWITCH.finditer(source, match.end()):
            if token[0] == "{":
                depth += 1
            elif token[0] == "}" and depth:
                depth -= 1
            elif depth == 0:
                at = token.start()
                break
    parts.append(source[at:])
    return "".join(parts)


def _whole(text: str) -> str:
    """Text whose characters beyond U+FFFF were written as two halves."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _assembled(text: str, title: str | None) -> Parsed:
    result = Assembly()
    trail = Trail()
    lines: list[str] = []
    first = None

    def close() -> None:
        result.add("\n".join(lines), heading_path=trail.path)
        lines.clear()

    for line in re.split(r"\r\n?|\n", text):
        level = _HEADING.search(line)
        shown = _HEADING.sub("", line)
        bullet = _BULLET.match(shown)
        if bullet:
            shown = "- " + shown[bullet.end() :]
        if _CELL_MARK in shown:
            shown = " | ".join(" ".join(cell.split()) for cell in shown.removesuffix(_CELL_MARK).split(_CELL_MARK))
        if level is not None and shown.strip():
            close()
            words = one_line(clean(shown))
            first = first or words
            trail.enter(int(level[1]), words)
        lines.append(shown)
    close()
    return result.parsed(title or first)

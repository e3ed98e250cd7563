# SPDX-License-Identifier: GPL-2.0-only
"""XML of any kind: the text with the names of the elements that hold it, on the file's own lines.

The file is read as tags, never parsed into a tree: no entity of the document's own is expanded, nothing is fetched,
depth costs nothing, and what is cut short or not well-formed still gives what it says.

    <book id="bk101"><author>Lem</author></book>   ->   book id: bk101 | author: Lem
    <para>See <emphasis>this</emphasis>.</para>     ->   See this.

Titles of sections (<title>, <head>) are the heading trail.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Heading, Parsed, blocks_between, one_line
from bigos.types import SourceFile

_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")
# Possessive, and no tag reaches over a "<": reading stays linear whatever is unclosed.
_TAG = re.compile(
    r"""</\s*+(?P<end>[\w:.-]++)[^<>]*+>
    | <(?P<start>[\w:.-]++)(?P<attributes>(?:[^<>"'/]++|"[^"<]*+"|'[^'<]*+'|/(?!>))*+)(?P<empty>/?+)>""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]++)\s*+=\s*+(?:"([^"<]*+)"|'([^'<]*+)')""")
_REFERENCE = re.compile(r"&(#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});")
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,1000}+>")
_BLANK = re.compile(r"\s*+(?=<|\Z)")
_SPACES = re.compile(r"[ \t\xa0]+")
_UNREAD = (("<!--", "-->"), ("<?", "?>"))
_DOCUMENT_TYPE = re.compile(r"""<!DOCTYPE(?:[^\[<>"']++|"[^"]*+"|'[^']*+')*+(?P<open>\[)?+""")
_TYPE_END = re.compile(r"\]\s*+>")
_ENCODED = re.compile(r"[A-Za-z0-9+/=]{400,}+")
_SILENT_ATTRIBUTES = re.compile(r"xmlns(?::|$)|xsi:|xml:(?:space|id|base)$|style$|class$")
_TITLES = frozenset(("title", "head", "bridgehead", "caption-title"))
# Elements whose name says nothing beyond the text that they hold.
_PROSE = frozenset(
    [
        *("p", "para", "simpara", "li", "listitem", "td", "th", "entry", "term", "span", "s", "seg", "l", "lg", "div"),
        *("emphasis", "em", "strong", "b", "i", "u", "code", "literal", "programlisting", "screen", "pre", "quote"),
        *("link", "ulink", "xref", "a", "citetitle", "phrase", "line", "verse", "dt", "dd", "text", "body", "section"),
        *("chapter", "article", "book-part", "sect1", "sect2", "sect3", "sect4", "sect5", "itemizedlist", "note"),
    ]
)
_MOST_OPEN = 256  # elements whose names are remembered
_MOST_HEADINGS = 50_000
_LONG_LINES = 2000  # characters a line on average, above which the lines are nobody's
_BATCH = 4096


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Blocks under the titles of sections; the first title is the document's."""
    declared = _DECLARED.search(data[:1024])
    raw, _, warnings = decode(data, declared[1].decode("ascii", "replace") if declared else None)
    text = clean(raw)
    del raw
    keep_lines = len(text) <= _LONG_LINES * (text.count("\n") + 1)
    reader = _Reader(text, keep_lines=keep_lines)
    written = reader.read()
    blocks = blocks_between(written, reader.headings)
    if not keep_lines:
        blocks = tuple(replace(block, line_start=None) for block in blocks)
    title = next((heading.title for heading in reader.headings if heading.title), None)
    return Parsed(written, blocks, title, (*warnings, *reader.warnings))


@dataclass(slots=True)
class _Element:
    """An element that is open."""

    name: str
    apart: bool
    """Whether it stands for itself, and not inside a sentence."""
    has_text: bool = False
    has_heading: bool = False


class _Reader:
    """Writes text out with the names that it stands under; one use only."""

    def __init__(self, source: str, *, keep_lines: bool) -> None:
        self.headings: list[Heading] = []
        self.warnings: list[str] = []
        self._source = source
        self._keep_lines = keep_lines
        self._done: list[str] = []
        self._parts: list[str] = []
        self._length = 0
        self._line_start = 0
        self._fresh = True  # nothing on this line yet
        self._space = False
        self._separate = False
        self._open: list[_Element] = []
        self._ended_heading = 0
        self._title_at: int | None = None  # how many elements are open around the title that is being read
        self._title: list[str] = []
        self._title_start = 0
        self._hopeless: set[str] = set()  # ends that do not come any more

    def read(self) -> str:
        """The text."""
        source, at = self._source, 0
        while at < len(source):
            bracket = source.find("<", at)
            bracket = len(source) if bracket < 0 else bracket
            if bracket > at:
                self._text(source[at:bracket])
            at = self._markup(bracket) if bracket < len(source) else bracket
        if self._open:
            self.warnings.append("the file ends inside an element")
        self._done.append("".join(self._parts))
        return "".join(self._done)

    def _markup(self, at: int) -> int:
        """Read what begins with the "<" at `at`; where it ends."""
        source = self._source
        tag = _TAG.match(source, at)
        if tag:
            self._end(tag["end"], tag.end()) if tag["end"] else self._start(tag)
            self._lines(tag[0].count("\n"))
            return tag.end()
        if source.startswith("<![CDATA[", at):
            end = self._find("]]>", at)
            if end is not None:
                self._text(source[at + 9 : end - 3], is_data=True)
                return end
        for begin, close in _UNREAD:
            if source.startswith(begin, at):
                end = self._find(close, at)
                if end is not None:
                    self._lines(source.count("\n", at, end))
                    return end
        if source.startswith("<!DOCTYPE", at) and "<!DOCTYPE" not in self._hopeless:
            self._hopeless.add("<!DOCTYPE")  # there is only one
            kind = _DOCUMENT_TYPE.match(source, at)
            last = _TYPE_END.search(source, kind.end()) if kind and kind["open"] else None
            end = last.end() if last else source.find(">", at) + 1
            if end > 0:
                self._lines(source.count("\n", at, end))
                return end
        end = source.find("<", at + 1)
        end = len(source) if end < 0 else end
        self._text(source[at:end])
        return end

    def _find(self, close: str, at: int) -> int | None:
        end = self._source.find(close, at) if close not in self._hopeless else -1
        if end < 0:
            self._hopeless.add(close)  # looked for once: each look reads the rest of the file
            return None
        return end + len(close)

    def _start(self, tag: re.Match[str]) -> None:
        name = tag["start"].rpartition(":")[2]
        parent = self._open[-1] if self._open else None
        apart = (parent is None or (parent.apart and not parent.has_text)) and self._title_at is None
        self._separate = self._separate or apart
        if apart:
            self._name(name, tag)
        if not tag["empty"]:
            if len(self._open) < _MOST_OPEN:
                self._open.append(_Element(name, apart))
        elif not apart:
            self._space = True

    def _name(self, name: str, tag: re.Match[str]) -> None:
        """Write an element's name and attributes where they say something; or begin a title."""
        source = self._source
        if name.lower() in _PROSE:
            return
        text_end = source.find("<", tag.end(), tag.end() + 100_000)
        holds_text = not tag["empty"] and not _BLANK.match(source, tag.end())
        if name in _TITLES and holds_text and self._open and self._title_at is None:
            self._title_at, self._title, self._title_start = len(self._open), [], -1
            return
        attributes = ", ".join(self._attributes(tag["attributes"]))
        if holds_text and text_end > 0 and _is_end(source, text_end, tag["start"]):
            self._write(f"{name} ({attributes}):" if attributes else f"{name}:")
            self._space = True
        elif source.startswith("<![CDATA[", tag.end()):
            self._write(f"{name}:")
            self._space = True
        elif attributes:
            self._write(f"{name} ({attributes}):" if holds_text else f"{name} {attributes}")
            self._space = self._space or holds_text

    def _attributes(self, source: str) -> list[str]:
        found = []
        for match in _ATTRIBUTE.finditer(source):
            name, value = match[1], match[2] if match[2] is not None else match[3]
            value = self._words(_SPACES.sub(" ", value.replace("\n", " ")))
            if value.strip() and not _SILENT_ATTRIBUTES.match(name):
                found.append(f"{name.rpartition(':')[2]}: {value}")
        return found

    def _end(self, qualified: str, after: int) -> None:
        name = qualified.rpartition(":")[2]
        nearest = range(len(self._open) - 1, max(len(self._open) - 9, -1), -1)
        place = next((place for place in nearest if self._open[place].name == name), None)
        if place is None:
            return
        if self._title_at is not None and place <= self._title_at:
            self._end_title()
        apart = self._open[place].apart
        for depth in range(len(self._open), place, -1):
            if self._open.pop().has_heading:
                self._ended_heading = depth
        if apart and _BLANK.match(self._source, after):
            self._separate = True

    def _end_title(self) -> None:
        level, title = self._title_at or 0, one_line(" ".join(self._title))
        self._title_at = None
        if title and self._title_start >= 0 and len(self.headings) < _MOST_HEADINGS:
            self.headings.append(Heading(self._title_start, level, title))
            self._open[level - 1].has_heading = True
        self._separate = True

    def _text(self, text: str, *, is_data: bool = False) -> None:
        if text.isspace():
            self._lines(text.count("\n"))
            self._space = True
            return
        if self._open:
            self._open[-1].has_text = True
        text = self._words(text, is_data=is_data)
        if not self._keep_lines:
            text = text.replace("\n", " ")
        first = True
        for line in text.split("\n"):
            if not first:
                self._break_line()
            first = False
            words = _SPACES.sub(" ", line)
            if words[:1] == " ":
                self._space = True
            if words.strip(" "):
                self._write(words.strip(" "))
                self._space = words[-1] == " "

    def _words(self, text: str, *, is_data: bool = False) -> str:
        """Text with the references that XML and HTML define resolved, and escaped markup taken out."""
        if not is_data and "&" in text:
            text = clean(_REFERENCE.sub(lambda match: html.unescape(match[0]).replace("\n", " "), text))
            is_data = "<" in text
        if is_data and "<" in text:
            text = _MARKUP.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
            text = _REFERENCE.sub(lambda match: html.unescape(match[0]).replace("\n", " "), text)
        if len(text) >= 400 and _ENCODED.search(text):
            text = _ENCODED.sub("…", text)
            if not self.warnings:
                self.warnings.append("encoded data is left out")
        return text

    def _lines(self, count: int) -> None:
        if self._keep_lines:
            for _ in range(count):
                self._break_line()
        elif count:
            self._space = True

    def _break_line(self) -> None:
        self._put("\n")
        self._line_start, self._fresh, self._space = self._length, True, False

    def _write(self, words: str) -> None:
        if not self._fresh and self._separate:
            self._put(" | " if self._keep_lines else "\n")
            if not self._keep_lines:
                self._line_start = self._length
        elif not self._fresh and self._space:
            self._put(" ")
        if self._title_at is not None:
            if self._title_start < 0:
                self._title_start = self._length
            self._title.append(words)
        elif self._ended_heading:
            self.headings.append(Heading(self._length, self._ended_heading, ""))
        self._ended_heading = 0
        self._fresh = self._separate = self._space = False
        self._put(words)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        if len(self._parts) >= _BATCH:
            self._done.append("".join(self._parts))
            self._parts.clear()


def _is_end(source: str, at: int, name: str) -> bool:
    """Whether the element ends at `at` and nothing but white space comes before the next tag."""
    close = f"</{name}>"
    return source.startswith(close, at) and _BLANK.match(source, at + len(close)) is not None

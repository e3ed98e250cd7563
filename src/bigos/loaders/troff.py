# SPDX-License-Identifier: GPL-2.0-only
"""Sources of manual pages (man and mdoc macros): what the page says, on the source's own lines.

Nothing is run or included: `.so` and `.mso` name files, and these are not opened.
"""

from __future__ import annotations

import re
import unicodedata

from bigos.loaders.sections import Heading, Parsed, blocks_between, one_line

_BEGINNING = re.compile(r"\s{0,100}(?:[.'][ \t]*\\[\"#]|\.(?:TH|Dd|Dt)[ \t])")
_TITLE = re.compile(r"^\.(?:TH|Dt)[ \t]+\S", re.MULTILINE)
_TITLE_WITHIN = 65_536  # characters: generated pages begin with a long licence and a hundred definitions
_WORD = re.compile(r'"((?:[^"]|"")*)"?|((?:[^ \t"\\]|\\.|")+)')
_GLYPHS = {
    "bu": "•", "em": "—", "en": "–", "hy": "-", "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "dq": '"', "aq": "'",
    "ga": "`", "ha": "^", "ti": "~", "rs": "\\", "co": "©", "rg": "®", "tm": "™", "mu": "×", "+-": "±", "->": "→",
    "<-": "←", ">=": "≥", "<=": "≤", "!=": "≠", "de": "°", "Bq": "„", "Fo": "«", "Fc": "»", "at": "@", "sh": "#",
    "ul": "_", "sl": "/", "ba": "|", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "la": "⟨", "ra": "⟩", "ss": "ß",
    "/l": "ł", "/L": "Ł", "/o": "ø", "sc": "§", "Eu": "€", "eu": "€", "12": "½", "14": "¼",
}  # fmt: skip
_MARKS = {"'": "\u0301", "`": "\u0300", ":": "\u0308", "^": "\u0302", "~": "\u0303", ",": "\u0327", "v": "\u030c"}
_ESCAPE = re.compile(
    r"""\\(?:(?P<comment>["\#][^\n]*) | \((?P<two>..) | \[(?P<long>[^\]\n]{1,40})\]
    | (?P<silent>[fFmMgkYn*](?:\(..|\[[^\]\n]{0,40}\]|.?) | s[-+]?(?:\(\d\d|\[[^\]\n]{0,9}\]|\d{1,2})
    | [hvwlLDbBoXAZ]'[^'\n]{0,200}')
    | (?P<one>.)|\Z)""",
    re.VERBOSE,
)
_ONE = {"-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "'": "´", "`": "`", "t": " "}
_JOINED = frozenset(("BR", "RB", "BI", "IB", "IR", "RI"))  # arguments in turns of two fonts, without blanks between
_WORDS = frozenset(("B", "I", "R", "SM", "SB", "IP", "TQ", "OP", "UR", "MT", "CW", "C"))
_FIRST_ONLY = frozenset(("IP", "UR", "MT"))  # what follows is an indentation
_SECTIONS = {"SH": 1, "Sh": 1, "SS": 2, "Ss": 2}
_DEFINITIONS = frozenset(("de", "de1", "dei", "am", "ig"))
_MDOC_SILENT = frozenset(
    ("Dd", "Os", "Bl", "El", "Bd", "Ed", "Pp", "Bk", "Ek", "Rs", "Re", "Lp", "Tg", "Fo", "Fc", "Sm")
)
_MDOC_INLINE = frozenset(
    [
        *(
            "Ar",
            "Pa",
            "Va",
            "Vt",
            "Em",
            "Sy",
            "Li",
            "Dv",
            "Er",
            "Ev",
            "Ic",
            "Cm",
            "Fa",
            "Ft",
            "Fn",
            "Ad",
            "An",
            "Tn",
            "Ux",
        ),
        *(
            "No",
            "Nm",
            "Fl",
            "Op",
            "Oo",
            "Oc",
            "Ns",
            "Ql",
            "Dq",
            "Sq",
            "Pq",
            "Qq",
            "Brq",
            "Bq",
            "Xr",
            "Sx",
            "Lk",
            "Mt",
            "In",
        ),
        *(
            "Do",
            "Dc",
            "Qo",
            "Qc",
            "Po",
            "Pc",
            "Xo",
            "Xc",
            "Bro",
            "Brc",
            "St",
            "At",
            "Bx",
            "Fx",
            "Nx",
            "Ox",
            "Aq",
            "Ms",
            "Ta",
        ),
    ]
)
_ENCLOSED = {
    "Op": "[]",
    "Dq": "“”",
    "Sq": "‘’",
    "Ql": "‘’",
    "Qq": '""',
    "Pq": "()",
    "Bq": "[]",
    "Brq": "{}",
    "Aq": "<>",
}
_OPENING = {
    "Oo": "[",
    "Oc": "]",
    "Do": "“",
    "Dc": "”",
    "Qo": '"',
    "Qc": '"',
    "Po": "(",
    "Pc": ")",
    "Bro": "{",
    "Brc": "}",
}
_PUNCTUATION = frozenset((".", ",", ":", ";", ")", "]", "?", "!"))


def is_manual_source(text: str) -> bool:
    """Whether a text is a manual page's source: a comment of troff's, and then the macro with its title."""
    return _BEGINNING.match(text) is not None and _TITLE.search(text, 0, _TITLE_WITHIN) is not None


def read_manual_source(text: str, warnings: tuple[str, ...]) -> Parsed:
    """Sections are the headings, the line of the first one (`ls - list directory contents`) is the title.

    Args:
        text: the source, cleaned.
        warnings: of the decoding, handed on.
    """
    page = _Page()
    lines = [page.line(line) for line in text.split("\n")]
    written = "\n".join(lines)
    headings = []
    at = 0
    levels = dict(page.headings)
    for number, line in enumerate(lines):
        if number in levels and line.strip():
            headings.append(Heading(at, levels[number], one_line(line)))
        at += len(line) + 1
    first = page.headings[0][0] + 1 if page.headings else 0
    end = page.headings[1][0] if len(page.headings) > 1 else len(lines)
    title = one_line(" ".join(lines[first:end])) if page.headings else ""
    return Parsed(written, blocks_between(written, headings), title or page.title or None, warnings)


class _Page:
    """Reads source lines one after the other and remembers which were headings."""

    def __init__(self) -> None:
        self.title = ""
        self.headings: list[tuple[int, int]] = []
        self._number = -1
        self._skip_until: str | None = None  # the line that ends a macro's definition or ignored text
        self._heading_next = 0  # a section whose title is on the next line
        self._name = ""  # what .Nm without arguments prints

    def line(self, source: str) -> str:
        """What a line prints; "" for a request that prints nothing."""
        self._number += 1
        if self._skip_until is not None:
            if source[:1] == "." and "." + source[1:].strip() == self._skip_until:
                self._skip_until = None
            return ""
        if source[:1] not in (".", "'"):
            if self._heading_next and source.strip():
                self.headings.append((self._number, self._heading_next))
                self._heading_next = 0
            return _unescaped(source)
        request = source[1:].lstrip(" \t")
        name = re.split(r"[ \t\\]", request, maxsplit=1)[0]
        arguments = _arguments(request[len(name) :])
        return self._request(name, arguments)

    def _request(self, name: str, arguments: list[str]) -> str:
        if name in _SECTIONS:
            if arguments:
                self.headings.append((self._number, _SECTIONS[name]))
            self._heading_next = 0 if arguments else _SECTIONS[name]
            return " ".join(arguments)
        if name in _DEFINITIONS:
            end = arguments[1:] if name != "ig" else arguments
            self._skip_until = "." + (end[0] if end else ".")
        elif name in ("TH", "Dt"):
            self.title = arguments[0] if arguments else ""
        elif name not in _MDOC_SILENT:
            return self._printed(name, arguments)
        return ""

    def _printed(self, name: str, arguments: list[str]) -> str:
        """What a macro prints on its own line."""
        if name in _JOINED:
            return "".join(arguments)
        if name in _WORDS:
            return " ".join(arguments[:1] if name in _FIRST_ONLY else arguments)
        if name == "It":
            return f"- {self._inline(arguments)}".rstrip()
        if name == "Nd":
            return "- " + " ".join(arguments)
        return self._inline([name, *arguments]) if name in _MDOC_INLINE else ""

    def _inline(self, words: list[str]) -> str:
        """A line of mdoc macros that call each other."""
        parts: list[str] = []
        closing: list[str] = []
        glue = True  # the next word follows without a blank
        place = 0
        while place < len(words):
            word = words[place]
            place += 1
            text = word
            if word == "Nm":
                following = words[place] if place < len(words) else ""
                if following and following not in _MDOC_INLINE and following not in _PUNCTUATION:
                    self._name = self._name or following
                    continue
                text = self._name
            elif word == "Fl":
                following = words[place] if place < len(words) else ""
                if following and following not in _MDOC_INLINE and following not in _PUNCTUATION:
                    words[place] = "-" + following
                    continue
                text = "-"
            elif word == "Xr" and place + 1 < len(words):
                text = f"{words[place]}({words[place + 1]})"
                place += 2
            elif word == "Ns":
                glue = True
                continue
            elif word in _ENCLOSED:
                parts.append(("" if glue else " ") + _ENCLOSED[word][0])
                closing.append(_ENCLOSED[word][1])
                glue = True
                continue
            elif word in _OPENING:
                text = _OPENING[word]
            elif word in _MDOC_INLINE:
                continue
            parts.append(text if glue or word in _PUNCTUATION else " " + text)
            glue = word in ("Oo", "Do", "Qo", "Po", "Bro")
        return "".join(parts) + "".join(reversed(closing))


def _arguments(rest: str) -> list[str]:
    words = []
    for match in _WORD.finditer(re.split(r'\\["#]', rest, maxsplit=1)[0]):
        words.append(_unescaped(match[1].replace('""', '"') if match[1] is not None else match[2]))
    return [word for word in words if word]


def _unescaped(source: str) -> str:
    if "\\" not in source:
        return source
    return unicodedata.normalize("NFC", _ESCAPE.sub(_glyph, source))


def _glyph(match: re.Match[str]) -> str:
    name = match["two"] or match["long"]
    if name is not None:
        if name in _GLYPHS:
            return _GLYPHS[name]
        codes = re.fullmatch(r"u([0-9A-Fa-f]{4,6})(?:_([0-9A-Fa-f]{4,6}))?", name)
        if codes:
            return "".join(chr(int(code, 16)) for code in codes.groups() if code and int(code, 16) < 0x110000)
        return name[1] + _MARKS[name[0]] if len(name) == 2 and name[0] in _MARKS and name[1].isalpha() else ""
    return _ONE.get(match["one"] or "", "")

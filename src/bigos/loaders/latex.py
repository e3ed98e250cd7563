# SPDX-License-Identifier: GPL-2.0-only
"""LaTeX and BibTeX: the words without the commands around them, on the file's own lines; mathematics stays as written.

What pylatexenc would do costs the line numbers, and reads nested braces by recursion.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from bigos.loaders.encoding import clean, decode
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Heading, Parsed, blocks_between, one_line
from bigos.types import SourceFile

_LEVELS = {
    "part": 1,
    "chapter": 2,
    "section": 3,
    "subsection": 4,
    "subsubsection": 5,
    "paragraph": 6,
    "subparagraph": 7,
    "frametitle": 4,
}
_VERBATIM = "verbatim|Verbatim|lstlisting|minted|comment"
_MATH = "equation|align|gather|multline|eqnarray|displaymath|math|tikzpicture"
# One alternative for each thing that is not plain text; none looks further than a paragraph.
_TOKEN = re.compile(
    rf"""(?P<comment>(?<!\\)%[^\n]*+)
    | (?P<begin>\\\[|\\\(|\\begin\{{(?P<environment>{_VERBATIM}|{_MATH})(?P<star>\*?)\}})
    | (?P<math>\$\$[^$]{{1,2000}}\$\$ | \$(?:[^$\\\n]|\\.|\n(?!\n)){{1,1000}}+\$)
    | \\(?P<accent>[`'^"~=.]|[Hbcdkruv](?![A-Za-z]))\s?(?:\{{\s?(?P<braced>\\?[A-Za-z])\s?\}}|(?P<bare>\\?[A-Za-z]))
    | \\verb\*?(?P<bar>[^\w\s*])(?P<quoted>[^\n]{{0,500}}?)(?P=bar)
    | \\(?P<name>[A-Za-z@]++)\*?
    | \\(?P<symbol>[^A-Za-z])
    | (?P<rest>[{{}}~]|[ \t]*&[ \t]*|---?|``|''|,,)""",
    re.VERBOSE,
)
_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "H": "\u030b", "b": "\u0331", "c": "\u0327", "d": "\u0323", "k": "\u0328", "r": "\u030a", "u": "\u0306",
    "v": "\u030c",
}  # fmt: skip
_LETTERS = {
    "l": "ł", "L": "Ł", "o": "ø", "O": "Ø", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å",
    "AA": "Å", "i": "ı", "j": "ȷ", "LaTeX": "LaTeX", "TeX": "TeX", "BibTeX": "BibTeX", "ldots": "…", "dots": "…",
    "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "S": "§", "copyright": "©", "quad": " ",
    "qquad": " ", "textendash": "–", "textemdash": "—", "textquotedblleft": "“", "textquotedblright": "”",
    "quotedblbase": "„", "textdegree": "°", "degree": "°", "euro": "€", "pounds": "£", "item": "- ", "par": " ",
    "newline": " ", "dywiz": "-", "textbullet": "•", "footnote": " ",
}  # fmt: skip
_SYMBOLS = {"\\": " ", " ": " ", "\n": "\n", ",": " ", ";": " ", ":": " ", "-": "", "/": "", "@": "", "!": "", ">": ""}
_REST = {"{": "", "}": "", "~": " ", "--": "–", "---": "—", "``": "“", "''": "”", ",,": "„"}
# Commands whose arguments are addresses, lengths and names, not words.
_ARGUMENTS_OUT = frozenset(
    [
        *(
            "label",
            "ref",
            "eqref",
            "pageref",
            "autoref",
            "cref",
            "Cref",
            "vspace",
            "hspace",
            "includegraphics",
            "input",
        ),
        *("include", "usepackage", "documentclass", "bibliography", "bibliographystyle", "pagestyle", "thispagestyle"),
        *("setlength", "addtolength", "setcounter", "newcommand", "renewcommand", "providecommand", "definecolor"),
        *("color", "hypersetup", "geometry", "selectlanguage", "begin", "end", "index", "addbibresource", "fontsize"),
        *("includesvg", "graphicspath", "theoremstyle", "newtheorem", "addcontentsline", "phantomsection", "vskip"),
    ]
)
# Commands whose first argument is an address, a colour or a length, and whose second is words.
_FIRST_OUT = frozenset(
    ("href", "hyperlink", "foreignlanguage", "textcolor", "colorbox", "parbox", "raisebox", "scalebox", "rotatebox")
)
_FRAME = re.compile(r"\{frame\*?\}(?:[ \t]*(?:<[^<>\n]{0,50}>|\[[^\[\]\n]{0,300}\]))*+")
_ARGUMENT = re.compile(r"[ \t]*(?:\[[^\[\]\n]{0,500}\]|\{(?:[^{}\n]|\{[^{}\n]{0,300}\}){0,1000}+\})")
_LISTING_OPTIONS = re.compile(r"\A(?:\[[^\]\n]{0,500}\]|\{\w{1,50}\})+")
_OPTION = re.compile(r"\[[^\[\]\n]{0,300}\]")
_TITLE_ARGUMENT = re.compile(
    r"(?:\[[^\]\n]{0,300}\])?\s{0,20}\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,300}\}){0,300}\}){0,600})\}"
)
_HEADING = re.compile(rf"\\({'|'.join(_LEVELS)})\*?(?![A-Za-z])")
_TITLE = re.compile(r"\\title\s{0,5}(?=[\[{])")
_KEPT_OF_PREAMBLE = re.compile(r"\\(?:title|subtitle|author|date)\s{0,5}" + _TITLE_ARGUMENT.pattern)
_BEGIN = re.compile(r"^[^%\n]*\\begin\{document\}", re.MULTILINE)
_END = re.compile(r"^[^%\n]*(\\end\{document\})", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]*@(\w+)[ \t]*[{(][ \t]*([^\s,={}]*)[ \t]*,?", re.MULTILINE)
_FIELD = re.compile(
    r"""(?:^|(?:(?<=[^\\])["}]{1,2}[ \t]*)?(,))[ \t]*([A-Za-z][\w-]*)[ \t]*=[ \t]*["{]?""", re.MULTILINE
)
_FIELD_END = re.compile(r"""["}]{0,2}[ \t]*,?[ \t]*$|^[ \t]*[})][ \t]*$""", re.MULTILINE)
_BIB_TITLE = re.compile(r"(?:^|\|)\s*title: *([^\n|]+(?:\n(?!\s*[\w-]+: )[^\n|]+){0,3})", re.MULTILINE | re.IGNORECASE)


def load(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """Blocks under the sectioning commands; of the preamble only title, author and date are kept."""
    raw, _, warnings = decode(data)
    source = clean(raw)
    begin = _BEGIN.search(source)
    parts: list[str] = []
    body = 0
    if begin:
        body = begin.end()
        at = 0
        for kept in _KEPT_OF_PREAMBLE.finditer(source, 0, body):
            parts.append("\n" * source.count("\n", at, kept.start()))
            parts.append(words_of(kept[0]) + ("" if source[kept.end() : kept.end() + 1].isspace() else " "))
            at = kept.end()
        parts.append("\n" * source.count("\n", at, body) or " ")
    end = _END.search(source, body)
    length = sum(map(len, parts))
    headings: list[Heading] = []
    for piece, level, heading in _pieces(source, body, end.start(1) if end else len(source)):
        if level:
            headings.append(Heading(length, level, heading))
        parts.append(piece)
        length += len(piece)
    text = "".join(parts)
    title = _TITLE.search(source)
    argument = _TITLE_ARGUMENT.match(source, title.end()) if title else None
    name = one_line(words_of(argument[1])) if argument else ""
    return Parsed(text, blocks_between(text, headings), name or None, warnings)


def _pieces(source: str, start: int, end: int) -> Iterator[tuple[str, int, str]]:
    """(text, level, title): the stretches from one sectioning command to the next, level 0 before the first."""
    at = stop = start  # of the command, and behind its argument
    level, title = 0, ""
    for match in _HEADING.finditer(source, start, end):
        argument = _TITLE_ARGUMENT.match(source, match.end(), end)
        line = source.rfind("\n", at, match.start()) + 1 or at
        if argument is None or "%" in source[line : match.start()]:
            continue
        yield _apart(source, at, stop, match.start()), level, title
        at, stop = match.start(), argument.end()
        level, title = _LEVELS[match[1]], one_line(words_of(argument[1]))
    yield _apart(source, at, stop, end), level, title


def _apart(source: str, start: int, stop: int, end: int) -> str:
    """The words from `start` to `end`; what ends at `stop` and at `end` does not run into what follows on its line."""
    parts = [words_of(source[start:stop]), words_of(source[stop:end])]
    for place, (after, at) in enumerate(zip(parts, (stop, end), strict=True)):
        if after and not after[-1].isspace() and not source[at : at + 1].isspace():
            parts[place] += " "
    return "".join(parts)


def load_bibtex(_source: SourceFile, data: bytes, _options: LoadOptions) -> Parsed:
    """One section an entry, `field: value`; the title of the work is the heading."""
    raw, _, warnings = decode(data)
    source = clean(raw)
    starts = [*_ENTRY.finditer(source)]
    ends = [*(match.start() for match in starts[1:]), len(source)] if starts else []
    parts = [source[: starts[0].start()] if starts else source]
    length = len(parts[0])
    headings = []
    for match, end in zip(starts, ends, strict=True):
        body = _FIELD_END.sub("", source[match.end() : end])
        body = _FIELD.sub(lambda field: f"{' |' if field[1] else ''} {field[2]}: ", body)
        joint = "" if body.startswith("\n") else " |"
        written = f"{match[1].lower()} {match[2]}{joint}{words_of(body)}"
        title = _BIB_TITLE.search(written)
        if match[1].lower() not in ("comment", "preamble", "string"):
            headings.append(Heading(length, 1, one_line(title[1] if title else match[2])))
        parts.append(written)
        length += len(written)
    text = "".join(parts)
    return Parsed(text, blocks_between(text, headings), None, warnings)


def words_of(source: str) -> str:
    """LaTeX source as text with the same number of line ends."""
    parts: list[str] = []
    at = 0
    hopeless: set[str] = set()  # ends that do not come any more
    while match := _TOKEN.search(source, at):
        parts.append(source[at : match.start()])
        at = match.end()
        if match["begin"] is not None:
            text, at = _verbatim(match, source, hopeless)
        elif match["name"] is not None:
            text, at = _command(match["name"], source, at)
        else:
            text = _replacement(match)
        parts.append(text)
    parts.append(source[at:])
    return unicodedata.normalize("NFC", "".join(parts))


def _verbatim(match: re.Match[str], source: str, hopeless: set[str]) -> tuple[str, int]:
    """A formula or listing as it is written, and where reading goes on; without its end it is only a command."""
    name = match["environment"]
    close = f"\\end{{{name}{match['star']}}}" if name else match["begin"].translate({91: 93, 40: 41})
    end = -1 if close in hopeless else source.find(close, match.end())
    if end < 0:
        hopeless.add(close)  # looked for once: each look reads the rest of the file
        return "", match.end()
    stop = end + len(close)
    if name is None or re.fullmatch(_MATH, name):
        return source[match.start() : stop], stop
    if name == "comment":
        return "\n" * source.count("\n", match.start(), stop), stop
    return _LISTING_OPTIONS.sub("", source[match.end() : end], count=1), stop


def _replacement(match: re.Match[str]) -> str:
    if match["math"] is not None:
        return match["math"]
    if match["accent"] is not None:
        letter = (match["braced"] or match["bare"]).removeprefix("\\")
        return letter + _ACCENTS[match["accent"]]
    if match["quoted"] is not None:
        return match["quoted"]
    if match["symbol"] is not None:
        return _SYMBOLS.get(match["symbol"], match["symbol"])
    rest = match["rest"] or ""
    return " | " if "&" in rest else _REST.get(rest, "")


def _command(name: str, source: str, at: int) -> tuple[str, int]:
    """The text of a command, and where reading goes on."""
    start = at
    if name in _LETTERS:
        while source[at : at + 1] in (" ", "\t") and source[at : at + 1]:
            at += 1  # the blank that ends a command's name
        option = _OPTION.match(source, at) if name == "item" else None
        if option:
            return f"- {option[0][1:-1]} ", option.end()
        return _LETTERS[name], at
    frame = _FRAME.match(source, at) if name == "begin" else None
    if frame:
        at = frame.end()  # the title of a slide follows
    elif name in _ARGUMENTS_OUT:
        while argument := _ARGUMENT.match(source, at):
            at = argument.end()
    elif name.startswith("cite") or name.endswith("cite"):
        while option := _OPTION.match(source, at):
            at = option.end()
        argument = _ARGUMENT.match(source, at)
        if argument:
            return f"[{argument[0].strip()[1:-1]}]", argument.end()
    elif name in _FIRST_OUT:
        option = _OPTION.match(source, at)
        at = option.end() if option else at
        argument = _ARGUMENT.match(source, at)
        at = argument.end() if argument else at
        return " " if name == "href" else "", at
    else:
        option = _OPTION.match(source, at)
        at = option.end() if option else at
        if source[at : at + 1] == " ":
            return "", at + 1 if source[at + 1 : at + 2] != " " else at
    return "\n" * source.count("\n", start, at), at

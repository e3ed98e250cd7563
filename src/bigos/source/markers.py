# SPDX-License-Identifier: GPL-2.0-only
"""How definitions begin and end in each language: the one table to extend.

Patterns are matched at a line's first visible character, and see no more than its first characters; the groups that
match are the name. `GRAMMARS` is by code language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from bigos.source.syntax import PARENTHESES


class End(Enum):
    """What ends a definition."""

    BRACE = auto()
    """A closing line as deep as its first, if it has a body at all: the first brace behind its head."""
    WORD = auto()
    """A closing line as deep as its first."""
    OWN_WORD = auto()
    """A line with `Marker.word`, at any depth."""
    DEDENT = auto()
    """The next line that is no deeper than its first."""
    STATEMENT = auto()
    """A semicolon at a line's end."""
    NEXT = auto()
    """The next definition."""


class Holds(Enum):
    """What may be defined in a definition."""

    CODE = auto()
    """Nothing that is deeper."""
    TEXT = auto()
    """Nothing, whatever it looks like."""
    DEFINITIONS = auto()
    MEMBERS = auto()
    """Definitions, and functions that are told by their parameters alone."""
    UNINDENTED = auto()
    """As MEMBERS, which may be no deeper than the definition itself."""


@dataclass(frozen=True, slots=True)
class Marker:
    """How one sort of definition begins, and what follows from that."""

    pattern: re.Pattern[str]
    end: End
    holds: Holds = Holds.CODE
    word: str = ""
    declarable: bool = False
    """Whether it is none when a semicolon comes before its body."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """What lines of a language look like that begin, end, or belong to definitions."""

    markers: tuple[Marker, ...]
    lead: re.Pattern[str] = re.compile(r"#")
    """Lines that belong to a definition which they stand above: comments, decorators, attributes."""
    neutral: re.Pattern[str] | None = None
    """Lines that neither begin nor end anything, wherever they stand: directives, labels."""
    closes: re.Pattern[str] = re.compile(r"\}")
    callables: bool = False
    """Whether a name with parameters and a body is a function."""
    unindented: bool = False
    """Whether all definitions begin in column 0."""
    block_comments: bool = False
    """Whether there are comments between /* and */."""
    long_strings: bool = False
    """Whether there are strings over several lines, between three quotes."""
    body: str = "{"
    """What begins a function's body."""


def _marker(pattern: str, end: End, holds: Holds = Holds.CODE, *, word: str = "", declarable: bool = False) -> Marker:
    return Marker(re.compile(pattern), end, holds, word, declarable)


_C_COMMENT = r"//|/\*|\*(?:[\s/*]|$)"
_DIRECTIVE = r"#[ \t]*(?:include|import|define|undef|if|el|endif|error|warning|pragma|line)"
_PREPROCESSOR = re.compile(_DIRECTIVE + r"|[A-Za-z_]\w*:(?:\s|$)")
_C_MARKERS = (
    _marker(
        r"typedef\s+(?:(?:volatile|const)\s+)*(?:struct|union|enum)\b\s*(?:__\w+\s*"
        rf"(?:{PARENTHESES}\s*)?)*()(?:\{{|$)",
        End.BRACE,
    ),
    _marker(
        r"(?:(?:typedef|static|const|extern)\s+)*(?:struct|union|enum)\s+(?:__\w+(?:\([^)]*\)+)?\s+)*(\w+)\s*(?:\{|$)",
        End.BRACE,
        declarable=True,
    ),
)
_C = Grammar(
    _C_MARKERS,
    re.compile(_C_COMMENT),
    _PREPROCESSOR,
    callables=True,
    unindented=True,
    block_comments=True,
)
_CPP = Grammar(
    (
        _C_MARKERS[0],
        _marker(r"(?:inline\s+)?namespace\s+([\w:]+)\s*(?:\{|$)", End.BRACE, Holds.UNINDENTED),
        _marker(
            r"(?:(?:typedef|static|const|export|template\s*<[^<>]*>)\s+)*(?:class|struct|union|enum(?:\s+class|\s+struct)?)"
            r"\s+(?:__\w+(?:\([^)]*\)+)?\s+|[A-Z_]+\s+)*(\w+)\s*(?:<[^<>]*>\s*)?(?:final\s*)?(?::(?!:)|\{|$)",
            End.BRACE,
            Holds.MEMBERS,
            declarable=True,
        ),
    ),
    re.compile(_C_COMMENT + r"|template\s*<[^{}();]*>\s*$|\[\["),
    re.compile(_PREPROCESSOR.pattern + r"|(?:public|private|protected)\b"),
    callables=True,
    block_comments=True,
)
_OBJC = Grammar(
    (
        *_C_MARKERS,
        _marker(r"@(?:interface|implementation|protocol)\s+(\w+)", End.WORD, Holds.MEMBERS),
        _marker(r"[-+]\s*\([^)]*\)\s*(\w+)", End.BRACE, declarable=True),
    ),
    re.compile(_C_COMMENT),
    _PREPROCESSOR,
    re.compile(r"\}|@end\b"),
    callables=True,
    block_comments=True,
)

_WORDS = r"(?:[\w@]+\s+)*?"
_ATTRIBUTE = r"|@[\w.]+\s*(?:\([^)]*\)?\s*)?$|\[\w[^\]]*\]\s*$"


def _braces(types: str, *functions: str, callables: bool = False, lead: str = _C_COMMENT + _ATTRIBUTE) -> Grammar:
    """A language of classes and functions between braces."""
    markers = [_marker(rf"{_WORDS}(?:{types})\s+([\w.$:\\]+)", End.BRACE, Holds.MEMBERS)] if types else []
    markers += [_marker(function, End.BRACE, Holds.DEFINITIONS) for function in functions]
    return Grammar(tuple(markers), re.compile(lead), callables=callables, block_comments="/" in lead)


_FUNCTION = rf"{_WORDS}function\b\s*[*&]?\s*([\w$]+)"
_ASSIGNED = r"(?:export\s+)?(?:const|let|var)\s+([\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b|\(|[\w$]+\s*=>)"
_PROPERTY = r"(?:this\.)?([\w$.]+)\s*[:=]\s*(?:async\s+)?function\b"

_PYTHON = Grammar(
    (
        _marker(r"(?:async\s+)?(?:def|class)\s+(\w+)", End.DEDENT, Holds.DEFINITIONS),
        _marker(r"cp?def\s+(?:class\s+)?(?:[\w*]+\s+)?(\w+)\s*[(:]", End.DEDENT, Holds.DEFINITIONS),
    ),
    re.compile(r"[#@]"),
    re.compile(r"[)\]}]"),
    re.compile(r"(?!)"),
    long_strings=True,
)
_SHELL_FUNCTION = r"(?:function\s+)?([\w.:+@-]+)\s*\(\s*\)"
_SHELL = Grammar((_marker(_SHELL_FUNCTION, End.BRACE), _marker(r"function\s+([\w.:+-]+)", End.BRACE)))
_BITBAKE = Grammar(
    (
        _marker(r"(?:(?:python|fakeroot)\s+)*([\w.:${}+-]+)\s*\(\s*\)", End.BRACE),
        _marker(r"def\s+(\w+)", End.DEDENT),
    ),
    neutral=re.compile(r"[)\]]"),
    unindented=True,
)
_MAKE = Grammar(
    (
        _marker(r"(?:override\s+)?define\s+([\w.$(){}-]+)", End.WORD, Holds.TEXT),
        # A target; not an assignment, not a variable that belongs to a target.
        _marker(r"([^\s:=#][^:=#]*):{1,2}(?![:=])(?!\s*[\w-]+\s*[:?+]?=)", End.DEDENT),
    ),
    neutral=re.compile(r"(?:ifn?eq|ifn?def|else|endif)\b"),
    closes=re.compile(r"endef\b"),
    unindented=True,
)
_RUST_WORDS = r'(?:(?:pub(?:\([^)]*\))?|default|const|async|unsafe|extern(?:\s+"[^"]*")?)\s+)*'
_RUST = Grammar(
    (
        _marker(_RUST_WORDS + r"fn\s+(\w+)", End.BRACE, Holds.DEFINITIONS),
        _marker(_RUST_WORDS + r"(?:struct|enum|union)\s+(\w+)", End.BRACE),
        _marker(_RUST_WORDS + r"(?:trait|mod)\s+(\w+)", End.BRACE, Holds.DEFINITIONS),
        _marker(
            _RUST_WORDS + r"impl\b(?:<[^{]*?>)?\s+([^{]+?)\s*(?:\bwhere\b.*)?(?:\{.*)?$", End.BRACE, Holds.DEFINITIONS
        ),
        _marker(r"macro_rules!\s*(\w+)", End.BRACE),
    ),
    re.compile(_C_COMMENT + r"|#!?\["),
    block_comments=True,
)
_GO = Grammar(
    (
        _marker(r"func\s+(?:\(\s*(?:\w+\s+)?\*?(\w+)[^)]*\)\s*)?(\w+)", End.BRACE),
        _marker(r"type\s+(\w+)", End.BRACE),
    ),
    re.compile(_C_COMMENT),
    unindented=True,
    block_comments=True,
)

_VERILOG_WORDS = r"(?:(?:virtual|static|protected|local|automatic)\s+)*"
_VERILOG_UNITS = tuple(
    _marker(rf"{_VERILOG_WORDS}{kind}\s+(?:(?:automatic|static)\s+)?{name}", End.OWN_WORD, holds, word=f"end{end}")
    for kind, name, end, holds in (
        (r"(?:macro)?module", r"(\w+)", "module", Holds.DEFINITIONS),
        ("interface", r"(\w+)\s*(?:[(;#]|$)", "interface", Holds.DEFINITIONS),
        ("package", r"(\w+)", "package", Holds.DEFINITIONS),
        ("program", r"(\w+)", "program", Holds.DEFINITIONS),
        ("primitive", r"(\w+)", "primitive", Holds.CODE),
        ("class", r"(\w+)", "class", Holds.DEFINITIONS),
        ("function", r"[^;(]*?(\w+)\s*(?:[(;]|$)", "function", Holds.CODE),
        ("task", r"[^;(]*?(\w+)\s*(?:[(;]|$)", "task", Holds.CODE),
    )
)
_VERILOG = Grammar(
    (*_VERILOG_UNITS, _marker(r"[^/\"]*\bbegin\s*:\s*(\w+)", End.WORD, Holds.DEFINITIONS, word="end")),
    re.compile(_C_COMMENT + r"|\(\*"),
    re.compile("`"),
    re.compile(r"end\w*"),
    block_comments=True,
)
_VHDL = Grammar(
    (
        _marker(r"(?i:architecture\s+(\w+\s+of\s+\w+))", End.WORD, Holds.DEFINITIONS),
        _marker(r"(?i:(?:entity|component|package(?:\s+body)?)\s+(\w+))", End.WORD, Holds.DEFINITIONS),
        _marker(r"(?i:(?:(?:im)?pure\s+)?(?:function|procedure)\s+(\w+))", End.WORD, declarable=True),
        _marker(r"(?i:(\w+)\s*:\s*(?:postponed\s+)?(?:process|block)\b)", End.WORD),
        _marker(r"(?i:(\w+)\s*:\s*(?:if|for|case)\b.*\bgenerate\b)", End.WORD, Holds.DEFINITIONS),
        _marker(r"(?i:(\w+)\s*:\s*(?:entity|component)\s+\w)", End.STATEMENT),
    ),
    re.compile("--"),
    closes=re.compile(r"(?i:end\b(?!\s+(?:if|loop|case|record)\b))"),
    body="is",
)
_DEVICETREE = Grammar(
    (
        _marker(
            r"((?:\w+:\s*)*(?:&\{[^}]*\}|&?[\w,.@#+-]+)|)(?:/omit-if-no-ref/\s*)?/?\s*\{", End.BRACE, Holds.DEFINITIONS
        ),
    ),
    re.compile(_C_COMMENT),
    re.compile(_DIRECTIVE),
    block_comments=True,
)
_SECTIONS = Grammar((_marker(r"\[+\s*([^\]]+?)\s*\]+\s*(?:[#;].*)?$", End.NEXT),), re.compile("[#;]"), unindented=True)
_YAML = Grammar(
    (_marker(r"[\"']?([\w$][\w $./@-]*?)[\"']?\s*:\s*(?:[|>&!#].*)?$", End.DEDENT),),
    neutral=re.compile(r"-(?:\s|$)|[\]})]"),
    unindented=True,
)
_SQL_NAME = r"\s+(?:if\s+not\s+exists\s+)?([\w.\"`\[\]]+))"
_SQL_CREATE = r"(?i:create\s+(?:or\s+replace\s+)?(?:\w+\s+){0,3}?"
_SQL = Grammar(
    (
        _marker(_SQL_CREATE + r"(?:function|procedure|trigger|package)" + _SQL_NAME, End.NEXT),
        _marker(
            _SQL_CREATE + r"(?:table|view|index|type|sequence|schema|database|domain|policy|role)" + _SQL_NAME,
            End.STATEMENT,
        ),
    ),
    re.compile(r"--|/\*"),
    unindented=True,
    block_comments=True,
)
_TERRAFORM_BLOCK = r"(?:resource|data|module|variable|output|provider)\s+\"([^\"]*)\"(?:\s+\"([^\"]*)\")?"
_LINKER_SECTION = r"(\.?[\w./]+)(?:\s*\([^)]*\)|\s+0x\w+|\s+\.)*\s*:(?!=)"


def _words(*patterns: str, closes: str = r"end\b", lead: str = "#", holds: Holds = Holds.DEFINITIONS) -> Grammar:
    """A language whose definitions end with a word."""
    markers = tuple(_marker(pattern, End.WORD, holds) for pattern in patterns)
    return Grammar(markers, re.compile(lead), closes=re.compile(closes))


def _following(pattern: str, lead: str) -> Grammar:
    """A language where only the next definition ends one."""
    return Grammar((_marker(pattern, End.NEXT),), re.compile(lead), unindented=True)


GRAMMARS: dict[str, Grammar] = {
    "acpi": _braces("", r"(?i:(?:Device|Method|Scope|ThermalZone|PowerResource|Processor)\s*\(\s*([\\\w.^]+))"),
    "awk": _braces("", r"func(?:tion)?\s+(\w+)", lead="#"),
    "bitbake": _BITBAKE,
    "c": _C,
    "cmake": _words(r"(?i:(?:function|macro)\s*\(\s*([\w.${}-]+))", closes=r"(?i:end(?:function|macro)\b)"),
    "coccinelle": _following(r"@\s*(\w+)[^@]*@", "//"),
    "cpp": _CPP,
    "csharp": _braces("class|interface|enum|record|struct|namespace", callables=True),
    "cuda": _CPP,
    "dart": _braces("class|enum|mixin|extension", callables=True),
    "devicetree": _DEVICETREE,
    "dockerfile": _following(r"(?i:FROM\s+(?:--\S+\s+)*(?:\S+\s+AS\s+(\S+)|(\S+)))", "#"),
    "elixir": _words(r"(?:defmodule|defp?|defmacro|defimpl|defprotocol)\s+([\w.?!]+)", lead="[#@]"),
    "fortran": _words(
        r"(?i:(?:[\w()]+\s+)*?(?:subroutine|function|module|program)\s+(\w+))", closes="(?i:end)", lead="!"
    ),
    "go": _GO,
    "graphql": _braces("type|input|interface|enum|union|extend|fragment|query|mutation", lead='#|"'),
    "groovy": _braces("class|interface|enum|trait", _WORDS + r"def\s+(\w+)\s*\(", r"(task)\s+(\w+)", callables=True),
    "ini": _SECTIONS,
    "java": _braces("class|interface|enum|record", callables=True),
    "javascript": _braces("class", _FUNCTION, _ASSIGNED, _PROPERTY, callables=True),
    "julia": _words(r"(?:function|macro|module|(?:mutable\s+)?struct)\s+([\w.!]+)", holds=Holds.DEFINITIONS),
    "kotlin": _braces("class|interface|object", _WORDS + r"fun\s+(?:<[^>]*>\s*)?([\w.]+)"),
    "lex": _C,
    "linkerscript": _braces("", r"(SECTIONS|MEMORY|PHDRS)\b", _LINKER_SECTION),
    "lisp": _following(r"\(def\w*\s+\(?([^\s()]+)", ";"),
    "lua": _words(r"(?:local\s+)?function\s+([\w.:]+)", r"(?:local\s+)?([\w.]+)\s*=\s*function\b", lead="--"),
    "m4": _following(r"(?:AC_DEFUN|AU_DEFUN|m4_define)\w*\(\s*\[?(\w+)", r"#|dnl\b"),
    "make": _MAKE,
    "objc": _OBJC,
    "perl": Grammar(
        (_marker(r"package\s+([\w:]+)", End.NEXT, Holds.UNINDENTED), _marker(r"sub\s+([\w:]+)", End.BRACE)),
    ),
    "php": _braces("class|interface|trait|enum|namespace", _FUNCTION, lead=_C_COMMENT + r"|#"),
    "powershell": _braces("class|enum", r"(?i:function\s+([\w:-]+))", lead="#"),
    "protobuf": _braces("message|enum|service|rpc|oneof|extend"),
    "python": _PYTHON,
    "r": _braces("", r"([\w.]+)\s*(?:<-|=)\s*function\b", lead="#"),
    "ruby": _words(r"(?:class|module)\s+([\w:]+)", r"def\s+([\w.?!=<>\[\]+*-]+)"),
    "rust": _RUST,
    "scala": _braces("class|object|trait|enum", _WORDS + r"def\s+(\w+)"),
    "shader": _C,
    "shell": _SHELL,
    "sql": _SQL,
    "starlark": _PYTHON,
    "swift": _braces("class|struct|enum|protocol|extension|actor", _WORDS + r"func\s+(\w+)", _WORDS + r"(init)\??\("),
    "systemd": _SECTIONS,
    "systemverilog": _VERILOG,
    "tcl": _braces("", r"proc\s+([\w:]+)", r"namespace\s+eval\s+([\w:]+)", lead="#"),
    "terraform": _braces("", _TERRAFORM_BLOCK, lead="#|//"),
    "toml": _SECTIONS,
    "typescript": _braces("class|interface|enum|namespace", _FUNCTION, _ASSIGNED, _PROPERTY, callables=True),
    "verilog": _VERILOG,
    "vhdl": _VHDL,
    "vim": _words(r"fu(?:n|nc|nction)?!?\s+([\w:#.<>]+)", closes=r"endf", lead='"'),
    "yacc": _C,
    "yaml": _YAML,
    "zig": _braces(
        "",
        r"(?:(?:pub|export|inline)\s+)*fn\s+(\w+)",
        r"(?:pub\s+)?const\s+(\w+)\s*=\s*(?:\w+\s+)?(?:struct|enum|union)\b",
    ),
}

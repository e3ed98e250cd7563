# SPDX-License-Identifier: GPL-2.0-only
"""What a line says of a definition: its name, and whether it has a body. Each looks at a line's beginning only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto

LINE_HEAD = 240
"""Characters of a line that are looked at."""
_HEAD_LINES = 16
"""Lines over which the head of a function may go on before its body begins."""
_LONGEST_NAME = 120

_KEYWORDS = frozenset(
    """
    alignas and asm assert await case catch co_return defined delete do else elsif except for foreach function
    goto if in instanceof lock new not or return sizeof static_assert super switch synchronized this throw
    typeof unless until using while with yield
    """.split()  # noqa: SIM905 - forty words read better so
)
_GENERIC = re.compile(r"<[^<>]*>")
PARENTHESES = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
"""Up to three deep, as attributes have them."""
_ATTRIBUTES = re.compile(
    r"\b__(?:attribute__|declspec|printf|scanf|aligned|section|alloc_size|malloc|format_arg|assume_aligned)\s*"
    + PARENTHESES
)
_NAME_BEFORE = re.compile(r"(?:[~\w$]|::)+\s*$")
_OPERATOR = re.compile(r"((?:\w+::)*operator\s*\S{1,3})\s*\(")
_TYPES = re.compile(r"[\w\s*&:<>,.\[\]?@~$]*")
_VARIABLE = re.compile(r"[\w\s*&:<>]*?[\s*&](\w+)\s*((?:\[[^\]]*\]\s*)*)(?:__\w+\s*)*$")
_ARGUMENTS = re.compile(r"\(\s*([\w.]+)(?:\s*,\s*(\w+))?")
_ONLY_TYPE = re.compile(r"[A-Za-z_][\w\s*]*$")
_MARKS = rf"(?:__\w+\s*(?:{PARENTHESES}\s*)?)*"
_CLOSING_NAME = re.compile(rf"\}}\s*{_MARKS}(\w+)\s*{_MARKS};")
_ENDS_ITSELF = re.compile(r"\bend\W*$")
_STRING = re.compile(r"(?:^|[\s=(,\[{:+%]|\b[bBfFrRuU]{1,2})(\"\"\"|''')")
_BODY_MARKS = {"{": re.compile(r"[()\[\];{]"), "is": re.compile(r"(?i:[()\[\];]|\bis\b)")}


class Body(Enum):
    """What follows the head of a definition."""

    NONE = auto()
    OPEN = auto()
    CLOSED = auto()
    """It ends on the line that it begins on."""


def one_name(parts: Iterable[str | None]) -> str:
    """The parts of a name that there are, without generic arguments, joined by dots."""
    name = ".".join(part for part in parts if part)
    if "<" in name:
        name = _GENERIC.sub("", _GENERIC.sub("", name))
    return " ".join(name.split())[:_LONGEST_NAME]


def callable_name(code: str) -> str:
    """Of a line that may begin a function or an initialised variable of C's kind; empty where it begins neither.

    Of a macro that defines something its first argument: `SYSCALL_DEFINE3(read, ...` is read.
    """
    code = _ATTRIBUTES.sub(" ", code) if "__" in code else code
    parenthesis, equals = code.find("("), code.find("=")
    if parenthesis < 0 or 0 <= equals < parenthesis:
        operator = _OPERATOR.search(code)
        return operator[1] if operator else _variable_name(code[:equals]) if equals > 0 else ""
    found = _NAME_BEFORE.search(code, 0, parenthesis)
    if not found:
        return ""
    before, name = code[: found.start()], found[0].strip()
    if not _TYPES.fullmatch(before) or before.rstrip().endswith((".", ",")) or name.lstrip("~:").isdigit():
        return ""
    if name in _KEYWORDS or not _KEYWORDS.isdisjoint(before.split()):
        return ""
    if name.isupper() and len(name) > 2:
        arguments = _ARGUMENTS.match(code, parenthesis)
        if arguments:
            return " ".join(part for part in arguments.groups("") if part) if "TEST" in name else arguments[1]
    return name[:_LONGEST_NAME]


def _variable_name(declaration: str) -> str:
    found = _VARIABLE.match(declaration.rstrip())
    return found[1] if found and found[1] not in _KEYWORDS else ""


def body_of(lines: Sequence[str], number: int, indent: int, mark: str) -> tuple[Body, int]:
    """Whether `mark` comes behind the head that begins on a line, before a semicolon and outside of parentheses.

    Args:
        lines: of the text.
        number: of the head's first line, from 0.
        indent: how deep that is.
        mark: "{", or "is".

    Returns:
        The body, and the line after the last that was looked at: those before it are this head's, or this statement's.
    """
    depth = 0
    pattern = _BODY_MARKS[mark]
    end = min(number + _HEAD_LINES, len(lines))
    for at in range(number, end):
        line = lines[at]
        head = line[:LINE_HEAD]
        if at > number and depth <= 0 and not _goes_on(head, indent, mark):
            return Body.NONE, at
        for found in pattern.finditer(head):
            sign = found[0].lower()
            if sign in "([":
                depth += 1
            elif sign in ")]":
                depth -= 1
            elif depth <= 0:
                if sign == ";":
                    return Body.NONE, at + 1
                closed = mark == "{" and line.count("{") <= line.count("}")
                return (Body.CLOSED if closed and at == number else Body.OPEN), at + 1
    return Body.NONE, end


def _goes_on(head: str, indent: int, mark: str) -> bool:
    """Whether a line may still belong to the head of the definition above."""
    code = head.lstrip()
    if not code:
        return False
    return code.startswith((mark, ":", "(")) or len(head) - len(code) > indent


def closing_name(code: str) -> str:
    """The name at the end of `typedef struct { ... } name;`; empty without one."""
    found = _CLOSING_NAME.match(code)
    return found[1] if found else ""


def is_type(code: str) -> bool:
    """Whether a line has nothing but words on it, as the type that stands above a function's name in old C."""
    return _ONLY_TYPE.match(code) is not None


def ends_itself(line: str) -> bool:
    """Whether a definition that ends with the word "end" does on its first line."""
    return "end" in line and _ENDS_ITSELF.search(line[-LINE_HEAD:]) is not None


def long_string(line: str) -> str:
    """The three quotes that begin a string which does not end on the line; empty without."""
    if '"""' not in line and "'''" not in line:
        return ""
    found = _STRING.search(line)
    if not found:
        return ""
    return "" if found[1] in line[found.end() :] else found[1]

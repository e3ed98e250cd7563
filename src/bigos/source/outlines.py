# SPDX-License-Identifier: GPL-2.0-only
"""Definitions in what is neither nested by braces nor by indentation: Kconfig, assembly, patches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bigos.source import languages
from bigos.source.syntax import LINE_HEAD, callable_name

Trails = list[tuple[str, ...]]

_KCONFIG = re.compile(
    r"(?:menu)?config[ \t]+(?P<symbol>\w+)|menu[ \t]+\"(?P<menu>[^\"]*)|(?P<end>endmenu\b)"
    r"|(?P<other>if|endif|choice|endchoice|source|mainmenu|comment)\b|# (?P<title>\w[^\n]*)"
)
_INDENTED_SYMBOL = re.compile(r"[ \t]+(?:menu)?config[ \t]+[A-Z\d_]+\s*")
"""In a choice; the text of a help may begin a line with "config" too."""
_MOST_MENUS = 2

_SYMBOL_STARTS = re.compile(r"(?:SYM_\w*START\w*|ENTRY|GLOBAL|LEAF|NESTED|FUNC|ENTRY_NP)\s*\(\s*(\w+)|\.proc\s+(\w+)")
_SYMBOL_ENDS = re.compile(r"(?:SYM_\w*END\w*|ENDPROC|END|ENDPIPROC)\s*\(|\.endp\b|\.size\s")
_LABEL = re.compile(r"([A-Za-z_$][\w$.]*):(?!:)")
_MACRO = re.compile(r"\s*(?:\.macro|%macro)\s+(\w+)|\s*(\w+)\s+MACRO\b")
_MACRO_END = re.compile(r"\s*(?:\.endm|%endmacro|ENDM\b)")
_COMMENT = re.compile(r"/\*|\*/|\s\*|//|;|@|#(?!\s*(?:include|define|undef|if|el|endif|error|pragma))")

_FILE = re.compile(r"(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)|diff --git a/\S+ b/(\S+)")
_HUNK = re.compile(r"@@+ -\d+(?:,(\d+))? (?:-\d+(?:,\d+)? )*\+\d+(?:,(\d+))? @@+[ \t]?(.*)")


def kconfig_trails(lines: Sequence[str]) -> Trails:
    """The menus' titles and the symbol; in a configuration that was written out, the title of its part."""
    trails: Trails = []
    menus: list[str] = []
    trail: tuple[str, ...] = ()
    lead: int | None = None
    for number, line in enumerate(lines):
        first = line[:1]
        trails.append(trail)
        if not first or (first in " \t" and not _INDENTED_SYMBOL.fullmatch(line[:LINE_HEAD])):
            lead = None
            continue
        if first == "#":
            lead = number if lead is None else lead
            title = number > 0 and lines[number - 1] == "#" and number + 1 < len(lines) and lines[number + 1] == "#"
            found = _KCONFIG.match(line[:LINE_HEAD]) if title else None
            if found and found["title"] and not found["title"].endswith("is not set"):
                trail = (found["title"].strip(),)
                trails[number - 1 :] = [trail] * 2
            continue
        found = _KCONFIG.match(line[:LINE_HEAD].lstrip())
        if found:
            if found["menu"]:
                menus.append(found["menu"].strip())
            above = tuple(menus[-_MOST_MENUS:])
            if found["end"] and menus:
                menus.pop()
            trails[number] = (*above, found["symbol"]) if found["symbol"] else above
            trail = trails[number] if found["symbol"] else tuple(menus[-_MOST_MENUS:])
            if lead is not None:
                trails[lead:number] = [trails[number]] * (number - lead)
        lead = None
    return trails


def assembly_trails(lines: Sequence[str]) -> Trails:
    """The symbol that is begun and ended by macros, the macro, and the last label that is not local."""
    trails: Trails = []
    symbol = label = macro = ""
    lead: int | None = None
    for number, line in enumerate(lines):
        head = line[:LINE_HEAD]
        ended = False
        began = True
        if found := _SYMBOL_STARTS.match(head.lstrip()):
            symbol, label = found[1] or found[2], ""
        elif found := _MACRO.match(head):
            macro = found[1] or found[2]
        elif (found := _LABEL.match(head)) and not macro and found[1] != symbol:
            label = found[1]
        else:
            began = False
            ended = bool(symbol and _SYMBOL_ENDS.match(head.lstrip()))
        trail = tuple(name for name in (symbol, macro or label) if name)
        trails.append(trail)
        if began and lead is not None:
            trails[lead:number] = [trail] * (number - lead)
        is_lead = not began and _COMMENT.match(head) is not None
        lead = (number if lead is None else lead) if is_lead else None
        if ended:
            symbol = label = ""
        elif macro and _MACRO_END.match(head):
            macro = ""
    return trails


def patch_trails(lines: Sequence[str], trails_of: Callable[[Sequence[str], str | None], Trails]) -> Trails:
    """The file that is changed, and the definitions that are: of the hunk's head, then those in the hunk itself.

    Args:
        lines: of the patch.
        trails_of: the trails of a file's lines in a language.
    """
    trails: Trails = []
    file: tuple[str, ...] = ()
    number = 0
    while number < len(lines):
        line = lines[number][: 4 * LINE_HEAD]
        hunk = _HUNK.match(line) if file else None
        if hunk:
            size = _hunk_lines(lines, number + 1, int((hunk[1] or "1")[:9]), int((hunk[2] or "1")[:9]))
            body = lines[number + 1 : number + 1 + size]
            inner = _hunk_trails(body, file[0], hunk[3].strip(), trails_of)
            trails += [(*file, *trail)[:3] for trail in inner]
            number += 1 + size
            continue
        found = _FILE.match(line)
        if found and not line.startswith(("+++ /dev/null", "--- /dev/null")):
            file = ((found[1] or found[2]).strip(),)
        elif line.startswith("-- "):  # the signature of git format-patch
            file = ()
        trails.append(file)
        number += 1
    return trails


def _hunk_lines(lines: Sequence[str], first: int, old: int, new: int) -> int:
    """How many of the lines from `first` on are the hunk's, which has so many old and new lines."""
    number = first
    while number < len(lines) and (old > 0 or new > 0):
        sign = lines[number][:1]
        if sign not in ("", " ", "\t", "+", "-", "\\"):
            break
        old -= sign not in ("+", "\\")
        new -= sign not in ("-", "\\")
        number += 1
    return number - first


def _hunk_trails(
    body: Sequence[str], file: str, head: str, trails_of: Callable[[Sequence[str], str | None], Trails]
) -> Trails:
    """Of a hunk's head and its lines."""
    name = file.rsplit("/", 1)[-1]
    extension = name.rpartition(".")[2].lower()
    language = languages.EXTENSIONS.get(extension) or languages.NAMES.get(name)
    inner = trails_of([line[1:] for line in body], language if language != "patch" else None)
    begun = callable_name(head) or " ".join(head.split()[:6]) if head else ""
    outer = (begun,) if begun else ()
    trails: Trails = [outer]
    for line, trail in zip(body, inner, strict=True):
        if trail:
            outer = ()
        trails.append(trail or outer)
        if line[1:2] == "}":
            outer = ()
    return trails

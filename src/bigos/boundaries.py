# SPDX-License-Identifier: GPL-2.0-only
"""Where a text may be cut without hurting a reader: paragraphs, lines, sentences, words, definitions, graphemes.

Positions are character offsets; a boundary is the offset at which the next stretch begins. All functions look at a
bounded region only and are linear in its length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
# A line that goes on in lower case is prose wrapped by its author: its end is no end of anything.
_LINE = re.compile(r"\n(?![^\S\n]*[a-zà-öø-ÿąćęłńóśźż])")
_STOP = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*\s+")  # the look-behind keeps a run of dots linear
_LAST_SPACE = re.compile(r"\s\S*\Z")
_WORD_BEFORE = re.compile(r"[^\s(\[{„\"'”]*\Z")

# A full stop after these belongs to the word (Polish as in the orthographic dictionary's list; English as in manuals).
ABBREVIATIONS = frozenset(
    """
    al ang art bł br bryt cd cdn cz czyt dosł doc dr ds fr gen godz gr hab im inż itd itp jw kan kol ks łac m.in
    mgr mies mjr n.p.m nb niem np nr nt o.o obj ob ok op os p.n.e n.e par pkt pl płk poj pol por pow poz prof
    przyp pt r reż ros rozdz rtm rys s.c sp str św tab tel tj tys tzn tzw ub ul ur ust wg woj wsp wyd wł zm zob zł
    approx apr aug capt cf ch corp dec dept e.g eq esp est et etc feb fig figs gov i.e inc jan jul jun ltd mar mr mrs
    ms no nos nov oct pp ref resp sec sect sep sept sgt st viz vol vs
    """.split()  # noqa: SIM905 - 140 words read better so
)
_LONGEST_ABBREVIATION = 8
_LONGEST_UNKNOWN_ABBREVIATION = 4


def last_paragraph(text: str, low: int, high: int) -> int | None:
    """The last position in (low, high] that follows a blank line."""
    found = None
    for match in _PARAGRAPH.finditer(text, low, high):
        found = match.end()
    return found


def last_line(text: str, low: int, high: int) -> int | None:
    """The last position in (low, high] where a line begins that is not the wrapped rest of a sentence."""
    found = None
    # One character more than the region, so that the pattern sees how the last line goes on.
    for match in _LINE.finditer(text, low, min(high + 1, len(text))):
        if match.end() <= high:
            found = match.end()
    return found


def last_sentence(text: str, low: int, high: int) -> int | None:
    """The last position in (low, high] where a sentence begins."""
    for match in reversed(list(_STOP.finditer(text, low, high))):
        if ends_sentence(text, match):
            return match.end()
    return None


def last_word(text: str, low: int, high: int) -> int | None:
    """The last position in (low, high] that follows white space."""
    match = _LAST_SPACE.search(text, low, high)
    return match.start() + 1 if match else None


def first_line_or_sentence(text: str, low: int, high: int) -> int | None:
    """The first position in [low, high] where a line or a sentence begins."""
    begins = [match.end() for match in _LINE.finditer(text, max(low - 1, 0), high)][:1]
    for match in _STOP.finditer(text, max(low - 2, 0), high):
        if match.end() >= low and ends_sentence(text, match):
            begins.append(match.end())
            break
    return min(begins, default=None)


def first_word(text: str, low: int, high: int) -> int | None:
    """The first position in [low, high) where a word begins."""
    for position in range(max(low, 1), high):
        if text[position - 1].isspace() and not text[position].isspace():
            return position
    return None


def ends_sentence(text: str, stop: re.Match[str]) -> bool:
    """Whether the stop (and the space after it) ends a sentence, or an abbreviation, an initial or an ordinal.

    A question or exclamation mark always does. A full stop does not after a known abbreviation, a single letter
    ("J. Kowalski") or a number that begins its line ("3. Reset"); before a small letter it does only after a word that
    is too long for an unknown abbreviation ("... the clock. spi_write() waits").
    """
    if stop.group()[0] != "." or stop.group().startswith(".."):
        return True
    begin = max(stop.start() - 2 * _LONGEST_ABBREVIATION, 0)
    before = _WORD_BEFORE.search(text, begin, stop.start())
    word = before.group() if before else ""
    if word.lower() in ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        return False
    if word.isdigit() and not text[text.rfind("\n", begin, stop.start()) + 1 : stop.start() - len(word)].strip():
        return False
    after = text[stop.end() : stop.end() + 1]
    return not after.islower() or len(word) > _LONGEST_UNKNOWN_ABBREVIATION


_MOST_MARKS = 64
_ZERO_WIDTH_JOINER = "\u200d"


def grapheme_start(text: str, position: int, lowest: int) -> int:
    """The start, above `lowest`, of the user-perceived character that `position` lies in, or `position` itself.

    A simplification of UAX #29 (marks, joiners, emoji modifiers, flags, Hangul syllables, CR LF) that looks back no
    further than 64 characters: a longer pile of marks is cut.
    """
    here = position
    while here > lowest and position - here < _MOST_MARKS:
        if not _joined(text, here):
            return here
        here -= 1
    return position


def _joined(text: str, position: int) -> bool:
    """Whether the characters around `position` are one grapheme."""
    if position <= 0 or position >= len(text):
        return False
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    if before == _ZERO_WIDTH_JOINER:
        return True
    if _is_flag_letter(before) and _is_flag_letter(after):
        return _flag_letters_before(text, position) % 2 == 1
    if "\u1100" <= before <= "\ud7fb" and ("\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb"):
        return True
    return _extends(after)


def _extends(char: str) -> bool:
    return (
        char in "\u200c\u200d"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or unicodedata.category(char).startswith("M")
    )


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, position: int) -> int:
    count = 0
    while count < _MOST_MARKS and position - count > 0 and _is_flag_letter(text[position - count - 1]):
        count += 1
    return count


DEFINITION = 3
"""A column-0 line after a blank line: nearly always where a definition, a node or a section begins."""
BLOCK_END = 2
"""A column-0 line after a closing line or an indented one: the definition before it has ended."""
BLANK = 1
"""After a blank line inside a definition."""
LINE = 0

_CLOSES = re.compile(r"[})\]]|(?:end|endmodule|endfunction|endtask|endclass|fi|done|esac)\b|#\s*(?:endif|else|elif)\b")
_OPENS = re.compile(r"[{(\[]")
_LEADS = re.compile(r"\s*(?:/\*|\*|//|--|;;|@|#\[|#(?!\s*(?:include|define|undef|if|endif|else|elif|pragma)\b))")
_LABEL = re.compile(r"(?:else|elif|except|finally|catch)\b|public:|private:|protected:|default:|case\b")


def line_starts(text: str, low: int, high: int) -> Iterator[int]:
    """Every position in (low, high] where a line begins, from the first to the last."""
    position = text.find("\n", low, high)
    while position >= 0:
        yield position + 1
        position = text.find("\n", position + 1, high)


def line_rank(previous: str, line: str) -> int:
    """How good a cut between two consecutive source lines is: LINE, BLANK, BLOCK_END or DEFINITION.

    Column 0 and blank lines alone, no grammar: that holds in C, Python, shell, device trees, Kconfig, BitBake and HDL
    alike. `line` is the line that would begin the next window.
    """
    if not line.strip():
        return LINE
    in_column_0 = not line[0].isspace() and not (_CLOSES.match(line) or _OPENS.match(line) or _LABEL.match(line))
    if not previous.strip():
        return DEFINITION if in_column_0 else BLANK
    # A comment, a decorator or an attribute belongs to what it stands above.
    if not in_column_0 or _LEADS.match(previous):
        return LINE
    return BLOCK_END if _CLOSES.match(previous) or previous[0].isspace() else LINE

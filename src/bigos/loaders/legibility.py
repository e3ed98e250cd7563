# SPDX-License-Identifier: GPL-2.0-only
"""Whether a text layer says what the page shows, and the two Polish defects that can be mended without looking at it.

A font without a map from its glyphs to Unicode gives letters that are no language, signs of the private use area, or
U+FFFD; the page itself reads well, and OCR can read it.
"""

from __future__ import annotations

import re
from typing import Literal

Legibility = Literal["none", "weak", "garbage", "good"]
"""none: no text. weak: no word in it, as on a page that has a number only. garbage: not what the page shows."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_NEVER_SHOWN = re.compile("[\x01-\x08\x0e-\x1f\x7f-\x9f\ufffd]")
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_VOWEL = re.compile(
    "[aeiouyAEIOUY\u00c0-\u00c6\u00c8-\u00cf\u00d2-\u00d6\u00d8-\u00dd\u00e0-\u00e6\u00e8-\u00ef\u00f2-\u00f6\u00f8-\u00ff\u0100-\u0105\u0112-\u011b]"
)
_MARKS = re.compile(r"[^\w\s.…·•_=*|-]")  # not what leaders, rules and tables are drawn with

_UNMAPPED_SHARE = 0.015  # of what is not white space; ten Polish letters are 7 % of a text
_PRIVATE_SHARE = 0.3  # bullets of symbol fonts are few
_MARKS_SHARE = 0.45
_VOWELS = (0.16, 0.8)  # of Latin letters; English has 0.40, Polish 0.42, lists of acronyms about 0.25
_SAMPLE = 4000  # characters that are looked at
_PLAIN_VOWELS = "aeiouy"
_USUAL = (0.2, 0.6)  # of the sample
_ENOUGH_LETTERS = 80
_ENOUGH = 3  # mended characters on a page that rule out chance


def judge(text: str) -> Legibility:
    """How far a page's text layer can be believed."""
    size = len(text) - text.count(" ") - text.count("\n") - text.count("\r")
    if size <= 0:
        return "none"
    if (not text.isascii() or _NEVER_SHOWN.search(text)) and not _mapped(text, size):
        return "garbage"
    if not _WORD.search(text):
        return "weak"
    sample = text[:_SAMPLE]
    # Plain letters in the usual share: no more need be asked, of nearly every page there is.
    vowels = sum(map(sample.count, _PLAIN_VOWELS))
    usual = _USUAL[0] * len(sample) <= vowels <= _USUAL[1] * len(sample)
    return "good" if usual or _like_a_language(sample) else "garbage"


def _mapped(text: str, size: int) -> bool:
    """Whether nearly all of its characters stand for something."""
    unmapped = len(_NEVER_SHOWN.findall(text))
    if unmapped > max(1, _UNMAPPED_SHARE * size) or 2 * unmapped > size:
        return False
    return len(_PRIVATE.findall(text)) <= _PRIVATE_SHARE * size


def _like_a_language(sample: str) -> bool:
    """Whether it has few enough signs, and, when it is in Latin letters, vowels among them."""
    if len(_MARKS.findall(sample)) > _MARKS_SHARE * (len(sample) - sample.count(" ")):
        return False
    latin = len(_LATIN.findall(sample))
    if latin < _ENOUGH_LETTERS or latin * 4 <= len(sample):
        return True
    return _VOWELS[0] <= len(_VOWEL.findall(sample)) / latin <= _VOWELS[1]


def without_unmapped(text: str) -> str:
    """The text without what no reader can use, when there is no better one to be had."""
    return _PRIVATE.sub(" ", _NEVER_SHOWN.sub("", text))


_LIGATURES = dict(zip("ﬀﬁﬂﬃﬄﬅﬆ", ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))
_LIGATURE = re.compile("[ﬀ-ﬆ]")
# What the fonts Symbol and Wingdings have at these places, as word processors use them for lists.
_SYMBOLS = {"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "➢", "\uf0fc": "✓", "\uf02d": "-", "\uf0e0": "→", "\uf0e8": "→"}

_OWN = re.compile("[ąęłśźżĄĘŁŚŹŻ]")
# Fonts in code page 1250 or ISO 8859-2 that are read as Latin 1: mo¿na, któr¹, bêd¹.
_SHIFTED = re.compile("(?<=[a-zA-ZóÓ])[¹³¿¶±¼]|[¹³¿¶±¼](?=[a-zA-ZóÓ])")
_FROM_1250 = str.maketrans("¹³¿æêñœŸ¥£¯ÆÊÑŒ\u008f\u009c\u009f", "ąłżćęńśźĄŁŻĆĘŃŚŹśź")
_FROM_8859_2 = str.maketrans("±³¿æêñ¶¼¡£¯ÆÊÑ¦¬", "ąłżćęńśźĄŁŻĆĘŃŚŹ")
# TeX sets an accent beside its letter: s´wiat, ´swiat, wi˛ec, ksi a˛z˙ka.
_ACCENTED = {
    "´": dict(zip("cnoszCNOSZ", "ćńóśźĆŃÓŚŹ", strict=True)),
    "˛": dict(zip("aeAE", "ąęĄĘ", strict=True)),
    "˙": dict(zip("zZ", "żŻ", strict=True)),
}
_ACCENT_FIRST = re.compile("([´˙]) ?([cnoszCNOSZ])|(˛) ?([aeAE])")
_ACCENT_LAST = re.compile("([aeAE])(˛)|([zZ])(˙)")


def mend(text: str) -> str:
    """Letters for ligatures and for what a wrong map or a composed glyph made of Polish ones; bullets for symbols."""
    if text.isascii():
        return text
    if _LIGATURE.search(text):
        text = _LIGATURE.sub(lambda match: _LIGATURES[match[0]], text)
    if _PRIVATE.search(text):
        text = _PRIVATE.sub(lambda match: _SYMBOLS.get(match[0], ""), text)
    if not _OWN.search(text) and len(_SHIFTED.findall(text)) >= _ENOUGH:
        text = text.translate(_FROM_8859_2 if re.search("[¶±¼]", text) else _FROM_1250)
    if "˛" in text or "˙" in text:
        text = _ACCENT_LAST.sub(lambda m: _ACCENTED[m[2] or m[4]][m[1] or m[3]], text)
        text = _ACCENT_FIRST.sub(_compose, text)
    return text


def _compose(match: re.Match[str]) -> str:
    accent, letter = match[1] or match[3], match[2] or match[4]
    return _ACCENTED[accent].get(letter, match[0])

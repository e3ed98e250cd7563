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
_SUSPICIOUS = re.compile("[\x01-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010fffd]")
_MARKS = re.compile(r"[^\w\s.…·•_=*|-]")  # not what leaders, rules and tables are drawn with

_UNMAPPED_SHARE = 0.015  # of what is not white space; ten Polish letters are 7 % of a text
_PRIVATE_SHARE = 0.3  # bullets of symbol fonts are few
_MARKS_SHARE = 0.45
_SAMPLE = 600  # characters that are looked at
# How often the letters occur in Europe's languages, in tenths of a per cent. The mean over a text's letters is 53 to 60
# in English, 47 to 56 in Polish, 40 and more in program code and lists of acronyms; no cipher reaches more than 37.
_FREQUENCIES = {
    "a": 85, "b": 15, "c": 35, "d": 38, "e": 100, "f": 15, "g": 18, "h": 25, "i": 80, "j": 12, "k": 22, "l": 40,
    "m": 26, "n": 66, "o": 75, "p": 26, "q": 1, "r": 55, "s": 58, "t": 63, "u": 25, "v": 15, "w": 26,
    "x": 2, "y": 23, "z": 30,
}  # fmt: skip
_TO_FREQUENCY = bytes(_FREQUENCIES.get(chr(code), 0) for code in range(256))
_NO_LETTERS = bytes(code for code in range(256) if chr(code) not in _FREQUENCIES)
_LEAST_MEAN = 38.5
_FEWEST_LETTERS = 60  # that tell a language from none
_ENOUGH = 3  # mended characters on a page that rule out chance


def judge(text: str) -> Legibility:
    """How far a page's text layer can be believed."""
    if not text.strip(" \n\r"):
        return "none"
    if ("\ufffd" in text or _SUSPICIOUS.search(text, 0, _SAMPLE)) and not _mapped(text):
        return "garbage"
    if not _WORD.search(text):
        return "weak"
    return "good" if _like_a_language(text[:_SAMPLE]) else "garbage"


def _mapped(text: str) -> bool:
    """Whether nearly all of its characters stand for something."""
    size = len(text) - text.count(" ") - text.count("\n") - text.count("\r")
    unmapped = len(_NEVER_SHOWN.findall(text))
    if unmapped > max(1, _UNMAPPED_SHARE * size) or 2 * unmapped > size:
        return False
    return len(_PRIVATE.findall(text)) <= _PRIVATE_SHARE * size


def _like_a_language(sample: str) -> bool:
    """Whether its Latin letters are as frequent as in a language, or it has too few of them and not too many signs."""
    letters = sample.lower().encode("ascii", "ignore").translate(None, _NO_LETTERS)
    if len(letters) >= _FEWEST_LETTERS and 3 * len(letters) >= len(sample):
        return sum(letters.translate(_TO_FREQUENCY)) >= _LEAST_MEAN * len(letters)
    return len(_MARKS.findall(sample)) <= _MARKS_SHARE * (len(sample) - sample.count(" "))


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
# groff sets the acute behind its letter: zostac´ złamany. Before a vowel it is an apostrophe: Jones´a.
_ACUTE_LAST = re.compile("([cnoszCNOSZ])´(?![aeiouyąęó´cnosz])")
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
        text = _ACUTE_LAST.sub(_compose_last, text)
        text = _ACCENT_LAST.sub(lambda m: _ACCENTED[m[2] or m[4]][m[1] or m[3]], text)
        text = _ACCENT_FIRST.sub(_compose, text)
    elif "´" in text and len(_OWN.findall(text)) >= _ENOUGH:
        text = _ACUTE_LAST.sub(_compose_last, text)
    return text


def _compose_last(match: re.Match[str]) -> str:
    return _ACCENTED["´"][match[1]]


def _compose(match: re.Match[str]) -> str:
    accent, letter = match[1] or match[3], match[2] or match[4]
    return _ACCENTED[accent].get(letter, match[0])

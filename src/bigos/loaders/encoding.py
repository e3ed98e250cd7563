# SPDX-License-Identifier: GPL-2.0-only
"""Bytes to text: byte order marks, strict UTF-8, then the 8-bit encodings, decided by evidence.

Before Unicode, Polish was written in at least four encodings that share only ASCII. A file seldom says which, and each
decodes without an error to something; so the candidates are scored by what a reader would look at: are the letters
those of one language, do they stand where that language puts them, is there a symbol or a control code inside a word.
"""

from __future__ import annotations

import codecs
import contextlib
import re
import unicodedata

_BOMS = (  # UTF-32 LE first: its mark begins with UTF-16 LE's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HIGH = re.compile(rb"[\x80-\xff]+")
_UTF8_SEQUENCE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
_SAMPLE_BYTES = 8000  # non-ASCII bytes that are looked at; more changes no verdict
_LONGEST_RUN = 64  # bytes of one unbroken run
_SAMPLE_SIDE = 12  # bytes kept on either side of a run, enough to see the word around it

_WITNESS_BYTES = 16

_LATIN = ("cp1250", "iso8859-2", "cp1252", "mac_latin2", "cp852")  # a tie goes to the earlier
_PUBLIC_NAMES = {"iso8859-2": "iso-8859-2"}
_POLISH = frozenset("ąćęłńóśźż")
# Letters beyond ASCII of each language, and how ready we are to believe in it: Polish is what these users have, and
# the big Western sets must not lose to Czech, whose set happens to cover French read in the wrong encoding.
_LANGUAGES = tuple(
    (frozenset(letters), weight)
    for letters, weight in (
        ("ąćęłńóśźż", 1.05),
        ("äöüß", 1.0),
        ("àâæçéèêëîïôùûüÿœ", 1.0),
        ("áéíóúñüâãàçêõô", 1.0),
        ("åäöæøéð", 0.98),
        ("àèéìòù", 0.98),
        ("áčďéěíňóřšťúůýžäľô", 0.9),
        ("áéíóöőúüű", 0.9),
        ("čćđšž", 0.9),
    )
)
_VOWELS = frozenset("aeiouyąęó")
_PROSE_MARKS = frozenset("„”“’‘‚–—…«»§©®°·•€™×\xa0")
# Letters that Polish writes before a consonant or at the end of a word, never before a vowel.
_NEVER_BEFORE_VOWEL = frozenset("ąęóńćśź")


def decode(data: bytes, declared: str | None = None) -> tuple[str, str, tuple[str, ...]]:
    """Decode a file's bytes.

    Args:
        data: the whole file.
        declared: an encoding that the file itself names (an HTML meta element), believed when it can be true.

    Returns:
        The text without its byte order mark and with LF line ends, the encoding's name, and warnings: one sentence
        for anything that was lost or guessed.
    """
    text, encoding, warnings = _decode(data, declared)
    return _unix_newlines(text), _PUBLIC_NAMES.get(encoding, encoding), warnings


def _decode(data: bytes, declared: str | None) -> tuple[str, str, tuple[str, ...]]:
    marked = bom_encoding(data)
    if marked:
        text, warnings = _with_replacement(data, marked)
        return text.removeprefix("\ufeff"), marked, warnings
    wide = unmarked_unicode(data[:8192])
    if wide:
        text, warnings = _with_replacement(data, wide)
        return text, wide, warnings
    try:
        return data.decode("utf-8"), "utf-8", ()
    except UnicodeDecodeError:
        pass
    if _mostly_utf8(data):
        text, warnings = _with_replacement(data, "utf-8")
        return text, "utf-8", warnings
    encoding, sure = _choose(data, declared)
    text, warnings = _with_replacement(data, encoding)
    if not sure:
        name = _PUBLIC_NAMES.get(encoding, encoding)
        warnings = (*warnings, f"the encoding is not named in the file; {name} is the best guess")
    return text, encoding, warnings


def _with_replacement(data: bytes, encoding: str) -> tuple[str, tuple[str, ...]]:
    try:
        return data.decode(encoding), ()
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        return text, (f"bytes that are not {encoding} are shown as U+FFFD",)


def bom_encoding(data: bytes) -> str | None:
    """The encoding that a byte order mark names, if there is one."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            # FF FE 00 00 is also an UTF-16 text that begins with U+0000; no real text does.
            return name
    return None


def unmarked_unicode(head: bytes) -> str | None:
    """The UTF-32 or UTF-16 of bytes without a mark when they can hardly be anything else."""
    return _unmarked_utf32(head) or _unmarked_utf16(head)


def _unmarked_utf32(head: bytes) -> str | None:
    head = head[: len(head) // 4 * 4]
    if len(head) < 8 or b"\0" not in head:
        return None
    for name in ("utf-32-le", "utf-32-be"):
        with contextlib.suppress(UnicodeDecodeError):  # whatever is not UTF-32 has four bytes that are no character
            if _reads_as_text(head.decode(name)):
                return name
    return None


def _reads_as_text(text: str) -> bool:
    words = sum(char.isalnum() or char.isspace() for char in text)
    controls = sum("\x0e" <= char < " " or "\x7f" <= char <= "\x9f" for char in text)
    no_text = controls > 0.01 * len(text) or any(chr(code) in text for code in range(9))
    return words >= 0.3 * len(text) and not no_text


def _unmarked_utf16(head: bytes) -> str | None:
    """utf-16-le or utf-16-be when bytes without a mark can hardly be anything else.

    European text in UTF-16 has a zero in every second place, or 1 to 5, or for typographic marks, arrows and the lines
    of tables 0x20 to 0x27; read the other way round, or taken from a binary, these are no characters that text has.
    """
    head = head[: len(head) // 2 * 2]
    if len(head) < 4 or b"\0" not in head:
        return None
    for name, high in (("utf-16-le", head[1::2]), ("utf-16-be", head[0::2])):
        zeros = high.count(0)
        small = sum(high.count(value) for value in (*range(1, 6), *range(0x20, 0x28))) + zeros
        wide = small >= 0.97 * len(high) and zeros >= 0.3 * len(high)
        if wide and _reads_as_text(head.decode(name, "ignore")):
            return name
    return None


def _mostly_utf8(data: bytes) -> bool:
    """Whether the bytes beyond ASCII are UTF-8 with a few broken places.

    In the 8-bit encodings a valid sequence needs a capital before certain letters and happens by accident about once
    a page; one broken byte beside many valid sequences is damage, not another encoding.
    """
    valid = broken = 0
    for run in _HIGH.finditer(data):
        rest = _UTF8_SEQUENCE.sub(b"", run[0])
        valid += (len(run[0]) - len(rest)) // 2
        broken += len(rest)
        if valid + broken >= _SAMPLE_BYTES:
            break
    return valid >= 2 * broken and valid > 0


def _choose(data: bytes, declared: str | None) -> tuple[str, bool]:
    """The 8-bit (or Far Eastern) encoding with the best evidence, and whether it is more than a guess."""
    slices = _sample(data)
    named = _codec(declared)
    if named and named not in _LATIN and _decodes_clean(data, named):
        return named, True
    scores = {encoding: _score(slices, encoding) for encoding in _LATIN}
    if named in scores:
        scores[named] += 0.25
    best = max(_LATIN, key=lambda encoding: scores[encoding])
    if scores[best] >= 0.55:
        return best, True
    # The library knows the alphabets that we do not score; on a few bytes it finds Chinese in anything.
    witness = _witness(slices) if scores[best] < 0.3 else None
    if witness and witness not in _LATIN and _decodes_clean(data, witness):
        return witness, False
    return best, False


def _sample(data: bytes) -> list[bytes]:
    """The words around non-ASCII bytes, so that a long English file with three Polish names is judged by these."""
    spans: list[list[int]] = []
    seen = 0
    for run in _HIGH.finditer(data):
        stop = min(run.end(), run.start() + _LONGEST_RUN)
        start, end = max(0, run.start() - _SAMPLE_SIDE), stop + _SAMPLE_SIDE
        if spans and start <= spans[-1][1]:
            spans[-1][1] = end
        else:
            spans.append([start, end])
        seen += stop - run.start()
        if seen >= _SAMPLE_BYTES:
            break
    return [data[start:end] for start, end in spans]


def _codec(name: str | None) -> str | None:
    """A declared name as one of our candidates or as Python's codec; None for what is no text encoding."""
    if not name:
        return None
    try:
        found = codecs.lookup(name.strip().strip("\"'"))
    except (LookupError, ValueError):
        return None
    if not getattr(found, "_is_text_encoding", True):
        return None
    known = found.name.replace("_", "-")
    if known in ("iso8859-1", "ascii", "iso8859-15", "latin-1"):
        return "cp1252"  # as browsers do: the declaration is a default that nobody checked
    if known.startswith(("utf-8", "utf-16", "utf-32", "utf-7")):
        return None  # tried already, and it is not
    return {"mac-latin2": "mac_latin2", "iso8859-2": "iso8859-2"}.get(known, found.name)


def _decodes_clean(data: bytes, encoding: str) -> bool:
    try:
        text = data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return False
    return not any("\x80" <= char <= "\x9f" for char in text[:100_000])


def _witness(slices: list[bytes]) -> str | None:
    """What charset-normalizer says of the sample; None when there is too little of it to say anything."""
    from charset_normalizer import from_bytes

    sample = b"\n".join(slices)[:16_384]
    if sum(len(run) for run in _HIGH.findall(sample)) < _WITNESS_BYTES:
        return None
    best = from_bytes(sample).best()
    return _codec(best.encoding) if best else None


def _score(slices: list[bytes], encoding: str) -> float:
    """How much the sample looks like text in this encoding: about 1 is sure, below 0.3 is no."""
    totals = [0.0] * len(_LANGUAGES)
    shared = 0.0
    seen = 0
    for piece in slices:
        text = " " + piece.decode(encoding, "replace") + " "
        lower = text.lower()
        if len(lower) != len(text):
            lower = text
        for index, char in enumerate(text):
            if char < "\x80":
                continue
            seen += 1
            if not char.isalpha() or "\x80" <= char <= "\x9f":
                shared += _mark_score(text, index)
                continue
            misplaced = _misplaced(text, index)
            for place, (letters, _) in enumerate(_LANGUAGES):
                if lower[index] not in letters:
                    totals[place] -= 1.0
                elif misplaced or (place == 0 and not _polish_place(lower, index)):
                    totals[place] -= 0.5
                else:
                    totals[place] += 1.0
    if not seen:
        return 0.0
    return max((shared + total) / seen * weight for total, (_, weight) in zip(totals, _LANGUAGES, strict=True))


def _mark_score(text: str, index: int) -> float:
    """For a character that is no letter: fine as typography, bad inside a word, impossible as a control code."""
    char = text[index]
    if char == "\ufffd" or "\x80" <= char <= "\x9f":
        return -5.0
    inside = text[index - 1].isalpha() and text[index + 1].isalpha()
    if "\u2500" <= char <= "\u259f" and not inside:
        return 0.6 if any("\u2500" <= other <= "\u259f" for other in (text[index - 1], text[index + 1])) else 0.0
    if char in _PROSE_MARKS:
        return 0.2 if char in "’–—\xa0" or not inside else -1.0
    if inside:
        return -1.5
    # Not typography, but legitimate where nothing is being spelled: currency, arithmetic.
    attached = text[index - 1].isalpha() or text[index + 1].isalpha()
    return -1.0 if attached else 0.0


def _misplaced(text: str, index: int) -> bool:
    """A letter that no language has here.

    A capital after a small letter (łaĄka), the only odd one out (MŁller, PRAWAáAUTORSKIE), or the third of the same
    (ÄÄÄÄ, which is a line drawn in cp852).
    """
    before, after = text[index - 1], text[index + 1]
    if before == text[index] == after:
        return True
    if text[index].isupper():
        return before.islower() or (before.isupper() and after.islower())
    return before.isupper() and after.isupper()


def _polish_place(lower: str, index: int) -> bool:
    """Whether Polish spelling allows this Polish letter between these two neighbours."""
    char, before, after = lower[index], lower[index - 1], lower[index + 1]
    if char in (before, after) and char not in "łż":
        return False
    if (char in _NEVER_BEFORE_VOWEL and after in _VOWELS) or (char == "ć" and after in "cl"):
        return False
    if char in "ąę":
        return before not in "aeouyąęó" and before.isalpha()
    return True


def _unix_newlines(text: str) -> str:
    if "\r" not in text:
        return text
    if "\n" not in text:
        return text.replace("\r", "\n")
    return text.replace("\r\n", "\n")


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_OVERSTRIKE = re.compile(r"[^\n]\x08")
# Separators that are neither a new line for an editor nor a part of a word.
_SEPARATORS = re.compile("[\r\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]"
)


def clean(text: str) -> str:
    """Document text as it is indexed and shown: NFC, without terminal escapes, overstrikes and unseen characters.

    Never adds or removes a line feed, so that line numbers stay those of the file.
    """
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _OVERSTRIKE.sub("", text)
    if _SEPARATORS.search(text):
        text = _SEPARATORS.sub(" ", text)
    if _UNSEEN.search(text):
        text = _UNSEEN.sub("", text)
    return text if text.isascii() or unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)

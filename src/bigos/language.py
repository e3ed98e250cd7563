# SPDX-License-Identifier: GPL-2.0-only
"""Polish, English or neither: the language of a document, a chunk, a query.

Texts are told apart by letter trigrams (lingua's low-accuracy mode, which is what lingua itself falls back on above 120
letters) against fourteen languages of the Latin script: with Polish and English alone, German is "English" with 0.92.
Fourteen languages take 20 MB and 0.1 s to load, so every worker process can hold them.

Queries are too short for trigrams alone (of 2,021 questions cut to three words they call 13 English ones Polish), so
Polish letters and function words decide first and lingua's five-grams of the two languages settle the rest: 100 MB and
0.3 s, paid by the process that answers queries and only when a query needs it.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import lingua

Language = Literal["pl", "en"]

_SAMPLE_CHARS = 1200
"""Characters of a text that are looked at, in a few slices spread over it: about a millisecond."""
_SLICES = 3
_SHORT_WORDS = 10

_OTHERS = (
    "CZECH",
    "DANISH",
    "DUTCH",
    "FRENCH",
    "GERMAN",
    "HUNGARIAN",
    "ITALIAN",
    "PORTUGUESE",
    "ROMANIAN",
    "SLOVAK",
    "SPANISH",
    "SWEDISH",
)

_LETTERS = re.compile(r"[^\W\d_]")
_FOREIGN_SCRIPT = re.compile(r"[\u0370-\u1dff\u2c00-\ua71f\ua800-\ufaff\ufb13-\ufeff\U00010000-\U0003ffff]")
_MOST_FOREIGN = 0.25
_POLISH_LETTER = re.compile("[ąćęłńśźżĄĆĘŁŃŚŹŻ]")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*\Z")
_SEPARATORS = re.compile(r"[,;/]")
_EDGES = ".,;:!?…\"'„”“‘’()[]{}<>«»*`"

# Words that one of the two languages has and the other has not, nor any program's name ("od", "pod", "po", "ten").
_POLISH_WORDS = frozenset(
    """
    jak jaki jaka jakie jakich co czy gdzie kiedy dlaczego czemu ile kto czym czego który która które ktory ktora ktore
    w we z ze na nie się sie jest są dla przy przez oraz lub albo aby żeby zeby gdy jeśli jesli jeżeli jezeli za bez
    między miedzy nad tego tej tym być byc można mozna nowy nowa nowe bo ale tylko
    """.split()  # noqa: SIM905 - words read better so
)
_ENGLISH_WORDS = frozenset(
    """
    the of and is are how what why where when which who does with from for in at an if or not be was has have had it
    this that these those can cannot into using use you your all as
    """.split()  # noqa: SIM905
)

_SURE = 0.65
_SURE_OF_ONE_WORD = 0.85
_SURE_OF_OTHER = 0.95
_WORDS_OF_OTHER = 4


class LanguageDetector:
    """Tells Polish from English and both from the rest. Thread safe; the models are loaded once a process."""

    def detect(self, text: str) -> Language | None:
        """The language of a document or a chunk; None for another language or when there is too little to go by."""
        sample = _sample(text)
        letters = len(_LETTERS.findall(sample))
        if not letters or len(_FOREIGN_SCRIPT.findall(sample)) > _MOST_FOREIGN * letters:
            return None
        if len(sample.split()) <= _SHORT_WORDS:
            by_rule, words = _by_words(sample)
            if by_rule or not words:
                return by_rule
        return _polish_or_english(_closest(sample)[0])

    def detect_query(self, text: str) -> Language | None:
        """The language of a question of a few words, with or without Polish letters.

        Identifiers, numbers and upper-case names have no language. None when nothing else is left, when one word could
        be either, or when the question is in another language.
        """
        by_rule, words = _by_words(text[:_SAMPLE_CHARS])
        if by_rule or not words:
            return by_rule
        joined = " ".join(words)
        if len(words) >= _WORDS_OF_OTHER:
            language, confidence = _closest(joined)
            if language not in ("pl", "en") and confidence >= _SURE_OF_OTHER:
                return None
        polish = _polish_confidence(joined)
        sure = _SURE_OF_ONE_WORD if len(words) == 1 else _SURE
        return "pl" if polish >= sure else "en" if polish <= 1 - sure else None


def _by_words(text: str) -> tuple[Language | None, list[str]]:
    """What Polish letters or function words say of a short text; and its ordinary words, for lingua to judge."""
    words = _words(text)
    lower = [word.lower() for word in words]
    balance = sum(word in _POLISH_WORDS for word in lower) - sum(word in _ENGLISH_WORDS for word in lower)
    if _POLISH_LETTER.search(text):  # unless it is English about something Polish
        return ("en" if balance <= -2 else "pl"), words
    if _FOREIGN_SCRIPT.search(text):
        return None, []
    return ("pl" if balance > 0 else "en" if balance < 0 else None), words


def _polish_or_english(code: str | None) -> Language | None:
    return "pl" if code == "pl" else "en" if code == "en" else None


def _words(text: str) -> list[str]:
    """The ordinary words of a text: no identifiers, paths, options, numbers, acronyms, file names."""
    bare = (token.strip(_EDGES) for token in _SEPARATORS.sub(" ", text).split())
    return [word for word in bare if _WORD.match(word) and (word.islower() or word.istitle() or len(word) == 1)]


def _sample(text: str) -> str:
    """Up to _SAMPLE_CHARS of a text: all of a chunk, slices from the beginning to the end of a document."""
    if len(text) <= _SAMPLE_CHARS:
        return text
    size = _SAMPLE_CHARS // _SLICES
    step = (len(text) - size) // (_SLICES - 1)
    return " ".join(text[step * index : step * index + size] for index in range(_SLICES))


def _closest(text: str) -> tuple[str | None, float]:
    """The ISO 639-1 code of the nearest of the fourteen languages and lingua's confidence, 0 to 1."""
    values = _model("fourteen").compute_language_confidence_values(text)
    if not values or values[0].value <= 0:
        return None, 0.0
    return str(values[0].language.iso_code_639_1.name).lower(), float(values[0].value)


def _polish_confidence(text: str) -> float:
    """How sure lingua is, 0 to 1, that a text is Polish when it must be Polish or English."""
    import lingua

    return float(_model("two").compute_language_confidence(text, lingua.Language.POLISH))


_loading = threading.Lock()
_models: dict[str, lingua.LanguageDetector] = {}


def _model(name: Literal["fourteen", "two"]) -> lingua.LanguageDetector:
    """The detector of that many languages, built once a process whoever asks first."""
    import lingua

    with _loading:
        if name not in _models:
            languages = ("POLISH", "ENGLISH", *_OTHERS) if name == "fourteen" else ("POLISH", "ENGLISH")
            builder = lingua.LanguageDetectorBuilder.from_languages(*[getattr(lingua.Language, x) for x in languages])
            _models[name] = (builder.with_low_accuracy_mode() if name == "fourteen" else builder).build()
        return _models[name]

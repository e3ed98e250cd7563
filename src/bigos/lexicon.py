# SPDX-License-Identifier: GPL-2.0-only
"""A Polish-English lexicon: which words of the other language a question's words may stand for.

Words alone never meet across two languages, and a lexical leg that only knows the question's own words pulls answers
back into its language. So each word of a question brings its translations with it. A model of meaning that knows one
language better than the other is helped as well: `Lexicon.gloss` gives it the question word by word in the other.

A lexicon is a folder of `*.tsv` files: `Polish<TAB>english|english`, UTF-8, one entry a line, `#` begins a comment.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

from bigos.errors import ConfigError
from bigos.lexical import STOP_WORDS, TermVector, Word, definition_term, fold, stem, term_number, terms, vector, words

TRANSLATION_WEIGHT = 0.7
"""Of a translation's terms, where the question's own have 1."""
DEFINITION_WEIGHT = 2.0
"""Of an identifier as the name of a definition: with 1, what writes it often comes before what defines it."""
MOST_TRANSLATIONS = 6
"""Of one word; the lexicon has the usual ones first."""

KCONFIG_PREFIX = "config_"
"""What C and Makefiles put before a symbol that Kconfig calls by its bare name."""

_OTHER = {"pl": "en", "en": "pl"}
_SHORTEST = 3
_LEAST = 4
"""Letters that an inflected word shares with its base form at least."""
_ENDING, _BASE_ENDING = 4, 3
"""Letters at most that an inflected word, or the base form, has beyond them: "magistralami", "magistrala"."""
_MOST_BASES = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gloss:
    """A question, word by word in another language than it was asked in; `language` is the gloss's."""

    text: str
    language: str


class Lexicon:
    """Translations in both directions. Pairs are (Polish, English), words or phrases."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._english = _Side()
        self._polish = _Side()
        for polish, english in pairs:
            self._english.add(polish, english)
            self._polish.add(english, polish)

    def translations(self, word: str, language: str | None) -> list[str]:
        """What a folded word of a question may be in the other language, the likeliest first.

        `language` is the question's: "pl" or "en"; with None the word is looked up in both.
        """
        found = [] if language == "en" else self._english.look_up(word)
        if language != "pl":
            found += self._polish.look_up(word)
        return found[:MOST_TRANSLATIONS]

    def question_vector(self, question: str, language: str | None) -> TermVector:
        """A question's terms and those of its words' translations, to be met by `lexical.passage_vector`."""
        weights: dict[str, float] = {}
        asked = list(words(question))
        for term, weight in chain.from_iterable(self._terms(word, language) for word in asked):
            weights[term] = max(weights.get(term, 0.0), weight)
        for one, other in pairwise(asked):
            for phrase in self._phrases(_neighbours(one, other), language):
                for term in terms(phrase):
                    weights.setdefault(term, TRANSLATION_WEIGHT)
        return vector(weights)

    def concepts(self, question: str, language: str | None) -> tuple[frozenset[int], ...]:
        """What a question speaks of: a set for each of its words, the numbers of the terms that it may be met by.

        Those are the word's own and its translations' that are one word. Of two words with the same terms, as of two
        forms of one word, the first counts; stop words say nothing. An identifier is spoken of where its parts are,
        once more where it is defined, and with a number in it ("i.MX8M") once more where it stands in whole.
        """
        asked = list(words(question))
        found: list[frozenset[int]] = []
        having: defaultdict[int, list[frozenset[int]]] = defaultdict(list)  # a question may be a whole book
        for part in dict.fromkeys(chain.from_iterable(map(_telling, asked))):
            if part in STOP_WORDS:
                continue
            met = {stem(part)}
            if part.isalpha():
                for translation in self.translations(part, language):
                    single = list(terms(translation))
                    if len(single) == 1:
                        met.update(single)
            concept = frozenset(map(term_number, met))
            alike = chain.from_iterable(having[number] for number in concept)
            if not any(concept <= other or other <= concept for other in alike):
                found.append(concept)
                for number in concept:
                    having[number].append(concept)
        wholes = dict.fromkeys(chain.from_iterable(word.wholes for word in asked))
        defined = (frozenset(term_number(definition_term(name)) for name in _symbols(whole)) for whole in wholes)
        numbered = (frozenset(map(term_number, filter(_has_digit, word.wholes))) for word in asked)
        return (*found, *dict.fromkeys(filter(None, numbered)), *defined)

    def gloss(self, question: str, language: str | None) -> Gloss | None:
        """A question in the other language, each word by its likeliest translation, without inflection and grammar.

        Words that have none stay as they are, stop words are left out. None when no word has one, and for a question
        that is neither Polish nor English.
        """
        other = _OTHER.get(language or "")
        if other is None:
            return None
        asked = list(words(question))
        found: list[str] = []
        translated = False
        position = 0
        while position < len(asked):
            word = asked[position]
            pair = _neighbours(word, asked[position + 1]) if position + 1 < len(asked) else ()
            phrases = self._phrases(pair, language)
            position += 2 if phrases else 1
            if not phrases and len(word.parts) == 1:
                if word.parts[0] in STOP_WORDS:
                    continue
                if word.parts[0].isalpha():
                    phrases = self.translations(word.parts[0], language)
            translated = translated or bool(phrases)
            found.append(phrases[0] if phrases else word.text)
        return Gloss(" ".join(found), other) if translated else None

    def _phrases(self, pair: tuple[str, ...], language: str | None) -> list[str]:
        """What two folded words one after the other are in the other language: "drzewo urządzeń", "device tree"."""
        found = [] if language == "en" else self._english.look_up_pair(pair)
        return found if language == "pl" else found + self._polish.look_up_pair(pair)

    def _terms(self, word: Word, language: str | None) -> Iterator[tuple[str, float]]:
        for part in word.parts:
            if part in STOP_WORDS:
                continue
            yield stem(part), 1.0
            if part.isalpha():
                for translation in self.translations(part, language):
                    for term in terms(translation):
                        yield term, TRANSLATION_WEIGHT
        for whole in word.wholes:
            for name in _symbols(whole):
                yield name, 1.0
                yield definition_term(name), DEFINITION_WEIGHT


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _telling(word: Word) -> Iterable[str]:
    """The parts of a word that say something by themselves: not the "8" and the "m" of "i.MX8M"."""
    telling = [part for part in word.parts if len(part) > 1 and not part.isdigit()]
    return telling if telling and len(word.parts) > 1 else word.parts


def _symbols(whole: str) -> Iterable[str]:
    """What an identifier may be called where it is defined."""
    return dict.fromkeys((whole, whole.removeprefix(KCONFIG_PREFIX)))


def _neighbours(one: Word, other: Word) -> tuple[str, ...]:
    """What of two words may be a phrase."""
    return one.parts[-1:] + other.parts[:1]


class _Side:
    """From the words of one language to phrases of the other."""

    def __init__(self) -> None:
        self._phrases: defaultdict[str, list[str]] = defaultdict(list)
        self._of_pairs: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        self._bases: defaultdict[str, list[str]] | None = None

    def add(self, word: str, phrase: str) -> None:
        folded = fold(word)
        if " " in folded:
            self._of_pairs[tuple(map(stem, folded.split()))].append(phrase)
        elif len(folded) >= _SHORTEST and phrase not in self._phrases[folded]:
            self._phrases[folded].append(phrase)

    def look_up_pair(self, pair: tuple[str, ...]) -> list[str]:
        """The phrases of two folded words; both may be inflected, so only what they begin with is compared."""
        return self._of_pairs.get(tuple(map(stem, pair)), [])

    def look_up(self, word: str) -> list[str]:
        """The phrases of a folded word in its base form, else of the base forms that it looks most like."""
        if word in self._phrases:
            return list(self._phrases[word])
        for ending in (1, 2):  # "keys", "pinem": bases that are too short to be told by what they begin with
            if len(word) - ending >= _SHORTEST and word[:-ending] in self._phrases:
                return list(self._phrases[word[:-ending]])
        if len(word) < _LEAST:
            return []
        if self._bases is None:
            self._bases = defaultdict(list)
            for base in self._phrases:
                self._bases[base[:_LEAST]].append(base)
        likest: list[str] = []
        most = 0
        for base in self._bases.get(word[:_LEAST], ()):
            shared = _shared(base, word)
            if shared < max(_LEAST, len(word) - _ENDING, len(base) - _BASE_ENDING) or shared < most:
                continue
            if shared > most:
                likest, most = [], shared
            likest.append(base)
        likest.sort(key=len)
        return list(dict.fromkeys(phrase for base in likest[:_MOST_BASES] for phrase in self._phrases[base]))


def _shared(one: str, other: str) -> int:
    """How many letters two words begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def read_lexicon(folder: Path, *, required: bool = False) -> Lexicon:
    """The lexicon in a folder; an empty one when there is no such folder, unless it is required.

    Raises ConfigError for a required folder that is not there, and for a file that cannot be read, or has a line that
    is no entry.
    """
    if required and not folder.is_dir():
        raise ConfigError(f"lexicon_dir {folder} is no folder.", fix="correct lexicon_dir")
    files = sorted(folder.glob("*.tsv"))
    if not files:
        _log.debug("there is no lexicon in %s: questions are not translated word by word", folder)
    return Lexicon(pair for file in files for pair in _pairs(file))


def _pairs(file: Path) -> Iterator[tuple[str, str]]:
    try:
        lines: Sequence[str] = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the lexicon {file} is not UTF-8.", fix=f"mv {file} {file}.old") from error
    except OSError as error:
        raise ConfigError(
            f"the lexicon {file} cannot be read: {error.strerror}.", fix=f"ls -la {file.parent}"
        ) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        polish, tab, english = line.partition("\t")
        if not tab or not polish.strip() or not english.strip():
            raise ConfigError(
                f"{file}, line {number} is no entry of a lexicon.", fix="write Polish<TAB>english|english"
            )
        for phrase in english.split("|"):
            yield polish.strip(), phrase.strip()

# SPDX-License-Identifier: GPL-2.0-only
"""Words and identifiers as a sparse vector: what of a text the lexical leg of a search compares.

BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009) as an inner product. A passage's vector has
a term's saturated, length-normalised frequency; the store multiplies it with the term's inverse document frequency,
which it knows; a question's vector has a term's weight.

A term is one of these, folded (lower case, without diacritics, so that "zegar wewnetrzny" finds "wewnętrzny"):

- a word, cut to its first STEM letters: Polish inflects at the end ("dzielnik", "dzielnika", "dzielnikiem"), and for
  English the prefix is as good as the word;
- a part of an identifier: `ecspi`, `clk` and `div` of `mx51_ecspi_clkdiv`, `Transfer` of `canDMATransfer`;
- an identifier in whole, joined by underscores, hyphens, dots or commas: `spi_imx_can_dma`, `fsl,imx8mm-ecspi`;
- an identifier as the name of what is defined here, which is a term of its own: who asks for a name looks first for the
  place that says what it is, and then for those that use it.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

STEM = 5
"""Letters. Of 4, 5, 6 and whole words the best over questions in both languages on pages and on code."""
SATURATION = 1.2
LENGTH_PENALTY = 0.75
AVERAGE_TERMS = 140
"""BM25's k1, b and mean length. Windows have nearly one length, so the mean is a constant and no text has to wait for
the whole collection to be known."""

_UPPER, _LOWER = "A-ZĄĆĘŁŃÓŚŹŻ", "a-ząćęłńóśźż"
_WORD = re.compile(r"\w+(?:[-.,]\w+)*")
_JOINTS = re.compile(r"[_\-.,]+")
_PARTS = re.compile(
    rf"[{_UPPER}]+(?=[{_UPPER}][{_LOWER}])|[{_UPPER}]?[{_LOWER}]+|[{_UPPER}]+|\d+|[^\W\d_{_UPPER}{_LOWER}]+"
)
_UNDECOMPOSED = str.maketrans("łđøı", "ldoi")
"""Letters that Unicode does not take apart into a letter and its mark."""

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        i w z na do od po za o u ze we nad pod przez przy dla oraz lub albo ani czy jak jest sa to ten ta te tego tej
        ktory ktora ktore ktorego gdy kiedy gdzie co sie nie bez ich jego jej byc mozna aby zeby tylko tez juz tak jako
        jesli moze innych kazdy kazdego the a an of in on at for and or is are be by with from as it its this that which
        when where how what does no not if than then into only each one can has have e g s you your my me was were will
        would should use using
        """,
    )
)
"""Words of questions that say nothing of what is asked; folded."""


@dataclass(frozen=True, slots=True)
class TermVector:
    """A sparse vector: `indices` are distinct unsigned 32-bit numbers, each with its value above zero."""

    indices: tuple[int, ...]
    values: tuple[float, ...]

    def __bool__(self) -> bool:
        return bool(self.indices)


def fold(text: str) -> str:
    """Lower case without diacritics.

    >>> fold("Źródło")
    'zrodlo'
    """
    lower = text.lower()
    if lower.isascii():
        return lower
    taken_apart = unicodedata.normalize("NFKD", lower.translate(_UNDECOMPOSED))
    return "".join(letter for letter in taken_apart if not unicodedata.combining(letter))


@dataclass(frozen=True, slots=True)
class Word:
    """A word or an identifier: as it stands in the text, its parts, folded, and what is made of several of them."""

    text: str
    parts: tuple[str, ...]
    wholes: tuple[str, ...] = ()


def words(text: str) -> Iterator[Word]:
    """The words and identifiers of a text in order, stop words among them."""
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isalpha() and (word.islower() or word[1:].islower()):
            yield Word(word, (fold(word),))
            continue
        pieces = [piece for piece in _JOINTS.split(word) if piece]
        parts: list[str] = []
        wholes: list[str] = []
        for piece in pieces:
            found = _PARTS.findall(piece)
            parts += (fold(part) for part in found)
            if len(found) > 1:  # "imx8mm" is asked for as it stands
                wholes.append(fold(piece))
        if len(pieces) > 1:
            wholes.append(fold(word))
        if "." in word or "-" in word:
            # As it is written where no joint is allowed: i.MX8M and imx8m, OP-TEE and optee, user-space and userspace.
            joined = fold(word.replace(".", "").replace("-", ""))
            more = _PARTS.findall(joined)
            there = set(parts)
            parts += (part for part in dict.fromkeys(more) if part not in there)
            if len(more) > 1:
                wholes.append(joined)
        yield Word(word, tuple(parts), tuple(wholes))


def stem(part: str) -> str:
    """A part of a word as it is compared: letters are cut, numbers and mixtures are not."""
    return part[:STEM] if part.isalpha() else part


def terms(text: str) -> Iterator[str]:
    """The terms of a text, as often as they occur, without stop words."""
    for word in words(text):
        for part in word.parts:
            if part not in STOP_WORDS:
                yield stem(part)
        yield from word.wholes


def definition_term(name: str) -> str:
    """The term that says that something of this name is defined here."""
    return f"= {fold(name)}"


def passage_vector(texts: Iterable[str], defined: Iterable[str] = ()) -> TermVector:
    """The vector of a passage that consists of these texts (its own, and what it stands under).

    `defined` are the names of the definitions in it.
    """
    counts = Counter(term for text in texts for term in terms(text))
    counts.update({definition_term(word.text) for name in defined for word in words(name)})
    norm = SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * counts.total() / AVERAGE_TERMS)
    return vector({term: count * (SATURATION + 1) / (count + norm) for term, count in counts.items()})


def term_number(term: str) -> int:
    """What a term is called in a vector: one of 4e9 numbers.

    Among a million terms hardly one in ten thousand shares its number with another.
    """
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def vector(weights: Mapping[str, float]) -> TermVector:
    """Terms by their weights, which are above zero; of two terms with one number the weights are added."""
    numbered: dict[int, float] = {}
    for term, weight in weights.items():
        number = term_number(term)
        numbered[number] = numbered.get(number, 0.0) + weight
    return TermVector(tuple(numbered), tuple(numbered.values()))

# SPDX-License-Identifier: GPL-2.0-only
"""Two legs of a search made one ranking: meaning (vectors) and words (BM25).

    score = weight of the kind * cosine + lexical weight of the kind * BM25 / the best BM25 of this question
            + coverage weight of the kind * coverage - handicap of the kind

Scores are added and not places, so a lexical match counts as much as it is better than the others, and nothing when all
that was matched are words that stand everywhere. Both legs give candidates; what only one of them found gets its score
of the other by asking for just that chunk.

Coverage is how much of the question a chunk speaks of: of the words that any candidate has, itself or a translation,
the share that this one has (coordination level matching: Cleverdon, "Factors Determining the Performance of Indexing
Systems", 1966). BM25 alone prefers one rare word said often, and a word with six translations to one that has a single
one: a question about the clock divider of one chip went to the dividers of others.

Then each chunk is drawn towards the best one of its document: where that is the right place, the answer is often in the
chunk beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from bigos.embedders import Vectors
from bigos.lexical import TermVector
from bigos.stores import Store, StoreQuery
from bigos.types import Hit, Kind, Ranks

CANDIDATES = 64
"""Of each leg and kind at least; twice as many or half change no answer of 2,000."""
LEXICAL_WEIGHTS: Mapping[Kind, float] = {"document": 0.15, "code": 0.3}
"""Chosen on questions within and across languages. Code says what it does by its names; pages say it in sentences, and
there a larger weight pulls answers into the question's language."""
COVERAGE_WEIGHTS: Mapping[Kind, float] = {"document": 0.2, "code": 0.35}
"""Chosen together with the lexical weights, on the same questions."""
CODE_HANDICAP = 0.06
"""Taken off every score of code: what words give code beyond what they give documents had filled a quarter of the ten
best answers to questions about manuals with it. It changes no order within a kind, and costs code one file in a hundred
where both kinds are asked for."""
DOCUMENT_SHARE = 0.23
"""How far a chunk's score is drawn towards the best of its document."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for: a unit vector and terms, and where; `concepts` are `Lexicon.concepts`, for the coverage."""

    vector: Vectors
    terms: TermVector
    limit: int
    kinds: tuple[Kind, ...]
    paths: tuple[Path, ...] = ()
    concepts: tuple[frozenset[int], ...] = ()


@dataclass(slots=True)
class _Candidate:
    hit: Hit
    cosine: float | None = None
    dense: int | None = None
    bm25: float = 0.0
    lexical: int | None = None


def ranked(question: Question, store: Store, code_weight: float) -> list[Hit]:
    """The best chunks, best first. In `ranks`, `dense` and `lexical` are places in the legs of the hit's kind.

    Args:
        question: `limit` is how many are wanted.
        store: held open by the caller.
        code_weight: what scores of code are multiplied with, which vary less than those of documents.

    Raises what the store does.
    """
    found = [candidate for kind in question.kinds for candidate in _of_kind(question, store, kind)]
    best = max((candidate.bm25 for candidate in found), default=0.0)
    spoken = _spoken_of(question.concepts, found)
    # What no candidate has, a misspelling say, must not make the others count less.
    met = len(set().union(*spoken))
    scored: list[Hit] = []
    for candidate, concepts in zip(found, spoken, strict=True):
        if candidate.cosine is None:  # it went away between two questions to the store
            continue
        kind = candidate.hit.chunk.kind
        score = candidate.cosine * (code_weight if kind == "code" else 1.0)
        if best:
            score += LEXICAL_WEIGHTS[kind] * candidate.bm25 / best
        coverage = None
        if met:
            coverage = len(concepts) / met
            score += COVERAGE_WEIGHTS[kind] * coverage
        if kind == "code":
            score -= CODE_HANDICAP
        ranks = Ranks(
            dense=candidate.dense,
            dense_score=candidate.cosine,
            lexical=candidate.lexical,
            lexical_score=candidate.bm25 or None,
            coverage=coverage,
        )
        scored.append(replace(candidate.hit, score=score, ranks=ranks))
    scored = _drawn_together(scored)
    scored.sort(key=lambda hit: -hit.score)
    return [
        replace(hit, ranks=replace(hit.ranks, fused=rank)) for rank, hit in enumerate(scored[: question.limit], start=1)
    ]


def _spoken_of(concepts: Sequence[frozenset[int]], candidates: Iterable[_Candidate]) -> list[set[int]]:
    """Which of the concepts each candidate speaks of, by their places."""
    of_term: defaultdict[int, list[int]] = defaultdict(list)
    for place, concept in enumerate(concepts):
        for term in concept:
            of_term[term].append(place)
    return [
        set(chain.from_iterable(of_term[term] for term in candidate.hit.terms & of_term.keys()))
        for candidate in candidates
    ]


def _drawn_together(hits: Sequence[Hit]) -> list[Hit]:
    best: dict[str, float] = {}
    for hit in hits:
        best[hit.chunk.doc_id] = max(hit.score, best.get(hit.chunk.doc_id, hit.score))
    return [replace(hit, score=hit.score + DOCUMENT_SHARE * (best[hit.chunk.doc_id] - hit.score)) for hit in hits]


def _of_kind(question: Question, store: Store, kind: Kind) -> Iterable[_Candidate]:
    """The candidates of both legs, each with both scores."""
    most = max(CANDIDATES, question.limit)
    candidates: dict[str, _Candidate] = {}

    def ask(by: Vectors | TermVector, only: tuple[str, ...] | None = None) -> None:
        limit = most if only is None else len(only)
        for hit in store.search(StoreQuery(by, limit, kind, question.paths, only)):
            candidate = candidates.setdefault(hit.chunk_id, _Candidate(hit))
            # A place counts only in the leg as a whole.
            if isinstance(by, TermVector):
                candidate.bm25 = hit.score
                candidate.lexical = hit.ranks.lexical if only is None else None
            else:
                candidate.cosine = hit.score
                candidate.dense = hit.ranks.dense if only is None else None

    ask(question.vector)
    if question.terms:
        nearest = tuple(candidates)
        ask(question.terms)
        only_near = tuple(chunk_id for chunk_id in nearest if candidates[chunk_id].lexical is None)
        only_worded = tuple(candidates.keys() - set(nearest))
        if only_worded:
            ask(question.vector, only_worded)
        if only_near:
            ask(question.terms, only_near)
    return candidates.values()

# SPDX-License-Identifier: GPL-2.0-only
"""A real embedding model of the smallest kind: words hashed into a vector. Deterministic, quick, needs no file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from bigos.embedders import PassagesRejected, QueryRejected, TokenIds, Vectors, Window, checked
from bigos.embedders.calibration import Calibration, CalibrationSet, NeutralEmbedder, calibrate
from bigos.errors import EmbedderError

DIMENSION = 48
TEXTS = CalibrationSet(
    passages={
        "pl": ["Dzielnik zegara jest liczony raz.", "Kot śpi na dachu.", "Sieć nie odpowiada.", "Zupa jest za słona."],
        "en": ["The clock divider is computed once.", "A cat sleeps.", "The network is down.", "The soup is salty."],
        "code": ["int main(void)\n{\n\treturn 0;\n}\n", "def run():\n    pass\n", "static u32 div;"],
    },
    queries={"pl": ["jak liczony jest dzielnik", "gdzie śpi kot"], "en": ["how is the divider computed", "a cat"]},
)


class HashEmbedder:
    """An `Embedder`. Alike texts share words and so directions; no two texts have the same vector.

    With `breaks_after` it is a model whose server goes away: it raises EmbedderError from that many passages on.
    Texts that have `refuses` in them it cannot take, as some models cannot take some ordinary texts.
    """

    fingerprint = "words-hashed/48"
    dimension = DIMENSION
    max_tokens = 480
    window = Window(64, 8)
    code_window = Window(64, 8)
    gloss_shares: Mapping[str, float] = {"pl": 0.3}

    def __init__(self, breaks_after: int | None = None, refuses: str | None = None) -> None:
        self.passages: list[str] = []
        self.calls: list[int] = []
        self._breaks_after = breaks_after
        self.refuses = refuses

    def embed_passages(self, texts: Sequence[str], tokens: Sequence[TokenIds] | None = None) -> Vectors:
        if self._breaks_after is not None and len(self.passages) + len(texts) > self._breaks_after:
            raise EmbedderError("the model does not answer.", fix="bigos doctor")
        self.passages += texts
        self.calls.append(len(texts))
        rows = [_hashed(text) for text in texts]
        vectors = checked(np.stack(rows) if rows else np.empty((0, DIMENSION), np.float32), len(texts), DIMENSION)
        bad = [index for index, text in enumerate(texts) if self.refuses is not None and self.refuses in text]
        if bad:
            vectors[bad] = np.nan
            raise PassagesRejected(dict.fromkeys(bad, "the model gives NaN"), vectors)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        if self.refuses is not None and self.refuses in text:
            raise QueryRejected("the model gives NaN for this query.", fix="ask in other words")
        return _hashed(text)

    def close(self) -> None:
        pass


class LabelledEmbedder(NeutralEmbedder):
    """A NeutralEmbedder that remembers which label each passage came with."""

    def __init__(self, raw: HashEmbedder) -> None:
        super().__init__(raw, calibration())
        self.raw = raw
        self.labels: list[tuple[str, str | None]] = []

    def embed_passages(
        self, texts: Sequence[str], languages: Sequence[str | None], tokens: Sequence[TokenIds] | None = None
    ) -> Vectors:
        self.labels += zip(texts, languages, strict=True)
        assert tokens is None or len(tokens) == len(texts)
        return super().embed_passages(texts, languages, tokens)


@cache
def calibration() -> Calibration:
    return calibrate(HashEmbedder(), TEXTS)


def _hashed(text: str) -> Vectors:
    vector = 0.2 * _direction("\0" + text)
    for word in re.findall(r"\w+", text.lower()):
        vector += _direction(word)
    result: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return result


@cache
def _direction(word: str) -> Vectors:
    seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    result: Vectors = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return result

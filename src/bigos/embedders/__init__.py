# SPDX-License-Identifier: GPL-2.0-only
"""The port that every embedding model fits: texts in, unit vectors out.

An embedder knows nothing of chunks, languages or stores. What the pipeline and the search hold is a
`calibration.NeutralEmbedder`, which wraps any of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bigos.errors import EmbedderError

Vectors = NDArray[np.float32]
TokenIds = NDArray[np.int32]
"""A text's XLM-R token ids, shape (n,): <s> first and </s> last."""


@dataclass(frozen=True, slots=True)
class Window:
    """How long a passage this model likes: `tokens` a window, `overlap` of them shared with the window before."""

    tokens: int
    overlap: int


class PassagesRejected(Exception):
    """The model gives no vector for some of the texts, whatever is tried; the others are embedded.

    `reasons` has a sentence by index into the texts; `vectors`, shape (n, dimension), has not-a-number in those rows,
    so that no gate lets them through.
    """

    def __init__(self, reasons: Mapping[int, str], vectors: Vectors) -> None:
        super().__init__(f"{len(reasons)} of {len(vectors)} texts cannot be embedded")
        self.reasons = dict(reasons)
        self.vectors = vectors


class QueryRejected(EmbedderError):
    """The model gives no vector for this one query, whatever is tried."""


class Embedder(Protocol):
    """A sentence-embedding model."""

    @property
    def fingerprint(self) -> str:
        """Model, quantisation, dimension and prefixes: equal fingerprints give comparable vectors."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers a vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Content tokens that fit: prefix and special tokens are already subtracted."""
        ...

    @property
    def window(self) -> Window:
        """The passage length this model was measured to work best with, of prose."""
        ...

    @property
    def code_window(self) -> Window:
        """The same of source code, which says less a token."""
        ...

    @property
    def gloss_shares(self) -> Mapping[str, float]:
        """How much of a question's vector comes from its gloss (`lexicon.Gloss`), by the question's language.

        From 0 to 1, as was measured to be best for this model; a language that is missing has 0.
        """
        ...

    def embed_passages(self, texts: Sequence[str], tokens: Sequence[TokenIds] | None = None) -> Vectors:
        """Shape (len(texts), dimension), float32, rows of unit length and finite.

        `tokens` are the texts' token ids where the caller has them: whoever cut the texts has counted them already,
        and a process that needs no vocabulary saves its memory.

        Raises EmbedderError when a text is longer than `max_tokens` or the model gives an impossible vector, and
        PassagesRejected when it is only some of the texts that it cannot take.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Shape (dimension,), float32, unit length and finite. A query longer than the model takes is cut.

        Raises QueryRejected when the model cannot take this text, EmbedderError when it takes none.
        """
        ...

    def close(self) -> None:
        """Give back what the model holds."""
        ...


def checked(vectors: Vectors, count: int, dimension: int) -> Vectors:
    """The same vectors, when they are what an embedder owes: the one gate between a model and everything after it.

    Raises EmbedderError for a wrong shape, a number that is not finite, or a row that is not of unit length.
    """
    if vectors.shape != (count, dimension):
        raise EmbedderError(
            f"the model gave vectors of shape {vectors.shape} where {(count, dimension)} was due.", fix="bigos doctor"
        )
    if not np.isfinite(vectors).all():
        raise EmbedderError("the model gave a vector that is not finite.", fix="bigos doctor")
    norms = np.linalg.norm(vectors, axis=1)
    if count and float(np.abs(norms - 1).max()) > 1e-3:
        raise EmbedderError("the model gave a vector that is not of unit length.", fix="bigos doctor")
    return vectors

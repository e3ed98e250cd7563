# SPDX-License-Identifier: GPL-2.0-only
"""The port that every embedding model fits: texts in, unit vectors out.

An embedder knows nothing of chunks, languages or stores. What the pipeline and the search hold is a
`calibration.NeutralEmbedder`, which wraps any of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Window:
    """How long a passage this model likes: `tokens` a window, `overlap` of them shared with the window before."""

    tokens: int
    overlap: int


class Embedder(Protocol):
    """A sentence-embedding model."""

    fingerprint: str
    """Model, quantisation, dimension and prefixes: equal fingerprints give comparable vectors."""
    dimension: int
    max_tokens: int
    """Content tokens that fit: prefix and special tokens are already subtracted."""
    window: Window
    """The passage length this model was measured to work best with."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension), float32, rows of unit length and finite.

        Raises EmbedderError when a text is longer than `max_tokens` or the model gives an impossible vector.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Shape (dimension,), float32, unit length and finite. A query longer than the model takes is cut."""
        ...

    def close(self) -> None:
        """Give back what the model holds."""
        ...

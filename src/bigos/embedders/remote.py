# SPDX-License-Identifier: GPL-2.0-only
"""What every embedder behind HTTP does alike: counts tokens, refuses what is too long, and checks what comes back."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bigos.embedders import PassagesRejected, QueryRejected, TokenIds, Vectors, Window, checked
from bigos.embedders.batching import Answer, Batches
from bigos.embedders.service import Service
from bigos.errors import EmbedderError
from bigos.types import ServiceDescription

WINDOW = Window(tokens=512, overlap=64)
SPECIAL_TOKENS = 2
CUT_MARGIN = 8
"""A word that is cut in two may have more tokens than it had."""
BESIDE_WINDOW = 64
"""Tokens of a passage that are not its window's: special ones, title and headings."""


class Tokenizer(Protocol):
    """The part of the tokenizer that counts and cuts; see `bigos.tokenizer`."""

    def count(self, text: str) -> int:
        """Tokens in a text, without special ones."""
        ...

    def offsets(self, text: str) -> NDArray[np.int64]:
        """Shape (n, 2): each token's span of characters."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with the special ones."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """What a service's model is. `max_tokens` is what fits of a text, prefix and special tokens subtracted."""

    fingerprint: str
    dimension: int
    max_tokens: int


class RemoteEmbedder(ABC):
    """A model that a service runs. Nothing is asked before it is used; safe to share between threads."""

    def __init__(
        self,
        service: Service,
        tokenizer: Tokenizer,
        *,
        requests: int,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> None:
        self._service = service
        self._tokenizer = tokenizer
        self._query_prefix, self._document_prefix = query_prefix, document_prefix
        self._batches = Batches(service, self._send, requests=requests, on_truncation=self._truncated)
        self._identifying = threading.Lock()
        self._model: RemoteModel | None = None

    @abstractmethod
    def _identify(self) -> RemoteModel:
        """Ask what the model is. Raises EmbedderError."""

    @abstractmethod
    def _send(self, texts: Sequence[str]) -> Answer:
        """One request for vectors. Raises Trouble, Refusal or EmbedderError."""

    @abstractmethod
    def describe(self) -> ServiceDescription:
        """What the service and its model are. Raises EmbedderError when it does not answer."""

    @property
    def model(self) -> RemoteModel:
        """What the model is; asked once. Raises EmbedderError."""
        with self._identifying:
            if self._model is None:
                self._model = self._identify()
            return self._model

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`."""
        return self.model.fingerprint

    @property
    def dimension(self) -> int:
        """See `Embedder.dimension`."""
        return self.model.dimension

    @property
    def max_tokens(self) -> int:
        """See `Embedder.max_tokens`."""
        return self.model.max_tokens

    @property
    def window(self) -> Window:
        """The window that bge-m3 works well with, or less when the model takes less."""
        tokens = min(WINDOW.tokens, self.max_tokens)
        return Window(tokens, min(WINDOW.overlap, tokens // 8))

    @property
    def code_window(self) -> Window:
        """The same: a window of this length holds a function."""
        return self.window

    @property
    def gloss_shares(self) -> Mapping[str, float]:
        """None: it was not measured for the models that a service may have, and would cost a second call."""
        return {}

    def embed_passages(self, texts: Sequence[str], tokens: Sequence[TokenIds] | None = None) -> Vectors:
        """Unit vectors of passages, shape (len(texts), dimension).

        Raises EmbedderError for a text over `max_tokens` and for a service that fails, PassagesRejected for texts that
        it fails for alone.
        """
        rows = tokens if tokens is not None else self._tokenizer.encode_batch(texts)
        counts = [len(ids) - SPECIAL_TOKENS for ids in rows]
        for index, count in enumerate(counts):
            if count > self.max_tokens:
                raise EmbedderError(
                    f"passage {index} of a batch has {count} tokens and the model takes {self.max_tokens}; "
                    "embedding it would drop its end without a word.",
                    fix="make chunk_tokens smaller in config.toml",
                )
        if not counts:
            return np.empty((0, self.dimension), np.float32)
        prefix = self._document_prefix
        extra = self._prefix_tokens(prefix)
        vectors, reasons = self._batches.embed(
            [prefix + text for text in texts], [count + extra for count in counts], self.dimension, whole=True
        )
        if reasons:
            raise PassagesRejected(reasons, vectors)
        return checked(vectors, len(texts), self.dimension)

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a query, shape (dimension,). A query longer than the model takes loses its end.

        Raises QueryRejected when the service fails for this text alone, EmbedderError when it fails for any.
        """
        count = self._tokenizer.count(text)
        if count > self.max_tokens:
            count = max(1, self.max_tokens - CUT_MARGIN)
            text = text[: self._tokenizer.offsets(text)[count - 1][1]]
        prefix = self._query_prefix
        # Not checked for truncation: a question that long loses its end anyway.
        vectors, reasons = self._batches.embed(
            [prefix + text], [count + self._prefix_tokens(prefix)], self.dimension, whole=False
        )
        if reasons:
            raise QueryRejected(f"the question cannot be embedded: {reasons[0]}.", fix="ask in other words")
        vector: Vectors = checked(vectors, 1, self.dimension)[0]
        return vector

    def warm_up(self) -> None:
        """Have the service load the model. Raises EmbedderError when it cannot."""
        self.embed_query("zegar")

    def close(self) -> None:
        """Close the connections. The service keeps the model; using the embedder again opens new ones."""
        self._service.close()

    def _prefix_tokens(self, prefix: str) -> int:
        return self._tokenizer.count(prefix) if prefix else 0

    def _truncated(self, read: int, tokens: int) -> EmbedderError:
        fits = (read - BESIDE_WINDOW) // 8 * 8
        return EmbedderError(
            f"{self._service.label} reads only {read} tokens of a text of {tokens} and drops the rest without a word.",
            fix=f"set chunk_tokens = {fits} in config.toml" if fits >= BESIDE_WINDOW else "use a model that reads more",
        )

    def _rows(self, rows: Any, count: int, dimension: int | None) -> Vectors:
        """An answer's vectors as shape (count, dimension); what is null, in whole or in part, is not-a-number there.

        Raises EmbedderError when there are more or fewer than texts, or of another length.
        """
        if not isinstance(rows, list) or len(rows) != count:
            got = len(rows) if isinstance(rows, list) else "no"
            raise EmbedderError(f"{self._service.label} gave {got} vectors for {count} texts.", fix=self._service.logs)
        vectors = [_row(row) for row in rows]
        lengths = {len(row) for row in vectors if row is not None}
        width = dimension or max(lengths, default=0)
        if not width:
            raise EmbedderError(f"{self._service.label} gave vectors without numbers.", fix=self._service.logs)
        for length in lengths - {width}:
            raise EmbedderError(
                f"{self._service.label} gave a vector of {length} numbers where {width} were due.", fix="bigos doctor"
            )
        result: Vectors = np.stack([np.full(width, np.nan, np.float32) if row is None else row for row in vectors])
        return result


def _row(row: Any) -> Vectors | None:
    """A vector of JSON numbers, or one already decoded; None when it is none."""
    try:
        with np.errstate(over="ignore"):
            vector: Vectors = np.asarray(row, np.float32)
    except (TypeError, ValueError, OverflowError):
        return None
    return vector if vector.ndim == 1 and len(vector) else None

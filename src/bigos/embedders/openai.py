# SPDX-License-Identifier: GPL-2.0-only
"""The embedder behind an OpenAI-compatible service: llama.cpp's server, LM Studio, vLLM, TEI, Infinity.

They agree on `POST /embeddings` and differ in the rest: base64 is refused, ignored or honoured; vectors come
normalised or not; too much is 400, 413, 422 or 500; `usage` counts tokens, or something else, or nothing. What is
common is used, what differs is checked.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bigos.embedders.batching import CONTROL, Answer
from bigos.embedders.remote import SPECIAL_TOKENS, RemoteEmbedder, RemoteModel, Tokenizer
from bigos.embedders.service import Refusal, Service
from bigos.errors import ConfigError, EmbedderError
from bigos.types import ServiceDescription

FILLED = 0.88
"""The share of the model's tokens that is used by our count: its own tokenizer is seldom XLM-R's, and splits some texts
into more."""
LEAST_TOKENS = 64


class OpenAIEmbedder(RemoteEmbedder):
    """A model behind `/embeddings`."""

    def __init__(
        self,
        url: str,
        model: str,
        tokenizer: Tokenizer,
        *,
        api_key: str | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        max_tokens: int = 512,
        requests: int = 2,
        timeout: float = 120.0,
        load_timeout: float = 600.0,
        patience: float = 60.0,
    ) -> None:
        """Nothing is asked yet; see `Service` for the times, in seconds.

        Args:
            url: the base, which mostly ends in /v1.
            model: the service's name for it.
            tokenizer: counts tokens in place of the model's own.
            api_key: sent as a bearer token.
            query_prefix, document_prefix: what the model wants before a query and a passage.
            max_tokens: what it takes, special tokens included.
            requests: how many may be under way at once.
            timeout, load_timeout, patience: see `Service`.

        Raises ConfigError for settings that cannot work.
        """
        service = Service(
            "the embedding service",
            url,
            start="start the server that openai_url in config.toml names",
            logs="read the embedding server's log",
            probe="/models",
            key_setting="set openai_api_key_env in config.toml to the variable that holds the key",
            api_key=api_key,
            timeout=timeout,
            load_timeout=load_timeout,
            patience=patience,
            connections=requests,
        )
        super().__init__(
            service, tokenizer, requests=requests, query_prefix=query_prefix, document_prefix=document_prefix
        )
        if not model:
            raise ConfigError("openai_model in config.toml is not set.", fix=f"{service.inspect}, which names it")
        prefix = max(self._prefix_tokens(query_prefix), self._prefix_tokens(document_prefix))
        self._name = model
        self._fits = math.floor(FILLED * max_tokens) - SPECIAL_TOKENS - prefix
        if self._fits < LEAST_TOKENS:
            raise ConfigError(
                f"openai_max_tokens = {max_tokens} leaves {self._fits} tokens for a text; {LEAST_TOKENS} are needed.",
                fix="correct openai_max_tokens in config.toml",
            )
        self._prefixes = hashlib.sha256(f"{query_prefix}\0{document_prefix}".encode()).hexdigest()[:12]
        self._encoding = "base64"
        self._dimension: int | None = None

    def describe(self) -> ServiceDescription:
        """Address, model and dimension. Raises EmbedderError."""
        self.warm_up()
        return ServiceDescription(
            f"{self._service.label}, {self._name}, {self.dimension} dimensions, {self.max_tokens} tokens"
        )

    def _identify(self) -> RemoteModel:
        """The dimension is not told anywhere, so a word is embedded."""
        try:
            vectors = self._batches.patiently([CONTROL]).vectors
        except Refusal as refusal:
            raise EmbedderError(
                f"{self._service.label} answers {refusal.status} ({refusal.words or 'without a word'}) to a request "
                f"for a vector of {self._name}.",
                fix=self._service.logs,
            ) from refusal
        self._dimension = vectors.shape[1]
        return RemoteModel(f"openai/{self._name}/{self._dimension}/{self._prefixes}", self._dimension, self._fits)

    def _send(self, texts: Sequence[str]) -> Answer:
        try:
            answer = self._request(texts)
        except Refusal as refusal:
            if "ooling" in refusal.words:
                raise EmbedderError(
                    f"{self._service.label} does not pool the tokens' vectors into one ({refusal.words}).",
                    fix="start llama-server with --pooling cls, or mean, as the model wants",
                ) from refusal
            if refusal.status == 404:
                raise EmbedderError(
                    f"{self._service.label} answers 404 ({refusal.words or 'no /embeddings below that address'}) to a "
                    f"request for a vector of {self._name}.",
                    fix=self._service.inspect,
                ) from refusal
            raise
        usage = answer.get("usage")
        read = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        rows = self._in_order(answer.get("data"), len(texts))
        return Answer(self._rows(rows, len(texts), self._dimension), read if isinstance(read, int) else None)

    def _request(self, texts: Sequence[str]) -> dict[str, Any]:
        """A request in base64, a third of the bytes; in numbers with a service that will not have it."""
        encoding = self._encoding
        payload = {"model": self._name, "input": list(texts), "encoding_format": encoding}
        try:
            return self._service.once("POST", "/embeddings", payload, loads_model=True)
        except Refusal as refusal:
            if encoding == "float" or refusal.status not in (400, 415, 422, 501):
                raise
            answer = self._service.once("POST", "/embeddings", payload | {"encoding_format": "float"}, loads_model=True)
            # Only now: the refusal may have been about the texts.
            self._encoding = "float"
            return answer

    def _truncated(self, read: int, tokens: int) -> EmbedderError:
        # Not chunk_tokens: the calibration texts have to fit as well.
        error = super()._truncated(read, tokens)
        return EmbedderError(error.message, fix=f"set openai_max_tokens = {read} in config.toml")

    def _in_order(self, data: Any, count: int) -> list[Any]:
        """The embeddings by their `index`, decoded. Raises EmbedderError when an index is missing or doubled."""
        items = data if isinstance(data, list) else []
        rows: dict[int, Any] = {}
        for position, item in enumerate(items):
            if isinstance(item, dict) and isinstance(index := item.get("index", position), int):
                rows[index] = _decoded(item.get("embedding"))
        if len(items) != count or sorted(rows) != list(range(count)):
            raise EmbedderError(
                f"{self._service.label} gave {len(items)} vectors, of {len(rows)} different texts, for {count} texts.",
                fix=self._service.logs,
            )
        return [rows[index] for index in range(count)]


def _decoded(embedding: Any) -> Any:
    """Base64 of little-endian float32 as numbers; anything else as it is."""
    if not isinstance(embedding, str):
        return embedding
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    except (binascii.Error, ValueError):
        return None

# SPDX-License-Identifier: GPL-2.0-only
"""The embedder behind Ollama (https://docs.ollama.com/api), made for bge-m3 (Chen et al., 2024, arXiv 2402.03216).

Written against /api/embed as of 0.3 to 0.34. Versions differ: some answer HTTP 500 and newer ones 400 when the model
gives NaN (ollama#13572), some ignore `truncate` and others cut at 2,048 tokens without a word (ollama#14259). So tokens
are counted here, before and after.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from bigos.embedders.batching import Answer
from bigos.embedders.remote import SPECIAL_TOKENS, RemoteEmbedder, RemoteModel, Tokenizer
from bigos.embedders.service import Refusal, Service, is_loopback
from bigos.errors import ConfigError, EmbedderError
from bigos.types import ServiceDescription

KEEP_LOADED = -1
DIGEST_DIGITS = 16
SAME_SECONDS = 60.0
"""How long a name is taken to be the same model without a look."""


class OllamaEmbedder(RemoteEmbedder):
    """A model in Ollama. Queries and passages are embedded alike, as bge-m3 wants it."""

    def __init__(
        self,
        url: str,
        model: str,
        tokenizer: Tokenizer,
        *,
        requests: int = 2,
        timeout: float = 120.0,
        load_timeout: float = 600.0,
        patience: float = 60.0,
    ) -> None:
        """Nothing is asked yet; see `Service` for the times, in seconds. Raises ConfigError without a model's name."""
        if not model:
            raise ConfigError("ollama_model is empty.", fix='ollama_model = "bge-m3" in config.toml')
        here, host = is_loopback(url), urlsplit(url).hostname
        service = Service(
            "Ollama",
            url,
            start="systemctl start ollama" if here else f"start Ollama on {host}",
            logs="journalctl -u ollama -n 50" if here else f"read Ollama's log on {host}",
            probe="/api/version",
            key_setting="correct ollama_url in config.toml",
            timeout=timeout,
            load_timeout=load_timeout,
            patience=patience,
            connections=requests,
        )
        super().__init__(service, tokenizer, requests=requests)
        self._name = model
        self._outages = 0
        """The outages after which the model is known to be the same."""
        self._checked = time.monotonic()

    def describe(self) -> ServiceDescription:
        """Version, model, digest, and whether the model is loaded, and on the GPU. Raises EmbedderError."""
        version = str(self._ask("GET", "/api/version").get("version", "of unknown version"))
        digest = self._digest(self._ask("GET", "/api/tags"))
        model = self.model
        text = f"Ollama {version}, {self._name} {digest[:12]}, {model.dimension} dimensions, {model.max_tokens} tokens"
        loaded = self._entry(self._ask("GET", "/api/ps"))
        if loaded is None:
            return ServiceDescription(f"{text}, not loaded")
        size, on_gpu = (int(loaded.get(key) or 0) for key in ("size", "size_vram"))
        if size and on_gpu >= size:
            return ServiceDescription(f"{text}, on the GPU ({on_gpu / 1e6:,.0f} MB)")
        where = f"{100 * on_gpu // size} % on the GPU" if size and on_gpu else "on the CPU"
        return ServiceDescription(text, f"the model is {where}, which is slow", "nvidia-smi")

    def _identify(self) -> RemoteModel:
        digest = self._digest(self._ask("GET", "/api/tags"))
        shown = self._ask("POST", "/api/show", {"model": self._name})
        info = shown.get("model_info")
        facts: Mapping[str, Any] = info if isinstance(info, dict) else {}
        family = facts.get("general.architecture", "")
        dimension, context = (facts.get(f"{family}.{key}") for key in ("embedding_length", "context_length"))
        if not isinstance(dimension, int) or not isinstance(context, int) or dimension < 1:
            raise EmbedderError(
                f"{self._service.label} does not say how long {self._name}'s vectors and texts are.",
                fix=f"ollama show {self._name}",
            )
        # What the model was made to be run with, where that is less than what it was trained for.
        configured = re.search(r"^num_ctx\s+(\d+)", str(shown.get("parameters") or ""), re.MULTILINE)
        if configured:
            context = min(context, int(configured[1]))
        # The digest tells models apart; another tag or registry for the same one must not rebuild an index.
        name = self._name.rsplit("/", 1)[-1].partition(":")[0].lower()
        fingerprint = f"ollama/{name}/{digest[:DIGEST_DIGITS]}/{dimension}"
        return RemoteModel(fingerprint, dimension, max(1, context - SPECIAL_TOKENS))

    def _send(self, texts: Sequence[str]) -> Answer:
        self._check_same()
        try:
            answer = self._service.once(
                "POST",
                "/api/embed",
                {"model": self._name, "input": list(texts), "truncate": False, "keep_alive": KEEP_LOADED},
                loads_model=True,
            )
        except Refusal as refusal:
            if refusal.status == 404:
                raise self._not_there("/api/embed", refusal) from refusal
            raise
        read = answer.get("prompt_eval_count")
        vectors = self._rows(answer.get("embeddings"), len(texts), self.dimension)
        return Answer(vectors, read if isinstance(read, int) else None)

    def _check_same(self) -> None:
        """What comes back after an outage may have another model under the same name; and so may a pull leave one."""
        outages = self._service.outages
        if outages != self._outages or time.monotonic() - self._checked > SAME_SECONDS:
            digest = self._digest(self._service.once("GET", "/api/tags"))
            if f"/{digest[:DIGEST_DIGITS]}/" not in self.fingerprint:
                raise EmbedderError(
                    f"{self._service.label} has another model under the name {self._name} than before.",
                    fix="bigos doctor",
                )
            self._outages, self._checked = outages, time.monotonic()

    def _ask(self, method: str, path: str, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            return self._service.ask(method, path, payload)
        except Refusal as refusal:
            if refusal.status == 404:
                raise self._not_there(path, refusal) from refusal
            raise EmbedderError(
                f"{self._service.label} answers {refusal.status} to {path} ({refusal.words}).", fix=self._service.logs
            ) from refusal

    def _digest(self, tags: Mapping[str, Any]) -> str:
        entry = self._entry(tags)
        digest = str((entry or {}).get("digest") or "").removeprefix("sha256:")
        if not digest:
            raise self._missing()
        return digest

    def _entry(self, listing: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Our model's entry in a list of models, whose names have a tag."""
        models = listing.get("models")
        wanted = self._name if ":" in self._name.rsplit("/", 1)[-1] else f"{self._name}:latest"
        for entry in models if isinstance(models, list) else ():
            if isinstance(entry, dict) and wanted.lower() in (
                str(entry.get(key, "")).lower() for key in ("name", "model")
            ):
                return entry
        return None

    def _not_there(self, path: str, refusal: Refusal) -> EmbedderError:
        if "model" in refusal.words:
            return self._missing()
        return self._service.is_another(f"does not know {path}, as every Ollama does since 0.3")

    def _missing(self) -> EmbedderError:
        return EmbedderError(f"{self._service.label} has no model {self._name}.", fix=f"ollama pull {self._name}")

# SPDX-License-Identifier: GPL-2.0-only
"""The embedding service that the configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bigos.config import Config

if TYPE_CHECKING:
    from bigos.embedders.ollama import OllamaEmbedder
    from bigos.embedders.openai import OpenAIEmbedder
    from bigos.embedders.remote import Tokenizer


def configured(config: Config, tokenizer: Tokenizer, patience: float) -> OllamaEmbedder | OpenAIEmbedder:
    """The model behind HTTP, which is given up when it is away for `patience` seconds. Nothing is asked of it yet.

    Raises ConfigError.
    """
    if config.embedder == "ollama":
        from bigos.embedders.ollama import OllamaEmbedder

        return OllamaEmbedder(
            config.ollama_url,
            config.ollama_model,
            tokenizer,
            requests=config.embed_requests,
            timeout=config.embed_timeout,
            load_timeout=config.embed_load_timeout,
            patience=patience,
        )
    from bigos.embedders.openai import OpenAIEmbedder

    return OpenAIEmbedder(
        config.openai_url,
        config.openai_model,
        tokenizer,
        api_key=config.openai_api_key,
        query_prefix=config.openai_query_prefix,
        document_prefix=config.openai_document_prefix,
        max_tokens=config.openai_max_tokens,
        requests=config.embed_requests,
        timeout=config.embed_timeout,
        load_timeout=config.embed_load_timeout,
        patience=patience,
    )

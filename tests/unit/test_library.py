# SPDX-License-Identifier: GPL-2.0-only
"""The parts put together: which windows a configuration and a model give."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pytest

from bigos.config import LEAST_CHUNK_TOKENS, load_config
from bigos.embedders import Window
from bigos.errors import EmbedderError
from bigos.fingerprint import HEADER_TOKENS
from bigos.library import Library
from hash_embedder import HashEmbedder


def library(home: Path, most: int, **flags: object) -> Library:
    """Over a service whose model takes `most` tokens."""

    class Small(HashEmbedder):
        max_tokens = most
        window = code_window = Window(min(64, most), min(64, most) // 8)

    class SmallLibrary(Library):
        @cached_property
        def raw_embedder(self) -> HashEmbedder:
            return Small()

    return SmallLibrary(load_config({"HOME": str(home)}, {"embedder": "ollama", **flags}))


def test_a_window_leaves_room_for_title_and_headings_whatever_is_configured(tmp_path: Path) -> None:
    assert library(tmp_path, 480, chunk_tokens=100_000).window == Window(
        480 - HEADER_TOKENS, (480 - HEADER_TOKENS) // 8
    )
    least = library(tmp_path, HEADER_TOKENS + LEAST_CHUNK_TOKENS)
    assert least.window.tokens == least.code_window.tokens == LEAST_CHUNK_TOKENS


def test_a_model_that_takes_too_little_for_any_chunk_is_told_and_not_the_files(tmp_path: Path) -> None:
    small = library(tmp_path, HEADER_TOKENS + LEAST_CHUNK_TOKENS - 1)
    for look in (lambda: small.window, lambda: small.code_window, lambda: small.fingerprint):
        with pytest.raises(EmbedderError, match=r"takes 55 tokens, and 56 are needed") as caught:
            look()
        assert caught.value.fix

# SPDX-License-Identifier: GPL-2.0-only
"""The models' vocabulary, loaded once a process, and a double's way to count with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bigos.tokenizer import Tokenizer

TOKENIZER = Path(__file__).parents[1] / "models" / "tokenizer" / "bge-m3-tokenizer.json"


@cache
def tokenizer() -> Tokenizer:
    """The vocabulary of this checkout."""
    return Tokenizer.load(TOKENIZER)


def spans(text: str) -> list[list[int]]:
    """Where the text's tokens are, for a double of a service whose model has this vocabulary."""
    found: list[list[int]] = tokenizer().offsets(text).tolist()
    return found

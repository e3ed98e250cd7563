# SPDX-License-Identifier: GPL-2.0-only
"""What a collection was made with, in one text: model, language means, windows, schema."""

from __future__ import annotations

import re

from bigos.config import LEAST_CHUNK_TOKENS, Config
from bigos.embedders import Window
from bigos.errors import EmbedderError
from bigos.stores.points import SCHEMA_VERSION

HEADER_TOKENS = 48
"""Room in a passage for the document's title and headings, beside the window (see passages.py)."""


def window(config: Config, own: Window, most: int) -> Window:
    """Tokens a chunk and tokens shared: the configuration's, else the model's `own`, never more than it takes (`most`).

    Raises EmbedderError when it takes too few for any chunk.
    """
    room = most - HEADER_TOKENS
    if room < LEAST_CHUNK_TOKENS:
        raise EmbedderError(
            f"the model takes {most} tokens, and {HEADER_TOKENS + LEAST_CHUNK_TOKENS} are needed for a chunk with its "
            "title and headings.",
            fix="use a model that reads more",
        )
    tokens = min(config.chunk_tokens or own.tokens, room)
    overlap = config.chunk_overlap
    if overlap is None:
        overlap = own.overlap if config.chunk_tokens is None else tokens // 8
    return Window(tokens, min(overlap, tokens // 2))


def compose(embedder: str, window: Window, code_window: Window) -> str:
    """The fingerprint of a collection with these windows, whose model has this one."""
    prose, code = (f"{one.tokens}-{one.overlap}" for one in (window, code_window))
    return f"{embedder}/window-{prose}/code-{code}/schema-{SCHEMA_VERSION}"


def windows(fingerprint: str) -> tuple[Window, Window] | None:
    """The windows of text and of code in a fingerprint that `compose` made; None for any other."""
    found = re.search(r"/window-(\d+)-(\d+)/code-(\d+)-(\d+)/schema-\d+$", fingerprint)
    if found is None:
        return None
    prose, prose_overlap, code, code_overlap = map(int, found.groups())
    return Window(prose, prose_overlap), Window(code, code_overlap)


def same_model(fingerprint: str, other: str) -> bool:
    """Whether two collections differ at most in their windows: a question to one can be asked of the other."""
    one, two = (re.sub(r"/window-\d+-\d+/code-\d+-\d+(?=/schema-\d+$)", "", each) for each in (fingerprint, other))
    return one == two

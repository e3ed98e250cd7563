# SPDX-License-Identifier: GPL-2.0-only
"""XLM-R tokens with character offsets; bge-m3 and multilingual-e5 share this vocabulary.

The vocabulary splits text at white space before it looks at anything else (SentencePiece's Unigram model, Kudo 2018,
behind a white-space split). So a cut beside ASCII white space changes no token on either side, which is what lets a
long text be tokenised piece by piece and a slice of it be counted without tokenising it again.

`encode` and `encode_batch_fast` of the `tokenizers` package differ in one more way: only the batch uses its thread
pool. Counting and offsets stay on the calling thread, so that worker processes (one a core already) neither start
threads of their own nor fork with any running.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bigos.errors import EmbedderError

if TYPE_CHECKING:
    import tokenizers

Offsets = NDArray[np.int64]
"""Shape (n, 2): the half-open character span of each token in the original text."""

PIECE_CHARS = 16_384
"""Characters tokenised at once; one Encoding of a 50 MB text would take gigabytes."""

# Only white space that the normaliser makes a plain space: it deletes some (U+001C) that str.isspace() counts.
_CUT_CHARS = " \t\n\r"
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_COMBINING = 0x300
_SPACES = np.array([c for c in range(0x3001) if chr(c).isspace()], dtype=np.uint32)


class Tokenizer:
    """XLM-R subword tokens of a text. Safe to share between threads.

    The vocabulary takes 300 MB and half a second; all that are made of one file in a process share it.
    """

    def __init__(self, backend: Callable[[], tokenizers.Tokenizer]) -> None:
        self._backend = backend

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """The tokenizer in a `tokenizers` JSON file.

        Raises EmbedderError when the file is missing, unreadable or damaged.
        """
        tokenizer = cls.at(path)
        tokenizer._backend()
        return tokenizer

    @classmethod
    def at(cls, path: Path) -> Tokenizer:
        """As `load`, but the file is read, and EmbedderError raised, when the first text comes."""
        return cls(lambda: _opened(path))

    def count(self, text: str) -> int:
        """Tokens in `text`, without special tokens."""
        return sum(len(self._encode(text[begin:end])) for begin, end in _pieces(text))

    def offsets(self, text: str) -> Offsets:
        """Shape (n, 2), int64: where each token lies in `text`, in characters. See `iter_offsets`."""
        parts = list(self.iter_offsets(text))
        return np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.int64)

    def iter_offsets(self, text: str) -> Iterator[Offsets]:
        """The offsets of `text`'s tokens, a piece of at most PIECE_CHARS characters at a time.

        Neither column ever decreases; several tokens may share a span (a ligature that stands for two words). No span
        begins or ends with white space or cuts a letter from its combining marks.
        """
        for begin, end in _pieces(text):
            piece = text[begin:end]
            spans = np.array(self._encode(piece).offsets, dtype=np.int64).reshape(-1, 2)
            if len(spans):
                yield _aligned(spans, piece) + begin

    def separable(self, text: str, position: int) -> bool:
        """True when cutting `text` at `position` changes no token: the two sides tokenise as they do together."""
        if position <= 0 or position >= len(text):
            return True
        return text[position - 1] in _CUT_CHARS or text[position] in _CUT_CHARS

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text with <s> first and </s> last, as an embedder feeds them; nothing is truncated."""
        encodings = self._backend().encode_batch_fast([_encodable(text) for text in texts])
        return [encoding.ids for encoding in encodings]

    def _encode(self, piece: str) -> tokenizers.Encoding:
        return self._backend().encode(_encodable(piece), add_special_tokens=False)


_loading = threading.Lock()


def _opened(path: Path) -> tokenizers.Tokenizer:
    with _loading:  # the cache alone would let two threads load it at once
        return _backend(path)


@lru_cache(maxsize=1)
def _backend(path: Path) -> tokenizers.Tokenizer:
    import tokenizers

    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception for everything
        try:
            what = "is damaged" if path.is_file() else "is missing"
        except OSError as denied:
            what = f"cannot be read: {denied.strerror}"
        raise EmbedderError(f"The tokenizer file {path} {what}.", fix="./setup.sh") from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def _encodable(text: str) -> str:
    # A lone surrogate is no Unicode character and the backend refuses it; U+FFFD keeps every offset where it was.
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Consecutive spans of `text`, cut at white space where a piece has any."""
    begin, size = 0, len(text)
    while size - begin > PIECE_CHARS:
        cut = max(text.rfind(char, begin + 1, begin + PIECE_CHARS) for char in _CUT_CHARS)
        end = cut if cut > 0 else begin + PIECE_CHARS
        yield begin, end
        begin = end
    if begin < size:
        yield begin, size


def _aligned(spans: Offsets, piece: str) -> Offsets:
    """Trim white space at the front of spans and take in combining marks that the normaliser composed into a token.

    After NFKC the backend reports a composed letter as its base character alone, so the marks would belong to no token.
    """
    if piece.isascii():
        return spans
    codes = np.frombuffer(piece.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    index = np.arange(len(codes) + 1, dtype=np.int64)
    starts = np.minimum(_next_outside(np.isin(codes, _SPACES), index)[spans[:, 0]], spans[:, 1])
    ends = spans[:, 1]
    if codes.max() >= _FIRST_COMBINING:
        ends = _next_outside(_combining(codes), index)[ends]
    return np.maximum.accumulate(np.stack([starts, ends], axis=1), axis=0)


def _next_outside(inside: NDArray[np.bool_], index: Offsets) -> Offsets:
    """For each position the first one at or after it that is not `inside`."""
    marked = np.where(np.append(inside, False), len(inside), index)
    return np.minimum.accumulate(marked[::-1])[::-1]


def _combining(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    candidates = np.unique(codes[codes >= _FIRST_COMBINING])
    marks = [code for code in candidates.tolist() if unicodedata.category(chr(code)).startswith("M")]
    return np.isin(codes, marks)

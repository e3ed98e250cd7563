# SPDX-License-Identifier: GPL-2.0-only
"""What every embedder does, written against the port. A further embedder is one more line in FACTORIES."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bigos.embedders import Embedder, Vectors
from bigos.embedders.onnx import MODEL_NAME, OnnxEmbedder
from bigos.errors import EmbedderError
from bigos.tokenizer import Tokenizer

MODELS = Path(__file__).resolve().parents[2] / "models"
TEXTS = [
    "The divider is the peripheral clock over the rate that the slave allows.",
    "Dzielnik to zegar układu podzielony przez szybkość, na którą zgadza się urządzenie.",
    "static int clkdiv(unsigned long in, unsigned long out)\n{\n\treturn DIV_ROUND_UP(in, out);\n}\n",
    "x",
    "zażółć gęślą jaźń " * 40,
    "\ufeff\u200b  \t\n",
    "🍲 bigos 日本語 العربية </s> <pad>",
]


def onnx(threads: int | None = None) -> Embedder:
    return OnnxEmbedder(MODELS / MODEL_NAME, Tokenizer.load(MODELS / "tokenizer" / "bge-m3-tokenizer.json"), threads)


FACTORIES: dict[str, Callable[[], Embedder]] = {"onnx": onnx}


@pytest.fixture(scope="module", params=FACTORIES)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    made: Embedder = FACTORIES[request.param]()
    return made


@pytest.fixture(scope="module")
def vectors(embedder: Embedder) -> Vectors:
    return embedder.embed_passages(TEXTS)


def test_vectors_are_unit_finite_float32_one_a_text(embedder: Embedder, vectors: Vectors) -> None:
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert embedder.embed_passages([]).shape == (0, embedder.dimension)


def test_the_same_texts_give_the_same_vectors(embedder: Embedder, vectors: Vectors) -> None:
    assert np.array_equal(embedder.embed_passages(TEXTS), vectors)


def test_a_text_means_the_same_alone_and_among_others_in_any_order(embedder: Embedder, vectors: Vectors) -> None:
    alone = np.concatenate([embedder.embed_passages([text]) for text in TEXTS])
    backwards = embedder.embed_passages(TEXTS[::-1])[::-1]
    assert (np.sum(alone * vectors, axis=1) > 0.98).all()
    assert (np.sum(backwards * vectors, axis=1) > 0.98).all()


def test_meaning_is_near_its_translation(embedder: Embedder, vectors: Vectors) -> None:
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[4]
    assert embedder.embed_query("dzielnik zegara") @ vectors[0] > embedder.embed_query("dzielnik zegara") @ vectors[6]


def test_a_query_is_not_embedded_as_a_passage(embedder: Embedder) -> None:
    text = "battery protection"
    assert embedder.embed_query(text) @ embedder.embed_passages([text])[0] < 0.9999


def test_a_passage_of_max_tokens_fits_and_one_more_is_refused(embedder: Embedder) -> None:
    word = " a"
    fits = (word * embedder.max_tokens).strip()
    embedder.embed_passages([fits])
    with pytest.raises(EmbedderError, match="tokens"):
        embedder.embed_passages(["short", fits + word])


def test_a_long_query_loses_its_end_and_not_the_search(embedder: Embedder) -> None:
    vector = embedder.embed_query("how is the clock divided " * 500)
    assert vector.shape == (embedder.dimension,)
    assert vector @ embedder.embed_query("how is the clock divided " * 10) > 0.8


def test_threads_share_one_embedder(embedder: Embedder, vectors: Vectors) -> None:
    results: list[Vectors] = []
    threads = [threading.Thread(target=lambda: results.append(embedder.embed_passages(TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 4
    assert all(np.array_equal(result, vectors) for result in results)


def test_the_fingerprint_names_the_model(embedder: Embedder) -> None:
    assert str(embedder.dimension) in embedder.fingerprint
    for window in (embedder.window, embedder.code_window):
        assert window.tokens <= embedder.max_tokens
        assert window.overlap < window.tokens


def test_it_works_again_after_close(embedder: Embedder, vectors: Vectors) -> None:
    embedder.close()
    assert np.array_equal(embedder.embed_passages(TEXTS), vectors)

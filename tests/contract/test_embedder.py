# SPDX-License-Identifier: GPL-2.0-only
"""What every embedder does, written against the port. A further embedder is one more line in FACTORIES.

Those behind HTTP run against the double, and against a real server when BIGOS_TEST_OLLAMA_URL (and _MODEL, by default
bge-m3) or BIGOS_TEST_OPENAI_URL and BIGOS_TEST_OPENAI_MODEL (and _KEY) say where one is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bigos.embedders import Embedder, Vectors
from bigos.embedders.ollama import OllamaEmbedder
from bigos.embedders.onnx import MODEL_NAME, PASSAGE_IDS, QUERY_IDS, OnnxEmbedder
from bigos.embedders.openai import OpenAIEmbedder
from bigos.errors import EmbedderError
from bigos.tokenizer import Tokenizer
from doubles.embedding_server import EmbeddingServer, Model
from processes import PATIENCE
from vocabulary import spans, tokenizer

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


@dataclass(frozen=True)
class Factory:
    """How to get an embedder, and which of the behaviours its model has."""

    make: Callable[[], AbstractContextManager[Embedder]]
    bilingual: bool = True
    """It has learnt that a text and its translation mean the same; hashed words know nothing of that."""
    marks_queries: bool = True
    """It embeds a query otherwise than a passage. bge-m3 does not."""
    exact: bool = True
    """The same text has the same bits, whatever it is batched with. Not so on a GPU."""


@contextmanager
def onnx() -> Iterator[Embedder]:
    yield OnnxEmbedder(MODELS / MODEL_NAME, tokenizer())


@contextmanager
def ollama() -> Iterator[Embedder]:
    with EmbeddingServer(Model(spans=spans)) as server:
        yield OllamaEmbedder(server.url, "bge-m3", tokenizer(), patience=1)


@contextmanager
def openai() -> Iterator[Embedder]:
    with EmbeddingServer(Model(spans=spans, context=512, normalised=False)) as server:
        prefixes = {"query_prefix": "query: ", "document_prefix": "passage: "}
        yield OpenAIEmbedder(f"{server.url}/v1", "bge-m3", tokenizer(), patience=1, **prefixes)


@contextmanager
def ollama_live() -> Iterator[Embedder]:
    model = os.environ.get("BIGOS_TEST_OLLAMA_MODEL", "bge-m3")  # noqa: TID251 - a test's setting
    yield OllamaEmbedder(os.environ["BIGOS_TEST_OLLAMA_URL"], model, tokenizer())  # noqa: TID251


@contextmanager
def openai_live() -> Iterator[Embedder]:
    model = os.environ["BIGOS_TEST_OPENAI_MODEL"]  # noqa: TID251
    key = os.environ.get("BIGOS_TEST_OPENAI_KEY")  # noqa: TID251
    yield OpenAIEmbedder(os.environ["BIGOS_TEST_OPENAI_URL"], model, tokenizer(), api_key=key)  # noqa: TID251


FACTORIES = {
    "onnx": Factory(onnx),
    "ollama": Factory(ollama, bilingual=False, marks_queries=False),
    "openai": Factory(openai, bilingual=False),
}
if "BIGOS_TEST_OLLAMA_URL" in os.environ:  # noqa: TID251
    FACTORIES["ollama live"] = Factory(ollama_live, marks_queries=False, exact=False)
if "BIGOS_TEST_OPENAI_URL" in os.environ:  # noqa: TID251
    FACTORIES["openai live"] = Factory(openai_live, marks_queries=False, exact=False)


@pytest.fixture(scope="module", params=FACTORIES)
def factory(request: pytest.FixtureRequest) -> Factory:
    return FACTORIES[request.param]


@pytest.fixture(scope="module")
def embedder(factory: Factory) -> Iterator[Embedder]:
    with factory.make() as made:
        yield made
        made.close()


def same(factory: Factory, some: Vectors, others: Vectors) -> bool:
    if factory.exact:
        return np.array_equal(some, others)
    return bool((np.sum(some * others, axis=1) > 0.999).all())


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


def test_token_ids_that_the_caller_has_change_nothing(factory: Factory, embedder: Embedder, vectors: Vectors) -> None:
    tokens = [np.array(ids, np.int32) for ids in tokenizer().encode_batch(TEXTS)]
    assert same(factory, embedder.embed_passages(TEXTS, tokens), vectors)


def test_the_same_texts_give_the_same_vectors(factory: Factory, embedder: Embedder, vectors: Vectors) -> None:
    assert same(factory, embedder.embed_passages(TEXTS), vectors)


def test_a_text_means_the_same_alone_and_among_others_in_any_order(embedder: Embedder, vectors: Vectors) -> None:
    alone = np.concatenate([embedder.embed_passages([text]) for text in TEXTS])
    backwards = embedder.embed_passages(TEXTS[::-1])[::-1]
    assert (np.sum(alone * vectors, axis=1) > 0.98).all()
    assert (np.sum(backwards * vectors, axis=1) > 0.98).all()


def test_meaning_is_near_its_translation(factory: Factory, embedder: Embedder, vectors: Vectors) -> None:
    if not factory.bilingual:
        pytest.skip("this model has learnt no language")
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[4]
    assert embedder.embed_query("dzielnik zegara") @ vectors[0] > embedder.embed_query("dzielnik zegara") @ vectors[6]


def test_a_query_is_embedded_as_the_model_wants_queries(factory: Factory, embedder: Embedder) -> None:
    text = "battery protection"
    likeness = embedder.embed_query(text) @ embedder.embed_passages([text])[0]
    assert likeness < 0.9999 if factory.marks_queries else likeness > 0.999


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


def test_threads_share_one_embedder(factory: Factory, embedder: Embedder, vectors: Vectors) -> None:
    results: list[Vectors] = []
    threads = [threading.Thread(target=lambda: results.append(embedder.embed_passages(TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(results) == 4
    assert all(same(factory, result, vectors) for result in results)


def test_the_fingerprint_names_the_model(embedder: Embedder) -> None:
    assert str(embedder.dimension) in embedder.fingerprint
    for window in (embedder.window, embedder.code_window):
        assert window.tokens <= embedder.max_tokens
        assert window.overlap < window.tokens


def test_it_works_again_after_close(factory: Factory, embedder: Embedder, vectors: Vectors) -> None:
    embedder.close()
    assert same(factory, embedder.embed_passages(TEXTS), vectors)


def test_the_model_in_process_needs_no_vocabulary_for_tokens_that_the_caller_has() -> None:
    # It takes 300 MB, and an ingest holds it in its workers already.
    tokens = [np.array(ids, np.int32) for ids in tokenizer().encode_batch(TEXTS[:3])]
    without = OnnxEmbedder(MODELS / MODEL_NAME, Tokenizer.at(MODELS / "nowhere.json"))
    with_it = OnnxEmbedder(MODELS / MODEL_NAME, tokenizer())
    assert np.array_equal(without.embed_passages(TEXTS[:3], tokens), with_it.embed_passages(TEXTS[:3]))
    with pytest.raises(EmbedderError, match=r"nowhere\.json is missing"):
        without.embed_query("zegar")


def test_the_prefixes_are_those_that_the_model_was_trained_with() -> None:
    assert [tuple(ids[:-1]) for ids in tokenizer().encode_batch(["passage: ", "query: "])] == [PASSAGE_IDS, QUERY_IDS]

# SPDX-License-Identifier: GPL-2.0-only
"""The embedder behind an OpenAI-compatible service: what the servers that call themselves so do differently."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from bigos.embedders import PassagesRejected
from bigos.embedders.openai import OpenAIEmbedder
from bigos.errors import ConfigError, EmbedderError, ExitCode
from doubles.embedding_server import EmbeddingServer, Model, embed
from vocabulary import spans, tokenizer

TEXTS = [f"passage {number} " + "about clocks and dividers " * (number % 7) for number in range(40)]
KEY = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(Model(name="bge-m3", spans=spans, context=512)) as running:
        yield running


_made: list[OpenAIEmbedder] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


def embedder(server: EmbeddingServer, model: str = "bge-m3", **options: Any) -> OpenAIEmbedder:
    _made.append(OpenAIEmbedder(f"{server.url}/v1", model, tokenizer(), **({"patience": 3.0} | options)))
    return _made[-1]


def assert_right(vectors: Any, texts: Sequence[str]) -> None:
    assert np.allclose(vectors, embed(texts, 32), atol=1e-6)


def failure(one: OpenAIEmbedder, texts: Sequence[str] = TEXTS) -> str:
    with pytest.raises(EmbedderError) as caught:
        one.embed_passages(texts)
    assert caught.value.fix
    return str(caught.value)


def test_nothing_is_asked_before_something_is_wanted(server: EmbeddingServer) -> None:
    one = embedder(server)
    assert server.requests == []
    assert one.dimension == 32
    assert len(server.requests) == 1


def test_vectors_are_those_of_their_texts_whatever_the_order_of_the_answer(server: EmbeddingServer) -> None:
    assert_right(embedder(server).embed_passages(TEXTS), TEXTS)  # the double answers backwards
    assert any(len(request.texts) > 5 for request in server.asked)


@pytest.mark.parametrize("kind", ["honoured", "ignored", "refused"])
@pytest.mark.parametrize("normalised", [True, False])
def test_numbers_and_base64_of_any_length_become_the_same_unit_vectors(
    server: EmbeddingServer, kind: Any, normalised: bool
) -> None:
    server.model.base64, server.model.normalised = kind, normalised
    one = embedder(server)
    assert_right(one.embed_passages(TEXTS), TEXTS)
    asked = [request.payload["encoding_format"] for request in server.asked]
    assert asked.count("base64") == (1 if kind == "refused" else len(asked))


def test_a_refusal_that_is_about_a_text_does_not_end_base64(server: EmbeddingServer) -> None:
    one = embedder(server)
    server.model.context = 100
    with pytest.raises(PassagesRejected) as caught:
        one.embed_passages([*TEXTS, "long " * 200])
    assert list(caught.value.reasons) == [len(TEXTS)]
    one.embed_passages(TEXTS)
    assert server.asked[-1].payload["encoding_format"] == "base64"


def test_prefixes_are_put_before_texts_and_are_part_of_the_fingerprint(server: EmbeddingServer) -> None:
    plain = embedder(server)
    marked = embedder(server, query_prefix="query: ", document_prefix="passage: ")
    assert_right(marked.embed_passages(["a clock"]), ["passage: a clock"])
    assert_right(marked.embed_query("a clock"), ["query: a clock"])
    assert plain.fingerprint.startswith("openai/bge-m3/32/")
    assert marked.fingerprint != plain.fingerprint
    assert embedder(server, query_prefix="query: ").fingerprint not in (plain.fingerprint, marked.fingerprint)
    assert marked.max_tokens < plain.max_tokens


def test_room_is_left_for_a_tokenizer_that_splits_more(server: EmbeddingServer) -> None:
    assert embedder(server, max_tokens=512).max_tokens == 448
    assert embedder(server, max_tokens=512).window.tokens == 448
    assert embedder(server, max_tokens=8192).max_tokens == 7206
    assert embedder(server, max_tokens=8192).window.tokens == 512


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": ""}, "openai_model in config.toml is not set"),
        ({"max_tokens": 64}, "openai_max_tokens = 64 leaves 54 tokens for a text; 64 are needed"),
        ({"api_key": "sk-\nX-Evil: 1"}, "the API key .* has characters that do not belong into one"),
        ({"api_key": "klucz-ż"}, "the API key .* has characters that do not belong into one"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(
    server: EmbeddingServer, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        embedder(server, **options)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.fix
    assert "klucz" not in str(caught.value)


def test_the_key_is_sent_and_never_shown(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    server.api_key = KEY
    with caplog.at_level(logging.DEBUG):
        one = embedder(server, api_key=f"{KEY}\n", patience=0.3)
        assert_right(one.embed_passages(TEXTS), TEXTS)
        server.api_key = "another"
        told = failure(one)
        server.fault("status", times=None, status=500, body={"error": f"cannot log in with {KEY}"})
        told += failure(one)
    assert "Incorrect API key provided: ***): it wants an API key other than ours." in told
    assert "cannot log in with ***" in told
    assert "openai_api_key_env" in told
    assert KEY not in told + repr(one) + caplog.text + "".join(capsys.readouterr())


def test_a_service_that_wants_a_key_and_gets_none_is_told_as_such(server: EmbeddingServer) -> None:
    server.api_key = KEY
    assert "it wants an API key.\nhint: set openai_api_key_env" in failure(embedder(server))


def test_a_number_of_texts_that_the_service_names_is_kept_from_then_on(server: EmbeddingServer) -> None:
    server.model.most_texts = 8
    one = embedder(server)
    assert_right(one.embed_passages(TEXTS), TEXTS)
    before = len(server.asked)
    assert_right(one.embed_passages(TEXTS), TEXTS)
    assert {len(request.texts) for request in server.asked[before:]} == {8}


def test_a_text_larger_than_the_physical_batch_is_rejected_alone(server: EmbeddingServer) -> None:
    server.model.most_tokens = 128
    one = embedder(server)
    with pytest.raises(PassagesRejected) as caught:
        one.embed_passages([*TEXTS, "long " * 200])
    (reason,) = caught.value.reasons.values()
    assert "input (202 tokens) is too large to process" in reason
    assert_right(caught.value.vectors[:-1], TEXTS)
    before = len(server.asked)
    one.embed_passages(TEXTS)
    assert max(len(request.texts) for request in server.asked[before:]) > 8  # it was the text, not how many


def test_a_service_that_drops_the_end_of_a_text_ends_the_run(server: EmbeddingServer) -> None:
    server.model.reads = 256
    told = failure(embedder(server), ["many words " * 200])
    assert "reads only 256 tokens of a text of 4" in told
    assert "set openai_max_tokens = 256" in told
    assert_right(embedder(server, max_tokens=256).embed_passages(["many words " * 100]), ["many words " * 100])


@pytest.mark.parametrize("usage", [{"prompt_tokens": 1}, {"prompt_tokens": None}, {}, None, [1], {"prompt_tokens": -3}])
def test_a_usage_that_counts_something_else_is_not_taken_for_truncation(usage: Any) -> None:
    class OddlyCounted(EmbeddingServer):
        def answer(self, request: Any) -> tuple[int, Any]:
            status, answer = super().answer(request)
            return status, answer | {"usage": usage}

    with OddlyCounted(Model(name="bge-m3", spans=spans)) as server:
        texts = ["many words " * 100 + str(number) for number in range(10)]
        assert_right(embedder(server).embed_passages(texts), texts)


@pytest.mark.parametrize(
    ("act", "details", "told"),
    [
        ("status", {"status": 404, "body": {"error": {"message": "model 'x' not found"}}}, "model 'x' not found"),
        ("html", {"status": 404}, "answers 404 (no /embeddings below that address)"),
        (
            "status",
            {"status": 400, "body": {"error": {"message": "Pooling type 'none' is not OAI compatible"}}},
            "hint: start llama-server with --pooling cls",
        ),
        ("status", {"status": 422, "body": {"detail": [{"msg": "field required"}]}}, "answers 422 (field required)"),
        ("html", {"status": 200}, "answers with a web page where JSON was due"),
        ("cut", {}, "bytes that are no whole JSON"),
        ("count", {}, "vectors"),
        ("text", {"body": '{"data": [{"index": 7, "embedding": [1]}]}'}, "for 1 texts"),
        ("text", {"body": '{"data": [{"index": 0, "embedding": []}]}'}, "gave vectors without numbers"),
        ("text", {"body": '{"data": [{"index": 0, "embedding": "@@"}]}'}, "gave vectors without numbers"),
        ("text", {"body": '{"data": [{"index": [], "embedding": [1]}]}'}, "for 1 texts"),
        ("text", {"body": '{"data": [{"index": "0", "embedding": [1]}]}'}, "for 1 texts"),
        (
            "text",
            {"body": f'{{"data": [{{"index": 0, "embedding": [1{"0" * 400}]}}]}}'},
            "gave vectors without numbers",
        ),
        ("text", {"body": '{"data": 3}'}, "gave 0 vectors, of 0 different texts, for 1 texts"),
    ],
)
def test_an_answer_that_is_none_is_told_in_a_sentence(
    server: EmbeddingServer, act: str, details: dict[str, Any], told: str
) -> None:
    server.fault(act, times=None, **details)
    assert told in failure(embedder(server, patience=0.0))


def test_vectors_of_another_length_than_before_end_the_run(server: EmbeddingServer) -> None:
    one = embedder(server)
    one.embed_passages(TEXTS)
    server.model.dimension = 48
    assert "gave a vector of 48 numbers where 32 were due" in failure(one)


@pytest.mark.parametrize("nan_as", ["null", "zero", "in JSON"])
def test_a_text_without_a_vector_is_rejected_alone(server: EmbeddingServer, nan_as: Any) -> None:
    server.model.nan_as = nan_as
    server.model.nan = lambda text: "cursed" in text
    with pytest.raises(PassagesRejected) as caught:
        embedder(server).embed_passages([*TEXTS, "cursed"])
    assert list(caught.value.reasons) == [len(TEXTS)]
    assert_right(caught.value.vectors[:-1], TEXTS)


def test_a_service_that_is_down_is_told_and_one_that_comes_back_is_used(server: EmbeddingServer) -> None:
    one = embedder(server, patience=0.3)
    one.embed_passages(TEXTS)
    server.stop()
    told = failure(one)
    assert told.startswith(f"the embedding service at {server.url}/v1 does not answer (")
    assert "openai_url" in told
    server.start()
    assert_right(one.embed_passages(TEXTS), TEXTS)


def test_it_says_where_it_is_and_what_it_runs(server: EmbeddingServer) -> None:
    found = embedder(server).describe()
    assert found.text == f"the embedding service at {server.url}/v1, bge-m3, 32 dimensions, 448 tokens"
    assert found.warning is None

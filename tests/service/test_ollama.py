# SPDX-License-Identifier: GPL-2.0-only
"""The embedder behind Ollama against a server that misbehaves: what passes, what is told apart, what the user reads."""

from __future__ import annotations

import itertools
import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigos.embedders import PassagesRejected, QueryRejected, ollama
from bigos.embedders.batching import FIRST_TOKENS, MOST_TOKENS
from bigos.embedders.ollama import OllamaEmbedder
from bigos.embedders.service import Service, Trouble
from bigos.errors import ConfigError, EmbedderError
from doubles.embedding_server import EmbeddingServer, Model, embed
from processes import PATIENCE, until
from vocabulary import TOKENIZER, spans, tokenizer

TEXTS = [f"passage {number} " + "about clocks and dividers " * (number % 7) for number in range(40)]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(Model(spans=spans)) as running:
        yield running


_made: list[OllamaEmbedder] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


def embedder(server: EmbeddingServer | str, model: str = "bge-m3", **options: Any) -> OllamaEmbedder:
    url = server if isinstance(server, str) else server.url
    _made.append(OllamaEmbedder(url, model, tokenizer(), **({"patience": 3.0} | options)))
    return _made[-1]


def assert_right(vectors: Any, texts: Sequence[str]) -> None:
    assert np.allclose(vectors, embed(texts, 32), atol=1e-6)


def failure(one: OllamaEmbedder, texts: Sequence[str] = TEXTS) -> str:
    """The sentence and the fix of what the user gets to read."""
    with pytest.raises(EmbedderError) as caught:
        one.embed_passages(texts)
    assert caught.value.fix
    return str(caught.value)


# --- what is asked


def test_nothing_is_asked_before_something_is_wanted(server: EmbeddingServer) -> None:
    one = embedder(server)
    assert server.requests == []
    assert (one.dimension, one.max_tokens) == (32, 8190)
    assert (one.window.tokens, one.window.overlap) == (512, 64)
    assert [request.path for request in server.requests] == ["/api/tags", "/api/show"]


def test_a_request_forbids_truncation_and_keeps_the_model_loaded(server: EmbeddingServer) -> None:
    assert_right(embedder(server).embed_passages(TEXTS), TEXTS)
    for request in server.asked:
        assert request.payload["truncate"] is False
        assert request.payload["keep_alive"] == -1
        assert request.payload["model"] == "bge-m3"
    assert sorted(text for request in server.asked for text in request.texts) == sorted(TEXTS)


@pytest.mark.parametrize("asked", ["bge-m3", "bge-m3:latest", "BGE-M3"])
def test_a_tag_that_changes_nothing_does_not_change_the_fingerprint(server: EmbeddingServer, asked: str) -> None:
    one = embedder(server, asked)
    assert one.fingerprint == "ollama/bge-m3/7907646426070000/32"
    server.model.digest = "f" * 64
    assert embedder(server).fingerprint != one.fingerprint


def test_a_model_that_is_run_with_less_context_takes_less(server: EmbeddingServer) -> None:
    server.model.num_ctx = 300
    one = embedder(server)
    assert one.max_tokens == 298
    assert one.window.tokens == 298
    with pytest.raises(EmbedderError, match="has 299 tokens and the model takes 298"):
        one.embed_passages(["short", ("a " * 299).strip()])
    assert server.asked == []


def test_requests_hold_texts_of_like_length_up_to_a_number_of_tokens_that_grows(server: EmbeddingServer) -> None:
    texts = ["word " * (50 + 10 * (number % 30)) for number in range(360)]
    one = embedder(server, requests=1)
    assert_right(one.embed_passages(texts), texts)
    sizes = [sum(len(spans(text)) for text in request.texts) for request in server.asked]
    assert sizes[0] <= FIRST_TOKENS
    assert max(sizes) > 4 * FIRST_TOKENS
    assert max(sizes) <= MOST_TOKENS
    lengths = [[len(text) for text in request.texts] for request in server.asked]
    assert all(min(before) >= max(after) for before, after in itertools.pairwise(lengths))


@pytest.mark.parametrize("requests", [1, 3])
def test_no_more_requests_are_under_way_than_allowed(server: EmbeddingServer, requests: int) -> None:
    server.fault("slow", times=None, seconds=0.1 * requests)  # long enough for all of them to begin
    one = embedder(server, requests=requests)
    texts = ["word " * 300] * 60
    asking = [threading.Thread(target=one.embed_passages, args=(texts,)) for _ in range(2)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(PATIENCE)
    assert server.most_in_flight == requests
    assert server.connections <= requests + 1


def test_a_few_texts_are_shared_out_to_all_requests_that_may_be_under_way(server: EmbeddingServer) -> None:
    embedder(server, requests=2).embed_passages(["word " * 200] * 8)
    assert [len(request.texts) for request in server.asked] == [4, 4]


def test_a_proxy_variable_does_not_lead_away_from_this_machine(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert_right(embedder(server).embed_passages(TEXTS), TEXTS)


def test_the_first_answer_may_take_as_long_as_the_model_loads(server: EmbeddingServer) -> None:
    server.model.loading = 3.0
    one = embedder(server, timeout=2.0, load_timeout=60.0, patience=0.0)
    assert_right(one.embed_passages(["a clock"]), ["a clock"])
    server.fault("slow", seconds=3.0)
    assert "within 2 s" in failure(one, ["x"])


# --- trouble that passes


@pytest.mark.parametrize(
    ("act", "details"),
    [
        ("drop", {}),
        ("reset", {}),
        ("cut", {}),
        ("text", {"body": '{"embeddings": [[0.1, '}),
        ("status", {"status": 500, "body": {"error": "do embedding request: EOF"}}),
        ("status", {"status": 502, "body": "bad gateway"}),
        ("status", {"status": 503, "body": {"error": "server busy, maximum pending requests exceeded"}}),
        ("status", {"status": 504}),
        ("status", {"status": 429, "headers": {"Retry-After": "0.3"}}),
        ("html", {"status": 503}),
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_trouble_that_passes_costs_a_pause(
    server: EmbeddingServer, act: str, details: dict[str, Any], times: int
) -> None:
    one = embedder(server)
    server.fault(act, times=times, **details)
    assert_right(one.embed_passages(TEXTS), TEXTS)


def test_a_time_to_wait_that_the_server_names_is_kept(server: EmbeddingServer) -> None:
    one = embedder(server)
    assert one.dimension == 32
    server.fault("status", status=429, headers={"Retry-After": "1"})
    started = time.monotonic()
    one.embed_passages(["x"])
    assert time.monotonic() - started >= 1
    server.fault("status", status=429, headers={"Retry-After": "3600"}, body={"error": "quota"})
    started = time.monotonic()
    assert "answers 429 Too Many Requests (quota) and asks us to wait 3600 s" in failure(one, ["x"])
    assert time.monotonic() - started < 30


def test_a_server_that_is_started_again_in_the_middle_costs_a_pause(
    server: EmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = embedder(server, requests=2, patience=60.0)

    def restart() -> None:
        server.stop()
        time.sleep(0.5)
        server.start()

    def third(texts: list[str]) -> bool:
        if len(server.asked) == 3:
            threading.Thread(target=restart).start()
        return len(server.asked) == 3

    texts = ["word " * 300 + str(number) for number in range(120)]
    server.fault("hang", when=third)
    with caplog.at_level(logging.INFO, "bigos"):
        assert_right(one.embed_passages(texts), texts)
    assert "asking again for up to 60 s" in caplog.text
    assert server.url in caplog.text


def test_a_server_that_comes_back_with_another_model_ends_the_run(server: EmbeddingServer) -> None:
    one = embedder(server)
    one.embed_passages(TEXTS)
    server.stop()
    server.model.digest = "e" * 64
    server.start()
    server.fault("drop")
    assert "has another model under the name bge-m3 than before" in failure(one)


def test_a_model_that_is_pulled_anew_in_the_middle_ends_the_run(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = embedder(server)
    one.embed_passages(TEXTS)
    looks = [request.path for request in server.requests].count("/api/tags")
    one.embed_passages(TEXTS)
    assert [request.path for request in server.requests].count("/api/tags") == looks
    server.model.digest = "e" * 64
    monkeypatch.setattr(ollama, "SAME_SECONDS", 0.0)
    assert "has another model under the name bge-m3 than before" in failure(one)


def test_a_server_that_is_too_slow_for_large_requests_gets_small_ones(server: EmbeddingServer) -> None:
    one = embedder(server, timeout=2.0, load_timeout=2.0, requests=1)
    server.fault("slow", times=None, when=lambda texts: len(texts) > 12, seconds=4.0)
    assert_right(one.embed_passages(TEXTS), TEXTS)
    before = len(server.asked)
    many = ["word " * 300] * 20
    server.fault("slow", times=None, when=lambda texts: len(texts) > 12, seconds=4.0)
    assert_right(one.embed_passages(many), many)
    assert all(len(request.texts) <= 12 for request in server.asked[before:])


@pytest.mark.parametrize(
    ("status", "words"),
    [(500, "CUDA error: out of memory"), (413, "payload too large"), (500, "llama runner process has terminated")],
)
def test_a_server_that_cannot_do_much_at_once_gets_less(server: EmbeddingServer, status: int, words: str) -> None:
    one = embedder(server)
    server.fault("status", times=None, when=lambda texts: len(texts) > 8, status=status, body={"error": words})
    assert_right(one.embed_passages(TEXTS), TEXTS)


# --- trouble that stays


def test_a_daemon_that_is_down_is_told_with_the_command_that_starts_it(server: EmbeddingServer) -> None:
    one = embedder(server, patience=1.2)
    server.stop()
    started = time.monotonic()
    told = failure(one)
    assert 1.0 < time.monotonic() - started < 30
    assert told.startswith(f"Ollama at {server.url} does not answer (connection refused)")
    assert re.search(r"for \d+ s now\.\nhint: systemctl start ollama$", told)


def test_an_ollama_on_another_machine_is_not_started_on_this_one() -> None:
    for host, told in (("ollama.invalid", "start Ollama on ollama.invalid"), ("[::1]", "systemctl start ollama")):
        one = OllamaEmbedder(f"http://{host}:1", "bge-m3", tokenizer(), patience=0)
        with pytest.raises(EmbedderError) as caught:
            one.warm_up()
        assert caught.value.fix == told


def test_a_server_that_hangs_is_given_up_in_bounded_time(server: EmbeddingServer) -> None:
    one = embedder(server, timeout=0.2, load_timeout=0.4, patience=0.5)
    server.fault("hang", times=None)
    started = time.monotonic()
    assert "gave no whole answer within 0.2 s" in failure(one)
    assert time.monotonic() - started < 30
    with pytest.raises(EmbedderError, match="gave no whole answer"):
        one.embed_query("zegar")


def test_a_server_that_fails_always_is_not_taken_for_texts_that_fail(server: EmbeddingServer) -> None:
    one = embedder(server, patience=0.3)
    server.fault("status", times=None, status=500, body={"error": "no space left on device"})
    told = failure(one)
    assert "answers 500 Internal Server Error (no space left on device)" in told
    assert "journalctl -u ollama" in told
    server.script.clear()
    server.fault("status", times=None, status=400, body={"error": "this model does not support embeddings"})
    assert "answers 400 (this model does not support embeddings) to every text" in failure(one)


@pytest.mark.parametrize(
    ("act", "details", "told"),
    [
        ("html", {"status": 200}, "answers with a web page where JSON was due: a proxy or another server listens"),
        ("html", {"status": 404}, "does not know /api/embed, as every Ollama does since 0.3"),
        ("text", {"body": "[1, 2]"}, "answers with something else than was asked for"),
        ("status", {"status": 301, "body": ""}, "answers 301 Moved Permanently and sends us elsewhere"),
        ("status", {"status": 401, "body": {"error": "unauthorized"}}, "it wants an API key"),
        ("cut", {}, "bytes that are no whole JSON"),
        ("dimension", {}, "gave a vector of 33 numbers where 32 were due"),
        ("count", {}, "vectors for"),
        ("text", {"body": '{"embeddings": null}'}, "gave no vectors for"),
        ("text", {"body": "{}"}, "gave no vectors for"),
        ("text", {"body": "[" * 100_000}, "no whole JSON"),
    ],
)
def test_an_answer_that_is_none_is_told_in_a_sentence(
    server: EmbeddingServer, act: str, details: dict[str, Any], told: str
) -> None:
    one = embedder(server, patience=0.0)
    server.fault(act, times=None, **details)
    assert told in failure(one)


def test_a_missing_model_is_told_with_the_command_that_brings_it(server: EmbeddingServer) -> None:
    one = embedder(server)
    assert one.dimension == 32
    server.model.name = "nomic-embed-text:latest"
    assert failure(one).endswith("has no model bge-m3.\nhint: ollama pull bge-m3")
    with pytest.raises(EmbedderError, match="ollama pull bge-m3"):
        _ = embedder(server).fingerprint


def test_a_model_without_a_name_is_a_matter_of_the_configuration(server: EmbeddingServer) -> None:
    with pytest.raises(ConfigError, match="ollama_model is empty") as caught:
        OllamaEmbedder(server.url, "", tokenizer())
    assert "config.toml" in caught.value.fix


def test_another_server_on_that_port_is_told_as_such() -> None:
    with EmbeddingServer() as other:
        told = failure(embedder(f"{other.url}/v1"), ["x"])
    assert "another server listens there" in told
    assert f"curl {other.url}/v1/api/version" in told


def test_a_password_in_the_address_is_not_shown(server: EmbeddingServer) -> None:
    one = embedder(server.url.replace("//", "//jan:sekret@"), patience=0)
    server.stop()
    assert "sekret" not in failure(one)


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("ALL_PROXY", "socks://ala:kot@127.0.0.1:1080/", "unset ALL_PROXY all_proxy"),
        ("ALL_PROXY", "socks5://127.0.0.1:1080", "unset ALL_PROXY all_proxy"),
        ("SSL_CERT_FILE", "/nonexistent", "unset SSL_CERT_FILE SSL_CERT_DIR"),
    ],
)
def test_a_session_that_leads_nowhere_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, fix: str
) -> None:
    monkeypatch.setenv(name, value)
    one = OllamaEmbedder("http://ollama.invalid:11434", "bge-m3", tokenizer(), patience=0)
    with pytest.raises(EmbedderError, match="cannot be asked by way of this session's") as caught:
        one.warm_up()
    assert caught.value.fix == fix
    assert "kot" not in str(caught.value)


def test_every_way_in_which_the_library_fails_is_known(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def descendants(kind: type[Exception]) -> set[type[Exception]]:
        return {kind}.union(*(descendants(child) for child in kind.__subclasses__()))

    kinds = descendants(httpx.RequestError) | {httpx.InvalidURL}
    assert len(kinds) > 15
    service = Service(
        "it", server.url, start="a", logs="b", probe="/", key_setting="c",
        timeout=1, load_timeout=1, patience=0, connections=1,
    )  # fmt: skip
    for kind in kinds:

        def fail(*_: Any, kind: type[Exception] = kind, **__: Any) -> Any:
            raise kind("as told")

        monkeypatch.setattr(httpx.Client, "stream", fail)
        with pytest.raises((Trouble, EmbedderError)):
            service.once("GET", "/")


def test_a_stop_does_not_wait_for_a_server_that_hangs(server: EmbeddingServer) -> None:
    server.fault("hang", times=None)
    script = (
        "import sys; from pathlib import Path; from bigos.tokenizer import Tokenizer\n"
        "from bigos.embedders.ollama import OllamaEmbedder\n"
        f"one = OllamaEmbedder({server.url!r}, 'bge-m3', Tokenizer.load(Path({str(TOKENIZER)!r})), requests=3)\n"
        "one.embed_passages(['word ' * 300] * 60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    until(lambda: len(server.asked) >= 3 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in stderr


# --- texts that the model cannot take

CURSED = "Let me  read the\tInputArea file"


def rejected(one: OllamaEmbedder, texts: Sequence[str]) -> PassagesRejected:
    with pytest.raises(PassagesRejected) as caught:
        one.embed_passages(texts)
    return caught.value


@pytest.mark.parametrize("nan_as", ["500", "400", "null", "zero", "in JSON"])
def test_a_text_that_gives_nan_is_rejected_alone(server: EmbeddingServer, nan_as: Any) -> None:
    server.model.nan_as = nan_as
    server.model.nan = lambda text: "cursed" in text
    texts = [*TEXTS[:17], "cursed cursed cursed", *TEXTS[17:], "cursed_again", " cursed\t\n"]
    error = rejected(embedder(server), texts)
    bad = [17, len(texts) - 2, len(texts) - 1]
    assert sorted(error.reasons) == bad
    assert all("no numbers for this text" in reason for reason in error.reasons.values())
    assert np.isnan(error.vectors[bad]).all()
    good = [index for index in range(len(texts)) if index not in bad]
    assert_right(error.vectors[good], [texts[index] for index in good])


@pytest.mark.parametrize("nan_as", ["500", "null"])
def test_a_text_that_gives_nan_is_embedded_with_plain_white_space(server: EmbeddingServer, nan_as: Any) -> None:
    server.model.nan_as = nan_as
    server.model.nan = lambda text: text == CURSED
    vectors = embedder(server).embed_passages([*TEXTS, CURSED])
    assert_right(vectors, [*TEXTS, "Let me read the InputArea file"])


def test_a_text_that_gives_nan_however_spaced_is_embedded_as_the_mean_of_its_halves(server: EmbeddingServer) -> None:
    server.model.nan = lambda text: "me read the InputArea" in " ".join(text.split())
    vectors = embedder(server).embed_passages([*TEXTS, CURSED])
    mean = embed(["Let me read the", " InputArea file"], 32).mean(axis=0)
    assert np.allclose(vectors[-1], mean / np.linalg.norm(mean), atol=1e-6)
    assert_right(vectors[:-1], TEXTS)


def test_a_question_that_gives_nan_is_refused_and_the_next_one_answered(server: EmbeddingServer) -> None:
    server.model.nan = lambda text: "cursed" in text
    one = embedder(server)
    with pytest.raises(QueryRejected, match="no numbers"):
        one.embed_query("cursed")
    assert_right(one.embed_query("a clock"), ["a clock"])


def test_a_text_that_breaks_the_server_is_rejected_alone(server: EmbeddingServer) -> None:
    one = embedder(server)
    server.fault("status", times=None, when=lambda texts: "cursed" in texts, body={"error": "runner terminated"})
    error = rejected(one, [*TEXTS, "cursed"])
    assert list(error.reasons) == [len(TEXTS)]
    assert "500 Internal Server Error (runner terminated) for this text alone" in error.reasons[len(TEXTS)]
    assert_right(error.vectors[:-1], TEXTS)


def test_a_text_that_is_too_long_for_the_server_is_rejected_with_its_words(server: EmbeddingServer) -> None:
    one = embedder(server)
    assert one.max_tokens == 8190
    server.model.context = 200  # as a server that was started with less than the model can
    error = rejected(one, [*TEXTS, "long " * 300])
    assert list(error.reasons) == [len(TEXTS)]
    assert "the input length exceeds the context length" in error.reasons[len(TEXTS)]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.text(max_size=30), st.integers(1, 40), st.booleans()), max_size=30))
def test_every_text_gets_its_own_vector_or_its_own_reason(
    server: EmbeddingServer, parts: list[tuple[str, int, bool]]
) -> None:
    texts = [f"{number} {text.replace('kaput', '')} " * times for number, (text, times, _) in enumerate(parts)]
    texts = [f"kaput{text}" if bad else text for text, (_, _, bad) in zip(texts, parts, strict=True)]
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    server.model.nan = lambda text: text.startswith("kaput")
    one = embedder(server)
    try:
        vectors, reasons = one.embed_passages(texts), {}
    except PassagesRejected as error:
        vectors, reasons = error.vectors, error.reasons
    expected = embed(texts, 32)
    for index, (_, _, bad) in enumerate(parts):
        assert (index in reasons) == bad
        assert np.isnan(vectors[index]).all() if bad else np.allclose(vectors[index], expected[index], atol=1e-6)


# --- tokens that are not read

LONG = [f"passage {number} " + "about clocks and dividers " * 40 for number in range(20)]


@pytest.mark.parametrize("counts", ["all", "content"])
def test_a_server_that_drops_the_end_of_a_text_ends_the_run(server: EmbeddingServer, counts: Any) -> None:
    server.model.reads, server.model.counts = 202, counts
    told = failure(embedder(server), [*TEXTS, *LONG])
    read = 202 if counts == "all" else 200
    assert f"reads only {read} tokens of a text of {len(spans(LONG[0]))} and drops the rest without a word." in told
    assert told.endswith("hint: set chunk_tokens = 136 in config.toml")
    one = embedder(server)
    assert_right(one.embed_passages(TEXTS), TEXTS)


@pytest.mark.parametrize("excess", [8, 40, 1000])
def test_a_few_dropped_tokens_of_one_text_among_many_are_noticed(server: EmbeddingServer, excess: int) -> None:
    server.model.reads = 130
    text = "many words " * ((130 + excess) // 2)
    assert "reads only 130 tokens" in failure(embedder(server), [text] * 20)
    server.model.reads = len(spans(text)) + 2
    assert_right(embedder(server).embed_passages([text] * 20), [text] * 20)


@pytest.mark.parametrize("counts", ["all", "content", "zero", "absent"])
def test_a_server_that_reads_all_or_does_not_count_is_not_asked_twice(server: EmbeddingServer, counts: Any) -> None:
    server.model.counts = counts
    assert_right(embedder(server).embed_passages(LONG), LONG)
    assert sorted(text for request in server.asked for text in request.texts) == sorted(LONG)


def test_a_tokenizer_of_another_kind_is_not_taken_for_truncation() -> None:
    with EmbeddingServer(Model()) as server:  # counts words
        one = embedder(server)
        texts = [f"{text} niezaprzeczalnie odpowiedzialność uwarunkowania" * 3 for text in LONG]
        assert_right(one.embed_passages(texts), texts)
        asked = len(server.asked)
        assert_right(one.embed_passages(texts), texts)
        sent = [text for request in server.asked[asked:] for text in request.texts]
        assert sorted(sent) == sorted(texts)  # it is learnt, not tried each time


def test_a_question_that_is_too_long_loses_its_end_only(server: EmbeddingServer) -> None:
    server.model.num_ctx = 100
    one = embedder(server)
    one.embed_query("jak działa dzielnik zegara " * 200)
    (sent,) = server.asked[-1].texts
    assert 80 < len(spans(sent)) <= 98
    assert ("jak działa dzielnik zegara " * 200).startswith(sent)


# --- what it says of itself


def test_it_says_where_the_model_is(server: EmbeddingServer) -> None:
    one = embedder(server)
    assert one.describe().text == "Ollama 0.34.2, bge-m3 790764642607, 32 dimensions, 8190 tokens, not loaded"
    one.warm_up()
    assert one.describe().text.endswith("8190 tokens, on the GPU (1,200 MB)")
    assert one.describe().warning is None
    for share, where in ((0.25, "25 % on the GPU"), (0.0, "on the CPU")):
        server.model.on_gpu = share
        found = one.describe()
        assert found.warning == f"the model is {where}, which is slow"
        assert found.fix

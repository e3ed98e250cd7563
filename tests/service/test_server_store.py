# SPDX-License-Identifier: GPL-2.0-only
"""The server store against a server that misbehaves: what a user is told, and what the index is like afterwards."""

from __future__ import annotations

import dataclasses
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from qdrant_client import models

from bigos.errors import ConfigError, ExitCode, FingerprintMismatch, StoreError
from bigos.stores import Forgotten, Replacement, StoreQuery, Written, points, server_collection, server_points
from bigos.stores.server import ServerStore
from bigos.stores.server_faults import Address
from doubles.qdrant_grpc import GrpcDouble
from doubles.qdrant_server import Fault, QdrantDouble, error
from processes import PATIENCE, python_environment, until
from store_documents import DIMENSION, FINGERPRINT, document, unit, with_record

OLD = document("/a/x.txt", 3, "v1")
NEW = document("/a/x.txt", 2, "v2", seed=5)
LATER = with_record(NEW, ingested_at="2026-11-30T14:00:00+00:00")
"""The same, two hours after OLD and NEW: what a crash left over has been there for longer than any replace takes."""
OTHER = document("/a/y.txt", 2, seed=9)
UPSERT = r"^PUT .*/points$"
TLS = Path(__file__).parents[1] / "data" / "tls"


@pytest.fixture
def double() -> Iterator[QdrantDouble]:
    with QdrantDouble() as double:
        yield double


@pytest.fixture
def open_store() -> Iterator[Callable[..., ServerStore]]:
    opened: list[ServerStore] = []

    def open_one(double: QdrantDouble | str, fingerprint: str | None = FINGERPRINT, **options: Any) -> ServerStore:
        url = double if isinstance(double, str) else double.url
        options = {"wait": 5.0} | options
        opened.append(ServerStore(url, "bigos", fingerprint, DIMENSION if fingerprint else None, **options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def texts(*items: Replacement) -> list[str]:
    return sorted(chunk.text for item in items for chunk in item.chunks)


def found(store: ServerStore) -> list[str]:
    return sorted(hit.chunk.text for hit in store.search(StoreQuery(unit(1), 100)))


def chunk_points(double: QdrantDouble) -> int:
    """Chunk points in the engine, hidden ones included."""
    chunks = models.FieldCondition(key="point", match=models.MatchValue(value="chunk"))
    return double.engine.count("bigos", count_filter=models.Filter(must=[chunks])).count


# --- faults: what a user sees, what the index is like afterwards ----------------------------------------------------

HTML = b"<html><body><h1>It works!</h1></body></html>"
LASTING: dict[str, tuple[Fault, str, str]] = {
    "reset in the middle of an answer": (Fault(reset=True), r"broke the connection off", "journalctl"),
    "429": (error(429, "Too many requests"), r"turns requests away", "later"),
    "429 with a time to wait": (error(429, "", headers={"Retry-After": "1"}), r"turns requests away", "later"),
    "500": (error(500, "Service internal error: task panicked"), r"failed with 500: .*task panicked\.$", "journalctl"),
    "502 from a proxy": (Fault(status=502, body=HTML), r"is not ready \(502\)", "systemctl --user status qdrant"),
    "503 while it starts": (error(503, "Service is starting"), r"is not ready \(503\)", "systemctl --user status"),
    "an answer that hangs": (Fault(seconds=3.6), r"did not answer within 3 s", "systemctl --user restart qdrant"),
    "half of a JSON answer": (Fault(truncate=True), r"an answer of Qdrant .* cannot be read", "journalctl"),
    "HTML with 200": (Fault(status=200, body=HTML), r"is not Qdrant \(it answered with a web page\)", "qdrant_url"),
    "HTML with 404": (Fault(status=404, body=HTML), r"is not Qdrant \(it answered 404\)", "qdrant_url"),
    "a redirect": (
        Fault(status=301, headers={"Location": "/login"}),
        r"is not Qdrant \(it answered 301\)",
        "qdrant_url",
    ),
    "disk full, as the log says it": (
        error(500, "Service internal error: No space left on device: WAL buffer size exceeds available disk space"),
        r"the disk of Qdrant .* is full; what was acknowledged before is kept",
        "free space",
    ),
    "disk full, 507": (Fault(status=507, body=HTML), r"the disk of Qdrant .* is full", "free space"),
    "a node of the cluster is away": (
        error(
            500, 'Service internal error: 1 of 1 read operations failed: Tonic status error: status: Unavailable, "x"'
        ),
        r"a node of the Qdrant cluster .* is away",
        "qdrant_replicas = 2",
    ),
    "too many open files": (
        error(500, "Service internal error: Too many open files (os error 24)"),
        r"may not open more files",
        "LimitNOFILE",
    ),
    "out of memory": (error(500, "Service internal error: Out of memory"), r"is out of memory", "restart qdrant"),
    "a request that is too large": (
        error(413, "Payload too large"),
        r"takes no request as large",
        "max_request_size_mb",
    ),
    "a request that it does not know": (error(400, "Bad request: x"), r"refuses our request \(400", "journalctl"),
    "no right to write": (error(403, "Forbidden: y"), r"does not let this API key", "qdrant_api_key"),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_lasts_is_told_in_one_sentence_and_leaves_a_whole_version(
    double: QdrantDouble, open_store: Callable[..., ServerStore], name: str
) -> None:
    fault, message, fix = LASTING[name]
    store = open_store(double, wait=0.3, timeout=3 if fault.seconds else PATIENCE)
    store.replace([OLD, OTHER])
    # The new chunks are there, their Record is not: the second upsert of the replace.
    double.faults = [dataclasses.replace(fault, path=UPSERT, times=None, after=1)]
    with pytest.raises(StoreError) as caught:
        store.replace([NEW])
    assert re.search(message, caught.value.message)
    assert caught.value.exit_code == ExitCode.UNAVAILABLE
    assert fix in caught.value.fix
    assert caught.value.message.endswith(".")
    assert "\n" not in caught.value.message

    double.faults = []
    assert found(store) in (texts(OLD, OTHER), texts(NEW, OTHER))
    store.replace([LATER])
    assert found(store) == texts(NEW, OTHER)
    assert chunk_points(double) == 4


PASSING: dict[str, Fault] = {
    "reset in the middle of an answer": Fault(reset=True, times=2),
    "429 once": error(429, "Too many requests", headers={"Retry-After": "1"}),
    "429 with a time that is no number": error(429, "", headers={"Retry-After": "Fri, 31 Dec 2027 23:59:59 GMT"}),
    "500 once": error(500, "Service internal error: x"),
    "503 a few times": error(503, "", times=3),
    "half of a JSON answer": Fault(truncate=True),
    "slow": Fault(seconds=0.4),
    "hangs once": Fault(seconds=3.6),
    "the answer is lost, not the request": Fault(status=502, done_first=True),
}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        *((name, UPSERT) for name in PASSING),
        ("500 once", "/points/scroll$"),
        ("the answer is lost, not the request", "/points/delete$"),
    ],
)
def test_a_fault_that_passes_costs_a_pause(
    double: QdrantDouble, open_store: Callable[..., ServerStore], name: str, path: str
) -> None:
    store = open_store(double, timeout=3 if "hangs" in name else PATIENCE)
    store.replace([OLD, OTHER])
    double.faults = [dataclasses.replace(PASSING[name], path=path)]
    assert store.replace([NEW]) == Written(2, 3)
    assert double.faults[0].hits
    assert found(store) == texts(NEW, OTHER)
    assert chunk_points(double) == 4


def test_a_stop_at_any_request_leaves_the_old_or_the_new_version(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    store.replace([OLD, OTHER])
    before = len(double.requests)
    store.replace([NEW])
    requests = len(double.requests) - before
    assert requests >= 5
    store.replace([OLD])
    for number in range(requests):
        for lost_answer in (False, True):
            double.faults = [error(400, "stop", times=None, after=number, done_first=lost_answer)]
            with pytest.raises(StoreError, match="stop"):
                store.replace([NEW])
            double.faults = []
            assert found(store) in (texts(OLD, OTHER), texts(NEW, OTHER))
            assert store.stats().chunks == len(found(store))
            store.replace([LATER])
            assert found(store) == texts(NEW, OTHER)
            assert chunk_points(double) == 4
            store.replace([OLD])
            assert chunk_points(double) == 5


# --- a server that is not up -----------------------------------------------------------------------------------------


def test_a_server_that_is_down_is_told_with_the_command_that_starts_it(
    double: QdrantDouble, open_store: Callable[..., ServerStore], caplog: pytest.LogCaptureFixture
) -> None:
    double.stop()
    store = open_store(double, wait=0.2)
    with pytest.raises(
        StoreError, match=r"^Qdrant at http://127\.0\.0\.1:\d+ does not run \(connection refused\)\."
    ) as e:
        store.known()
    assert e.value.fix == "systemctl --user start qdrant"
    # Waited for in vain once, it is not waited for in every call after that.
    patient = open_store(double, wait=1.5)
    for _ in range(4):
        with pytest.raises(StoreError):
            patient.search(StoreQuery(unit(1), 3))
    assert caplog.text.count("waiting up to 1.5 s") == 1
    double.start()
    assert patient.search(StoreQuery(unit(1), 3)) == []


def test_a_server_that_is_late_is_waited_for_and_named(
    double: QdrantDouble, open_store: Callable[..., ServerStore], caplog: pytest.LogCaptureFixture
) -> None:
    open_store(double).replace([OLD])
    double.stop()
    threading.Timer(0.4, double.start).start()
    assert set(open_store(double).known()) == {OLD.record.doc_id}
    waiting = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert waiting[0].startswith(f"waiting up to 5 s for Qdrant: Qdrant at {double.url} does not run")
    assert len(waiting) == 2


def test_a_server_that_restarts_between_two_batches_costs_a_pause(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    store.replace([OLD])

    def restart() -> None:
        double.stop()
        threading.Timer(0.2, double.start).start()

    double.faults = [Fault(path=UPSERT, after=1, call=lambda: threading.Thread(target=restart).start(), seconds=0.1)]
    with store.hold():
        assert store.replace([NEW]) == Written(2, 3)
    assert found(store) == texts(NEW)


def test_a_collection_that_was_deleted_in_the_middle_of_a_run_is_not_made_again(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    with store.hold():
        store.replace([OLD])
        double.engine.delete_collection("bigos")
        for action in (store.known, lambda: store.replace([NEW]), lambda: store.search(StoreQuery(unit(1), 3))):
            with pytest.raises(StoreError, match=r"collection bigos .* was deleted while it was in use") as caught:
                action()
            assert "ingest" in caught.value.fix
        assert not double.engine.collection_exists("bigos")
    assert store.known() == {}  # the next run begins anew
    assert store.replace([NEW]) == Written(2, 0)


def test_a_collection_that_another_host_made_anew_is_noticed(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    with store.hold():
        store.replace([OLD])
        double.engine.delete_collection("bigos")
        open_store(double).replace([OTHER])
        with pytest.raises(StoreError, match="was deleted while it was in use"):
            store.replace([NEW])
    assert found(store) == texts(OTHER)


def test_a_collection_that_goes_in_the_middle_of_a_replace_is_not_made_again(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    store.replace([OLD])
    double.faults = [Fault(path=UPSERT, call=lambda: double.engine.delete_collection("bigos") and None)]
    with store.hold(), pytest.raises(StoreError, match=r"collection bigos .* is not there"):
        store.replace([NEW])
    assert not double.engine.collection_exists("bigos")


# --- whose collection it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [1, 2, 3, 5, 8, 9, 10])
def test_a_creation_that_was_interrupted_anywhere_is_finished_by_the_next_write(
    double: QdrantDouble, open_store: Callable[..., ServerStore], stop: int
) -> None:
    double.faults = [error(400, "stop", times=None, after=stop)]
    with pytest.raises(StoreError, match="stop"):
        open_store(double).replace([OLD])
    double.faults = []
    assert open_store(double).known() == {}
    assert open_store(double).replace([OLD]) == Written(3, 0)
    assert found(open_store(double)) == texts(OLD)
    indexed = {request for request in double.requests if request.endswith("/index")}
    assert indexed
    assert double.count("^PUT .*/index$") >= len(server_collection.INDEXES)


def test_two_hosts_that_make_the_collection_at_once_get_the_same_one(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    first, second = open_store(double), open_store(double)
    double.faults = [Fault(path=r"^PUT /collections/bigos$", call=lambda: second.replace([OTHER]) and None)]
    first.replace([OLD])
    assert found(first) == found(second) == texts(OLD, OTHER)


def test_two_models_that_make_the_collection_at_once_do_not_mix(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    first, second = open_store(double, "model/1"), open_store(double, "model/2")
    # The second one comes after the first has made the collection, and before it has signed it.
    double.faults = [Fault(path=UPSERT, call=lambda: second.replace([OTHER]) and None)]
    with pytest.raises(FingerprintMismatch, match=r"made with model/2 .* says model/1"):
        first.replace([OLD])
    assert found(second) == texts(OTHER)


def test_another_dimension_in_an_unfinished_collection_is_refused(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    size = models.VectorParams(size=DIMENSION + 1, distance=models.Distance.COSINE)
    double.engine.create_collection("bigos", vectors_config={"dense": size})
    with pytest.raises(FingerprintMismatch, match="laid out for 9 dimensions"):
        open_store(double).replace([OLD])


@pytest.mark.parametrize("named", [True, False])
def test_a_collection_of_another_program_is_left_alone(
    double: QdrantDouble, open_store: Callable[..., ServerStore], named: bool
) -> None:
    size = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    double.engine.create_collection("bigos", vectors_config={"dense": size} if named else size)
    vector: Any = {"dense": unit(1).tolist()} if named else unit(1).tolist()
    double.engine.upsert("bigos", [models.PointStruct(id=1, vector=vector, payload={"theirs": True})])
    store = open_store(double)
    for action in (store.known, lambda: store.replace([OLD]), lambda: store.forget(Path("/"))):
        with pytest.raises(StoreError, match="was not made by Bigos; nothing was changed") as caught:
            action()
        assert "collection" in caught.value.fix
    assert double.engine.count("bigos").count == 1


def test_a_later_schema_is_refused(double: QdrantDouble, open_store: Callable[..., ServerStore]) -> None:
    store = open_store(double)
    store.replace([OLD])
    double.engine.set_payload("bigos", {"schema": 99}, [server_collection.META_ID])
    with pytest.raises(FingerprintMismatch, match=f"schema 99, this Bigos reads {points.SCHEMA_VERSION}"):
        store.known()


def test_a_server_that_refuses_the_length_of_a_vector_is_a_mismatch(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    store.replace([OLD])
    double.faults = [error(400, "Wrong input: Vector dimension error: expected dim: 8, got 9", path=UPSERT)]
    with pytest.raises(FingerprintMismatch, match=r"vectors of another length .*expected dim: 8, got 9"):
        store.replace([NEW])


def test_the_collection_is_laid_out_for_a_million_chunks(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    open_store(double, shards=6, replicas=3).replace([OLD])
    sent = double.bodies["PUT /collections/bigos"]
    assert sent["quantization_config"]["scalar"] == {"type": "int8", "quantile": 0.99, "always_ram": True}
    assert sent["vectors"]["dense"] == {"size": DIMENSION, "distance": "Cosine", "on_disk": True}
    assert set(sent["sparse_vectors"]) == {points.LEXICAL_NAME}
    assert sent["on_disk_payload"] is True
    assert (sent["shard_number"], sent["replication_factor"], sent["write_consistency_factor"]) == (6, 3, 2)


# --- keys, TLS, addresses --------------------------------------------------------------------------------------------

KEY = "s3cret-key-of-the-server"


def test_a_key_is_sent_and_a_missing_or_wrong_one_is_told_without_showing_it(
    open_store: Callable[..., ServerStore], caplog: pytest.LogCaptureFixture
) -> None:
    with QdrantDouble(api_key=KEY, read_only_key="read") as double:
        good = open_store(double, api_key=KEY)
        good.replace([OLD])
        assert found(good) == texts(OLD)
        with pytest.raises(StoreError, match=r"wants an API key\.") as caught:
            open_store(double).known()
        assert "BIGOS_QDRANT_API_KEY" in caught.value.fix
        with pytest.raises(StoreError, match=r"does not accept qdrant_api_key\.") as caught:
            open_store(double, api_key="wr0ng").known()
        assert "wr0ng" not in str(caught.value) + caplog.text
        reader = open_store(double, api_key="read")
        assert found(reader) == texts(OLD)
        with pytest.raises(StoreError, match="does not let this API key do that"):
            reader.replace([NEW])
        double.faults = [error(500, f"key {KEY} is odd", times=None)]
        with pytest.raises(StoreError, match=r"key \*\*\* is odd"):
            good.known()
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["with\nnewline", "zażółć", " space "])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ServerStore("http://127.0.0.1:1", "bigos", None, None, api_key=key)
    assert key not in str(caught.value)


def test_a_key_over_an_open_line_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    store = ServerStore("http://qdrant.invalid:6333", "bigos", None, None, api_key=KEY, wait=0)
    with pytest.raises(StoreError):
        store.known()
    assert "without encryption" in caplog.text
    assert KEY not in caplog.text


def test_tls_is_spoken_with_the_given_authority_only(open_store: Callable[..., ServerStore], tmp_path: Path) -> None:
    with QdrantDouble(tls=(str(TLS / "certificate.pem"), str(TLS / "key.pem"))) as double:
        store = open_store(double, ca_file=TLS / "certificate.pem")
        store.replace([OLD])
        assert found(store) == texts(OLD)
        with pytest.raises(StoreError, match=r"no secure connection .*certificate verify failed") as caught:
            open_store(double).known()
        assert "qdrant_ca_file" in caught.value.fix
        with pytest.raises(StoreError, match=r"broke the connection off|does not answer|is not Qdrant"):
            open_store(double.url.replace("https", "http"), wait=0.2).known()
    (tmp_path / "empty.pem").touch()
    for file in (tmp_path / "none.pem", tmp_path / "empty.pem"):
        with pytest.raises(ConfigError, match=r"qdrant_ca_file .* cannot be read"):
            open_store("https://127.0.0.1:1", ca_file=file).known()


def test_https_to_a_server_that_does_not_speak_it_is_told(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    with pytest.raises(StoreError, match="no secure connection") as caught:
        open_store(double.url.replace("http", "https"), wait=0.2).known()
    assert "http://" in caught.value.fix


@pytest.mark.parametrize("url", ["127.0.0.1:6333", "ftp://127.0.0.1", "http://", "qdrant"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="qdrant_url"):
        ServerStore(url, "bigos", None, None)


def test_a_host_that_nobody_knows_is_told() -> None:
    store = ServerStore("http://qdrant.invalid:6333", "bigos", None, None, wait=0)
    with pytest.raises(StoreError, match=r"qdrant\.invalid") as caught:
        store.known()
    assert "qdrant" in caught.value.fix


def test_a_user_and_password_in_the_url_are_not_shown() -> None:
    store = ServerStore("http://ala:kot@127.0.0.1:1", "bigos", None, None, wait=0)
    with pytest.raises(StoreError, match=r"at http://127\.0\.0\.1:1 does not run"):
        store.known()


def test_a_user_and_password_in_the_url_are_sent(double: QdrantDouble, open_store: Callable[..., ServerStore]) -> None:
    open_store(double.url.replace("//", "//ala:k%C3%B3t@")).replace([OLD])
    assert {headers.get("authorization") for headers in double.headers} == {"Basic YWxhOmvDs3Q="}
    assert not any("api-key" in headers for headers in double.headers)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", True),
        ("qdrant.localhost", True), ("10.0.0.1", False), ("127.example.org", False), ("[fe80::1]", False),
    ],
)  # fmt: skip
def test_what_is_on_this_machine_is_told_from_what_is_not(host: str, here: bool) -> None:
    address = Address(f"http://{host}:6333", "bigos", 1)
    assert address.loopback is here
    assert address.service("start").startswith("systemctl") is here


def test_another_server_behind_the_address_is_told(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    double.title = "another engine"
    with pytest.raises(StoreError, match=r"is not Qdrant .it calls itself another engine") as caught:
        open_store(double).known()
    assert "qdrant_url" in caught.value.fix


@pytest.mark.parametrize("banner", [b"-ERR unknown command\r\n\r\n", b""])
def test_a_port_that_does_not_speak_http_is_told(open_store: Callable[..., ServerStore], banner: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(banner)

        threading.Thread(target=serve, daemon=True).start()
        store = open_store(f"http://127.0.0.1:{server.getsockname()[1]}", wait=0.2)
        with pytest.raises(
            StoreError, match="is not Qdrant .it does not speak HTTP" if banner else "broke the connection"
        ):
            store.known()


def test_a_proxy_of_the_session_does_not_see_what_stays_on_the_machine(
    double: QdrantDouble, open_store: Callable[..., ServerStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    store = open_store(double)
    store.replace([OLD])
    assert found(store) == texts(OLD)


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
    with pytest.raises(StoreError, match=r"cannot be asked .* this session's") as caught:
        ServerStore("http://qdrant.invalid:6333", "bigos", None, None, wait=0).known()
    assert caught.value.fix == fix
    assert "kot" not in str(caught.value)


# --- versions, doctor, connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "warned"),
    [("1.20.3", False), ("1.19.0", False), ("1.21.0-dev", False), ("1.17.0", True), ("2.0.0", True), ("dev", True)],
)
def test_versions_too_far_apart_are_warned_of_once(
    open_store: Callable[..., ServerStore], caplog: pytest.LogCaptureFixture, version: str, warned: bool
) -> None:
    with QdrantDouble(version=version) as double:
        store = open_store(double)
        store.replace([OLD])
        assert found(store) == texts(OLD)
        assert len(re.findall("is version|calls its version", caplog.text)) == int(warned)
        described = store.describe()
        assert version in described.text
        assert (described.warning is not None, described.fix is not None) == (warned, warned)


def test_the_server_is_described_before_and_after_there_is_a_collection(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    assert store.describe().text == f"Qdrant 1.20.0 at {double.url}, collection bigos: not made yet"
    store.replace([OLD])
    assert store.describe().text.startswith(f"Qdrant 1.20.0 at {double.url}, collection bigos: green, 5 points")


@pytest.mark.parametrize("colour", ["yellow", "red"])
def test_a_collection_that_the_server_cannot_optimise_is_described_with_the_reason(
    double: QdrantDouble, open_store: Callable[..., ServerStore], colour: str
) -> None:
    store = open_store(double)
    store.replace([OLD])
    info = double.engine.get_collection("bigos").model_dump(mode="json", exclude_none=True)
    info |= {"status": colour, "optimizer_status": {"error": "No space left on device"} if colour == "red" else "ok"}
    double.faults = [Fault(path="^GET /collections/bigos$", status=200, body={"result": info, "status": "ok"})]
    described = store.describe()
    assert f": {colour}, " in described.text
    assert (described.warning is not None) == (colour == "red")
    assert "No space left" in (described.warning or "No space left")
    assert found(store) == texts(OLD)


def test_connections_are_kept_and_given_back(double: QdrantDouble, open_store: Callable[..., ServerStore]) -> None:
    store = open_store(double)
    store.replace([OLD, OTHER])
    for _ in range(5):
        found(store)
    assert double.connections == 1
    store.close()
    store.close()
    assert found(store) == texts(OLD, OTHER)
    assert double.connections == 2


def test_a_request_stays_far_below_what_a_server_takes(
    double: QdrantDouble, open_store: Callable[..., ServerStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Control characters are what JSON makes most of: six bytes each.
    monkeypatch.setattr(server_points, "REQUEST_BYTES", 200_000)
    long = with_record(document("/a/long.txt", 60, text="\x01\x02" * 4000))
    store = open_store(double)
    assert store.replace([long, OLD]) == Written(63, 0)
    assert len(double.sizes) > 6
    assert max(double.sizes) <= 3.2 * 200_000
    assert found(store) == texts(long, OLD)


@pytest.mark.parametrize("lasts", [False, True])
def test_of_many_requests_one_that_fails_is_sent_again_or_ends_the_replace(
    double: QdrantDouble, open_store: Callable[..., ServerStore], monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    monkeypatch.setattr(server_points, "REQUEST_POINTS", 5)
    long, longer = document("/a/x.txt", 40, "v1"), document("/a/x.txt", 47, "v2")
    store = open_store(double, wait=0.2 if lasts else 5)
    store.replace([long])
    assert double.count(UPSERT) >= 8
    double.faults = [error(503, "restarting", path=UPSERT, after=6, times=None if lasts else 3)]
    if lasts:
        with pytest.raises(StoreError, match="is not ready"):
            store.replace([longer])
        assert found(store) == texts(long)
        double.faults = []
    assert store.replace([longer]) == Written(47, 40)
    assert found(store) == texts(longer)


def test_after_an_error_no_further_requests_are_made(
    double: QdrantDouble, open_store: Callable[..., ServerStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_points, "REQUEST_POINTS", 1)
    store = open_store(double)
    store.replace([OLD])
    double.faults = [error(400, "odd", path=UPSERT, times=None)]
    with pytest.raises(StoreError, match="odd"):
        store.replace([document("/a/x.txt", 30, "v2")])
    assert double.faults[0].hits <= 4  # those under way, and no more
    double.faults = []
    assert found(store) == texts(OLD)


# --- uploads by gRPC -------------------------------------------------------------------------------------------------

GRPC_FAULTS = {
    "UNAVAILABLE": ("", r"does not answer on its gRPC port", "qdrant_grpc = false"),
    "UNAUTHENTICATED": ("no key", r"wants an API key", "qdrant_api_key"),
    "DEADLINE_EXCEEDED": ("", r"did not answer within 30 s", "qdrant_timeout"),
    "RESOURCE_EXHAUSTED": ("slow down", r"turns requests away", "later"),
    "INTERNAL": ("Service internal error: No space left on device", r"disk of Qdrant .* is full", "free space"),
    "UNKNOWN": ("task panicked", r"failed: task panicked", "journalctl"),
    "NOT_FOUND": ("Collection `bigos` doesn't exist!", r"collection bigos .* is not there", "ingest"),
    "INVALID_ARGUMENT": ("odd", r"refuses our request \(INVALID_ARGUMENT: odd\)", "journalctl"),
}


@pytest.mark.parametrize("status", GRPC_FAULTS)
def test_a_failed_upload_by_grpc_is_told_and_one_that_passes_is_sent_again(
    double: QdrantDouble, open_store: Callable[..., ServerStore], status: str
) -> None:
    words, message, fix = GRPC_FAULTS[status]
    with GrpcDouble(double) as uploads:
        store = open_store(double, grpc=True, grpc_port=uploads.port, wait=0.2)
        store.replace([OLD])
        uploads.failures = [(grpc.StatusCode[status], words)] * 9
        with pytest.raises(StoreError, match=message) as caught:
            store.replace([NEW])
        assert fix in caught.value.fix
        assert found(store) == texts(OLD)
        passes = status in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNKNOWN")
        uploads.failures = [(grpc.StatusCode[status], words)] if passes else []
        assert open_store(double, grpc=True, grpc_port=uploads.port).replace([NEW]) == Written(2, 3)
        assert not uploads.failures
        assert uploads.uploads == 2
    assert found(store) == texts(NEW)


def test_a_key_goes_along_with_uploads_by_grpc(open_store: Callable[..., ServerStore]) -> None:
    with QdrantDouble(api_key=KEY) as double, GrpcDouble(double) as uploads:
        store = open_store(double, api_key=KEY, grpc=True, grpc_port=uploads.port)
        assert store.replace([OLD]) == Written(3, 0)
        assert found(store) == texts(OLD)


# --- several hosts ---------------------------------------------------------------------------------------------------


def timed(item: Replacement, when: str) -> Replacement:
    return with_record(item, ingested_at=f"2026-11-30T{when}+00:00")


def test_chunks_that_a_crash_left_over_go_when_they_are_old(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    store.replace([timed(OLD, "08:00:00")])
    for version, when in (("v2", "09:00:00"), ("v3", "11:59:00")):
        double.faults = [error(400, "stop", path=UPSERT, after=1, times=None)]  # after the chunks, before the Record
        with pytest.raises(StoreError):
            store.replace([timed(document("/a/x.txt", 4, version), when)])
        double.faults = []
    assert found(store) == texts(OLD)
    assert chunk_points(double) == 11
    assert store.replace([timed(document("/a/x.txt", 2, "v4"), "12:00:00")]) == Written(2, 7)
    assert chunk_points(double) == 6  # v3 may be another host's that is about to write its Record


def test_left_over_chunks_do_not_push_current_ones_out_of_the_first_hits(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    far = document("/a/far.txt", 3, vectors=np.stack([unit(-1, 1), unit(-1, 2), unit(-1, 3)]))
    store.replace([far, document("/a/x.txt", 1, "v1", vectors=unit(-1, 0.1)[None, :])])
    double.faults = [error(400, "stop", path=UPSERT, after=4, times=None)]
    with pytest.raises(StoreError):  # four requests for the chunks, then their Records
        store.replace(
            [
                document("/a/x.txt", 300, "v2", vectors=np.tile(unit(1), (300, 1))),
                document("/a/none.txt", 100, vectors=np.tile(unit(1), (100, 1))),
            ]
        )
    double.faults = []
    hits = store.search(StoreQuery(unit(1), 3))
    assert [hit.chunk.text for hit in hits] == [far.chunks[index].text for index in (2, 1, 0)]
    assert [hit.ranks.dense for hit in hits] == [1, 2, 3]
    assert store.forget(Path("/a")) == Forgotten(2, 404)


def test_a_refresh_does_not_undo_what_another_host_has_written_since(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store, other = open_store(double), open_store(double)
    store.replace([OLD])
    double.faults = [Fault(path="/points/batch$", call=lambda: other.replace([NEW]) and None)]
    store.refresh([dataclasses.replace(OLD.record, mtime_ns=7)])
    assert store.known() == {NEW.record.doc_id: NEW.record}
    assert found(store) == texts(NEW)


def test_stamps_are_read_a_page_at_a_time_and_nothing_else_with_them(
    double: QdrantDouble, open_store: Callable[..., ServerStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_points, "_STAMPS_A_PAGE", 2)
    store = open_store(double)
    items = [document(f"/a/{number}.txt", 2) for number in range(5)]
    store.replace(items)
    double.requests.clear()
    assert sorted(store.stamps()) == sorted(points.stamp(item.record) for item in items)
    assert double.count("/points/scroll$") == 3
    assert double.bodies["POST /collections/bigos/points/scroll"]["with_payload"] == ["stamp"]


def test_a_collection_older_than_stamps_gets_them_as_its_records_are_written(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    store.replace([OLD, OTHER])
    double.engine.delete_payload("bigos", ["stamp"], models.Filter())
    assert store.stamps() == []
    assert store.records([OLD.record.doc_id]) == {OLD.record.doc_id: OLD.record}
    touched = dataclasses.replace(OTHER.record, mtime_ns=5)
    assert store.refresh([touched]) == 1
    assert store.stamps() == [points.stamp(touched)]
    store.replace([LATER])
    assert sorted(store.stamps()) == sorted([points.stamp(touched), points.stamp(LATER.record)])


def test_forgetting_everything_keeps_the_collection_usable(
    double: QdrantDouble, open_store: Callable[..., ServerStore]
) -> None:
    store = open_store(double)
    with store.hold():
        store.replace([OLD, OTHER])
        assert store.forget(Path("/")) == Forgotten(2, 5)
        assert store.stats().fingerprint == FINGERPRINT
        assert store.replace([NEW]) == Written(2, 0)
    assert found(store) == texts(NEW)


@pytest.mark.parametrize("request_points", [1, 1000])
def test_a_stop_does_not_wait_for_a_server_that_hangs(double: QdrantDouble, request_points: int) -> None:
    double.faults = [Fault(path=UPSERT, after=1, times=None, seconds=20)]  # the first one makes the collection
    script = (
        "from bigos.stores import server_points\n"
        "from bigos.stores.server import ServerStore\n"
        "from store_documents import DIMENSION, FINGERPRINT, document\n"
        f"server_points.REQUEST_POINTS = {request_points}\n"
        f"ServerStore({double.url!r}, 'bigos', FINGERPRINT, DIMENSION).replace([document('/a/x.txt', 30)])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=python_environment()
    )
    until(lambda: double.count(UPSERT) >= 2 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in stderr

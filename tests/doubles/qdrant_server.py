# SPDX-License-Identifier: GPL-2.0-only
"""A server that speaks Qdrant's REST interface over a real socket, and misbehaves when it is told to.

Requests are parsed with the client's own models and done by a real engine, the client's in-memory one; so what a
request asks for is really done, and a request that no model fits is refused as the server would. Errors have the
status and the words of the real server.

    python tests/doubles/qdrant_server.py [--port N]     prints its URL and serves until killed
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import socket
import ssl
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from functools import wraps
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from qdrant_client import QdrantClient, models
from qdrant_client.http.models import (
    ChangeAliasesOperation,
    CountRequest,
    CreateCollection,
    CreateFieldIndex,
    PointRequest,
    PointsBatch,
    PointsList,
    PointsSelector,
    QueryRequest,
    ScrollRequest,
    SetPayload,
    UpdateOperations,
)

VERSION = "1.20.0"


@dataclass
class Fault:
    """What to do instead of answering, or to the answer. `path` is a regular expression on "METHOD path".

    `times` requests are hit, None hits all of them; `after` that many fitting ones have passed.
    """

    path: str = ""
    times: int | None = 1
    after: int = 0
    status: int = 0
    body: bytes | str | dict[str, Any] = b""
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """Wait so long, then go on."""
    done_first: bool = False
    """Do what was asked before failing: the answer is lost, not the request."""
    reset: bool = False
    """Cut the connection in the middle of the answer."""
    truncate: bool = False
    """Half of the answer's JSON, with a Content-Length that fits it."""
    call: Callable[[], None] | None = None
    """Run this, then go on."""
    then: Callable[[], None] | None = None
    """Run this when the request is done, before it is answered."""
    hits: int = 0


def error(status: int, words: str, **more: Any) -> Fault:
    """A fault with the words that the real server would use."""
    return Fault(status=status, body={"status": {"error": words}, "time": 0.001}, **more)


class _OneAtATime:
    """The engine, for the double's own threads and for whoever looks into it meanwhile: it is not made for threads."""

    def __init__(self, engine: QdrantClient, lock: Any) -> None:
        self._engine = engine
        self._lock = lock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._engine, name)
        if not callable(found):
            return found

        @wraps(found)
        def alone(*args: Any, **options: Any) -> Any:
            with self._lock:
                return found(*args, **options)

        return alone


class QdrantDouble:
    """The server. What it stores outlives stop() and start(), as a real one's disk does.

    Args:
        port: 0 takes a free one, which it then keeps over restarts.
        api_key: wanted in every request when given; `read_only_key` may only read.
        version: what it says of itself.
        tls: certificate and key files.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        api_key: str | None = None,
        read_only_key: str | None = None,
        version: str = VERSION,
        tls: tuple[str, str] | None = None,
        engine: QdrantClient | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.engine = cast(QdrantClient, _OneAtATime(engine or QdrantClient(":memory:"), self.lock))
        self.api_key = api_key
        self.read_only_key = read_only_key
        self.version = version
        self.title = "qdrant - vector search engine"
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.sizes: list[int] = []
        self.bodies: dict[str, Any] = {}
        """The last JSON body of each kind of small request."""
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.snapshots: dict[str, bytes] = {}
        self._port = port
        self._tls = tls
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def __enter__(self) -> QdrantDouble:
        from doubles.embedding_server import reserved_port

        self._held = reserved_port()  # stopped and started again, it has to be found where it was
        self._port = self._held.getsockname()[1]
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._held.close()
        self.engine.close()

    def start(self) -> None:
        self._server = _Server(self._port, self)
        self._port = self._server.server_address[1]
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """As if the process ended: the port refuses, and open connections are cut."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        server.shutdown()
        self._thread.join()
        server.server_close()
        server.cut_connections()

    @property
    def running(self) -> bool:
        return self._server is not None

    def count(self, pattern: str) -> int:
        """How many requests of this kind there were."""
        return sum(bool(re.search(pattern, request)) for request in self.requests)

    def fault_for(self, request: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if re.search(fault.path, request) and (fault.times is None or fault.hits < fault.after + fault.times):
                    fault.hits += 1
                    if fault.hits > fault.after:
                        return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, double: QdrantDouble) -> None:
        self.double = double
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        self.double.connections += 1
        self._open.add(connection)
        return connection, address

    def cut_connections(self) -> None:
        for connection in self._open:
            _cut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are no news, nor is a stop; anything else is a mistake in here."""
        if self.double.running and not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


def _cut(connection: socket.socket) -> None:
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Refused(Exception):
    """The engine or a model does not take the request."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one write
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def _serve(self) -> None:
        double = self.server.double
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        request = f"{self.command} {path}"
        with double.lock:
            double.requests.append(request)
            double.sizes.append(len(body))
            if 0 < len(body) < 4096 and self.headers.get("Content-Type", "").startswith("application/json"):
                double.bodies[request] = json.loads(body)
            double.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = double.fault_for(request)
        if fault is not None:
            time.sleep(fault.seconds)
            if fault.call is not None:
                fault.call()
            if fault.done_first:
                self._answer(path, body)
            if fault.status:
                text = json.dumps(fault.body) if isinstance(fault.body, dict) else fault.body
                self._send(fault.status, text.encode() if isinstance(text, str) else text, fault.headers)
                return
        status, answer = self._answer(path, body)
        if fault is not None and fault.then is not None:
            fault.then()
        if fault is not None and fault.reset:
            self._send(status, answer, {}, cut_at=len(answer) // 2)
        elif fault is not None and fault.truncate:
            self._send(status, answer[: len(answer) // 2], {})
        else:
            self._send(status, answer, {})

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve

    def _send(self, status: int, body: bytes, headers: dict[str, str], cut_at: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in ({"Content-Type": "application/json"} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:cut_at])
        self.wfile.flush()
        if cut_at is not None:
            self.close_connection = True
            _cut(self.connection)

    def _answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        started = time.monotonic()
        double = self.server.double
        key = self.headers.get("api-key")
        if double.api_key is not None and (key is None or key not in (double.api_key, double.read_only_key)):
            words = "Invalid API key or JWT" if key else "Must provide an API key or an Authorization bearer token"
            return 401, words.encode()
        try:
            if path == "/":
                return 200, json.dumps({"title": double.title, "version": double.version, "commit": "0"}).encode()
            if double.read_only_key is not None and key == double.read_only_key and self._writes(path):
                raise Refused(403, "Forbidden: Global write access is required")
            with double.lock:
                if "/snapshots" in path:
                    result = _snapshots(double, self.command, path, body, self.headers.get("Content-Type", ""))
                else:
                    result = _do(double.engine, self.command, path, body)
            if isinstance(result, bytes):
                return 200, result
        except Refused as refused:
            answer: Any = {"status": {"error": str(refused)}, "time": 0.0}
            return refused.status, json.dumps(answer).encode()
        answer = _ANSWER.dump_json({"result": result, "status": "ok", "time": time.monotonic() - started})
        return 200, answer

    def _writes(self, path: str) -> bool:
        return self.command in ("PUT", "PATCH", "DELETE") or path.endswith(
            ("/delete", "/batch", "/payload", "/aliases")
        )


_ANSWER: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_ROUTE = re.compile(r"^/collections/([^/]+)(?:/(.*))?$")


def _parse(model: Any, body: bytes) -> Any:
    try:
        return _adapter(model).validate_json(body)
    except ValidationError as wrong:
        raise Refused(400, f"Format error in JSON body: {str(wrong)[:200]}") from wrong


_adapters: dict[int, TypeAdapter[Any]] = {}


def _adapter(model: Any) -> TypeAdapter[Any]:
    return _adapters.setdefault(id(model), TypeAdapter(model))


def _do(engine: QdrantClient, method: str, path: str, body: bytes) -> Any:
    whole = _WHOLE_SERVER.get((method, path))
    if whole is not None:
        return whole(engine, body)
    route = _ROUTE.match(path)
    if route is None:
        raise Refused(404, f"no route {path}")
    name, what = route.group(1), route.group(2) or ""
    if (method, what) == ("PUT", ""):
        if engine.collection_exists(name):
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        config = _parse(CreateCollection, body)
        return engine.create_collection(
            name, vectors_config=config.vectors, sparse_vectors_config=config.sparse_vectors, metadata=config.metadata
        )
    if not engine.collection_exists(name):
        if (method, what) == ("DELETE", ""):
            return False
        if (method, what) == ("GET", "exists"):
            return {"exists": False}
        raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
    doing = _ROUTES.get((method, what))
    if doing is None:
        raise Refused(404, f"no route {method} {path}")
    try:
        return doing(engine, name, body)
    except (ValueError, KeyError) as wrong:
        # The engine's words for a vector that does not fit are numpy's.
        dimension = "broadcast" in str(wrong) or "dimension" in str(wrong)
        words = f"Vector dimension error: {wrong}" if dimension else str(wrong)
        raise Refused(400, f"Wrong input: {words}") from wrong


def _snapshots(double: QdrantDouble, method: str, path: str, body: bytes, content_type: str) -> Any:
    """A snapshot is what this double can make the same collection of again; only its way is the server's."""
    engine = double.engine
    _, _, name, _, *more = path.split("/")
    if more == ["upload"]:
        field = message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body).get_payload()[0]
        try:
            vectors, sparse, metadata, points = pickle.loads(field.get_payload(decode=True))
        except (pickle.UnpicklingError, EOFError, ValueError) as wrong:
            raise Refused(400, f"Wrong input: Snapshot is not a valid archive: {wrong}") from wrong
        if not engine.collection_exists(name):
            engine.create_collection(name, vectors_config=vectors, sparse_vectors_config=sparse, metadata=metadata)
        for point in points:
            engine.upsert(name, [models.PointStruct(id=point.id, vector=point.vector or {}, payload=point.payload)])
        return True
    if not engine.collection_exists(name):
        raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
    if method == "POST":
        config = engine.get_collection(name).config
        points = engine.scroll(name, limit=1_000_000, with_payload=True, with_vectors=True)[0]
        parts = config.params.vectors, config.params.sparse_vectors, config.metadata, points
        snapshot = f"{name}-{len(double.requests)}.snapshot"
        double.snapshots[snapshot] = pickle.dumps(parts)
        return models.SnapshotDescription(name=snapshot, size=len(double.snapshots[snapshot]))
    if more[0] not in double.snapshots:
        raise Refused(404, f"Not found: Snapshot {more[0]} not found")
    if method == "DELETE":
        del double.snapshots[more[0]]
        return True
    return double.snapshots[more[0]]


def _change_aliases(engine: QdrantClient, body: bytes) -> Any:
    try:
        return engine.update_collection_aliases(_parse(ChangeAliasesOperation, body).actions)
    except ValueError as wrong:
        raise Refused(409 if "already exists" in str(wrong) else 404, f"Wrong input: {wrong}") from wrong


def _set_payload(engine: QdrantClient, name: str, body: bytes) -> Any:
    asked: SetPayload = _parse(SetPayload, body)
    return engine.set_payload(name, asked.payload, asked.points or asked.filter)


def _upsert(engine: QdrantClient, name: str, body: bytes) -> Any:
    try:
        inserts: PointsList = _parse(PointsList, body)
    except Refused:
        batch: PointsBatch = _parse(PointsBatch, body)
        return engine.upsert(name, batch.batch, update_filter=batch.update_filter, update_mode=batch.update_mode)
    points = inserts.points
    return engine.upsert(name, points, update_filter=inserts.update_filter, update_mode=inserts.update_mode)


def _query(engine: QdrantClient, name: str, body: bytes) -> Any:
    asked: QueryRequest = _parse(QueryRequest, body)  # its `params` are about what the engine does not have
    return engine.query_points(
        name,
        query=asked.query,
        using=asked.using,
        prefetch=asked.prefetch,
        query_filter=asked.filter,
        limit=10 if asked.limit is None else asked.limit,
        with_payload=bool(asked.with_payload) if asked.with_payload is None else asked.with_payload,
        with_vectors=asked.with_vector or False,
    )


def _scroll(engine: QdrantClient, name: str, body: bytes) -> Any:
    asked: ScrollRequest = _parse(ScrollRequest, body)
    points, following = engine.scroll(
        name,
        scroll_filter=asked.filter,
        limit=10 if asked.limit is None else asked.limit,
        offset=asked.offset,
        with_payload=True if asked.with_payload is None else asked.with_payload,
        with_vectors=asked.with_vector or False,
    )
    return {"points": points, "next_page_offset": following}


def _retrieve(engine: QdrantClient, name: str, body: bytes) -> Any:
    asked: PointRequest = _parse(PointRequest, body)
    return engine.retrieve(
        name,
        asked.ids,
        with_payload=True if asked.with_payload is None else asked.with_payload,
        with_vectors=asked.with_vector or False,
    )


def _count(engine: QdrantClient, name: str, body: bytes) -> Any:
    asked: CountRequest = _parse(CountRequest, body)
    return engine.count(name, count_filter=asked.filter, exact=bool(asked.exact))


_WHOLE_SERVER: dict[tuple[str, str], Callable[[QdrantClient, bytes], Any]] = {
    ("GET", "/collections"): lambda engine, _: engine.get_collections(),
    ("GET", "/aliases"): lambda engine, _: engine.get_aliases(),
    ("POST", "/collections/aliases"): _change_aliases,
}

_ROUTES: dict[tuple[str, str], Callable[[QdrantClient, str, bytes], Any]] = {
    ("GET", ""): lambda engine, name, _: engine.get_collection(name),
    ("GET", "exists"): lambda *_: {"exists": True},
    ("DELETE", ""): lambda engine, name, _: engine.delete_collection(name),
    ("GET", "cluster"): lambda *_: models.CollectionClusterInfo(
        peer_id=1, shard_count=1, local_shards=[], remote_shards=[], shard_transfers=[]
    ),
    ("PUT", "points"): _upsert,
    ("POST", "points"): _retrieve,
    ("POST", "points/query"): _query,
    ("POST", "points/scroll"): _scroll,
    ("POST", "points/count"): _count,
    ("POST", "points/delete"): lambda engine, name, body: engine.delete(name, _parse(PointsSelector, body)),
    ("POST", "points/payload"): _set_payload,
    ("POST", "points/batch"): lambda engine, name, body: engine.batch_update_points(
        name, _parse(UpdateOperations, body).operations
    ),
    # The engine filters without indexes; that ours is well formed is what can be checked here.
    ("PUT", "index"): lambda _engine, _name, body: (
        _parse(CreateFieldIndex, body) and models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    double = QdrantDouble(parser.parse_args().port)
    double.start()
    print(double.url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0-only
"""A server that speaks the embedding APIs of Ollama and OpenAI over a real socket, and misbehaves when told to.

Its vectors are a real function of the text: words hashed into directions. Faults come from a script; traits of the
model (how many tokens it reads, which texts give NaN) hold until changed. Every request is kept for a test to look at.

    python embedding_server.py --dimension 1024     serves until its stdin closes, and prints its address
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Spans = Sequence[Sequence[int]]
EMBEDDING_PATHS = ("/api/embed", "/v1/embeddings")
TOO_LONG = "the input length exceeds the context length"
NAN_OF_OTHER_VERSIONS = "embedding contains NaN or Inf values"
NAN = "failed to encode response: json: unsupported value: NaN"


def words(text: str) -> Spans:
    """Where the words and signs of a text are: tokens of a kind."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


@dataclass
class Model:
    """What the server runs. `max_tokens` and `reads` count special tokens."""

    name: str = "bge-m3:latest"
    digest: str = "790764642607" + "0" * 52
    dimension: int = 32
    context: int = 8192
    num_ctx: int | None = None
    spans: Callable[[str], Spans] = words
    reads: int | None = None
    """Tokens after which it drops the rest without a word."""
    counts: Literal["all", "content", "zero", "absent"] = "all"
    """What it says of the tokens it read."""
    nan: Callable[[str], bool] = lambda text: False
    nan_as: Literal["500", "400", "null", "zero", "in JSON"] = "500"
    loading: float = 0.0
    """Seconds until it is there, at the first request."""
    on_gpu: float = 1.0
    base64: Literal["honoured", "ignored", "refused"] = "honoured"
    normalised: bool = True
    most_texts: int | None = None
    most_tokens: int | None = None
    """Of one text, as llama.cpp's physical batch."""
    remembers: bool = False
    """Whether a text that came before is answered at once, as a model that costs nothing would."""


@dataclass
class Fault:
    """What goes wrong with requests: with so many of them (None: with all), at those paths, when these texts come."""

    act: Literal["status", "drop", "reset", "cut", "html", "hang", "slow", "dimension", "count", "text"]
    times: int | None = 1
    paths: Sequence[str] = EMBEDDING_PATHS
    when: Callable[[list[str]], bool] = lambda texts: True
    status: int = 500
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 30.0


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    path: str
    payload: dict[str, Any]
    headers: dict[str, str]

    @property
    def texts(self) -> list[str]:
        """What is to be embedded."""
        given = self.payload.get("input", [])
        return [given] if isinstance(given, str) else list(given)


def reserved_port() -> socket.socket:
    """A socket that keeps a port of 127.0.0.1 until it is closed: nobody else gets it, and nobody answers there.

    A server that may reuse addresses can listen on it meanwhile, stop, and find it free when it starts again.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


class EmbeddingServer:
    """The server, in a thread of this process. A context manager; `stop` and `start` are a restart on the same port."""

    def __init__(self, model: Model | None = None, *, api_key: str | None = None, version: str = "0.34.2") -> None:
        self.model = model or Model()
        self.api_key = api_key
        self.version = version
        self.script: list[Fault] = []
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []
        self.most_in_flight = 0
        self.connections = 0
        self.loaded = False
        self._in_flight = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._port = 0
        self._http: ThreadingHTTPServer | None = None

    def __enter__(self) -> EmbeddingServer:
        self._held = reserved_port()
        self._port = self._held.getsockname()[1]
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._held.close()
        assert self.errors == []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def asked(self) -> list[Request]:
        """The requests for vectors."""
        return [request for request in self.requests if request.path in EMBEDDING_PATHS]

    def start(self) -> None:
        self._stopping.clear()
        self._http = _HTTPServer(("127.0.0.1", self._port), self)
        self._port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.005,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on, and break those that are open."""
        self._stopping.set()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.loaded = False

    def fault(self, act: Any, **details: Any) -> None:
        """Add a fault to the script."""
        self.script.append(Fault(act, **details))

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the server's life."""
        self._stopping.wait(seconds)

    @contextlib.contextmanager
    def counted(self) -> Any:
        with self._lock:
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
            self.connections += 1

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)

    def next_fault(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            for fault in self.script:
                if request.path in fault.paths and fault.when(request.texts):
                    if fault.times is not None:
                        fault.times -= 1
                        if not fault.times:
                            self.script.remove(fault)
                    return fault
        return None

    def answer(self, request: Request) -> tuple[int, Any]:
        """Status and JSON of a request to which nothing happens."""
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and sent != self.api_key:
            return 401, {"error": {"message": f"Incorrect API key provided: {sent}", "type": "invalid_request_error"}}
        if request.path not in ("/api/show", *EMBEDDING_PATHS):
            return self._list(request.path)
        asked, model = str(request.payload.get("model")), self.model
        if asked.lower() not in (model.name.lower(), model.name.lower().removesuffix(":latest")):
            return 404, {"error": f'model "{asked}" not found, try pulling it first'}
        return self._show() if request.path == "/api/show" else self._embed(request)

    def _list(self, path: str) -> tuple[int, Any]:
        model = self.model
        entry = {"name": model.name, "model": model.name, "digest": model.digest, "size": 1_200_000_000}
        running = [entry | {"size_vram": int(model.on_gpu * 1_200_000_000)}] if self.loaded else []
        found = {
            "/api/version": {"version": self.version},
            "/api/tags": {"models": [entry]},
            "/api/ps": {"models": running},
            "/v1/models": {"object": "list", "data": [{"id": model.name, "object": "model"}]},
        }
        return (200, found[path]) if path in found else (404, "404 page not found")

    def _show(self) -> tuple[int, Any]:
        model = self.model
        info = {
            "general.architecture": "bert",
            "bert.embedding_length": model.dimension,
            "bert.context_length": model.context,
        }
        parameters = "" if model.num_ctx is None else f"num_ctx                        {model.num_ctx}"
        return 200, {"model_info": info, "parameters": parameters, "capabilities": ["embedding"]}

    def _embed(self, request: Request) -> tuple[int, Any]:
        if not self.loaded:
            self.sleep(self.model.loading)
            self.loaded = True
        texts, encoding = request.texts, request.payload.get("encoding_format")
        refusal = self._refusal(texts, encoding)
        if refusal is not None:
            return refusal
        read, tokens = self._read(texts)
        if request.path == "/api/embed" and self.model.remembers:
            numbers = ",".join(_as_json(text, self.model.dimension) for text in read)
            return 200, f'{{"embeddings":[{numbers}],"prompt_eval_count":{tokens}}}'.encode()
        vectors = self._vectors(texts, read, encoding)
        counted = {} if self.model.counts == "absent" else {"prompt_eval_count": tokens}
        if request.path == "/api/embed":
            return 200, {"model": self.model.name, "embeddings": vectors} | counted
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(vectors)]
        usage = {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}} if counted else {}
        # Backwards: the order is what `index` says.
        return 200, {"object": "list", "model": self.model.name, "data": data[::-1]} | usage

    def _refusal(self, texts: list[str], encoding: str | None) -> tuple[int, Any] | None:
        model = self.model
        if model.most_texts is not None and len(texts) > model.most_texts:
            message = f"batch size {len(texts)} > maximum allowed batch size {model.most_texts}"
            return 413, {"error": message, "error_type": "Validation"}
        if encoding == "base64" and model.base64 == "refused":
            return 400, {"error": {"message": "encoding_format base64 is not supported", "code": 400}}
        longest = max((len(model.spans(text)) + 2 for text in texts), default=0)
        if model.most_tokens is not None and longest > model.most_tokens:
            message = f"input ({longest} tokens) is too large to process. increase the physical batch size"
            return 500, {"error": {"code": 500, "message": message, "type": "server_error"}}
        if model.reads is None and longest > model.context:
            return 400, {"error": TOO_LONG}
        if model.nan_as in ("500", "400") and any(model.nan(text) for text in texts):
            return int(model.nan_as), {"error": NAN if model.nan_as == "500" else NAN_OF_OTHER_VERSIONS}
        return None

    def _read(self, texts: list[str]) -> tuple[list[str], int]:
        """What the model reads of the texts, and what it says how many tokens that were."""
        model = self.model
        read, tokens = [], 0
        for text in texts:
            spans = model.spans(text)
            whole = model.reads is None or len(spans) + 2 <= model.reads
            kept = len(spans) if whole else (model.reads or 0) - 2
            read.append(text if whole else text[: spans[kept - 1][1]])
            tokens += kept + 2 * (model.counts == "all")
        return read, 0 if model.counts == "zero" else tokens

    def _vectors(self, texts: list[str], read: list[str], encoding: str | None) -> list[Any]:
        model = self.model
        rows = embed(read, model.dimension) * np.float32(1.0 if model.normalised else 7.0)
        vectors: list[Any] = rows.tolist()
        if encoding == "base64" and model.base64 == "honoured":
            vectors = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
        instead = {"null": None, "zero": [0.0] * model.dimension, "in JSON": [float("nan")] * model.dimension}
        return [instead[model.nan_as] if model.nan(text) else row for text, row in zip(texts, vectors, strict=True)]


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: EmbeddingServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):  # a client may go away at any time
            self.owner.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.owner: EmbeddingServer = self.server.owner  # type: ignore[attr-defined]
        self.owner.opened(self.connection)

    def finish(self) -> None:
        self.owner.closed(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._respond({})

    def do_POST(self) -> None:
        self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _respond(self, payload: dict[str, Any]) -> None:
        request = Request(self.path, payload, dict(self.headers))
        with self.owner.counted():
            fault = self.owner.next_fault(request)
            if fault is None:
                self._send(*self.owner.answer(request))
            else:
                self._misbehave(fault, request)

    def _misbehave(self, fault: Fault, request: Request) -> None:
        if fault.act == "drop":
            self.close_connection = True
        elif fault.act == "status":
            self._send(fault.status, fault.body if fault.body is not None else {"error": "as told"}, fault.headers)
        elif fault.act == "html":
            self._send(fault.status, "<!DOCTYPE html><title>Welcome to nginx!</title>", {"Content-Type": "text/html"})
        elif fault.act == "text":
            self._send(200, str(fault.body), {"Content-Type": "application/json"})
        elif fault.act in ("hang", "slow"):
            self.owner.sleep(fault.seconds)
            if fault.act == "slow":
                self._send(*self.owner.answer(request))
            else:
                self.close_connection = True
        else:
            self._spoil(fault, *self.owner.answer(request))

    def _spoil(self, fault: Fault, status: int, answer: Any) -> None:
        """Send a good answer in a bad way."""
        if fault.act == "dimension":
            for row in answer.get("embeddings", []):
                row.append(0.5)
            for item in answer.get("data", []):
                item["embedding"] = [0.5] * (self.owner.model.dimension + 1)
        if fault.act == "count":
            answer["embeddings" if "embeddings" in answer else "data"].pop()
        body = json.dumps(answer).encode()
        if fault.act == "cut":  # a whole response of half an answer
            self._send(status, body[: len(body) // 2].decode())
            return
        self._send_bytes(status, body, {}, keep=len(body) // 2 if fault.act == "reset" else None)
        if fault.act == "reset":
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _send(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        kind = {"Content-Type": "text/plain" if isinstance(answer, str) else "application/json"}
        if isinstance(answer, str):
            body = answer.encode()
        else:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self._send_bytes(status, body, kind | (headers or {}))

    def _send_bytes(self, status: int, body: bytes, headers: dict[str, str], keep: int | None = None) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:keep])


def embed(texts: Iterable[str], dimension: int) -> NDArray[np.float32]:
    """Unit vectors, shape (n, dimension): alike texts share words and so directions; no two texts have the same."""
    rows = []
    for text in texts:
        vector = 0.2 * _direction("\0" + text, dimension)
        for word in re.findall(r"\w+", text.lower()):
            vector += _direction(word, dimension)
        rows.append(vector / np.linalg.norm(vector))
    return np.stack(rows).astype(np.float32) if rows else np.empty((0, dimension), np.float32)


@lru_cache(50_000)
def _as_json(text: str, dimension: int) -> str:
    """A vector with as many digits as Ollama sends: the fewest that give the same float32."""
    return f"[{','.join(str(number) for number in embed([text], dimension)[0])}]"


@lru_cache(50_000)
def _direction(word: str, dimension: int) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    direction: NDArray[np.float32] = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return direction


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=1024)
    arguments = parser.parse_args()
    with EmbeddingServer(Model(dimension=arguments.dimension, remembers=True)) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

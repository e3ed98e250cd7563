#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What HTTP costs the server store: chunks a second of `replace` over it, and with the same engine in this process.

    python scripts/benchmarks/server_store.py [--chunks N] [--dimension N] [--url http://HOST:6333]

The engine is the Qdrant client's in-memory one, both times: once in this process, once behind the tests' double in a
process of its own. `--url` measures a real server as well, in a collection that is deleted afterwards.
Prints one JSON object; `ratio` is over HTTP over in process.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CHUNKS_A_DOCUMENT = 20
DOCUMENTS_A_CALL = 10
WORDS_A_CHUNK = 250


def documents(chunks: int, dimension: int) -> list[object]:
    """Documents with chunks as long as real ones, and random unit vectors."""
    from bigos.stores import Replacement
    from bigos.types import Chunk, Record, document_id

    random.seed(1)
    numbers = np.random.default_rng(1)
    words = ["".join(random.choices("abcdefghijklmnoprstuwyząęółśćż", k=random.randint(2, 11))) for _ in range(2000)]
    made: list[object] = []
    for number in range(chunks // CHUNKS_A_DOCUMENT):
        path = Path(f"/srv/documents/folder {number % 40}/document {number}.txt")
        doc_id = document_id(path)
        record = Record(
            doc_id=doc_id, source_path=str(path), content_hash=uuid.UUID(int=number).hex, size=40_000, mtime_ns=1,
            inode=number, fingerprint="benchmark", chunk_count=CHUNKS_A_DOCUMENT, status="indexed", reason=None,
            title=f"Document {number}", kind="document", format="text", language="pl", code_language=None,
            ingested_at="2026-01-01T00:00:00+00:00",
        )  # fmt: skip
        parts = tuple(
            Chunk(
                doc_id=doc_id, index=index, text=" ".join(random.choices(words, k=WORDS_A_CHUNK)),
                char_start=index * 2000, char_end=index * 2000 + 2000, line_start=index * 20, line_end=index * 20 + 20,
                page=None, page_end=None, heading_path=("Part", f"Section {index}"), token_count=500, language="pl",
                chunk_language="pl", kind="document", code_language=None,
            )
            for index in range(CHUNKS_A_DOCUMENT)
        )  # fmt: skip
        vectors = numbers.standard_normal((CHUNKS_A_DOCUMENT, dimension)).astype(np.float32)
        made.append(Replacement(record, parts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))
    return made


def measure(open_store: Callable[[], object], items: list[object]) -> float:
    """Chunks a second, the making of the collection left out."""
    store = open_store()
    store.replace(items[:1])  # type: ignore[attr-defined]
    rest = items[1:]
    started = time.monotonic()
    for begin in range(0, len(rest), DOCUMENTS_A_CALL):
        store.replace(rest[begin : begin + DOCUMENTS_A_CALL])  # type: ignore[attr-defined]
    seconds = time.monotonic() - started
    store.close()  # type: ignore[attr-defined]
    return len(rest) * CHUNKS_A_DOCUMENT / seconds


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--dimension", type=int, default=1024)
    parser.add_argument("--url")
    arguments = parser.parse_args(argv)

    from qdrant_client import QdrantClient

    from bigos.stores.server import ServerStore

    warnings.filterwarnings("ignore", "Payload indexes have no effect")  # in memory there are none
    items = documents(arguments.chunks, arguments.dimension)
    client = QdrantClient(":memory:")
    in_process = measure(
        lambda: ServerStore("http://memory", "benchmark", "benchmark", arguments.dimension, client=client), items
    )
    command = [sys.executable, str(ROOT / "tests" / "doubles" / "qdrant_server.py")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        over_http = measure(lambda: ServerStore(url, "benchmark", "benchmark", arguments.dimension), items)
    finally:
        server.terminate()
        server.wait()
    result = {
        "chunks": len(items) * CHUNKS_A_DOCUMENT,
        "dimension": arguments.dimension,
        "in_process_chunks_per_second": round(in_process),
        "over_http_chunks_per_second": round(over_http),
        "ratio": round(over_http / in_process, 2),
    }
    if arguments.url:
        name = f"bigos-benchmark-{uuid.uuid4().hex}"
        real = measure(lambda: ServerStore(arguments.url, name, "benchmark", arguments.dimension), items)
        QdrantClient(url=arguments.url).delete_collection(name)
        result["real_server_chunks_per_second"] = round(real)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

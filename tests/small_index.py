# SPDX-License-Identifier: GPL-2.0-only
"""An index of the real parts but for the model: the embedded store, the vocabulary, and words hashed into vectors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bigos import pipeline
from bigos.embedders import Window
from bigos.ocr_cache import OcrCache
from bigos.pipeline import Event, IngestReport, IngestRequest
from bigos.preparation import PreparationSettings
from bigos.stores import StoredChunk, StoreQuery
from bigos.stores.embedded import EmbeddedStore
from bigos.timestamps import STEP_NS
from bigos.types import Record, SourceFile, document_id
from hash_embedder import HashEmbedder, LabelledEmbedder
from store_documents import memory_directory
from vocabulary import TOKENIZER

FINGERPRINT = "words-hashed/48/window-48-6"
SETTINGS = PreparationSettings(
    tokenizer_file=TOKENIZER,
    window=Window(48, 6),
    code_window=Window(48, 6),
    header_tokens=16,
    max_file_bytes=1_000_000,
    max_document_bytes=1_000_000,
    memory_mb=4096,
    timeout=600.0,
)


def source(path: Path) -> SourceFile:
    """A file as the walk sees it."""
    status = path.stat()
    return SourceFile(path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def touch_later(path: Path) -> None:
    """Give the file a modification time that it has not had."""
    later = path.stat().st_mtime_ns + 5_000_000_000
    os.utime(path, ns=(later, later))


class SmallIndex:
    """A folder of files, a store and an embedder; `ingest` is one run over the folder."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "files"
        self.folder.mkdir()
        self.store_dir = base / "store"
        self.embedder = LabelledEmbedder(HashEmbedder())
        self.events: list[Event] = []
        self.pages = OcrCache(base / "ocr")
        self.store = self.open_store()

    def open_store(self, fingerprint: str = FINGERPRINT) -> EmbeddedStore:
        return EmbeddedStore(self.store_dir, fingerprint, self.embedder.dimension, lock_timeout=60)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def settle(self) -> None:
        """Wait until no file is so new that it would be read once more, as it is by the time a program has started."""
        newest = max((path.lstat().st_ctime_ns for path in self.folder.rglob("*")), default=0)
        while time.time_ns() - newest < STEP_NS:
            time.sleep(0.005)

    def ingest(
        self,
        *paths: Path,
        settings: PreparationSettings = SETTINGS,
        workers: int | None = 0,
        on_event: Callable[[Event], None] = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
        **request: Any,
    ) -> IngestReport:
        """One run, over the whole folder unless paths are named, when what was written last has settled."""
        self.events = []
        self.settle()

        def watch(event: Event) -> None:
            self.events.append(event)
            on_event(event)

        return pipeline.run(
            IngestRequest(paths or (self.folder,), **({"recursive": True} | request)),
            store=self.store,
            embedder=self.embedder,
            settings=settings,
            fingerprint=FINGERPRINT,
            workers=workers,
            pages=self.pages,
            on_event=watch,
            stop=stop,
        )

    def chunks(self, path: Path) -> list[StoredChunk]:
        return self.store.chunks(document_id(path))

    def record(self, path: Path) -> Record:
        record = self.store.record(document_id(path))
        assert record is not None
        return record

    def found(self, passage: str, label: str | None = "en") -> list[tuple[str, float]]:
        """Chunk ids and scores, nearest first, for a passage as the embedder gets it."""
        vector = self.embedder.embed_passages([passage], [label])[0]
        return [(hit.chunk_id, hit.score) for hit in self.store.search(StoreQuery(vector, 3))]

    def texts(self) -> list[str]:
        """Every text that any search can bring up."""
        vector = self.embedder.embed_query("anything", None)
        return [hit.chunk.text for hit in self.store.search(StoreQuery(vector, 10_000))]


@contextmanager
def small_index(fallback: Path) -> Iterator[SmallIndex]:
    with memory_directory(fallback) as base:
        index = SmallIndex(base)
        yield index
        index.store.close()

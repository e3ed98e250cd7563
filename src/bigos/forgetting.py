# SPDX-License-Identifier: GPL-2.0-only
"""Forgetting: documents leave the index, and what was recognised on their pages leaves the cache. Needs no model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bigos.report import IngestReport
from bigos.stores import Store
from bigos.types import FileOutcome


class PageCache(Protocol):
    """What keeps the text of recognised pages (`ocr.Tesseract` is one)."""

    def forget(self, digest: str) -> bool:
        """Remove what was recognised in the file with this content hash; True when there was something."""
        ...


def forget(paths: Sequence[Path], store: Store, pages: PageCache, *, dry_run: bool = False) -> IngestReport:
    """Remove files, and all below folders, whether or not they still exist; with `dry_run` only tell which.

    Args:
        paths: absolute and canonical as far as they exist.
        store: any; one without a fingerprint will do.
        pages: loses what it has of a content that no other document has.
        dry_run: look only.

    Raises what the store does.
    """
    started = time.monotonic()
    report = IngestReport(dry_run=dry_run)
    with store.hold():
        everything = store.known()
        going = {doc_id: record for path in paths for doc_id, record in store.known(path).items()}
        for record in sorted(going.values(), key=lambda record: record.source_path):
            report.add(FileOutcome(record.source_path, "forgotten", chunks=record.chunk_count))
        if dry_run:
            report.chunks_removed = sum(record.chunk_count for record in going.values())
        else:
            staying = {record.content_hash for doc_id, record in everything.items() if doc_id not in going}
            # The pages first: cut off in between, the Records still tell that there is something left to forget.
            # What was left out before it was read has no hash.
            for digest in {record.content_hash for record in going.values() if record.content_hash} - staying:
                pages.forget(digest)
            report.chunks_removed = sum(store.forget(path).chunks for path in paths)
    report.seconds = time.monotonic() - started
    return report

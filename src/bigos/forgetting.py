# SPDX-License-Identifier: GPL-2.0-only
"""Forgetting: documents leave the index, and what was recognised on their pages leaves the cache. Needs no model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from bigos.report import IngestReport
from bigos.stores import Forgotten, Store
from bigos.types import FileOutcome, Record


class PageCache(Protocol):
    """What keeps the text of recognised pages (`ocr_cache.OcrCache` is one)."""

    def holds(self, digest: str) -> bool:
        """Whether it has anything of the file with this content hash ("": of none)."""
        ...

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
        going = {doc_id: record for path in paths for doc_id, record in store.known(path).items()}
        told = sorted(going.values(), key=lambda record: record.source_path)
        if dry_run:
            report.chunks_removed = sum(record.chunk_count for record in told)
        else:
            drop_pages(going, store, pages)
            # By path and not by Record, so that chunks without one go too.
            gone = [store.forget(path) for path in paths]
            report.chunks_removed = sum(each.chunks for each in gone)
            # Another process may have been quicker; what it forgot is in its own report.
            del told[sum(each.documents for each in gone) :]
        for record in told:
            report.add(FileOutcome(record.source_path, "forgotten", chunks=record.chunk_count))
        if not dry_run:
            report.remains = store.compact()
    report.seconds = time.monotonic() - started
    return report


def forget_documents(going: Mapping[str, Record], store: Store, pages: PageCache) -> Forgotten:
    """Remove documents whose Records are known. Unlike `forget` it does not have the store rewrite its files.

    Raises what the store does.
    """
    drop_pages(going, store, pages)
    return store.remove(list(going))


def drop_pages(going: Mapping[str, Record], store: Store, pages: PageCache) -> None:
    """Have the cache lose what was recognised in these documents' contents, but for those that others have as well.

    Comes before the Records go: cut off in between, they still tell that there is something left to forget.
    """
    # What was left out before it was read has no hash.
    digests = {record.content_hash for record in going.values() if pages.holds(record.content_hash)}
    if digests:  # seldom: only what was a scan
        staying = {record.content_hash for doc_id, record in store.known().items() if doc_id not in going}
        for digest in digests - staying:
            pages.forget(digest)

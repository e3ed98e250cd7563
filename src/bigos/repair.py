# SPDX-License-Identifier: GPL-2.0-only
"""A damaged index made whole: strays go, and the documents that something is wrong with are read again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from bigos.plan import IngestRequest
from bigos.report import IngestReport
from bigos.stores import Remains, Store
from bigos.types import FileOutcome, document_path
from bigos.verification import LEFT_OVER, Finding


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done about the findings: points that went, paths of documents that were read again.

    `not_indexed` are those of them that gave no document, and why.
    """

    discarded: int
    read_again: tuple[str, ...]
    not_indexed: tuple[FileOutcome, ...]
    remains: Remains | None


def repair(findings: Collection[Finding], store: Store, ingest: Callable[[IngestRequest], IngestReport]) -> Repair:
    """Remove what has no business in the store, and read documents again whose source is there.

    Points that have no business there go first. All else stays until the document's new version is written, and for
    good where its source is gone: part of it is more than nothing. What was let in though it holds a secret stays in.

    Args:
        findings: of `verification.verify`.
        store: where they are; closed while documents are read.
        ingest: `Library.ingest`.

    Raises what the two do.
    """
    strays = [point_id for finding in findings for point_id in finding.points]
    store.discard(strays)
    ill = {
        item.path: document_path(item.path, item.doc_id) or Path(item.path)
        for item in findings
        if item.path is not None and item.problem != LEFT_OVER
    }
    there = {path: file for path, file in sorted(ill.items()) if file.is_file()}
    store.close()  # two stores in one process would take the lock from each other at every turn
    not_indexed: tuple[FileOutcome, ...] = ()
    if there:
        done = ingest(IngestRequest(tuple(there.values()), reindex=True, keep=True, max_files=len(there)))
        not_indexed = tuple(item for item in done.outcomes if item.outcome in ("failed", "skipped"))
    remains = store.compact(at_once=None)
    return Repair(len(strays), tuple(there), not_indexed, remains)

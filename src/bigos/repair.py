# SPDX-License-Identifier: GPL-2.0-only
"""A damaged index made whole: strays go, and the documents that something is wrong with are read again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from bigos.plan import IngestRequest
from bigos.report import IngestReport
from bigos.stores import Remains, Store
from bigos.verification import LEFT_OVER, Finding


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done about the findings; `missing` are documents whose file is not there to be read again."""

    discarded: int
    read_again: tuple[str, ...]
    missing: tuple[str, ...]
    remains: Remains | None


def repair(findings: Collection[Finding], store: Store, ingest: Callable[[IngestRequest], IngestReport]) -> Repair:
    """Remove what has no business in the store, and read documents again whose source is there.

    What is wrong with a document whose source is gone stays as it is: part of it is more than nothing. In the order of
    a replace: what is there of a document stays until its new version is.

    Args:
        findings: of `verification.verify`.
        store: where they are; closed while documents are read.
        ingest: `Library.ingest`.

    Raises what the two do.
    """
    strays = [point_id for finding in findings for point_id in finding.points]
    store.discard(strays)
    ill = sorted({item.path for item in findings if item.path is not None and item.problem != LEFT_OVER})
    there = [path for path in ill if Path(path).is_file()]
    store.close()  # two stores in one process would take the lock from each other at every turn
    if there:
        ingest(IngestRequest(tuple(map(Path, there)), reindex=True, max_files=len(there)))
    remains = store.compact(at_once=None)
    return Repair(len(strays), tuple(there), tuple(path for path in ill if path not in there), remains)

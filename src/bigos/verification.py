# SPDX-License-Identifier: GPL-2.0-only
"""Every point of a store looked at: documents that are not whole, chunks that belong to none, vectors of no use.

Memory goes with the number of documents, not of chunks: of each version of a document it is counted how many chunks
there are and which is the last. That is enough, because a chunk's id follows from document, content and position, so
none can be there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import get_args

import numpy as np

from bigos.stores import MadeWith, Store, StoredPoint, points
from bigos.types import Record, Status, chunk_id, document_id

INCOMPLETE = "chunks are missing"
BAD_VECTOR = "vectors are of no use"
ORPHANED = "chunks without a Record"
LEFT_OVER = "chunks of another version"
BAD_RECORD = "Records that contradict themselves"
BAD_CHUNK = "chunks that contradict themselves or their Record"
FOREIGN = "made with something else than the collection"

LOOKS = 4
"""Times that a document is looked at before it is called damaged while others change it: twice if they do not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with one document.

    `path` is None where nothing tells it. `points` have no business to be in the store, whatever becomes of the
    document; what is wrong without any is cured by reading the document again.
    """

    problem: str
    doc_id: str
    path: str | None
    detail: str
    points: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """How much was looked at, and what is wrong, by path.

    `documents` are those with status "indexed", as in `Stats`; `others` are files of which it is only known why they
    are none.
    """

    documents: int
    others: int
    chunks: int
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class _Version:
    """The chunks there are of one version of a document."""

    count: int = 0
    last: int = -1
    written: str = ""
    ids: list[tuple[int, str]] = field(default_factory=list)
    """Position and id; only of documents that are looked at again, since those of all would take much memory."""


@dataclass(slots=True)
class _Document:
    path: str | None = None
    record: Record | None = None
    versions: dict[str, _Version] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    wrong: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Problem, detail, and the point that has to go, if one has."""


def verify(store: Store) -> Verification:
    """Look at every point, and twice at what seems wrong, since others may be writing. 2 s for 20,000 chunks.

    Raises what the store does.
    """
    made_with = store.made_with()
    if made_with is None:
        return Verification(0, 0, 0, ())
    seen = _Survey(made_with, ids=False)
    seen.take(store.points())
    statuses = Counter(item.record.status for item in seen.documents.values() if item.record is not None)
    chunks = sum(version.count for item in seen.documents.values() for version in item.versions.values())
    findings = seen.findings(store.in_flight_seconds)
    strays = tuple(seen.strays)
    for _ in range(LOOKS - 1):
        suspects = sorted({finding.doc_id for finding in findings})
        before, findings = findings, []
        for page in points.pages(suspects):
            again = _Survey(made_with, ids=True)
            again.take(store.points(page))
            findings += again.findings(store.in_flight_seconds)
        if {(item.problem, item.doc_id) for item in findings} == {(item.problem, item.doc_id) for item in before}:
            break
    documents = statuses["indexed"]
    return Verification(
        documents,
        statuses.total() - documents,
        chunks,
        tuple(sorted((*findings, *strays), key=lambda item: (item.path or "", item.problem))),
    )


class _Survey:
    """What the points of some documents say."""

    def __init__(self, made_with: MadeWith, *, ids: bool) -> None:
        self._made_with = made_with
        self._ids = ids
        self.documents: dict[str, _Document] = {}
        self.strays: list[Finding] = []
        """Points that name no document."""

    def take(self, found: Iterable[StoredPoint]) -> None:
        for point in found:
            doc_id, kind = point.payload.get("doc_id"), point.payload.get("point")
            path = point.payload.get("source_path")
            path = path if isinstance(path, str) else None
            if not isinstance(doc_id, str) or points.point_id_or_none(doc_id) != doc_id:
                self.strays.append(Finding(BAD_CHUNK, "", path, "it names no document", (point.point_id,)))
                continue
            document = self.documents.setdefault(doc_id, _Document())
            document.path = document.path or path
            if kind == points.RECORD:
                self._record(point, document)
            elif kind == points.CHUNK:
                self._chunk(point, document)
            else:
                document.wrong.append((BAD_CHUNK, f"a point is of kind {kind!r}", point.point_id))

    def _record(self, point: StoredPoint, document: _Document) -> None:
        try:
            record = points.record_from_payload(point.payload)
            points.check_record(record)
            contradiction, has_to_go = _contradiction(point, record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            document.wrong.append((BAD_RECORD, f"it cannot be read ({error})", point.point_id))
            return
        if contradiction is not None:
            document.wrong.append((BAD_RECORD, contradiction, point.point_id if has_to_go else None))
            if has_to_go:
                return
        document.record, document.path = record, record.source_path
        if record.status == "indexed" and not record.fingerprint.startswith(f"{self._made_with.fingerprint}/"):
            document.wrong.append((FOREIGN, record.fingerprint, None))

    def _chunk(self, point: StoredPoint, document: _Document) -> None:
        payload = point.payload
        try:
            chunk = points.chunk_from_payload(payload)
            digest, written, path = payload["content_hash"], payload["ingested_at"], payload["source_path"]
            if chunk_id(chunk.doc_id, digest, chunk.index) != point.point_id:
                raise ValueError(f"its id is not that of chunk {chunk.index}")
            if not isinstance(chunk.text, str) or (payload["path_tree"], payload["source_name"]) != _place(path):
                raise ValueError(f"chunk {chunk.index} is not where its path is")
        except (KeyError, TypeError, ValueError) as error:
            document.wrong.append((BAD_CHUNK, f"it cannot be read ({error})", point.point_id))
            return
        version = document.versions.setdefault(digest, _Version())
        version.count += 1
        version.last = max(version.last, chunk.index)
        version.written = max(version.written, written)
        if self._ids:
            version.ids.append((chunk.index, point.point_id))
        document.paths.add(path)
        if (trouble := self._trouble(point)) is not None:
            document.wrong.append((BAD_VECTOR, f"chunk {chunk.index}: {trouble}", None))

    def _trouble(self, point: StoredPoint) -> str | None:
        """What is wrong with a chunk's vector."""
        vector = point.vector
        if vector is None:
            return "there is none"
        if vector.shape != (self._made_with.dimension,):
            return f"{vector.size} numbers where {self._made_with.dimension} are wanted"
        if not np.isfinite(vector).all():
            return "it is not finite"
        norm = float(np.linalg.norm(vector))
        return f"its length is {norm:.4f}" if abs(norm - 1) > points.NORM_TOLERANCE else None

    def findings(self, in_flight_seconds: float) -> list[Finding]:
        """What is wrong with each document. What was written in the last seconds may be under way."""
        return [
            finding
            for doc_id, document in self.documents.items()
            for finding in _judged(doc_id, document, in_flight_seconds)
        ]


def _judged(doc_id: str, document: _Document, in_flight_seconds: float) -> list[Finding]:
    record, found = document.record, dict[str, tuple[list[str], list[str]]]()

    def add(problem: str, detail: str, gone: Iterable[str] = ()) -> None:
        details, ids = found.setdefault(problem, ([], []))
        details.append(detail)
        ids += gone

    for problem, detail, point_id in document.wrong:
        add(problem, detail, () if point_id is None else (point_id,))
    for digest, version in document.versions.items():
        if record is not None and digest == record.content_hash:
            surplus = [point_id for index, point_id in version.ids if index >= record.chunk_count]
            if version.last >= record.chunk_count:
                add(LEFT_OVER, f"positions {record.chunk_count} to {version.last}", surplus)
        elif not _under_way(version.written, in_flight_seconds):
            problem = ORPHANED if record is None else LEFT_OVER
            add(problem, f"{version.count} of {digest[:12]}", (point_id for _, point_id in version.ids))
    if record is not None:
        current = document.versions.get(record.content_hash, _Version())
        there = sum(index < record.chunk_count for index, _ in current.ids) if current.ids else current.count
        if there < record.chunk_count:
            add(INCOMPLETE, f"{there} of {record.chunk_count} are there")
        if elsewhere := document.paths - {record.source_path}:
            add(BAD_CHUNK, f"they are of {min(elsewhere)}")
    return [
        Finding(problem, doc_id, document.path, "; ".join(details[:3]), tuple(ids))
        for problem, (details, ids) in found.items()
    ]


def _contradiction(point: StoredPoint, record: Record) -> tuple[str | None, bool]:
    """What in a Record does not fit the rest of it, and whether the Record has to go.

    It has to where it does not even tell which document it is of; else its chunks are found as before.
    """
    payload, path, count = point.payload, record.source_path, record.chunk_count
    which = (
        (record.doc_id == point.point_id, "its id is that of another document"),
        # A backslash in a stored path may stand for a byte, see path_text.
        ("\\" in path or document_id(Path(path)) == record.doc_id, "its id is not that of its path"),
        ((payload.get("path_tree"), payload.get("source_name")) == _place(path), "it is not where its path is"),
        (isinstance(count, int) and count >= 0, f"it has {count!r} chunks"),
    )
    what = (
        (payload.get(points.STAMP, points.stamp(record)) == points.stamp(record), "its stamp is another"),
        (record.status in get_args(Status), f"its status is {record.status!r}"),
        (record.status != "skipped" or not count, f"it was left out and has {count} chunks"),
    )
    broken = next((told for holds, told in which if not holds), None)
    return broken or next((told for holds, told in what if not holds), None), broken is not None


@lru_cache(maxsize=4096)
def _place(path: str) -> tuple[list[str], str]:
    return points.path_tree(path), PurePosixPath(path).name


def _under_way(written: str, seconds: float) -> bool:
    """Whether it was written so lately that whoever did may not be ready; a time that cannot be read tells nothing."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(written)).total_seconds() < seconds
    except (ValueError, TypeError):
        return False


def by_problem(findings: Iterable[Finding]) -> Mapping[str, list[Finding]]:
    """The findings of each kind."""
    kinds: dict[str, list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(finding.problem, []).append(finding)
    return kinds

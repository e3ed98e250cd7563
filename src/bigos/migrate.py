# SPDX-License-Identifier: GPL-2.0-only
"""An index copied from one store to another, vectors and all: no model is asked, and the source is never changed.

Records tell what is done already, so a run that was stopped goes on where it was. What the copy is worth is looked at
afterwards: every Record and the number of each document's chunks, text and vectors of a sample. What differs then, for
instance because an ingest went on meanwhile, is copied once more; what still differs is in the report.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bigos.errors import FingerprintMismatch
from bigos.stores import Replacement, Store, points
from bigos.types import Record

GROUP_CHUNKS = 1024
GROUP_DOCUMENTS = 1024
"""Documents are copied in groups that have no more of either; only one that is longer comes alone."""
SAMPLE_DOCUMENTS = 200
SAMPLE_CHUNKS = 5000
"""How much is compared in full. A document is read in whole, so one long one may be most of it."""
TOLERANCE = 1e-4
"""How far a vector's component may be off: stores normalise again, which moves the last bits."""
_ROUNDS = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MigrationStarted:
    """What is to be copied, in documents and chunks, and the documents that are there already."""

    documents: int
    chunks: int
    already_there: int


@dataclass(frozen=True, slots=True)
class GroupCopied:
    """So many more documents are durable at the target."""

    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class GroupVerified:
    """So many more documents have been looked at, of `total` in this pass."""

    documents: int
    total: int


Event = MigrationStarted | GroupCopied | GroupVerified


@dataclass(frozen=True, slots=True)
class Finding:
    """A document and what is wrong with it."""

    path: str
    reason: str


@dataclass(slots=True)
class MigrationReport:
    """What a run found and did. Documents count files that failed or were skipped too; they are Records as well.

    `counted` documents were looked at after the copy, `compared` of them down to their text and vectors.
    """

    fingerprint: str | None = None
    """None when there was no index to copy."""
    documents: int = 0
    chunks: int = 0
    to_copy: int = 0
    chunks_to_copy: int = 0
    copied: int = 0
    chunks_copied: int = 0
    already_there: int = 0
    counted: int = 0
    compared: int = 0
    only_in_target: list[str] = field(default_factory=list)
    """Paths that only the target has; it keeps them."""
    newer_in_target: list[str] = field(default_factory=list)
    """Paths that were ingested into the target after they were into the source; it keeps its version."""
    damaged: list[Finding] = field(default_factory=list)
    """Documents that are not whole in the source and so were not copied."""
    differences: list[Finding] = field(default_factory=list)
    """Documents that are not at the target as they are in the source, though they were copied."""
    dry_run: bool = False
    interrupted: bool = False
    seconds: float = 0.0


def ignore(_event: Event) -> None:
    """For a caller that does not watch."""


def identity(source: Store) -> tuple[str, int] | None:
    """Fingerprint and dimension of what `source` holds, as its copy has to be opened; None without any vector."""
    fingerprint = source.stats().fingerprint
    if fingerprint is None:
        return None
    for record in sorted(source.known().values(), key=lambda record: record.chunk_count):
        for item in source.documents([record.doc_id] if record.chunk_count else []):
            if len(item.vectors):
                return fingerprint, item.vectors.shape[1]
    return None


def migrate(
    source: Store,
    target: Store,
    *,
    on_event: Callable[[Event], None] = ignore,
    stop: Callable[[], bool] = lambda: False,
    dry_run: bool = False,
) -> MigrationReport:
    """Copy every document of `source` that `target` does not have as it is; see the module.

    Args:
        source: may be open without a fingerprint.
        target: open with the fingerprint and dimension that `identity` gives.
        on_event: told what goes on.
        stop: asked between groups.
        dry_run: look at the Records, write nothing, verify nothing.

    Raises:
        FingerprintMismatch: the target holds vectors of another model. Nothing was written.
        StoreError: as the stores do. What was copied until then is kept.
    """
    started = time.monotonic()
    with source.hold(), target.hold():
        run = _Migration(source, target, on_event, stop)
        run.report.dry_run = dry_run
        pending = run.plan()
        if not dry_run:
            run.copy_and_verify(pending)
    run.report.seconds = time.monotonic() - started
    return run.report


class _Migration:
    """One run."""

    def __init__(
        self, source: Store, target: Store, on_event: Callable[[Event], None], stop: Callable[[], bool]
    ) -> None:
        self._source = source
        self._target = target
        self._emit = on_event
        self._stop = stop
        self._damaged: dict[str, Finding] = {}
        self.report = MigrationReport(_common_fingerprint(source, target))

    def plan(self) -> list[Record]:
        """The documents to copy, by path."""
        ours, theirs, report = self._source.known(), self._target.known(), self.report
        pending: list[Record] = []
        for record in sorted(ours.values(), key=lambda record: record.source_path):
            there = theirs.get(record.doc_id)
            if there == record:
                report.already_there += 1
            elif _is_newer(there, record):
                report.newer_in_target.append(record.source_path)
            else:
                pending.append(record)
        report.documents, report.chunks = len(ours), sum(record.chunk_count for record in ours.values())
        report.to_copy, report.chunks_to_copy = len(pending), sum(record.chunk_count for record in pending)
        report.only_in_target = sorted(theirs[doc_id].source_path for doc_id in theirs.keys() - ours.keys())
        self._emit(MigrationStarted(report.to_copy, report.chunks_to_copy, report.already_there))
        return pending

    def copy_and_verify(self, pending: Sequence[Record]) -> None:
        """Copy; look; copy what differs once more; look at that. Fills the report."""
        only: set[str] | None = None
        for _ in range(_ROUNDS):
            self._copy(pending, again=only is not None)
            findings = self._verify(only)
            self.report.damaged = list(self._damaged.values())
            if self.report.interrupted:
                return
            self.report.differences = list(findings.values())
            only = findings.keys() | self._damaged.keys()
            if not only:
                return
            pending = [record for doc_id, record in self._source.known().items() if doc_id in only]

    def _copy(self, records: Sequence[Record], *, again: bool) -> None:
        for group in _groups(records):
            if self._interrupted():
                return
            whole = []
            for item in self._source.documents([record.doc_id for record in group]):
                problem = _problem(item)
                if problem is None:
                    self._damaged.pop(item.record.doc_id, None)
                    whole.append(item)
                else:
                    self._damaged[item.record.doc_id] = Finding(item.record.source_path, problem)
            self._target.replace(whole)
            chunks = sum(len(item.chunks) for item in whole)
            for item in whole:
                _log.debug("copied %s", item.record.source_path)
            if not again:
                self.report.copied += len(whole)
                self.report.chunks_copied += chunks
                self._emit(GroupCopied(len(whole), chunks))

    def _verify(self, only: set[str] | None) -> dict[str, Finding]:
        """Documents that differ, by id. All are counted, and a sample compared; or `only` these, and all in full."""
        ours, theirs = self._source.known(), self._target.known()
        due = [
            record
            for doc_id, record in ours.items()
            if doc_id not in self._damaged
            and (only is None or doc_id in only)
            and not _is_newer(theirs.get(doc_id), record)
        ]
        findings: dict[str, Finding] = {}
        counted = 0
        for group in _groups(due):
            if self._interrupted():
                return findings
            for record in group:
                if difference := self._counted_difference(record, theirs):
                    findings[record.doc_id] = Finding(record.source_path, difference)
            counted += len(group)
            self._emit(GroupVerified(counted, len(due)))
        sound = [record for record in due if record.chunk_count and record.doc_id not in findings]
        chosen = _sample(sound) if only is None else sound
        for group in _groups(chosen):
            if self._interrupted():
                return findings
            findings |= self._compared(group)
        if only is None:
            self.report.counted, self.report.compared = counted, len(chosen)
        return findings

    def _counted_difference(self, record: Record, theirs: Mapping[str, Record]) -> str | None:
        there = theirs.get(record.doc_id)
        if there is None:
            return "is not there"
        if there != record:
            return "has another Record there"
        chunks = len(self._target.chunks(record.doc_id)) if record.chunk_count else 0
        return None if chunks == record.chunk_count else f"has {chunks} of {record.chunk_count} chunks there"

    def _compared(self, records: Sequence[Record]) -> dict[str, Finding]:
        ids = [record.doc_id for record in records]
        ours = {item.record.doc_id: item for item in self._source.documents(ids)}
        theirs = {item.record.doc_id: item for item in self._target.documents(ids)}
        findings: dict[str, Finding] = {}
        for doc_id, item in ours.items():
            there = theirs.get(doc_id)
            difference = "is not there" if there is None else _difference(item, there)
            if difference:
                findings[doc_id] = Finding(item.record.source_path, difference)
        return findings

    def _interrupted(self) -> bool:
        self.report.interrupted = self.report.interrupted or self._stop()
        return self.report.interrupted


def _common_fingerprint(source: Store, target: Store) -> str:
    """Raises FingerprintMismatch when the target has another; ValueError when the source has none."""
    ours = source.stats().fingerprint
    if ours is None:
        raise ValueError("the source holds no index")
    theirs = target.stats().fingerprint
    if theirs not in (None, ours):
        raise FingerprintMismatch(
            f"the index to copy was made with {ours}, the target holds one that was made with {theirs}.",
            fix="move the target's index away, then the same command again",
        )
    return ours


def _is_newer(there: Record | None, record: Record) -> bool:
    """Whether the target's version was made later than the source's; times are ISO 8601 in UTC."""
    return there is not None and there.ingested_at > record.ingested_at


def _groups(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The documents in pieces of bounded size: GROUP_CHUNKS chunks, GROUP_DOCUMENTS documents."""
    group: list[Record] = []
    chunks = 0
    for record in records:
        if group and (len(group) >= GROUP_DOCUMENTS or chunks + record.chunk_count > GROUP_CHUNKS):
            yield group
            group, chunks = [], 0
        group.append(record)
        chunks += record.chunk_count
    if group:
        yield group


def _sample(records: Sequence[Record]) -> list[Record]:
    """Another choice each run, so that a fault which one run misses is found by one of the next."""
    chosen: list[Record] = []
    chunks = 0
    for record in random.sample(records, min(SAMPLE_DOCUMENTS, len(records))):
        chosen.append(record)
        chunks += record.chunk_count
        if chunks >= SAMPLE_CHUNKS:
            break
    return chosen


def _problem(item: Replacement) -> str | None:
    """Why no store would take this document."""
    if len(item.chunks) != item.record.chunk_count:
        return f"has {len(item.chunks)} of {item.record.chunk_count} chunks in the source"
    try:
        points.check_replacements([item], item.vectors.shape[-1])
    except ValueError as error:
        return str(error)
    return None


def _difference(ours: Replacement, theirs: Replacement) -> str | None:
    """What differs between two documents that should be one."""
    if ours.record != theirs.record:
        return "has another Record there"
    if list(ours.chunks) != list(theirs.chunks):
        return "has other text or places there"
    if ours.vectors.shape != theirs.vectors.shape:
        return "has vectors of another length there"
    # Not-a-number is not near anything, so `<=` and not `>`.
    near = np.abs(ours.vectors - theirs.vectors) <= TOLERANCE
    return None if bool(near.all()) else "has other vectors there"

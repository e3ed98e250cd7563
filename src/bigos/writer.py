# SPDX-License-Identifier: GPL-2.0-only
"""From prepared documents to the store: passages are embedded across documents, documents are written in groups.

What has vectors already is not embedded: its content came up before in this run, or is in the store (reuse.py).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from bigos.embedders import PassagesRejected, Vectors
from bigos.embedders.calibration import CODE, NeutralEmbedder
from bigos.loaders import VANISHED
from bigos.preparation import Preparation, Prepared, Rejected, Same
from bigos.report import ChunksEmbedded, Event, FileFinished, IngestReport
from bigos.reuse import reads_alike, stored_vectors
from bigos.stores import Replacement, Store
from bigos.types import FileOutcome, Outcome, Record, SourceFile, path_text
from bigos.versions import Versions, let_in

EMBED_GROUP = 128
"""Passages that go to the embedder at once: enough to sort by length, few enough to stop soon."""
STORE_CHUNKS = 1024
STORE_SECONDS = 10.0
"""Finished documents are written when so many chunks, or Records alone, or so much time has gathered."""
NOT_EMBEDDABLE = "cannot be embedded"
"""The reason of a document with a passage that the model gives no vector for."""


class _Waiting:
    """A document whose vectors are being made."""

    def __init__(self, prepared: Prepared, dimension: int) -> None:
        self.prepared = prepared
        self.vectors: Vectors = np.empty((len(prepared.chunks), dimension), np.float32)
        self.embedded = 0
        self.refused: dict[int, str] = {}
        """Why a chunk has no vector, by its index."""
        self.followers: list[_Waiting] = []
        """Other files with the same chunks, which take these vectors when they are made."""

    @property
    def complete(self) -> bool:
        return self.embedded == len(self.prepared.chunks)


def _seen(record: Record, source: SourceFile) -> Record:
    """The Record with what stat says of the file now."""
    return replace(record, size=source.size, mtime_ns=source.mtime_ns, inode=source.inode, ctime_ns=source.ctime_ns)


class DocumentWriter:
    """Gathers prepared documents, embeds their passages across documents, writes the finished ones."""

    def __init__(
        self,
        *,
        store: Store,
        embedder: NeutralEmbedder,
        report: IngestReport,
        known: dict[str, Record],
        versions: Versions,
        on_event: Callable[[Event], None],
        reuse: bool = True,
        on_superseded: Callable[[Mapping[str, Record]], None] = lambda _: None,
    ) -> None:
        """`reuse`: whether vectors that the store has already will do.

        `on_superseded` gets, before their new versions are written, the Records whose content no new version has.
        """
        self._store = store
        self._embedder = embedder
        self._report = report
        self._known = known
        self._versions = versions
        self._emit = on_event
        self._reuse = reuse
        self._superseded = on_superseded
        self._waiting: deque[_Waiting] = deque()
        self._pending = 0
        self._unsought: list[_Waiting] = []
        """Those for which the store has not been asked yet whether it has their vectors."""
        self._leaders: dict[str, _Waiting] = {}
        """The first of each content that waits."""
        self._following = 0
        self._ready: dict[str, Replacement] = {}
        """What has its vectors and is not written yet, by content."""
        self._replacements: list[tuple[Replacement, FileOutcome]] = []
        self._refreshes: list[tuple[Record, FileOutcome]] = []
        self._gathered = 0
        """Chunks of what is to be written; a document without any counts as one, as there may be very many of them."""
        self._written_at = time.monotonic()

    def take(self, preparation: Preparation) -> None:
        """Accept what a worker made of a file."""
        if isinstance(preparation, Prepared):
            self._report.files_read += 1
            name = path_text(preparation.source.path)
            self._report.warnings += [(name, warning) for warning in preparation.warnings]
            self._await_vectors(_Waiting(preparation, self._embedder.dimension))
        elif isinstance(preparation, Same):
            self._report.files_read += 1
            self._refresh(preparation)
        else:
            self._report.files_read += preparation.content_hash is not None
            self._reject(preparation)

    def embed(self, stop: Callable[[], bool]) -> None:
        """Embed whole groups; write what is complete when enough has gathered."""
        while self._is_enough() and not stop():
            self._take_over()
            if self._is_enough():
                self._embed_group(EMBED_GROUP)
            self._write_if_due()
        self._write_if_due()

    def _is_enough(self) -> bool:
        """Whether what has gathered makes a group; files that only wait for another's vectors take memory too."""
        return self._pending >= EMBED_GROUP or self._following >= STORE_CHUNKS

    def finish(self, *, stopping: bool) -> None:
        """Embed what is left, or only the document in hand when stopping; write everything complete."""
        if stopping:
            in_hand = [item for item in self._waiting if item.embedded]
            self._waiting = deque(in_hand)
            self._pending = sum(len(item.prepared.chunks) - item.embedded for item in in_hand)
            self._unsought = []
        self._take_over()
        while self._waiting:
            self._embed_group(EMBED_GROUP)
            self._write_if_due()
        self._write()

    def _await_vectors(self, item: _Waiting) -> None:
        prepared = item.prepared
        ready, leader = self._ready.get(prepared.content_hash), self._leaders.get(prepared.content_hash)
        if ready is not None and reads_alike(prepared, ready.record.title, ready.record.language, ready.chunks):
            self._complete(self._with_vectors(item, ready.vectors))
        elif leader is not None and reads_alike(
            prepared, leader.prepared.title, leader.prepared.language, leader.prepared.chunks
        ):
            leader.followers.append(item)
            self._following += len(prepared.chunks)
        else:
            self._leaders.setdefault(prepared.content_hash, item)
            self._waiting.append(item)
            self._unsought.append(item)
            self._pending += len(prepared.chunks)

    def _with_vectors(self, item: _Waiting, vectors: Vectors, refused: dict[int, str] | None = None) -> _Waiting:
        """The item with what was made for the same chunks before: vectors, or why there are none."""
        item.vectors, item.refused = vectors, refused or {}
        item.embedded = len(vectors)
        self._report.reused += 0 if refused else len(vectors)
        return item

    def _take_over(self) -> None:
        """Give what waits the vectors that the store has for it."""
        unsought, self._unsought = [item for item in self._unsought if item.prepared.chunks and not item.embedded], []
        if not unsought or not self._reuse:
            return
        found = stored_vectors([item.prepared for item in unsought], self._known, self._store)
        for item, vectors in zip(unsought, found, strict=True):
            if vectors is not None:
                self._with_vectors(item, vectors)
                self._pending -= len(vectors)
        waiting, self._waiting = self._waiting, deque()
        for item in waiting:
            if item.complete:
                self._complete(item)
            else:
                self._waiting.append(item)

    def _embed_group(self, size: int) -> None:
        """The next `size` passages, in document order, of as many documents as they come from."""
        slices: list[tuple[_Waiting, int, int]] = []
        for item in self._waiting:
            room = size - sum(end - begin for _, begin, end in slices)
            if not room:
                break
            slices.append((item, item.embedded, min(len(item.prepared.chunks), item.embedded + room)))
        passages = [text for item, begin, end in slices for text in item.prepared.passages[begin:end]]
        if passages:
            tokens = [ids for item, begin, end in slices for ids in item.prepared.tokens[begin:end]]
            labels = [
                CODE if chunk.kind == "code" else chunk.chunk_language or item.prepared.language
                for item, begin, end in slices
                for chunk in item.prepared.chunks[begin:end]
            ]
            refused: dict[int, str] = {}
            try:
                vectors = self._embedder.embed_passages(passages, labels, tokens)
            except PassagesRejected as rejected:
                vectors, refused = rejected.vectors, rejected.reasons
            at = 0
            for item, begin, end in slices:
                item.vectors[begin:end] = vectors[at : at + end - begin]
                item.refused |= {
                    begin + index - at: refused[index] for index in range(at, at + end - begin) if index in refused
                }
                item.embedded = end
                at += end - begin
            self._pending -= len(passages)
            self._report.embedded += len(passages) - len(refused)
            self._emit(ChunksEmbedded(len(passages)))
        while self._waiting and self._waiting[0].complete:
            self._complete(self._waiting.popleft())

    def _complete(self, item: _Waiting) -> None:
        prepared = item.prepared
        if self._leaders.get(prepared.content_hash) is item:
            del self._leaders[prepared.content_hash]
        followers, item.followers = item.followers, []
        for follower in followers:
            self._following -= len(follower.prepared.chunks)
            self._complete(self._with_vectors(follower, item.vectors, item.refused))
        if item.refused:
            # A document without one of its passages would be there and not be found.
            message = "; ".join(f"chunk {index}: {why}" for index, why in sorted(item.refused.items())[:3])
            self._reject(
                Rejected(
                    prepared.source,
                    NOT_EMBEDDABLE,
                    message,
                    False,
                    prepared.content_hash,
                    prepared.format,
                    prepared.recognised,
                )
            )
            return
        record = self._record(prepared)
        record = replace(
            record,
            chunk_count=len(prepared.chunks),
            title=prepared.title,
            kind=prepared.kind,
            language=prepared.language,
            code_language=prepared.code_language,
        )
        before = self._known.get(record.doc_id)
        outcome: Outcome = "updated" if before is not None and before.chunk_count else "added"
        made = Replacement(record, prepared.chunks, item.vectors)
        self._ready.setdefault(record.content_hash, made)
        self._to_replace(made, FileOutcome(record.source_path, outcome, chunks=len(prepared.chunks)))

    def _to_replace(self, made: Replacement, outcome: FileOutcome) -> None:
        self._replacements.append((made, outcome))
        self._gathered += max(1, len(made.chunks))

    def _to_refresh(self, record: Record, outcome: FileOutcome) -> None:
        self._refreshes.append((record, outcome))
        self._gathered += 1

    def _refresh(self, same: Same) -> None:
        """A touched file: its Record gets the new stat, nothing else changes."""
        before = self._known[same.source.doc_id]
        record = _seen(self._versions.renewed(before) or before, same.source)
        self._to_refresh(record, FileOutcome(record.source_path, "unchanged", chunks=record.chunk_count))
        self._report.chunks_unchanged += record.chunk_count

    def _reject(self, rejected: Rejected) -> None:
        """Remember why, so that the file is reported every run and read again only when it changes.

        A broken new version leaves the old one searchable; a file that rightly gives no text any more leaves nothing.
        """
        record = replace(
            self._record(rejected),
            status="skipped" if rejected.skipped else "failed",
            reason=rejected.reason,
        )
        before = self._known.get(record.doc_id)
        outcome = FileOutcome(record.source_path, "skipped", rejected.reason, rejected.message)
        if rejected.skipped:
            self._to_replace(Replacement(record, (), self._no_vectors()), outcome)
            return
        outcome = replace(outcome, outcome="failed")
        if rejected.reason == VANISHED:  # what is known of it is as true as before
            self._report.add(outcome)
            self._emit(FileFinished(outcome, record.size))
            return
        if before is not None and before.chunk_count:
            made = self._versions.fingerprint(
                rejected.format, recognised=rejected.recognised, holds_secret=let_in(before) is not None
            )
            before = replace(before, fingerprint=made, status=record.status, reason=record.reason)
            record = _seen(before, rejected.source)
            self._to_refresh(record, outcome)
        else:
            self._to_replace(Replacement(record, (), self._no_vectors()), outcome)

    def _no_vectors(self) -> Vectors:
        return np.empty((0, self._embedder.dimension), np.float32)

    def _record(self, made: Prepared | Rejected) -> Record:
        """A Record of what is as it is now; without chunks, until somebody counts them."""
        source = made.source
        return Record(
            doc_id=source.doc_id,
            source_path=path_text(source.path),
            content_hash=made.content_hash or "",
            fingerprint=self._versions.fingerprint(
                made.format,
                recognised=made.recognised,
                lacks_pages=isinstance(made, Prepared) and made.lacks_pages,
                holds_secret=isinstance(made, Prepared) and made.holds_secret,
            ),
            chunk_count=0,
            status="indexed",
            reason=None,
            title=None,
            kind=None,
            format=made.format,
            language=None,
            code_language=None,
            size=source.size,
            mtime_ns=source.mtime_ns,
            inode=source.inode,
            ctime_ns=source.ctime_ns,
            ingested_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        )

    def _write_if_due(self) -> None:
        if self._gathered >= STORE_CHUNKS or time.monotonic() - self._written_at >= STORE_SECONDS:
            self._write()

    def _write(self) -> None:
        replacements, self._replacements = self._replacements, []
        self._ready.clear()
        refreshes, self._refreshes = self._refreshes, []
        self._gathered = 0
        if replacements:
            new = {item.record.content_hash for item, _ in replacements}
            before = ((item.record.doc_id, self._known.get(item.record.doc_id)) for item, _ in replacements)
            self._superseded({doc_id: old for doc_id, old in before if old is not None and old.content_hash not in new})
            written = self._store.replace([item for item, _ in replacements])
            self._report.chunks_written += written.written
            self._report.chunks_removed += written.removed
        if refreshes:
            self._store.refresh([record for record, _ in refreshes])
        self._written_at = time.monotonic()
        for record, outcome in [*((item.record, done) for item, done in replacements), *refreshes]:
            self._report.add(outcome)
            self._emit(FileFinished(outcome, record.size))

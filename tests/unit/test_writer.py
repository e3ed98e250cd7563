# SPDX-License-Identifier: GPL-2.0-only
"""The writer alone, between real preparations and the real store: what waits, what is written when, what is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bigos.preparation import Prepared, Rejected, Same, Task, prepare
from bigos.report import ChunksEmbedded, Event, FileFinished, IngestReport, ignore
from bigos.types import FileOutcome
from bigos.versions import Versions
from bigos.writer import EMBED_GROUP, NOT_EMBEDDABLE, STORE_CHUNKS, DocumentWriter
from small_index import SETTINGS, SmallIndex, source

VERSIONS = Versions("model", None)
SENTENCE = "Note {0} tells how the clock divider of the serial bus is computed from the parent clock, rate by rate.\n\n"


class Desk:
    """A writer with its report and the events it emitted."""

    def __init__(self, index: SmallIndex) -> None:
        self.index = index
        self.report = IngestReport()
        self.events: list[Event] = []
        self.writer = DocumentWriter(
            store=index.store,
            embedder=index.embedder,
            report=self.report,
            known=index.store.known(),
            versions=VERSIONS,
            on_event=self.watch,
        )

    def watch(self, event: Event) -> None:
        if isinstance(event, FileFinished) and event.outcome.outcome != "failed":
            stored = {record.source_path: record for record in self.index.store.known().values()}
            assert stored[event.outcome.path].size == event.bytes, "told before it was durable"
        self.events.append(event)

    def finish(self) -> IngestReport:
        self.writer.finish(stopping=False)
        return self.report


def prepared(path: Path) -> Prepared:
    made = prepare(Task(source(path)), SETTINGS)
    assert isinstance(made, Prepared)
    return made


def note(index: SmallIndex, name: str, chunks: int) -> Prepared:
    """A file of `chunks` chunks that no other has, prepared."""
    text = "".join(SENTENCE.format(number) for number in range(2 * chunks)) + f"This was {name}.\n"
    made = prepared(index.write(name, text))
    assert len(made.chunks) >= chunks
    return replace(made, chunks=made.chunks[:chunks], passages=made.passages[:chunks], tokens=made.tokens[:chunks])


def test_passages_wait_until_there_is_a_group_of_them(index: SmallIndex) -> None:
    desk = Desk(index)
    desk.writer.take(note(index, "a.txt", EMBED_GROUP - 1))
    desk.writer.embed(lambda: False)
    assert (index.embedder.raw.calls, desk.report.embedded) == ([], 0)
    desk.writer.take(note(index, "b.txt", 3))
    desk.writer.embed(lambda: False)
    assert index.embedder.raw.calls == [EMBED_GROUP]
    assert desk.events == [ChunksEmbedded(EMBED_GROUP)]
    assert desk.finish().embedded == EMBED_GROUP + 2
    assert index.embedder.raw.calls == [EMBED_GROUP, 2]
    assert desk.report.files == {"added": 2}


def test_a_file_is_told_only_when_it_is_durable(index: SmallIndex) -> None:
    desk = Desk(index)
    for number in range(3):
        desk.writer.take(note(index, f"{number}.txt", EMBED_GROUP))
        desk.writer.embed(lambda: False)
    assert desk.report.embedded == 3 * EMBED_GROUP
    assert not [event for event in desk.events if isinstance(event, FileFinished)]
    assert not index.store_dir.exists()
    assert desk.finish().chunks_written == 3 * EMBED_GROUP
    told = [event.outcome for event in desk.events if isinstance(event, FileFinished)]
    assert told == desk.report.outcomes
    assert [Path(item.path).name for item in told] == ["0.txt", "1.txt", "2.txt"]


def test_a_stop_between_groups_completes_the_document_that_was_begun_and_leaves_out_the_rest(index: SmallIndex) -> None:
    desk = Desk(index)
    desk.writer.take(note(index, "begun.txt", 3 * EMBED_GROUP))
    desk.writer.take(note(index, "waits.txt", 5))
    desk.writer.embed(lambda: desk.report.embedded > 0)
    assert desk.report.embedded == EMBED_GROUP
    desk.writer.finish(stopping=True)
    assert desk.report.embedded == desk.report.chunks_written == 3 * EMBED_GROUP
    assert [Path(item.path).name for item in desk.report.outcomes] == ["begun.txt"]
    assert len(index.store.known()) == 1


def test_a_stop_keeps_what_needs_no_model(index: SmallIndex) -> None:
    index.write("same.txt", SENTENCE)
    index.ingest()
    desk = Desk(index)
    record = index.record(index.folder / "same.txt")
    desk.writer.take(note(index, "waits.txt", 5))
    desk.writer.take(Same(replace(source(index.folder / "same.txt"), mtime_ns=7), record.content_hash))
    empty = source(index.write("empty.txt", ""))
    desk.writer.take(Rejected(empty, "empty", "there is no text in the file", True, "hash"))
    desk.writer.finish(stopping=True)
    assert desk.report.files == {"skipped": 1, "unchanged": 1}
    assert (desk.report.embedded, desk.report.files_read, desk.report.chunks_unchanged) == (0, 3, record.chunk_count)
    assert index.record(index.folder / "same.txt") == replace(record, mtime_ns=7)
    assert index.record(empty.path).reason == "empty"


def test_a_file_that_fails_at_first_is_remembered_without_chunks(index: SmallIndex) -> None:
    desk = Desk(index)
    bad = source(index.write("bad.html", "<p>"))
    desk.writer.take(Rejected(bad, "damaged", "the html loader failed", False, "its hash", "html"))
    assert desk.finish().outcomes == [FileOutcome(str(bad.path), "failed", "damaged", "the html loader failed")]
    record = index.record(bad.path)
    assert (record.status, record.reason, record.chunk_count) == ("failed", "damaged", 0)
    assert (record.content_hash, record.fingerprint, record.size) == (
        "its hash",
        VERSIONS.fingerprint("html", recognised=False),
        bad.size,
    )
    assert desk.report.files_read == 1


def test_a_file_that_fails_later_keeps_its_chunks_and_what_is_known_of_them(index: SmallIndex) -> None:
    path = index.write("a.md", f"# Clocks\n\n{SENTENCE * 3}")
    index.ingest()
    before, chunks = index.record(path), index.chunks(path)
    index.write("a.md", "# Broken")
    desk = Desk(index)
    desk.writer.take(Rejected(source(path), "crashed", "the loader died", False))
    assert desk.finish().files == {"failed": 1}
    now = source(path)
    assert index.record(path) == replace(
        before,
        status="failed",
        reason="crashed",
        size=now.size,
        mtime_ns=now.mtime_ns,
        inode=now.inode,
        ctime_ns=now.ctime_ns,
        fingerprint=VERSIONS.fingerprint(None, recognised=False),
    )
    assert index.chunks(path) == chunks
    assert (desk.report.chunks_removed, desk.report.files_read) == (0, 0)


def test_a_failure_does_not_undo_what_another_process_wrote_meanwhile(index: SmallIndex) -> None:
    path = index.write("a.txt", SENTENCE)
    index.ingest()
    desk = Desk(index)
    index.write("a.txt", SENTENCE * 4)
    index.ingest()
    newer, chunks = index.record(path), index.chunks(path)
    desk.writer.take(Rejected(source(path), "timed out", "took too long", False))
    desk.finish()
    assert (index.record(path), index.chunks(path)) == (newer, chunks)


def test_warnings_are_reported_with_their_file(index: SmallIndex) -> None:
    desk = Desk(index)
    desk.writer.take(replace(note(index, "a.txt", 1), warnings=("the encoding was guessed", "a line is very long")))
    desk.writer.take(note(index, "b.txt", 1))
    name = str(index.folder / "a.txt")
    assert desk.finish().warnings == [(name, "the encoding was guessed"), (name, "a line is very long")]


def test_a_document_without_any_chunk_is_remembered_too(index: SmallIndex) -> None:
    desk = Desk(index)
    desk.writer.take(replace(note(index, "a.txt", 1), chunks=(), passages=(), tokens=()))
    desk.writer.take(note(index, "b.txt", 2))
    assert desk.finish().files == {"added": 2}
    assert (index.record(index.folder / "a.txt").chunk_count, len(index.chunks(index.folder / "b.txt"))) == (0, 2)


def test_a_passage_that_the_model_cannot_take_costs_its_document_and_no_other(index: SmallIndex) -> None:
    index.embedder.raw.refuses = "Note 7 "
    desk = Desk(index)
    bad, good = note(index, "bad.txt", 5), note(index, "good.txt", 2)
    for item in (bad, good):
        desk.writer.take(item)
    report = desk.finish()
    told = {Path(item.path).name: item for item in report.outcomes}
    assert (told["bad.txt"].outcome, told["bad.txt"].reason) == ("failed", NOT_EMBEDDABLE)
    assert "NaN" in str(told["bad.txt"].detail)
    assert told["good.txt"].outcome == "added"
    assert not index.chunks(bad.source.path)
    assert len(index.chunks(good.source.path)) == 2
    record = index.record(bad.source.path)
    assert (record.status, record.reason, record.content_hash) == ("failed", NOT_EMBEDDABLE, bad.content_hash)


def test_a_new_version_that_the_model_cannot_take_leaves_the_old_one_searchable(index: SmallIndex) -> None:
    path = index.write("a.txt", SENTENCE * 3)
    index.ingest()
    before = index.chunks(path)
    index.embedder.raw.refuses = "rutabaga"
    index.write("a.txt", SENTENCE * 3 + "rutabaga\n")
    report = index.ingest()
    assert report.files == {"failed": 1}
    assert index.chunks(path) == before
    assert index.ingest().files == {"failed": 1}, "it is told in every run"


def test_a_dry_run_survives_a_passage_that_the_model_cannot_take(index: SmallIndex) -> None:
    index.embedder.raw.refuses = "divider"
    index.write("a.txt", SENTENCE * 3)
    assert index.ingest(dry_run=True).files == {"added": 1}


def test_documents_without_chunks_are_written_like_others_when_many_have_gathered(index: SmallIndex) -> None:
    report = IngestReport()
    writer = DocumentWriter(
        store=index.store,
        embedder=index.embedder,
        report=report,
        known={},
        versions=VERSIONS,
        on_event=ignore,
    )
    at = source(index.write("empty.txt", ""))
    for number in range(STORE_CHUNKS):
        empty = replace(at, path=at.path.with_name(f"{number}.txt"))
        writer.take(Rejected(empty, "empty", "there is no text in the file", True, "hash"))
    writer.embed(lambda: False)
    assert report.files == {"skipped": STORE_CHUNKS}
    assert len(index.store.known()) == STORE_CHUNKS

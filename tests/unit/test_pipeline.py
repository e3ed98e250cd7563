# SPDX-License-Identifier: GPL-2.0-only
"""Ingest on the real store: what a run reads, embeds, writes and tells, and what is left when it breaks off."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bigos.errors import EmbedderError, FingerprintMismatch, StoreError, UsageError
from bigos.pipeline import ChunksEmbedded, FileFinished, RunStarted
from bigos.stores import Replacement, StoreQuery
from bigos.stores.embedded import EmbeddedStore
from bigos.types import FileOutcome, Record, document_id
from bigos.writer import EMBED_GROUP, STORE_CHUNKS
from hash_embedder import HashEmbedder, LabelledEmbedder
from small_index import FINGERPRINT, SETTINGS, SmallIndex, touch_later

ENGLISH = "The clock divider of the serial bus is computed from the parent clock and rounded up to an even value."
POLISH = "Dzielnik zegara magistrali jest liczony z zegara nadrzędnego i zaokrąglany w górę do liczby parzystej."
CODE = "/* Divider {0}. */\nint divider_{0}(int rate)\n{{\n\treturn parent_{0} / rate;\n}}\n\n"


def paragraphs(count: int, of: str = ENGLISH, first: int = 0) -> str:
    """A text of `count` paragraphs, each a chunk or so, no two alike."""
    return "".join(f"Part {number} of the notes. {of}\n\n" for number in range(first, first + count))


def fill(index: SmallIndex, files: int = 6, parts: int = 2) -> list[Path]:
    return [
        index.write(f"note-{number:02}.txt", f"Note number {number}.\n\n{paragraphs(parts, first=100 * number)}")
        for number in range(files)
    ]


def counts(report: object) -> dict[str, int]:
    return {name: count for name, count in report.files.items() if count}  # type: ignore[attr-defined]


def state(index: SmallIndex) -> dict[str, object]:
    """All that the store has, without the times of writing."""
    known = index.store.known()
    return {
        doc_id: (replace(record, ingested_at=""), [(item.chunk_id, item.chunk) for item in index.store.chunks(doc_id)])
        for doc_id, record in known.items()
    }


# --- again -----------------------------------------------------------------------------------------------------------


def test_a_second_run_reads_embeds_and_writes_nothing(index: SmallIndex) -> None:
    fill(index)
    first = index.ingest()
    assert counts(first) == {"added": 6}
    before = index.store.known()
    again = index.ingest()
    assert counts(again) == {"unchanged": 6}
    assert (again.files_read, again.embedded, again.chunks_written, again.chunks_removed) == (0, 0, 0, 0)
    assert again.chunks_unchanged == first.chunks_written == first.embedded > 6
    assert again.outcomes == []
    assert index.store.known() == before
    assert index.events == [RunStarted(0, 0, 6)]


class Asked(EmbeddedStore):
    """A store that remembers for which Records it was asked."""

    asked: Sequence[str] = ()

    def records(self, doc_ids: Sequence[str]) -> dict[str, Record]:
        self.asked = list(doc_ids)
        return super().records(doc_ids)


def test_only_what_may_have_changed_costs_a_look_at_its_record(index: SmallIndex) -> None:
    note, second, third, *_ = fill(index)
    skipped = index.write("empty.md", "")
    index.ingest()
    index.store.close()
    index.store = store = Asked(index.store_dir, FINGERPRINT, index.embedder.dimension)
    touch_later(note)
    second.write_text(ENGLISH)
    third.unlink()
    report = index.ingest()
    assert counts(report) == {"unchanged": 4, "updated": 1, "skipped": 1}
    assert sorted(store.asked) == sorted(map(document_id, (note, second, skipped)))
    assert counts(index.ingest()) == {"unchanged": 5, "skipped": 1}
    assert store.asked == [document_id(skipped)]
    assert counts(index.ingest(reindex=True)) == {"updated": 5, "skipped": 1}
    assert len(store.asked) == 6


@pytest.mark.parametrize(
    "name", [b"two  words \n.txt", "zażółć.txt".encode(), b"za\xbf.txt", b"za\\xbf.txt", b"\\.txt"]
)
def test_a_name_of_any_kind_is_known_again(index: SmallIndex, name: bytes) -> None:
    note = index.write(os.fsdecode(name), ENGLISH)
    index.write("other.txt", POLISH)
    index.ingest()
    again = index.ingest()
    assert (counts(again), again.files_read) == ({"unchanged": 2}, 0)
    assert again.chunks_unchanged == sum(record.chunk_count for record in index.store.known().values())
    touch_later(note)
    assert index.ingest().files_read == 1


def test_two_files_with_one_name_on_the_screen_are_not_taken_for_each_other(index: SmallIndex) -> None:
    byte = index.write(os.fsdecode(b"za\xbf.txt"), ENGLISH)
    index.ingest()
    byte.rename(index.folder / "za\\xbf.txt")  # the same inode, size and time
    assert counts(index.ingest()) == {"added": 1}


def test_a_file_that_was_forgotten_is_added_again(index: SmallIndex) -> None:
    note, *_ = fill(index)
    index.ingest()
    index.store.forget(note)
    assert counts(index.ingest()) == {"added": 1, "unchanged": 5}


def test_records_without_stamps_are_looked_at_and_hold(index: SmallIndex) -> None:
    from qdrant_edge import Filter, UpdateOperation

    note, *_ = fill(index)
    written = index.ingest().chunks_written
    with index.store._writing() as shard:
        shard.update(UpdateOperation.delete_payload_by_filter(Filter(), ["stamp"]))
        shard.update(UpdateOperation.delete_field_index("stamp"))
        shard.flush()
    again = index.ingest()
    assert (counts(again), again.files_read, again.chunks_unchanged) == ({"unchanged": 6}, 0, written)
    touch_later(note)
    assert (counts(index.ingest()), len(index.store.stamps())) == ({"unchanged": 6}, 1)
    assert index.ingest().files_read == 0


def test_a_touched_file_is_read_once_and_costs_a_stat_from_then_on(index: SmallIndex) -> None:
    note, *_ = fill(index)
    written = index.ingest().chunks_written
    before = index.record(note)
    touch_later(note)
    touched = index.ingest()
    assert counts(touched) == {"unchanged": 6}
    assert (touched.files_read, touched.embedded, touched.chunks_unchanged) == (1, 0, written)
    assert index.record(note) == replace(before, mtime_ns=note.stat().st_mtime_ns, ctime_ns=note.stat().st_ctime_ns)
    assert index.ingest().files_read == 0


def test_a_file_written_anew_under_its_old_name_is_recognised_by_its_content(index: SmallIndex) -> None:
    note, *_ = fill(index)
    index.ingest()
    copy = index.folder.parent / "copy"
    shutil.copy2(note, copy)  # same size and time, another inode
    copy.replace(note)
    assert (index.ingest().files_read, index.ingest().files_read) == (1, 0)


def test_a_changed_file_is_updated_and_its_old_chunks_are_gone(index: SmallIndex) -> None:
    note, *others = fill(index, files=3)
    index.ingest()
    old = {item.chunk_id for item in index.chunks(note)}
    index.write(note.name, "A new story: the old bridge over the river was painted green last summer.\n")
    report = index.ingest()
    assert counts(report) == {"updated": 1, "unchanged": 2}
    assert report.outcomes == [FileOutcome(str(note), "updated", chunks=1)]
    assert (report.chunks_written, report.chunks_removed, report.embedded) == (1, len(old), 1)
    assert all(index.store.chunk(chunk_id) is None for chunk_id in old)
    assert not [text for text in index.texts() if "Note number 0" in text or "Part 1 of" in text]
    assert all(index.chunks(other) for other in others)


def test_reindex_embeds_everything_again_and_ends_in_the_same_state(index: SmallIndex) -> None:
    fill(index)
    first = index.ingest()
    before = state(index)
    again = index.ingest(reindex=True)
    assert counts(again) == {"updated": 6}
    assert (again.files_read, again.embedded, again.chunks_removed) == (6, first.embedded, 0)
    assert state(index) == before


def test_another_fingerprint_is_refused_before_anything_is_read(index: SmallIndex) -> None:
    fill(index)
    index.ingest()
    before = state(index)
    index.store.close()
    index.store = index.open_store("words-hashed/48/window-96-6")
    with pytest.raises(FingerprintMismatch):
        index.ingest()
    assert index.events == []
    index.store.close()
    index.store = index.open_store()
    assert state(index) == before


# --- files that give nothing -----------------------------------------------------------------------------------------


def test_a_file_that_times_out_keeps_its_old_version_and_is_reported_each_run_without_being_read_again(
    index: SmallIndex,
) -> None:
    note = index.write("note.txt", paragraphs(2))
    index.ingest()
    before, chunks = index.record(note), index.chunks(note)
    index.write(note.name, paragraphs(6000))
    # Counted from when the worker takes the file; it has to read its vocabulary first.
    failed = index.ingest(workers=1, settings=replace(SETTINGS, timeout=0.2))
    assert counts(failed) == {"failed": 1}
    assert failed.outcomes == [FileOutcome(str(note), "failed", "timed out", "took more than 0.2 s")]
    assert index.chunks(note) == chunks
    assert index.found(chunks[0].chunk.text)[0][0] == chunks[0].chunk_id
    assert index.store.stats().by_language == {"en": len(chunks)}
    again = index.ingest()
    assert (counts(again), again.files_read) == ({"failed": 1}, 0)
    assert again.outcomes == [FileOutcome(str(note), "failed", "timed out", None, len(chunks))]
    index.write(note.name, paragraphs(3))
    assert counts(index.ingest()) == {"updated": 1}
    assert index.record(note).status == "indexed"
    assert len(index.chunks(note)) > before.chunk_count


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "empty"), (b" \n\n\t\n", "empty"), (b"\x7fELF\0\0\0" * 40, "binary")]
)
def test_a_file_that_has_no_text_any_more_loses_its_chunks_and_comes_back_with_its_text(
    index: SmallIndex, content: bytes, reason: str
) -> None:
    note, other = fill(index, files=2)
    index.ingest()
    text, chunks = note.read_text(), index.chunks(note)
    index.write(note.name, content)
    gone = index.ingest()
    assert counts(gone) == {"skipped": 1, "unchanged": 1}
    assert [(item.path, item.reason) for item in gone.outcomes] == [(str(note), reason)]
    assert gone.chunks_removed == len(chunks)
    assert (index.chunks(note), index.record(note).status) == ([], "skipped")
    again = index.ingest()
    assert (counts(again), again.files_read) == ({"skipped": 1, "unchanged": 1}, 0)
    assert again.outcomes[0].reason == reason
    index.write(note.name, text)
    assert counts(index.ingest()) == {"added": 1, "unchanged": 1}
    assert index.chunks(note) == chunks
    assert index.chunks(other)


def test_a_file_that_vanishes_before_it_is_read_leaves_the_index_as_it_was(index: SmallIndex) -> None:
    note, _ = fill(index, files=2)
    index.ingest()
    before = index.store.known()
    note.write_text("It has changed, and is gone before anybody has read it.\n")
    new = index.write("new.txt", "It came and went.\n")

    def take_away(event: object) -> None:
        if isinstance(event, RunStarted):
            note.unlink()
            new.unlink()

    report = index.ingest(on_event=take_away)
    assert {(item.path, item.outcome, item.reason) for item in report.outcomes} == {
        (str(note), "failed", "vanished"),
        (str(new), "failed", "vanished"),
    }
    assert index.store.known() == before
    assert index.chunks(note)


def test_a_file_that_could_not_be_read_is_tried_again_though_stat_says_the_same(index: SmallIndex) -> None:
    note, other = fill(index, files=2)
    aside = index.folder.parent / "aside"

    def take_away(event: object) -> None:
        if isinstance(event, RunStarted):
            note.rename(aside)
            note.symlink_to(aside)  # which is not followed

    report = index.ingest(on_event=take_away)
    assert counts(report) == {"failed": 1, "added": 1}
    assert (report.outcomes[0].path, report.outcomes[0].reason) == (str(note), "unreadable")
    aside.replace(note)
    again = index.ingest()
    assert (counts(again), again.files_read) == ({"added": 1, "unchanged": 1}, 1)
    assert index.chunks(note)
    assert index.chunks(other)


def test_every_file_of_a_mixed_folder_is_counted_and_named_with_its_reason(index: SmallIndex) -> None:
    fill(index, files=2)
    index.write("deep/code.c", CODE.format(1))
    index.write("empty.md", "")
    index.write("binary.txt", bytes(1000))
    index.write("scene.blend", b"BLENDER")
    index.write("big.log", "a line of a log\n" * 70_000)
    index.write("node_modules/x.md", ENGLISH)
    index.write("draft.md", ENGLISH)
    os.mkfifo(index.folder / "pipe")
    (index.folder / "broken.md").symlink_to("nowhere")
    report = index.ingest(exclude=("draft*",))
    assert counts(report) == {"added": 3, "skipped": 8}
    assert len(report.outcomes) == report.files.total()
    assert {Path(item.path).name: item.reason for item in report.outcomes if item.outcome == "skipped"} == {
        "empty.md": "empty",
        "binary.txt": "binary",
        "scene.blend": "unknown format",
        "big.log": "too large",
        "node_modules": "pruned directory",
        "draft.md": "excluded",
        "pipe": "special file",
        "broken.md": "broken link",
    }
    again = index.ingest(exclude=("draft*",))
    assert counts(again) == {"unchanged": 3, "skipped": 8}
    assert {item.path for item in again.outcomes} == {i.path for i in report.outcomes if i.outcome == "skipped"}
    assert again.files_read == 0


# --- before a run ----------------------------------------------------------------------------------------------------


def test_too_many_files_are_refused_before_anything_is_written(index: SmallIndex) -> None:
    fill(index)
    with pytest.raises(UsageError, match="6 files are more than --max-files 5") as refusal:
        index.ingest(max_files=5)
    assert "--max-files 6" in refusal.value.fix
    assert (index.events, index.store_dir.exists()) == ([], False)
    assert counts(index.ingest(max_files=6)) == {"added": 6}


def test_a_dry_run_creates_nothing_and_counts_what_a_real_run_then_does(index: SmallIndex) -> None:
    notes = fill(index)
    index.write("empty.md", "")
    dry = index.ingest(dry_run=True)
    assert not index.store_dir.exists()
    assert dry.dry_run
    assert dry.estimated_seconds is not None
    assert dry.estimated_seconds > 0
    real = index.ingest()
    assert not real.dry_run
    assert real.estimated_seconds is None
    assert (dry.files, dry.chunks_written) == (real.files, real.chunks_written)
    assert sorted(map(repr, dry.outcomes)) == sorted(map(repr, real.outcomes))
    index.write(notes[0].name, paragraphs(3))
    index.write(notes[1].name, "")
    touch_later(notes[2])
    before = state(index)
    dry = index.ingest(dry_run=True)
    assert state(index) == before
    assert isinstance(index.events[0], RunStarted)
    assert len(index.events) == 4
    real = index.ingest()
    for name in ("files", "files_read", "chunks_written", "chunks_unchanged"):
        assert getattr(dry, name) == getattr(real, name), name
    assert index.ingest(dry_run=True).estimated_seconds == 0


# --- vectors ---------------------------------------------------------------------------------------------------------


def mixed(index: SmallIndex, files: int) -> None:
    for number in range(files):
        parts = number % 4 + 1
        name, text = (
            (f"{number}.md", f"# Title {number}\n\n## Part\n\n{paragraphs(parts, first=10 * number)}"),
            (f"{number}.txt", paragraphs(parts, POLISH, first=10 * number)),
            (f"{number}.c", "".join(CODE.format(10 * number + part) for part in range(parts))),
            (f"{number}.html", f"<title>Page {number}</title><p>{paragraphs(parts, first=10 * number)}</p>"),
        )[number % 4]
        index.write(name, text)


def test_vectors_end_at_the_right_chunks_though_groups_run_across_files(index: SmallIndex) -> None:
    mixed(index, 60)
    report = index.ingest()
    assert counts(report) == {"added": 60}
    assert report.embedded == report.chunks_written == len(index.embedder.labels) > EMBED_GROUP
    *full, last = index.embedder.raw.calls
    assert full == [EMBED_GROUP] * (report.embedded // EMBED_GROUP)
    assert last == report.embedded % EMBED_GROUP
    passages = list(index.embedder.labels)
    for passage, label in passages:
        (chunk_id, score), (_, second), *_ = index.found(passage, label)
        assert score == pytest.approx(1, abs=1e-4)
        assert second < score
        stored = index.store.chunk(chunk_id)
        assert stored is not None
        assert passage.endswith(stored.chunk.text)


def test_a_document_longer_than_a_group_keeps_each_vector_in_its_place(index: SmallIndex) -> None:
    long = index.write("long.txt", paragraphs(2 * EMBED_GROUP))
    index.write("short.txt", paragraphs(1, POLISH))
    index.ingest()
    assert len(index.chunks(long)) > EMBED_GROUP
    for (passage, label), stored in zip(list(index.embedder.labels), index.chunks(long), strict=False):
        assert index.found(passage, label)[0][0] == stored.chunk_id


def test_a_passage_is_labelled_code_or_by_its_chunk_or_by_its_document(index: SmallIndex) -> None:
    index.write("a.c", CODE.format(1))
    index.write("b.txt", paragraphs(1, POLISH))
    index.write("c.txt", paragraphs(8) + "\n0x1f 0x20 0x21 0x22\n" * 30)
    index.write("e.txt", paragraphs(4) + paragraphs(12, POLISH, first=50))
    index.write("d.txt", "0x1f 0x20 0x21 0x22 0x23\n" * 3)
    index.ingest()
    seen = {(Path(item.source_path).name, item.chunk.chunk_language, item.chunk.language, label)
            for doc_id in index.store.known()
            for item in index.store.chunks(doc_id)
            for passage, label in index.embedder.labels
            if passage.endswith(item.chunk.text)}  # fmt: skip
    assert {("a.c", None, None, "code"), ("b.txt", "pl", "pl", "pl"), ("c.txt", "en", "en", "en")} <= seen
    assert ("c.txt", None, "en", "en") in seen
    assert ("d.txt", None, None, None) in seen
    assert ("e.txt", "en", "pl", "en") in seen
    assert all(label == ("code" if name == "a.c" else chunk or whole) for name, chunk, whole, label in seen)


# --- breaking off ----------------------------------------------------------------------------------------------------


def assert_only_whole_documents(index: SmallIndex) -> int:
    """Every indexed Record has all its chunks, and no search brings up a chunk of another. How many documents."""
    known = index.store.known()
    chunks = {item.chunk_id for doc_id in known for item in index.store.chunks(doc_id)}
    assert sum(record.chunk_count for record in known.values()) == len(chunks)
    vector = index.embedder.embed_query("anything", None)
    assert {hit.chunk_id for hit in index.store.search(StoreQuery(vector, 10_000))} == chunks
    return sum(record.status == "indexed" for record in known.values())


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_stop_completes_the_document_in_hand_and_the_next_run_does_the_rest(index: SmallIndex, after: int) -> None:
    fill(index, files=8, parts=60)

    def enough() -> bool:
        return sum(isinstance(event, ChunksEmbedded) for event in index.events) >= after

    report = index.ingest(stop=enough)
    assert report.interrupted
    done = assert_only_whole_documents(index)
    assert 0 < done < 8
    assert counts(report) == {"added": done}
    assert report.embedded == report.chunks_written, "nothing that was embedded is thrown away"
    rest = index.ingest()
    assert not rest.interrupted
    assert counts(rest) == {"unchanged": done, "added": 8 - done}
    assert assert_only_whole_documents(index) == 8


def test_a_stop_before_the_first_file_writes_nothing(index: SmallIndex) -> None:
    fill(index)
    report = index.ingest(stop=lambda: True)
    assert (report.interrupted, report.files.total(), report.files_read) == (True, 0, 0)
    assert not index.store_dir.exists()
    report = index.ingest(stop=lambda: True, dry_run=True)
    assert (report.interrupted, report.files_read) == (True, 0)


@pytest.fixture
def long_run(index: SmallIndex) -> SmallIndex:
    """Two files in the store; with what is to come, so many that they are written in more than one go."""
    fill(index, files=2)
    index.ingest()
    fill(index, files=24, parts=110)
    return index


def test_a_model_that_goes_away_costs_only_what_was_not_written(long_run: SmallIndex) -> None:
    long_run.embedder = LabelledEmbedder(HashEmbedder(breaks_after=STORE_CHUNKS + 2 * EMBED_GROUP))
    with pytest.raises(EmbedderError, match="does not answer"):
        long_run.ingest()
    told = [event.outcome for event in long_run.events if isinstance(event, FileFinished)]
    assert 0 < len(told) < 24, "what was told is what was written"
    assert assert_only_whole_documents(long_run) == len(told)
    long_run.embedder = LabelledEmbedder(HashEmbedder())
    assert counts(long_run.ingest()) == {"unchanged": len(told), "added": 24 - len(told)}


def test_a_store_that_goes_away_costs_only_what_was_not_written(long_run: SmallIndex) -> None:
    aside = long_run.store_dir.with_name("aside")

    def unplug(event: object) -> None:
        if isinstance(event, FileFinished) and not aside.exists():
            long_run.store_dir.rename(aside)
            long_run.store_dir.write_text("a file where the directory has to be")

    with pytest.raises(StoreError) as failure:
        long_run.ingest(on_event=unplug)
    assert failure.value.fix
    told = [event.outcome for event in long_run.events if isinstance(event, FileFinished)]
    assert 0 < len(told) < 24
    long_run.store_dir.unlink()
    aside.rename(long_run.store_dir)
    assert assert_only_whole_documents(long_run) == len(told)
    assert counts(long_run.ingest()) == {"unchanged": len(told), "added": 24 - len(told)}


# --- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
def test_events_begin_with_the_start_tell_each_file_once_and_add_up(index: SmallIndex, workers: int) -> None:
    notes = fill(index, files=5, parts=40)
    index.write("empty.md", "")
    report = index.ingest(workers=workers)
    start, *rest = index.events
    sizes = sum(path.stat().st_size for path in notes)
    assert start == RunStarted(6, sizes, 0)
    assert not [event for event in rest if isinstance(event, RunStarted)]
    finished = [event for event in rest if isinstance(event, FileFinished)]
    assert [event.outcome for event in finished] == report.outcomes
    assert len({event.outcome.path for event in finished}) == 6
    assert sum(event.bytes for event in finished) == sizes
    assert sum(event.count for event in rest if isinstance(event, ChunksEmbedded)) == report.embedded > 0
    assert report.seconds > 0


def test_what_failed_is_tried_again_when_asked_and_what_lacked_a_program_in_any_case(index: SmallIndex) -> None:
    damaged, scan, secret = (index.write(name, "Bread is made of flour, water and salt.\n") for name in "abc")
    index.ingest()
    reasons = {damaged: "damaged", scan: "needs OCR", secret: "needs a password"}
    index.store.replace(
        [
            Replacement(
                replace(index.record(path), status="failed", reason=reason, chunk_count=0),
                (),
                np.empty((0, index.embedder.dimension), np.float32),
            )
            for path, reason in reasons.items()
        ]
    )
    first = index.ingest()
    assert (first.files["failed"], first.files["updated"] + first.files["added"], first.files_read) == (2, 1, 1)
    assert +index.ingest(retry_failed=True).files == {"added": 2, "unchanged": 1}
    assert +index.ingest(retry_failed=True).files == {"unchanged": 3}


def test_always_recognising_reads_scans_again_and_nothing_else(index: SmallIndex) -> None:
    note, page = (index.write(name, "Bread is made of flour, water and salt.\n") for name in "ab")
    index.ingest()
    index.store.refresh([replace(index.record(page), format="pdf")])
    assert index.ingest(ocr="always").files_read == 1
    assert index.record(note).format == "text"

# SPDX-License-Identifier: GPL-2.0-only
"""What a later run knows again, and at which cost: by stat, by version, by content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bigos import chunking, timestamps, versions, writer
from bigos.loaders import code, detection, markdown
from bigos.loaders import text as plain_text
from bigos.loaders.formats import FORMATS
from bigos.report import ChunksEmbedded, IngestReport
from bigos.source.definitions import sections
from bigos.timestamps import LONG_STEP_NS, STEP_NS, changed_before, settled
from bigos.types import UNSETTLED, Record, SourceFile, document_id
from bigos.versions import BEFORE, Versions
from small_index import FINGERPRINT, SETTINGS, SmallIndex, source, touch_later

ENGLISH = "The clock divider of the serial bus is computed from the parent clock, part {0} of the notes.\n\n"
SECOND = 1_000_000_000
NOW = 1_764_520_000 * SECOND + 123_456_789


def text(first: int, parts: int = 4) -> str:
    return "".join(ENGLISH.format(number) for number in range(first, first + parts))


def counts(report: IngestReport) -> dict[str, int]:
    return {name: count for name, count in report.files.items() if count}


def rewrite(index: SmallIndex, records: Iterator[Record] | list[Record]) -> None:
    index.store.refresh(list(records))


# --- by stat ---------------------------------------------------------------------------------------------------------


def test_a_file_rewritten_in_place_with_its_old_time_and_size_is_noticed(index: SmallIndex) -> None:
    note = index.write("a.txt", "The old bridge is green.\n")
    index.ingest()
    before = note.stat()
    index.settle()
    with note.open("r+") as stream:
        stream.write("The new bridge is white.\n")
    os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (note.stat().st_size, note.stat().st_ino) == (before.st_size, before.st_ino)
    assert counts(index.ingest()) == {"updated": 1}
    assert index.texts() == ["The new bridge is white."]


def test_a_file_whose_rights_changed_is_read_once_and_not_embedded(index: SmallIndex) -> None:
    note = index.write("a.txt", text(1))
    index.ingest()
    note.chmod(0o600)
    again = index.ingest()
    assert (counts(again), again.files_read, again.embedded) == ({"unchanged": 1}, 1, 0)
    assert index.ingest().files_read == 0


def test_a_file_read_in_the_step_in_which_it_was_written_is_read_once_more(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = index.write("a.txt", text(1))
    monkeypatch.setattr(timestamps, "STEP_NS", 3600 * SECOND)
    index.ingest()
    assert index.record(note).ctime_ns == UNSETTLED
    monkeypatch.undo()
    again = index.ingest()
    assert (counts(again), again.files_read, again.embedded) == ({"unchanged": 1}, 1, 0)
    assert index.record(note).ctime_ns == note.stat().st_ctime_ns
    assert index.ingest().files_read == 0


@pytest.mark.parametrize(
    ("mtime_ns", "ctime_ns", "holds"),
    [
        (NOW - STEP_NS, NOW - STEP_NS, True),
        (NOW - STEP_NS + 1, NOW - STEP_NS, False),
        (NOW - 5 * SECOND, NOW - STEP_NS + 1, False),
        (NOW - 5 * SECOND, NOW, False),
        (NOW + 3600 * SECOND, NOW - 5 * SECOND, True),  # a time zone that was got wrong is not for ever new
        ((NOW - LONG_STEP_NS) // SECOND * SECOND, (NOW - LONG_STEP_NS) // SECOND * SECOND, True),
        (NOW // SECOND * SECOND, NOW // SECOND * SECOND, False),
        (NOW // SECOND * SECOND - SECOND, NOW // SECOND * SECOND - SECOND, False),
        (NOW // SECOND * SECOND, NOW - STEP_NS - 1, True),  # touch -d: one whole second says nothing of the other
    ],
)
def test_times_are_trusted_once_the_clock_has_moved_on(mtime_ns: int, ctime_ns: int, holds: bool) -> None:
    seen = SourceFile(Path("/a"), 1, mtime_ns, 1, ctime_ns)
    assert settled(seen, NOW) == (seen if holds else replace(seen, ctime_ns=UNSETTLED))


def test_a_moment_is_after_a_change_only_when_the_coarsest_clock_says_so() -> None:
    moment = "2026-11-30T12:00:00.000000+00:00"
    at = 1_796_040_000 * SECOND
    assert changed_before(at - LONG_STEP_NS - 1, moment)
    assert not changed_before(at - LONG_STEP_NS + SECOND, moment)
    assert not changed_before(at + 1, moment)
    assert not changed_before(0, "yesterday")


# --- Records of before -----------------------------------------------------------------------------------------------


def as_before(record: Record, **changes: object) -> Record:
    """The Record as it was written when it had no ctime and one version for all loaders."""
    values = {"ctime_ns": None, "fingerprint": f"{FINGERPRINT}/{BEFORE}", "ingested_at": "2030-01-01T00:00:00+00:00"}
    return replace(record, **(values | changes))  # type: ignore[arg-type]


def test_records_of_before_are_taken_as_they_are_and_put_into_todays_words(index: SmallIndex) -> None:
    notes = [index.write(f"{number}.txt", text(number)) for number in range(3)]
    index.ingest()
    now = index.store.known()
    rewrite(index, [as_before(record) for record in now.values()])
    again = index.ingest()
    assert (counts(again), again.files_read, again.embedded) == ({"unchanged": 3}, 0, 0)
    for note in notes:
        record = index.record(note)
        assert record == replace(now[record.doc_id], ingested_at=record.ingested_at)
    assert index.ingest(dry_run=True).files_read == 0


def test_a_record_of_before_whose_file_was_changed_since_by_stat_alone_is_read(index: SmallIndex) -> None:
    note = index.write("a.txt", text(1))
    index.ingest()
    rewrite(index, [as_before(index.record(note), ingested_at="2020-01-01T00:00:00+00:00")])
    again = index.ingest()
    assert (counts(again), again.files_read, again.embedded) == ({"unchanged": 1}, 1, 0)
    assert index.ingest().files_read == 0


def test_a_dry_run_leaves_records_of_before_as_they_are(index: SmallIndex) -> None:
    note = index.write("a.txt", text(1))
    index.ingest()
    rewrite(index, [as_before(index.record(note))])
    before = index.record(note)
    index.ingest(dry_run=True)
    assert index.record(note) == before


# --- by content ------------------------------------------------------------------------------------------------------


def vectors(index: SmallIndex, *paths: Path) -> list[bytes]:
    found = index.store.documents([document_id(path) for path in paths])
    return [np.round(item.vectors, 5).tobytes() for item in found]


def test_a_moved_file_takes_its_vectors_along(index: SmallIndex) -> None:
    note = index.write("a/note.txt", text(1, 40))
    index.ingest()
    before = vectors(index, note)
    moved = index.folder / "b" / "other name.txt"
    moved.parent.mkdir()
    note.rename(moved)
    report = index.ingest()
    chunks = len(index.chunks(moved))
    assert (counts(report), report.embedded, report.reused) == ({"added": 1}, 0, chunks)
    assert report.chunks_written == chunks > 10
    assert vectors(index, moved) == before
    assert [item.chunk.text for item in index.chunks(moved)] == [item.chunk.text for item in index.chunks(note)]


def test_a_copy_of_a_file_is_a_document_of_its_own_with_the_same_vectors(index: SmallIndex) -> None:
    note = index.write("a.txt", text(1))
    index.ingest()
    copy = index.write("deep/copy.txt", note.read_bytes())
    report = index.ingest()
    assert (counts(report), report.embedded) == ({"added": 1, "unchanged": 1}, 0)
    assert vectors(index, copy) == vectors(index, note)
    note.unlink()
    index.store.forget(note)
    assert index.chunks(copy)


@pytest.mark.parametrize("parts", [1, 4, 400])
def test_files_of_one_content_in_one_run_are_embedded_once(index: SmallIndex, parts: int) -> None:
    notes = [index.write(f"{number}.txt", text(1, parts)) for number in range(5)]
    other = index.write("z.txt", text(900))
    report = index.ingest()
    assert counts(report) == {"added": 6}
    chunks = len(index.chunks(notes[0]))
    assert report.embedded == chunks + len(index.chunks(other))
    assert report.reused == 4 * chunks
    assert len(set(vectors(index, *notes))) == 1


def test_very_many_files_of_one_content_do_not_wait_for_each_other(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "STORE_CHUNKS", 10)
    for number in range(50):
        index.write(f"{number:02}.txt", "{}\n")
    waiting: list[int] = []
    report = index.ingest(on_event=lambda event: waiting.append(1) if isinstance(event, ChunksEmbedded) else None)
    assert (counts(report), report.embedded, report.reused, waiting) == ({"added": 50}, 1, 49, [1])


def test_a_name_that_makes_other_chunks_of_a_content_makes_it_be_embedded(index: SmallIndex) -> None:
    content = "".join(f"# Part {number}\n\n{text(number)}" for number in range(1, 40, 4))
    note = index.write("a.txt", content)
    index.ingest()
    page = note.rename(index.folder / "a.md")
    report = index.ingest()
    assert report.embedded == len(index.chunks(page)) != 0
    code = note.parent / "a.c"
    code.write_text("int divider;\n")
    index.ingest()
    document = code.rename(note.parent / "b.txt")
    assert index.ingest().embedded == len(index.chunks(document)) == 1


def test_renamed_code_keeps_the_vectors_with_its_old_name(index: SmallIndex) -> None:
    code = index.write("spi-old.c", "int divider(int rate)\n{\n\treturn 48 / rate;\n}\n")
    index.ingest()
    before = vectors(index, code)
    renamed = code.rename(index.folder / "spi-new.c")
    assert index.ingest().embedded == 0
    assert vectors(index, renamed) == before


def test_reindex_embeds_each_content_again_and_once(index: SmallIndex) -> None:
    for name in ("a.txt", "b.txt"):
        index.write(name, text(1))
    first = index.ingest()
    again = index.ingest(reindex=True)
    assert (again.embedded, again.reused) == (first.embedded, first.reused)


def test_files_of_one_content_that_the_model_cannot_take_all_fail(index: SmallIndex) -> None:
    index.embedder.raw.refuses = "part 2 "
    for name in ("a.txt", "b.txt"):
        index.write(name, text(1))
    report = index.ingest()
    assert (counts(report), report.reused) == ({"failed": 2}, 0)


def test_a_file_that_came_back_to_an_old_content_takes_the_vectors_of_its_copy(index: SmallIndex) -> None:
    note = index.write("a.txt", text(1))
    copy = index.write("b.txt", text(1))
    index.ingest()
    index.write("a.txt", text(50))
    index.ingest()
    index.write("a.txt", text(1))
    assert index.ingest().embedded == 0
    assert vectors(index, note) == vectors(index, copy)


# --- by version ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pot(index: SmallIndex) -> dict[str, Path]:
    """One file of each kind that versions tell apart, indexed."""
    made = {
        "text": index.write("a.txt", text(1)),
        "markdown": index.write("b.md", f"# Clocks\n\n{text(10)}"),
        "code": index.write("c.c", "int divider(int rate)\n{\n\treturn 48 / rate;\n}\n"),
        "none": index.write("d.blend", b"BLENDER"),
        "damaged": index.write("e.ipynb", "{ this is no notebook"),
    }
    index.ingest()
    return made


def read_again(index: SmallIndex) -> set[str]:
    """Names of the files that the next run reads, or looks into."""
    before = {record.source_path: record for record in index.store.known().values()}
    index.ingest()
    after = {record.source_path: record for record in index.store.known().values()}
    return {Path(path).name for path in after if after[path] != before[path]}


def bumped(name: str) -> tuple[object, ...]:
    return tuple(replace(spec, version=spec.version + 1) if spec.name == name else spec for spec in FORMATS)


@pytest.mark.parametrize(("form", "files"), [("text", {"a.txt"}), ("markdown", {"b.md"}), ("ipynb", {"e.ipynb"})])
def test_a_change_of_one_loader_makes_its_own_files_be_read_and_nothing_be_embedded(
    index: SmallIndex, pot: dict[str, Path], form: str, files: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "FORMATS", bumped(form))
    before = len(index.embedder.labels)
    assert read_again(index) == files
    assert len(index.embedder.labels) == before, "the same text is not embedded again"
    assert read_again(index) == set()


def test_a_loader_that_gives_other_headings_makes_its_files_be_embedded(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = index.write("b.md", f"# Clocks\n\n{text(10)}")
    index.ingest()
    load = markdown.load
    monkeypatch.setattr(versions, "FORMATS", bumped("markdown"))
    monkeypatch.setattr(markdown, "load", lambda *arguments: replace(load(*arguments), title="Another title"))
    report = index.ingest()
    assert (counts(report), report.embedded) == ({"updated": 1}, len(index.chunks(page)))


def test_a_loader_of_code_that_gives_other_headings_embeds_nothing_as_the_embedder_reads_none_of_them(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_file = index.write("c.c", "int divider(int rate)\n{\n\treturn 48 / rate;\n}\n")
    with monkeypatch.context() as before:
        before.setattr(code, "sections", lambda text, _language: sections(text, None))
        index.ingest()
    (old,) = index.chunks(source_file)
    had = vectors(index, source_file)
    monkeypatch.setattr(versions, "FORMATS", bumped("code"))
    report = index.ingest()
    (new,) = index.chunks(source_file)
    assert (counts(report), report.embedded) == ({"updated": 1}, 0)
    assert (old.chunk.heading_path, new.chunk.heading_path) == ((), ("divider",))
    assert vectors(index, source_file) == had


def test_a_change_of_the_chunker_reads_what_has_chunks_and_what_failed_to(
    index: SmallIndex, pot: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunking, "VERSION", chunking.VERSION + 1)
    assert read_again(index) == {"a.txt", "b.md", "c.c", "e.ipynb"}
    assert read_again(index) == set()


def test_a_change_of_what_is_recognised_as_a_format_looks_at_what_was_none(
    index: SmallIndex, pot: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "VERSION", detection.VERSION + 1)
    assert read_again(index) == {"d.blend"}


def test_the_recogniser_is_named_only_where_it_read_something() -> None:
    polish, german = Versions("c", "ocr-1-pol"), Versions("c", "ocr-1-deu")
    scan, page = polish.fingerprint("pdf", recognised=True), polish.fingerprint("pdf", recognised=False)
    assert scan != page == german.fingerprint("pdf", recognised=False)
    record = Record("id", "/a.pdf", "h", 1, 1, 1, page, 1, "indexed", None, None, None, "pdf", None, None, "")
    assert german.renewed(record) == record
    assert german.renewed(replace(record, fingerprint=scan)) is None
    assert polish.renewed(replace(record, fingerprint=scan)) is not None


def test_what_lacks_pages_is_read_again_when_they_can_be_recognised() -> None:
    asked: list[bool] = []

    def versions_with(programs: bool) -> Versions:
        return Versions("c", "ocr-1-pol", lambda: asked.append(programs) or programs)

    without, complete = versions_with(False), versions_with(True)
    lacking = without.fingerprint("pdf", recognised=True, lacks_pages=True)
    record = Record("id", "/a.pdf", "h", 1, 1, 1, lacking, 1, "indexed", None, None, None, "pdf", None, None, "")
    whole = replace(record, fingerprint=without.fingerprint("pdf", recognised=True))
    assert without.renewed(whole) == complete.renewed(whole) == whole
    assert not asked  # which programs there are is not asked for nothing
    assert [without.renewed(record) for _ in range(3)] == [record] * 3
    assert complete.renewed(record) is None
    assert asked == [False, True]  # and once a run


def test_a_record_of_before_is_read_again_when_its_own_loader_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(
        "id", "/a.pdf", "h", 1, 1, 1, f"c/{BEFORE}", 1, "indexed", None, None, None, "pdf", None, None, ""
    )  # fmt: skip
    # As it was then, whatever has become of the formats since.
    first = tuple(replace(spec, version=1) for spec in FORMATS)
    monkeypatch.setattr(versions, "FORMATS", first)
    ours = Versions("c", "ocr-1-pol")
    assert ours.renewed(record) == replace(record, fingerprint=ours.fingerprint("pdf", recognised=True))
    assert Versions("c", "ocr-2-pol").renewed(record) is None
    assert ours.renewed(replace(record, status="failed")) is None
    assert Versions("other", None).renewed(record) is None
    later = tuple(replace(spec, version=2) if spec.name == "pdf" else spec for spec in first)
    monkeypatch.setattr(versions, "FORMATS", later)
    assert Versions("c", "ocr-1-pol").renewed(record) is None
    assert Versions("c", None).renewed(replace(record, format="html")) is not None


def test_the_walk_and_a_look_by_hand_see_the_same(index: SmallIndex) -> None:
    from bigos import files

    note = index.write("a.txt", text(1))
    (found,) = files.walk([index.folder], recursive=True, on_left_out=lambda _: None)
    assert found == source(note)


# --- let in though it holds a secret ---------------------------------------------------------------------------------


TOKEN = "gh" + "p_" + "aZ3kQ9vB7xLm" * 3
ALLOWING = replace(SETTINGS, allow_secrets=True)


@pytest.fixture
def let_in(index: SmallIndex) -> Path:
    """A file with a token in it, taken all the same; beside it one that was taken as it holds none."""
    note = index.write("deploy.txt", f"The heron deploys with {TOKEN}\n")
    index.write("plain.txt", text(1))
    assert counts(index.ingest(settings=ALLOWING)) == {"added": 2}
    return note


def test_what_was_let_in_stays_whatever_makes_it_be_read_again(
    index: SmallIndex, let_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert counts(index.ingest()) == {"unchanged": 2}
    touch_later(let_in)
    assert counts(index.ingest()) == {"unchanged": 2}
    assert counts(index.ingest(reindex=True)) == {"updated": 2}
    monkeypatch.setattr(versions, "FORMATS", bumped("text"))
    assert counts(index.ingest()) == {"updated": 2}
    assert len(index.chunks(let_in)) == 1


def test_what_was_let_in_stays_after_a_run_that_could_not_read_it(
    index: SmallIndex, let_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("the disk is at fault")

    with monkeypatch.context() as fault:
        fault.setattr(plain_text, "load", broken)
        assert counts(index.ingest(reindex=True)) == {"failed": 2}
    assert versions.let_in(index.record(let_in)) == index.record(let_in).content_hash
    assert counts(index.ingest(retry_failed=True)) == {"updated": 2}
    assert len(index.chunks(let_in)) == 1


def test_what_was_let_in_and_changed_is_refused_like_any_other(index: SmallIndex, let_in: Path) -> None:
    let_in.write_text(f"The heron still deploys with {TOKEN}\n")
    assert counts(index.ingest()) == {"skipped": 1, "unchanged": 1}
    assert index.chunks(let_in) == []
    assert counts(index.ingest(reindex=True)) == {"skipped": 1, "updated": 1}
    assert versions.let_in(index.record(let_in)) is None


def test_only_what_holds_a_secret_is_noted_as_let_in(index: SmallIndex, let_in: Path) -> None:
    noted = {record.source_path: versions.let_in(record) for record in index.store.known().values()}
    assert noted == {str(let_in): index.record(let_in).content_hash, str(index.folder / "plain.txt"): None}


def test_a_document_that_is_there_may_be_kept_whoever_let_it_in(index: SmallIndex, let_in: Path) -> None:
    record = index.record(let_in)
    rewrite(index, [replace(record, fingerprint=record.fingerprint.removesuffix("/let-in"))])
    assert counts(index.ingest(reindex=True, keep=True)) == {"updated": 2}
    assert versions.let_in(index.record(let_in)) == record.content_hash

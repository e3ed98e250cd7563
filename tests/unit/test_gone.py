# SPDX-License-Identifier: GPL-2.0-only
"""Pruning: what is gone goes, and whatever may mean that a disk is away keeps its documents."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigos import file_system, gone
from bigos.ocr_cache import OcrCache
from bigos.pruning import INBOX_MARKER
from bigos.report import IngestReport, RunStarted
from small_index import SmallIndex, small_index

NAMES = ("a.txt", "b.txt", "c.txt", "sub/d.txt", "sub/deep/e.txt")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SmallIndex]:
    with small_index(tmp_path) as made:
        for name in NAMES:
            made.write(name, f"The notes of {name} are about bread, which is made of flour.\n")
        made.ingest()
        yield made


def known(index: SmallIndex) -> set[str]:
    start = f"{index.folder}/"
    return {record.source_path.removeprefix(start) for record in index.store.known().values()}


def forgotten(index: SmallIndex, report: IngestReport) -> set[str]:
    assert all(item.reason == "source is gone" for item in report.outcomes if item.outcome == "forgotten")
    return {
        item.path.removeprefix(f"{index.folder}/") for item in report.outcomes if item.outcome == "forgotten"
    }  # fmt: skip


def kept(index: SmallIndex, report: IngestReport) -> dict[str, str]:
    return {path.removeprefix(f"{index.folder}/"): why for path, why in report.kept}


def test_a_file_that_is_gone_goes_after_what_is_new_was_written(index: SmallIndex) -> None:
    (index.folder / "a.txt").unlink()
    index.write("new.txt", "A new story about a green bridge.\n")
    assert known(index) >= {"a.txt"}
    report = index.ingest(prune=True)
    assert forgotten(index, report) == {"a.txt"}
    assert (report.files["added"], report.files["forgotten"], report.chunks_removed) == (1, 1, 1)
    assert known(index) == {*NAMES, "new.txt"} - {"a.txt"}
    assert not [text for text in index.texts() if "notes of a.txt" in text]
    assert report.kept == []


def test_without_the_flag_nothing_goes(index: SmallIndex) -> None:
    (index.folder / "a.txt").unlink()
    index.ingest()
    assert known(index) == set(NAMES)


def test_a_whole_folder_that_is_gone_goes_and_one_that_a_file_took_the_place_of(index: SmallIndex) -> None:
    shutil.rmtree(index.folder / "sub")
    (index.folder / "sub").write_text("A file where the folder was.\n")
    (index.folder / "a.txt").unlink()
    (index.folder / "a.txt").mkdir()
    index.write("a.txt/inside.txt", "A file in a folder that has the name of a file.\n")
    report = index.ingest(prune=True, yes=True)
    assert forgotten(index, report) == {"sub/d.txt", "sub/deep/e.txt", "a.txt"}
    assert known(index) == {"b.txt", "c.txt", "sub", "a.txt/inside.txt"}


def test_a_dry_run_tells_what_would_go_and_leaves_it(index: SmallIndex) -> None:
    (index.folder / "a.txt").unlink()
    before = index.store.known()
    report = index.ingest(prune=True, dry_run=True)
    assert forgotten(index, report) == {"a.txt"}
    assert index.store.known() == before
    for name in NAMES[1:4]:
        (index.folder / name).unlink()
    report = index.ingest(prune=True, dry_run=True)
    assert forgotten(index, report) == set(NAMES[:4])
    assert report.prune_refused == (4, 5)
    assert index.store.known() == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_renamed_folder_is_no_loss_and_goes_without_a_question(index: SmallIndex, dry_run: bool) -> None:
    away = index.folder / "moved"
    away.mkdir()
    for name in NAMES[:3]:
        (index.folder / name).rename(away / name)
    (index.folder / "sub").rename(away / "sub")
    report = index.ingest(prune=True, dry_run=dry_run)
    assert (report.prune_refused, forgotten(index, report)) == (None, set(NAMES))
    if not dry_run:
        assert (report.embedded, known(index)) == (0, {f"moved/{name}" for name in NAMES})


def test_more_than_half_goes_only_when_somebody_agrees_and_the_rest_of_the_run_is_done(index: SmallIndex) -> None:
    for name in NAMES[:4]:
        (index.folder / name).unlink()
    index.write("new.txt", "A new story about a green bridge.\n")
    report = index.ingest(prune=True)
    assert report.prune_refused == (4, 6)
    assert (report.files["added"], forgotten(index, report), report.chunks_removed) == (1, set(), 0)
    assert set(kept(index, report).values()) == {gone.TOO_MANY}
    assert known(index) == {*NAMES, "new.txt"}
    report = index.ingest(prune=True, yes=True)
    assert (report.prune_refused, forgotten(index, report)) == (None, set(NAMES[:4]))
    assert known(index) == {"sub/deep/e.txt", "new.txt"}


def test_half_goes_without_a_question(index: SmallIndex) -> None:
    index.write("new.txt", "A new story about a green bridge.\n")
    index.ingest()
    for name in NAMES[:3]:
        (index.folder / name).unlink()
    assert index.ingest(prune=True).files["forgotten"] == 3


def test_what_is_there_and_was_not_looked_for_stays(index: SmallIndex) -> None:
    index.write(".bigosignore", "b.txt\n")
    report = index.ingest(prune=True, exclude=("c.txt",), include=("a*", ".bigosignore"), recursive=False)
    assert forgotten(index, report) == set()
    assert kept(index, report) == dict.fromkeys(set(NAMES) - {"a.txt"}, gone.NOT_LOOKED_FOR)
    assert known(index) >= set(NAMES)


def test_what_is_gone_from_a_folder_that_was_not_entered_stays(index: SmallIndex) -> None:
    (index.folder / "sub" / "d.txt").unlink()
    report = index.ingest(prune=True, recursive=False)
    assert kept(index, report) == {"sub/d.txt": gone.UNREAD, "sub/deep/e.txt": gone.NOT_LOOKED_FOR}
    assert forgotten(index, index.ingest(prune=True)) == {"sub/d.txt"}


def test_a_document_elsewhere_is_not_looked_at(index: SmallIndex) -> None:
    (index.folder / "a.txt").unlink()
    assert index.ingest(index.folder / "sub", prune=True).outcomes == []
    assert index.ingest(index.folder / "b.txt", prune=True).outcomes == []
    assert known(index) == set(NAMES)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_read_keeps_what_was_in_it(index: SmallIndex) -> None:
    (index.folder / "sub" / "d.txt").unlink()
    (index.folder / "sub").chmod(0)
    try:
        report = index.ingest(prune=True)
    finally:
        (index.folder / "sub").chmod(0o700)
    assert forgotten(index, report) == set()
    assert kept(index, report) == {"sub/d.txt": gone.UNREACHABLE, "sub/deep/e.txt": gone.UNREACHABLE}


def test_a_folder_that_became_a_link_keeps_what_was_in_it(index: SmallIndex) -> None:
    (index.folder / "sub").rename(index.folder.parent / "elsewhere")
    (index.folder / "sub").symlink_to(index.folder.parent / "elsewhere")
    assert set(kept(index, index.ingest(prune=True)).values()) == {gone.NOT_LOOKED_FOR}
    shutil.rmtree(index.folder.parent / "elsewhere")  # the disk that it leads to is away
    assert set(kept(index, index.ingest(prune=True)).values()) == {gone.LINK}
    (index.folder / "a.txt").unlink()
    (index.folder / "a.txt").symlink_to("/nowhere/a.txt")
    assert kept(index, index.ingest(prune=True))["a.txt"] == gone.LINK
    assert known(index) == set(NAMES)


def test_an_empty_folder_may_be_the_place_of_a_disk_that_is_away_unless_it_has_the_marker(index: SmallIndex) -> None:
    for entry in index.folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    report = index.ingest(prune=True, yes=True)
    assert kept(index, report) == dict.fromkeys(NAMES, gone.EMPTY)
    assert known(index) == set(NAMES)
    (index.folder / INBOX_MARKER).write_text("This is a drop folder.\n")
    assert index.ingest(prune=True).prune_refused == (5, 5)
    report = index.ingest(prune=True, yes=True)
    assert (forgotten(index, report), known(index)) == (set(NAMES), set())
    assert report.files == {"forgotten": 5}, "the marker is no document"


@pytest.mark.parametrize("below", ["sub", "sub/deep"])
def test_an_empty_folder_that_nobody_changed_since_is_the_place_of_a_disk(index: SmallIndex, below: str) -> None:
    place = index.folder / below
    shutil.rmtree(place)
    place.mkdir()
    os.utime(place, (1e9, 1e9))  # as it was before the disk was mounted there and its files were ingested
    report = index.ingest(prune=True, yes=True)
    away = {name for name in NAMES if name.startswith(below + "/")}
    assert away
    assert kept(index, report) == dict.fromkeys(away, gone.EMPTY)
    assert known(index) == set(NAMES)


def test_a_folder_that_comes_and_goes_with_its_disk_keeps_what_was_in_it(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gone, "PLACES_OF_DISKS", (str(index.folder),))
    shutil.rmtree(index.folder / "sub")
    assert kept(index, index.ingest(prune=True, yes=True)) == dict.fromkeys(
        {name for name in NAMES if name.startswith("sub/")}, gone.UNMOUNTED
    )
    assert known(index) == set(NAMES)


def test_files_that_are_no_documents_do_not_make_a_loss_smaller(index: SmallIndex) -> None:
    for number in range(20):
        index.write(f"{number}.bin", bytes(range(256)))
    index.ingest()
    for name in NAMES[:4]:
        (index.folder / name).unlink()
    (index.folder / "0.bin").unlink()
    report = index.ingest(prune=True)
    assert report.prune_refused == (4, 5)
    assert forgotten(index, report) == set()
    assert index.ingest(prune=True, dry_run=True).prune_refused == (4, 5)
    report = index.ingest(prune=True, yes=True)
    assert forgotten(index, report) == {*NAMES[:4], "0.bin"}


def test_files_that_are_no_documents_go_unasked(index: SmallIndex) -> None:
    for number in range(20):
        index.write(f"{number}.bin", bytes(range(256)))
    index.ingest()
    for number in range(20):
        (index.folder / f"{number}.bin").unlink()
    report = index.ingest(prune=True)
    assert (report.prune_refused, len(forgotten(index, report))) == (None, 20)


def test_a_file_of_which_only_the_case_changed_is_gone_under_its_old_name(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On exFAT, or on macOS, the file system finds it under both."""
    index.write("sub/Letter.TXT", "The letter is about a green bridge.\n")
    index.ingest()
    (index.folder / "sub/Letter.TXT").rename(index.folder / "sub/letter.txt")
    look = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: look(os.fspath(path).replace("Letter.TXT", "letter.txt")))
    report = index.ingest(prune=True)
    assert forgotten(index, report) == {"sub/Letter.TXT"}
    assert known(index) == {*NAMES, "sub/letter.txt"}
    assert kept(index, index.ingest(prune=True, exclude=("letter.txt",))) == {"sub/letter.txt": gone.NOT_LOOKED_FOR}


def test_a_folder_below_may_be_empty(index: SmallIndex) -> None:
    (index.folder / "sub/deep/e.txt").unlink()
    assert forgotten(index, index.ingest(prune=True)) == {"sub/deep/e.txt"}


def test_a_disk_that_fstab_names_and_that_is_not_mounted_keeps_what_was_on_it(
    index: SmallIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    fstab = index.folder.parent / "fstab"
    place = str(index.folder / "sub").replace(" ", "\\040")
    fstab.write_text(
        f"# disks\n\nUUID=1 / ext4 defaults 0 1\nUUID=2 {place} ext4 nofail 0 2\nUUID=3 none swap sw 0 0\n"
    )
    monkeypatch.setattr(file_system, "FSTAB", fstab)
    assert file_system.unmounted() == [str(index.folder / "sub")]
    shutil.rmtree(index.folder / "sub" / "deep")
    (index.folder / "sub" / "d.txt").unlink()
    (index.folder / "a.txt").unlink()
    report = index.ingest(prune=True)
    assert kept(index, report) == {"sub/d.txt": gone.UNMOUNTED, "sub/deep/e.txt": gone.UNMOUNTED}
    assert forgotten(index, report) == {"a.txt"}
    monkeypatch.setattr(file_system, "MOUNTS", index.folder.parent / "mounts")
    file_system.MOUNTS.write_text(f"22 1 8:1 / / rw - ext4 /dev/a rw\n23 22 8:2 / {place} rw - ext4 /dev/b rw\n")
    assert file_system.unmounted() == []


@pytest.mark.parametrize("what", ["goes", "is another one", "comes back empty"])
def test_a_root_that_changes_under_the_run_keeps_everything(index: SmallIndex, what: str) -> None:
    aside = index.folder.with_name("aside")
    (index.folder / "a.txt").unlink()

    def unplug(event: object) -> None:
        if isinstance(event, RunStarted):
            index.folder.rename(aside)
            if what != "goes":
                index.folder.mkdir()
            if what == "is another one":
                index.write("other.txt", "Another disk.\n")

    report = index.ingest(prune=True, yes=True, on_event=unplug)
    assert (forgotten(index, report), kept(index, report)) == (set(), {"a.txt": gone.UNREAD})
    assert known(index) == set(NAMES)


def test_a_run_that_was_stopped_prunes_nothing(index: SmallIndex) -> None:
    (index.folder / "a.txt").unlink()
    assert index.ingest(prune=True, stop=lambda: True).files["forgotten"] == 0
    assert known(index) == set(NAMES)


@pytest.mark.parametrize("name", [b"za\xbf.txt", b"za\\xbf.txt", b"two\nlines.txt", "zażółć.txt".encode()])
def test_names_of_every_kind_go(index: SmallIndex, name: bytes) -> None:
    path = index.write(os.fsdecode(name), "A file with a strange name.\n")
    index.ingest()
    assert len(known(index)) == 6
    assert index.ingest(prune=True).files["forgotten"] == 0
    path.unlink()
    assert index.ingest(prune=True).files["forgotten"] == 1
    assert known(index) == set(NAMES)


def test_what_failed_or_was_left_out_goes_too(index: SmallIndex) -> None:
    empty, damaged = index.write("empty.md", ""), index.write("bad.ipynb", "{ this is no notebook")
    assert +index.ingest().files == {"skipped": 1, "failed": 1, "unchanged": 5}
    empty.unlink()
    damaged.unlink()
    assert forgotten(index, index.ingest(prune=True)) == {"empty.md", "bad.ipynb"}
    assert known(index) == set(NAMES)


def test_recognised_pages_go_unless_another_document_has_the_content(index: SmallIndex) -> None:
    pages = OcrCache(index.folder.parent / "ocr")
    index.pages = pages
    index.write("copy of b.txt", (index.folder / "b.txt").read_bytes())
    index.ingest()
    digests = {name: index.record(index.folder / name).content_hash for name in ("a.txt", "b.txt")}
    for digest in digests.values():
        pages.put(digest, 1, "key", "the text of a page")
    for name in digests:
        (index.folder / name).unlink()
    assert forgotten(index, index.ingest(prune=True)) == {"a.txt", "b.txt"}
    assert not pages.holds(digests["a.txt"])
    assert pages.holds(digests["b.txt"])

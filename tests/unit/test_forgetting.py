# SPDX-License-Identifier: GPL-2.0-only
"""What is forgotten is gone from search and from the cache of pages; what has the same content or name stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bigos.forgetting import forget
from bigos.paths import canonical, named
from small_index import SmallIndex, small_index, touch_later

TEXT = "How the clock divider of the serial bus is computed from its parent, {0}.\n\n"


@dataclass
class Pages:
    """A cache that remembers what it was told to forget."""

    forgotten: list[str] = field(default_factory=list)

    def holds(self, digest: str) -> bool:
        return bool(digest)

    def forget(self, digest: str) -> bool:
        self.forgotten.append(digest)
        return True


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SmallIndex]:
    with small_index(tmp_path) as made:
        for name in ("a/one.txt", "a/deep/two.txt", "ab/three.txt"):
            made.write(name, TEXT.format(name) * 3)
        made.write("a/same.txt", "the same words in two files\n")
        made.write("ab/same.txt", "the same words in two files\n")
        made.ingest()
        yield made


def test_a_folder_is_forgotten_with_all_below_it_and_no_other(index: SmallIndex) -> None:
    pages = Pages()
    going = [index.record(index.folder / "a" / name) for name in ("one.txt", "deep/two.txt")]
    report = forget([index.folder / "a"], index.store, pages)
    assert report.files == {"forgotten": 3}
    assert [Path(item.path).name for item in report.outcomes] == ["two.txt", "one.txt", "same.txt"]
    assert report.chunks_removed == sum(item.chunks for item in report.outcomes) > 3
    assert not [text for text in index.texts() if "one.txt" in text or "two.txt" in text]
    assert {Path(record.source_path).name for record in index.store.known().values()} == {"three.txt", "same.txt"}
    # Pages of a content that another document still has are that one's as well.
    assert sorted(pages.forgotten) == sorted(record.content_hash for record in going)


def test_a_file_that_is_gone_from_the_disk_is_forgotten_like_any_other(index: SmallIndex) -> None:
    path = index.folder / "ab" / "three.txt"
    path.unlink()
    assert forget([path], index.store, Pages()).files == {"forgotten": 1}
    assert forget([path], index.store, Pages()).files == {}


def test_paths_that_overlap_count_each_document_once(index: SmallIndex) -> None:
    report = forget([index.folder, index.folder / "a", index.folder / "a" / "one.txt"], index.store, Pages())
    assert report.files == {"forgotten": 5}
    assert report.chunks_removed == sum(item.chunks for item in report.outcomes)
    assert index.store.known() == {}


def test_a_dry_run_tells_and_leaves(index: SmallIndex) -> None:
    pages, before = Pages(), index.store.known()
    report = forget([index.folder / "a"], index.store, pages, dry_run=True)
    assert (report.files, report.dry_run) == ({"forgotten": 3}, True)
    assert report.chunks_removed == sum(item.chunks for item in report.outcomes)
    assert index.store.known() == before
    assert pages.forgotten == []


def test_what_was_forgotten_comes_back_with_the_next_ingest(index: SmallIndex) -> None:
    forget([index.folder], index.store, Pages())
    assert +index.ingest().files == {"added": 5}


def test_two_at_once_count_a_document_once(index: SmallIndex) -> None:
    class Quicker(Pages):
        """A cache in whose turn another process forgets the same."""

        def holds(self, digest: str) -> bool:
            index.store.forget(index.folder / "a")
            return super().holds(digest)

    report = forget([index.folder / "a"], index.store, Quicker())
    assert (+report.files, report.outcomes, report.chunks_removed) == ({}, [], 0)


def test_a_file_that_became_a_link_is_forgotten_by_its_own_name(index: SmallIndex) -> None:
    note = index.folder / "a" / "one.txt"
    note.rename(index.folder / "aside.txt")
    note.symlink_to("../aside.txt")
    assert canonical(note) == index.folder / "aside.txt"
    assert forget(named(note), index.store, Pages()).files == {"forgotten": 1}
    (index.folder / "a").rename(index.folder / "b")
    (index.folder / "a").symlink_to("b")
    assert forget(named(index.folder / "a" / "deep"), index.store, Pages()).files == {"forgotten": 1}
    assert forget(named(index.folder / "a"), index.store, Pages()).files == {"forgotten": 1}
    assert named(index.folder / "b" / ".." / "x") == [index.folder / "x"]


def test_pages_of_an_earlier_content_leave_the_cache_unless_another_document_has_it(index: SmallIndex) -> None:
    changed, shared = (index.record(index.folder / "ab" / name).content_hash for name in ("three.txt", "same.txt"))
    for digest in (changed, shared):
        index.pages.put(digest, 1, "key", "what was read on the page")
    index.write("ab/three.txt", "a new version\n")
    index.write("ab/same.txt", "another new version\n")
    touch_later(index.folder / "a" / "one.txt")
    assert +index.ingest().files == {"updated": 2, "unchanged": 3}
    assert not index.pages.holds(changed)
    assert index.pages.holds(shared)  # a/same.txt has it still

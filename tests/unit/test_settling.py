# SPDX-License-Identifier: GPL-2.0-only
"""Files are taken when they have stopped changing. Time passes only in pauses here, and things happen in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bigos.settling import Settling, is_partial, look
from processes import until


class Time:
    """A clock that pauses move; at each given moment something happens."""

    def __init__(self) -> None:
        self.now = 100.0
        self.plans: list[tuple[float, Callable[[], object]]] = []

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        for plan in [plan for plan in self.plans if plan[0] <= self.now - 100.0]:
            self.plans.remove(plan)
            plan[1]()

    def at(self, moment: float, act: Callable[[], object]) -> None:
        self.plans.append((moment, act))

    @property
    def passed(self) -> float:
        return self.now - 100.0


@pytest.fixture
def watched() -> Time:
    return Time()


def settling(folder: Path, watched: Time, seconds: float = 2.0) -> Settling:
    return Settling(folder, seconds, clock=watched.clock, pause=watched.pause)


def append(file: Path, text: str = "more ") -> Callable[[], object]:
    def act() -> None:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)

    return act


def test_a_file_that_is_copied_slowly_is_taken_after_its_last_byte(tmp_path: Path, watched: Time) -> None:
    file = tmp_path / "slow.txt"
    for moment in (0.5, 2.0, 3.5, 5.0):
        watched.at(moment, append(file))
    append(file)()
    found = settling(tmp_path, watched).wait()
    assert found is not None and not found.moving
    assert found.seen[str(file)].size == file.stat().st_size == 5 * len("more ")
    assert 7.0 <= watched.passed < 9.0


def test_what_has_been_still_is_taken_though_another_file_never_ends(tmp_path: Path, watched: Time) -> None:
    (tmp_path / "whole.txt").write_text("whole", encoding="utf-8")
    for moment in range(200):
        watched.at(moment, append(tmp_path / "log [1].txt"))
    found = settling(tmp_path, watched).wait(patience=30)
    assert found is not None and 30 <= watched.passed < 33
    assert list(found.still) == [str(tmp_path / "whole.txt")]
    assert found.moving == {str(tmp_path / "log [1].txt")}
    # As a glob it means that file and no other.
    assert "log [[]1].txt" in found.exclude(tmp_path)


def test_what_goes_on_changing_is_given_up_at_last(tmp_path: Path, watched: Time) -> None:
    for moment in range(900):
        watched.at(moment, append(tmp_path / "endless.txt"))
    append(tmp_path / "endless.txt")()
    found = settling(tmp_path, watched).wait(patience=30, longest=600)
    assert found is not None and not found.still and 600 <= watched.passed < 603


def test_a_file_whose_time_is_set_back_by_a_copy_is_seen_to_change(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one", encoding="utf-8")
    before = look(tmp_path)
    status = file.stat()

    def copied_over() -> bool:
        file.write_text("two", encoding="utf-8")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        return look(tmp_path) != before

    until(copied_over)  # a clock tick may have to pass
    assert file.stat().st_mtime_ns == status.st_mtime_ns


def test_a_file_that_went_away_is_a_change_too(tmp_path: Path, watched: Time) -> None:
    """An editor that puts a new file in the old one's place takes the old one away first."""
    file = tmp_path / "a.txt"
    file.write_text("one", encoding="utf-8")
    one = settling(tmp_path, watched)
    assert one.wait() is not None
    watched.at(watched.passed + 1.0, lambda: file.write_text("two", encoding="utf-8"))
    file.unlink()
    found = one.wait()
    assert found is not None and str(file) in found.seen


def test_a_folder_that_is_not_there_is_not_an_empty_one(tmp_path: Path, watched: Time) -> None:
    assert settling(tmp_path / "unmounted", watched).wait() is None
    empty = settling(tmp_path, watched).wait()
    assert empty is not None and not empty.seen


def test_stopping_ends_the_wait(tmp_path: Path, watched: Time) -> None:
    assert settling(tmp_path, watched).wait(stop=lambda: watched.passed > 1.0) is None
    assert watched.passed < 2.0


def test_folders_that_no_ingest_enters_and_links_are_not_looked_at(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("x", encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list(look(tmp_path) or ()) == [str(tmp_path / "kept" / "a.txt")]


@pytest.mark.parametrize(
    "name",
    [
        "film.mp4.part",
        "a.pdf.crdownload",
        "~$letter.docx",
        ".~lock.x.odt#",
        "a.txt~",
        ".a.txt.swp",
        ".#a",
        "x.pdf.aria2",
    ],
)
def test_work_in_progress_is_told_by_its_name(name: str, tmp_path: Path) -> None:
    assert is_partial(name)
    (tmp_path / name).write_text("x", encoding="utf-8")
    assert look(tmp_path) == {}


@pytest.mark.parametrize("name", ["part.txt", "a.parts", "download", "swp", "notes.txt", ".hidden", "x.swift"])
def test_other_names_are_taken(name: str) -> None:
    assert not is_partial(name)

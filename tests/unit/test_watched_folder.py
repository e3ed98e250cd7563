# SPDX-License-Identifier: GPL-2.0-only
"""What a watched folder says is to be taken, and which of its files it says were deleted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigos.inbox import MARKER
from bigos.watched_folder import PATIENCE, Deletions, WatchedFolder, Work

SETTLE = 2.0


class Scene:
    """A folder and a clock that stands still until it is moved."""

    def __init__(self, base: Path, *apart: Path) -> None:
        self.root = base / "pot"
        self.root.mkdir()
        self.now = 1000.0
        self.folder = WatchedFolder(self.root, SETTLE, apart=apart, clock=lambda: self.now)

    def write(self, name: str, text: str = "words") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def after(self, seconds: float) -> Work | None:
        self.now += seconds
        self.folder.look()
        return self.folder.work()

    def settled(self) -> Work:
        """The work once nothing moves any more."""
        self.after(0)
        work = self.after(SETTLE)
        assert work is not None
        return work

    def pass_over(self) -> Work:
        work = self.settled()
        self.folder.done(work)
        return work

    def names(self, work: Work) -> list[str]:
        return sorted(os.path.relpath(path, self.root) for path in work.still)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_first_pass_takes_everything_and_compares_it(scene: Scene) -> None:
    scene.write("a.txt")
    scene.write("sub/b.txt")
    assert scene.after(0) is None
    assert scene.after(SETTLE / 2) is None
    work = scene.after(SETTLE / 2)
    assert work is not None
    assert (scene.names(work), work.compare, work.missing) == (["a.txt", "sub/b.txt"], True, ())
    scene.folder.done(work)
    assert scene.after(60) is None
    assert not scene.folder.restless


def test_a_file_waits_until_it_has_not_changed_for_the_settle_time(scene: Scene) -> None:
    scene.pass_over()
    file = scene.write("a.txt")
    assert scene.after(0) is None
    for size in range(5):
        file.write_text("w" * (10 + size))
        assert scene.after(SETTLE - 0.1) is None
        assert scene.folder.restless
    work = scene.after(SETTLE)
    assert work is not None
    assert scene.names(work) == ["a.txt"]


def test_a_file_that_never_rests_is_left_out_and_keeps_nobody_waiting_for_long(scene: Scene) -> None:
    scene.pass_over()
    scene.write("whole.txt")
    waited, work = 0.0, scene.after(0)
    while work is None:
        scene.write("log[1].txt", str(waited))
        work = scene.after(0.5)
        waited += 0.5
        assert waited < (PATIENCE + 2) * SETTLE
    assert scene.names(work) == ["whole.txt"]
    assert "log[[]1].txt" in work.exclude
    scene.folder.done(work)
    scene.after(0)
    (scene.root / "log[1].txt").unlink()
    assert scene.after(SETTLE) is None  # never taken, so nothing is missing


def test_a_name_that_is_replaced_is_never_missing(scene: Scene) -> None:
    file = scene.write("a.txt")
    scene.pass_over()
    file.unlink()
    assert scene.after(0.1) is None
    scene.write("a.txt", "other words")
    assert scene.after(SETTLE - 0.1) is None
    work = scene.after(SETTLE)
    assert work is not None
    assert (scene.names(work), work.missing) == (["a.txt"], ())


def deleted(scene: Scene) -> tuple[list[str], int]:
    work = scene.settled()
    found = scene.folder.deletions(work)
    return [os.path.relpath(path, scene.root) for path in found.real], found.unsure


def test_what_was_deleted_is_named_by_as_few_paths_as_cover_it(scene: Scene) -> None:
    for name in ("keep.txt", "a.txt", "sub/b.txt", "sub/deep/c.txt"):
        scene.write(name)
    scene.pass_over()
    (scene.root / "a.txt").unlink()
    shutil.rmtree(scene.root / "sub")
    assert deleted(scene) == (["a.txt", "sub"], 0)


def _told(scene: Scene) -> None:
    scene.folder.saw_deletions = True


def _marked(scene: Scene) -> None:
    (scene.root / MARKER).touch()


@pytest.mark.parametrize(
    ("sign", "expected"),
    [(lambda scene: None, ([], 2)), (_told, (["a.txt", "b.txt"], 0)), (_marked, (["a.txt", "b.txt"], 0))],
)
def test_a_folder_that_is_all_empty_needs_a_sign_that_it_is_so(
    scene: Scene, sign: Callable[[Scene], None], expected: tuple[list[str], int]
) -> None:
    for name in ("a.txt", "b.txt"):
        scene.write(name)
    scene.pass_over()
    for name in ("a.txt", "b.txt"):
        (scene.root / name).unlink()
    sign(scene)
    assert deleted(scene) == expected


def test_another_directory_in_its_place_has_lost_nothing(scene: Scene) -> None:
    scene.write("a.txt")
    scene.pass_over()
    scene.root.rename(scene.root.with_name("away"))
    assert scene.after(10) is None
    assert not scene.folder.there
    scene.root.mkdir()
    scene.write("b.txt")
    work = scene.settled()
    assert (scene.names(work), work.missing, work.compare) == (["b.txt"], (), True)


def test_a_folder_that_goes_away_before_the_deletions_are_looked_at_has_lost_nothing(scene: Scene) -> None:
    scene.write("a.txt")
    scene.write("b.txt")
    scene.pass_over()
    (scene.root / "a.txt").unlink()
    work = scene.settled()
    scene.root.rename(scene.root.with_name("away"))
    found = scene.folder.deletions(work)
    assert (found.real, found.unsure) == ((), 1)


def test_a_disk_below_the_folder_that_is_not_mounted_any_more_has_lost_nothing(scene: Scene) -> None:
    # A directory that stands for a mount point: the device that was seen there is another one now.
    for name in ("a.txt", "disk/b.txt", "disk/sub/c.txt"):
        scene.write(name)
    scene.pass_over()
    for directory in ("disk", "disk/sub"):
        scene.folder._devices[str(scene.root / directory)] += 1
    shutil.rmtree(scene.root / "disk" / "sub")
    (scene.root / "disk" / "b.txt").unlink()
    (scene.root / "a.txt").unlink()
    (scene.root / "new.txt").write_text("words")
    assert deleted(scene) == (["a.txt"], 2)
    (scene.root / "disk").rmdir()  # as desktops do with the mount point
    assert deleted(scene) == (["a.txt"], 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every directory")
def test_a_directory_that_cannot_be_read_has_lost_nothing(scene: Scene) -> None:
    scene.write("a.txt")
    file = scene.write("sub/b.txt")
    scene.pass_over()
    file.parent.chmod(0)
    try:
        assert deleted(scene) == ([], 1)
    finally:
        file.parent.chmod(0o700)


def test_a_disk_that_comes_back_is_compared_with_the_index(scene: Scene) -> None:
    """What was deleted on it in the meantime was only in doubt before."""
    for name in ("a.txt", "disk/b.txt", "disk/c.txt"):
        scene.write(name)
    scene.pass_over()
    scene.folder._devices[str(scene.root / "disk")] += 1
    shutil.rmtree(scene.root / "disk")
    work = scene.settled()
    assert scene.folder.deletions(work) == Deletions((), 2)
    scene.folder.done(work)
    scene.write("a.txt", "other words")
    work = scene.pass_over()
    assert not work.compare
    scene.write("disk/b.txt")
    work = scene.pass_over()
    assert (scene.names(work), work.compare) == (["a.txt", "disk/b.txt"], True)
    scene.write("disk/d.txt")
    assert not scene.pass_over().compare


def test_a_deletion_that_is_told_while_a_pass_is_under_way_is_for_the_next_one(scene: Scene) -> None:
    for name in ("a.txt", "b.txt"):
        scene.write(name)
    scene.pass_over()
    _told(scene)
    (scene.root / "a.txt").unlink()
    work = scene.settled()
    _told(scene)
    (scene.root / "b.txt").unlink()
    scene.folder.done(work)
    assert deleted(scene) == (["b.txt"], 0)


def test_a_link_is_followed_to_where_it_leads_at_the_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("words")
        (tmp_path / name / "b.txt").write_text("words")
    link = tmp_path / "link"
    link.symlink_to("one")
    now = 1000.0
    folder = WatchedFolder(link, SETTLE, apart=[tmp_path / "one"], clock=lambda: now)

    def settled() -> Work:
        nonlocal now
        folder.look()
        now += SETTLE
        folder.look()
        work = folder.work()
        assert work is not None
        return work

    folder.done(settled())
    (tmp_path / "one" / "a.txt").unlink()
    assert folder.deletions(settled()).real == (tmp_path / "one" / "a.txt",)
    link.unlink()
    link.symlink_to("two")
    assert not folder.is_same()
    work = settled()
    assert (work.place, work.compare, work.missing) == (tmp_path / "two", True, ())
    assert sorted(work.still) == [str(tmp_path / "two" / name) for name in ("a.txt", "b.txt")]
    folder.done(work)
    (tmp_path / "two").rename(tmp_path / "three")
    link.unlink()
    link.symlink_to("three")  # the same folder elsewhere, where the index does not know it
    assert settled().place == tmp_path / "three"


def test_what_lies_apart_is_not_looked_at(tmp_path: Path) -> None:
    scene = Scene(tmp_path, tmp_path / "pot" / ".local" / "share" / "bigos", tmp_path / "elsewhere")
    scene.write(".local/share/bigos/collections/x/lock")
    scene.write(".local/share/bigos-notes.txt")
    work = scene.pass_over()
    assert scene.names(work) == [".local/share/bigos-notes.txt"]
    assert ".local/share/bigos" in work.exclude
    scene.write(".local/share/bigos/collections/x/lock", "another holder")
    assert scene.after(0) is None
    assert scene.after(SETTLE) is None


NAMES = st.sampled_from(["a", "b", "sub/c", "sub/d", "x.part"])
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.integers(1, 9)),
        st.tuples(st.just("delete"), NAMES, st.just(0)),
        st.tuples(st.just("move"), NAMES, NAMES),
        st.tuples(st.just("wait"), st.just(""), st.sampled_from([0.1, 0.7, 2.5])),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(acts=ACTS)
def test_whatever_happens_passes_end_up_with_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, str, object]]
) -> None:
    """Passes that ingest what is still and forget what is said to be deleted give the files that are there."""
    scene = Scene(tmp_path_factory.mktemp("scene"))
    scene.folder.saw_deletions = True
    index: dict[str, str] = {}

    def take(work: Work | None) -> None:
        if work is None:
            return
        index.update({path: Path(path).read_text() for path in work.still})
        for top in scene.folder.deletions(work).real:
            for path in [path for path in index if Path(path).is_relative_to(top)]:
                del index[path]
        scene.folder.done(work)
        scene.folder.saw_deletions = True

    for act, name, other in acts:
        path = scene.root / name
        if act == "write":
            scene.write(name, "w" * int(str(other)))
        elif act == "delete":
            path.unlink(missing_ok=True)
        elif act == "move" and path.exists() and name != other:
            target = scene.root / str(other)
            target.parent.mkdir(exist_ok=True)
            path.replace(target)
        elif act == "wait":
            take(scene.after(float(str(other))))
    scene.after(0)
    take(scene.after(10 * SETTLE))
    there = {str(path): path.read_text() for path in scene.root.rglob("*") if path.is_file() and path.suffix == ""}
    assert index == there
    assert scene.after(10 * SETTLE) is None

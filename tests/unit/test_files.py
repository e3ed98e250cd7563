# SPDX-License-Identifier: GPL-2.0-only
"""The walk yields each regular file once and tells the reason for everything else that it saw."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigos.errors import UsageError
from bigos.files import LeftOut, walk

NOBODY = 65534


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def run(*roots: Path, recursive: bool = True, **options: list[str]) -> tuple[list[str], dict[str, str]]:
    """Found paths and {left-out path: reason}, both relative to the first root."""
    left: list[LeftOut] = []
    found = [item.path for item in walk(roots, recursive=recursive, on_left_out=left.append, **options)]
    base = os.path.realpath(roots[0])
    assert len(found) == len(set(found))
    return [os.path.relpath(path, base) for path in found], {os.path.relpath(x.path, base): x.reason for x in left}


def test_every_file_is_found_in_a_fixed_order_with_what_stat_says(tmp_path: Path) -> None:
    make(tmp_path, "b.txt", "a.txt", "z/c.txt", "k/d.txt", "k/.hidden")
    found = list(walk([tmp_path], recursive=True, on_left_out=pytest.fail))
    assert [str(item.path.relative_to(tmp_path)) for item in found] == [
        "a.txt",
        "b.txt",
        "k/.hidden",
        "k/d.txt",
        "z/c.txt",
    ]
    status = (tmp_path / "a.txt").stat()
    assert (found[0].size, found[0].mtime_ns, found[0].inode) == (status.st_size, status.st_mtime_ns, status.st_ino)


def test_without_recursive_only_the_files_directly_in_the_root_are_found(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "sub/b.txt")
    assert run(tmp_path, recursive=False) == (["a.txt"], {"sub": "not recursive"})


def test_directories_of_built_and_foreign_things_are_never_entered(tmp_path: Path) -> None:
    make(tmp_path, "src/a.c", ".git/config", "node_modules/x/y.js", "deep/build/o.c", "workdir/w.c", "rebuild/r.c")
    found, left = run(tmp_path)
    assert found == ["rebuild/r.c", "src/a.c", "workdir/w.c"]
    assert left == dict.fromkeys([".git", "node_modules", "deep/build"], "pruned directory")


def test_a_pruned_name_given_as_a_root_is_walked(tmp_path: Path) -> None:
    make(tmp_path, "build/a.c")
    assert run(tmp_path / "build") == (["a.c"], {})


@pytest.mark.parametrize(
    ("pattern", "gone"),
    [
        ("docs", {"docs", "src/docs"}),
        ("docs/", {"docs", "src/docs"}),
        ("src/docs", {"src/docs"}),
        ("src/**", {"src"}),
        ("*.log", {"a.log", "src/b.log"}),
        ("**/a.log", {"a.log"}),
        ("src/*.log", {"src/b.log"}),
        ("*.LOG", set()),
    ],
)
def test_exclude_matches_names_and_paths_below_the_root(tmp_path: Path, pattern: str, gone: set[str]) -> None:
    make(tmp_path, "a.log", "docs/d.txt", "src/b.log", "src/docs/e.txt")
    _, left = run(tmp_path, exclude=[pattern])
    assert left == dict.fromkeys(gone, "excluded")


def test_include_keeps_only_the_matching_files(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.txt", "sub/c.md", "sub/d.txt")
    found, left = run(tmp_path, include=["*.md", "sub/d*"])
    assert found == ["a.md", "sub/c.md", "sub/d.txt"]
    assert left == {"b.txt": "not included"}
    assert run(tmp_path, include=["sub/**"])[0] == ["sub/c.md", "sub/d.txt"]


def test_a_root_that_is_a_file_is_found_whatever_the_patterns_say(tmp_path: Path) -> None:
    make(tmp_path, "a.log")
    found = [
        item.path for item in walk([tmp_path / "a.log"], recursive=False, include=["*.md"], on_left_out=pytest.fail)
    ]
    assert found == [tmp_path.resolve() / "a.log"]


def test_overlapping_and_repeated_roots_give_each_file_once(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "sub/b.txt")
    (tmp_path / "alias").symlink_to(tmp_path / "sub")
    found, left = run(tmp_path, tmp_path / "sub", tmp_path / "sub" / "b.txt", tmp_path / "alias", tmp_path)
    assert (found, left) == (["a.txt", "sub/b.txt"], {})


def test_a_missing_root_is_refused_before_anything_is_found(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    with pytest.raises(UsageError, match=r"missing does not exist\.") as caught:
        walk([tmp_path, tmp_path / "missing"], recursive=True, on_left_out=pytest.fail)
    assert caught.value.fix
    with pytest.raises(UsageError):
        walk([Path("with\0nul")], recursive=True, on_left_out=pytest.fail)


def test_links_are_followed_only_inside_the_root_and_give_their_target_once(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make(tmp_path, "outside.txt", "beyond/x.txt")
    make(root, "m.txt", "build/made.txt", "sub/n.txt")
    (root / "a-first").symlink_to("m.txt")
    (root / "z-again").symlink_to("sub/n.txt")
    (root / "z-later").symlink_to("m.txt")
    (root / "leads-out").symlink_to("../outside.txt")
    (root / "dir-out").symlink_to("../beyond")
    (root / "loop").symlink_to("..")
    (root / "self").symlink_to(".")
    (root / "to-built").symlink_to("build/made.txt")
    (root / "dangling").symlink_to("nothing")
    (root / "p").symlink_to("q")
    (root / "q").symlink_to("p")
    found, left = run(root)
    assert found == ["m.txt", "sub/n.txt"]
    assert left == {
        "build": "pruned directory",
        "to-built": "pruned directory",
        "leads-out": "link outside root",
        "dir-out": "link outside root",
        "loop": "link outside root",
        "dangling": "broken link",
        "p": "broken link",
        "q": "broken link",
    }


def test_a_link_does_not_bring_in_an_excluded_target(tmp_path: Path) -> None:
    make(tmp_path, "private/key.txt")
    (tmp_path / "alias.txt").symlink_to("private/key.txt")
    assert run(tmp_path, exclude=["private"]) == ([], {"private": "excluded", "alias.txt": "excluded"})


def test_without_recursive_a_link_to_a_file_further_down_is_followed(tmp_path: Path) -> None:
    make(tmp_path, "sub/n.txt")
    (tmp_path / "n").symlink_to("sub/n.txt")
    assert run(tmp_path, recursive=False) == (["sub/n.txt"], {"sub": "not recursive"})


def test_a_name_beside_the_root_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    make(tmp_path, "root/a.txt", "root-other/b.txt")
    (tmp_path / "root" / "b").symlink_to("../root-other/b.txt")
    assert run(tmp_path / "root") == (["a.txt"], {"b": "link outside root"})


def test_fifos_and_sockets_are_counted_and_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo.txt")
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.txt")
        found, left = run(tmp_path)
        assert (found, left) == ([], {"fifo.txt": "special file", "socket.txt": "special file"})
    assert run(tmp_path / "fifo.txt") == ([], {".": "special file"})


def test_names_that_are_not_utf_8_and_names_with_newlines_are_found(tmp_path: Path) -> None:
    odd = [b"\xbf\xf3\xb3w.txt", b"a\nb.txt", b"-rf.txt", b"trailing space ", b"\xff\xfe"]
    for name in odd:
        (tmp_path / os.fsdecode(name)).write_text("x")
    found, left = run(tmp_path)
    assert sorted(map(os.fsencode, found)) == sorted(odd)
    assert left == {}
    assert run(tmp_path, include=["*.txt"])[1] == {
        "trailing space ": "not included",
        os.fsdecode(b"\xff\xfe"): "not included",
    }


@contextlib.contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root reads everything; give that up for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_directory_without_permission_is_told_and_the_walk_goes_on() -> None:
    root = Path(tempfile.mkdtemp())  # pytest's own directories are closed to other users
    try:
        make(root, "closed/a.txt", "open/b.txt")
        root.chmod(0o755)
        (root / "closed").chmod(0)
        with as_ordinary_user():
            found, left = run(root)
    finally:
        (root / "closed").chmod(0o755)
        shutil.rmtree(root)
    assert (found, left) == (["open/b.txt"], {"closed": "unreadable directory"})


def test_a_path_longer_than_the_system_takes_is_told(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(20):  # 20 * 251 is beyond PATH_MAX, so each step is made relative to the one before
            os.mkdir("d" * 250, dir_fd=here)
            deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
    finally:
        os.close(here)
    found, left = run(tmp_path)
    assert found == []
    assert list(left.values()) == ["unreadable directory"]
    shutil.rmtree(tmp_path / ("d" * 250))


def test_a_directory_that_vanishes_during_the_walk_is_told(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "gone/b.txt", "kept/c.txt")
    left: list[LeftOut] = []
    found = []
    for item in walk([tmp_path], recursive=True, on_left_out=left.append):
        found.append(item.path.name)
        shutil.rmtree(tmp_path / "gone", ignore_errors=True)
    assert found == ["a.txt", "c.txt"]
    assert [(item.path.name, item.reason) for item in left] == [("gone", "vanished")]


def test_eight_hundred_levels_need_no_recursion(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 800)
    deep.mkdir(parents=True)
    make(deep, "bottom.txt")
    assert run(tmp_path)[0] == ["d/" * 800 + "bottom.txt"]

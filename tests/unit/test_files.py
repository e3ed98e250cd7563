# SPDX-License-Identifier: GPL-2.0-only
"""The walk yields each regular file once and tells the reason for everything else that it saw."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bigos.errors import UsageError
from bigos.files import LeftOut, scan, walk

NOBODY = 65534


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def run(*roots: Path, recursive: bool = True, **options: Any) -> tuple[list[str], dict[str, str]]:
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


def test_an_ignore_file_takes_back_a_pruned_name_but_no_history(tmp_path: Path) -> None:
    make(tmp_path, "drivers/target/iscsi.c", "target/debug/x.d", ".git/config", "build/made.c")
    (tmp_path / ".bigosignore").write_text("!/drivers/target/\n!.git/\n")
    found, left = run(tmp_path)
    assert found == [".bigosignore", "drivers/target/iscsi.c"]
    assert left == dict.fromkeys([".git", "build", "target"], "pruned directory")


BITBAKE_BUILD = ("conf/local.conf", "conf/bblayers.conf")
YOCTO = {
    "beside its configuration": (
        [
            *(f"b/{name}" for name in BITBAKE_BUILD),
            "b/tmp/x.c",
            "b/tmp-glibc/x.c",
            "b/sstate-cache/x",
            "b/downloads/x.c",
            "b/deploy/x",
            "b/buildhistory/x",
            "b/workdir/w.c",
            "b/cache/bb_codeparser.dat",
        ],
        ["b/buildhistory", "b/deploy", "b/downloads", "b/sstate-cache", "b/tmp", "b/tmp-glibc"],
    ),
    "temporary folder": (["x/tmp/saved_tmpdir", "x/tmp/work/core2/busybox/1.36/busybox.c"], ["x/tmp"]),
    "temporary folder of old": (
        ["tmp-musl/work/a", "tmp-musl/stamps/a", "tmp-musl/sysroots-components/a"],
        ["tmp-musl"],
    ),
    "shared state": (["sstate-cache/0a/f3/sstate:zlib:x.tar.zst"], ["sstate-cache"]),
    "shared state by host": (["sstate-cache/universal/0a/sstate:zlib:x.tgz"], ["sstate-cache"]),
    "downloads": (["downloads/zlib.tar.gz", "downloads/zlib.tar.gz.done"], ["downloads"]),
    "clones": (["downloads/git2/github.com.x.git/HEAD"], ["downloads"]),
    "images": (["deploy/images/imx8/Image", "deploy/rpm/x.rpm"], ["deploy"]),
    "history": (["buildhistory/metadata-revs", "buildhistory/images/x"], ["buildhistory"]),
    "only the names": (
        [
            "tmp/notes.md",
            "tmp-1/work/a.c",
            "sstate-cache/README",
            "downloads/a.done",
            "deploy/images/logo.md",
            "buildhistory/2024.md",
            "conf/local.conf",
            "deployment/rpm/x.md",
            "sstate-cache/ab/notes.md",
        ],
        [],
    ),
}


@pytest.mark.parametrize(("files", "pruned"), YOCTO.values(), ids=YOCTO)
def test_yocto_output_is_pruned_where_it_looks_like_it(tmp_path: Path, files: list[str], pruned: list[str]) -> None:
    make(tmp_path, *files)
    found, left = run(tmp_path)
    assert left == dict.fromkeys(pruned, "pruned directory")
    assert sorted(found) == sorted(name for name in files if not any(name.startswith(f"{top}/") for top in pruned))


def test_yocto_output_is_walked_when_it_is_named_or_taken_back(tmp_path: Path) -> None:
    make(tmp_path, "downloads/git2/x", "downloads/y.c")
    assert run(tmp_path / "downloads")[0] == ["y.c", "git2/x"]
    (tmp_path / ".bigosignore").write_text("!downloads/\n")
    assert run(tmp_path) == ([".bigosignore", "downloads/y.c", "downloads/git2/x"], {})


def details(root: Path, **options: Any) -> dict[str, tuple[str, str]]:
    left: list[LeftOut] = []
    list(walk([root], recursive=True, on_left_out=left.append, **options))
    base = os.path.realpath(root)
    return {os.path.relpath(item.path, base): (item.reason, item.detail) for item in left}


def test_what_ignore_files_name_is_left_out_with_the_rule_and_an_ignored_folder_once(tmp_path: Path) -> None:
    make(tmp_path, "a.c", "a.o", "drivers/b.o", "drivers/keep.o", "drivers/gen/x.c", "drivers/gen/y.c", "notes.txt")
    (tmp_path / ".gitignore").write_text("# made\n*.o\n!keep.o\n")
    (tmp_path / "drivers" / ".gitignore").write_text("\n\n/gen/\n")
    (tmp_path / ".bigosignore").write_text("notes.*\n")
    assert run(tmp_path)[0] == [".bigosignore", ".gitignore", "a.c", "drivers/.gitignore", "drivers/keep.o"]
    assert details(tmp_path) == {
        "a.o": ("ignored", ".gitignore:2 *.o"),
        "notes.txt": ("ignored", ".bigosignore:1 notes.*"),
        "drivers/b.o": ("ignored", ".gitignore:2 *.o"),
        "drivers/gen": ("ignored", "drivers/.gitignore:3 /gen/"),
    }
    found, left = run(tmp_path, ignore_files=False)
    assert len(found) == 10 and left == {}


def test_what_is_named_is_taken_whatever_an_ignore_file_above_says(tmp_path: Path) -> None:
    make(tmp_path, "repo/out/a.c", "repo/out/b.o", "repo/out/deep/c.c", "repo/single.o")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".gitignore").write_text("out/\n*.o\n")
    repo = tmp_path / "repo"
    assert run(repo / "out") == (["a.c", "deep/c.c"], {"b.o": "ignored"})
    assert run(repo / "single.o", recursive=False) == (["."], {})
    assert run(repo)[1] == {".git": "pruned directory", "out": "ignored", "single.o": "ignored"}


def test_a_link_does_not_bring_in_an_ignored_target(tmp_path: Path) -> None:
    make(tmp_path, "made/deep/a.c", "kept/b.c", "kept/hidden.c")
    (tmp_path / ".gitignore").write_text("made/\n")
    (tmp_path / "kept" / ".gitignore").write_text("hidden.c\n")
    for name, target in (("1.c", "made/deep/a.c"), ("2.c", "kept/hidden.c"), ("3.c", "kept/b.c")):
        (tmp_path / name).symlink_to(target)
    found, left = run(tmp_path)
    assert found == [".gitignore", "kept/b.c", "kept/.gitignore"]
    assert left == dict.fromkeys(["1.c", "2.c", "kept/hidden.c", "made"], "ignored")


def test_an_ignore_file_that_cannot_be_read_is_told_once_and_the_walk_goes_on(tmp_path: Path) -> None:
    make(tmp_path, "sub/a.c", "sub/b.c")
    (tmp_path / "sub" / ".gitignore").symlink_to("nowhere")
    (tmp_path / "link.c").symlink_to("sub/b.c")
    found: list[str] = []
    left: list[LeftOut] = []
    found = [item.path.name for item in walk([tmp_path], recursive=True, on_left_out=left.append)]
    assert found == ["b.c", "a.c"]
    assert [item.reason for item in left if item.path.name == ".gitignore"] == ["unreadable ignore file", "broken link"]


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


class FailingScan:
    """A directory on a disk that fails: the system's own listing, with an error after some entries."""

    def __init__(self, real: Any, entries: int) -> None:
        self.real, self.left = real, entries

    def __enter__(self) -> FailingScan:
        return self

    def __exit__(self, *_: object) -> None:
        self.real.close()

    def __iter__(self) -> FailingScan:
        return self

    def __next__(self) -> os.DirEntry[str]:
        if not self.left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.left -= 1
        entry: os.DirEntry[str] = next(self.real)
        return entry


def test_a_disk_that_fails_in_the_middle_of_a_folder_costs_the_rest_of_it_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "bad/a.c", "bad/b.c", "bad/c.c", "good/d.c")
    scandir = os.scandir

    def on_a_failing_disk(handle: int) -> Any:
        failing = str(Path(f"/proc/self/fd/{handle}").readlink()).endswith("bad")
        return FailingScan(scandir(handle), 2) if failing else scandir(handle)

    monkeypatch.setattr(os, "scandir", on_a_failing_disk)
    found, left = run(tmp_path)
    assert (len(found), found[-1], left) == (3, "good/d.c", {"bad": "unreadable directory"})


def test_each_kind_of_device_is_told(tmp_path: Path) -> None:
    reasons = details(Path("/dev"))
    assert reasons["null"] == ("special file", "character device")


def test_a_walk_that_is_given_up_leaves_nothing_open(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt")
    before = len(list(Path("/proc/self/fd").iterdir()))
    walking = scan([tmp_path], recursive=True, on_left_out=pytest.fail)
    assert next(walking)[0] == str(tmp_path.resolve() / "a.txt")
    walking.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before

# SPDX-License-Identifier: GPL-2.0-only
"""`bigos ingest` over source trees as they lie on a disk: what it takes, what it leaves out, and how it says so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Home, Ran

DRIVER = "static int divider(int rate)\n{\n\treturn clock / rate;\n}\n"


def plant(top: Path, *names: str) -> None:
    for name in names:
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"/* {name} */\n{DRIVER}")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small kernel in its repository, half built."""
    top = tmp_path_factory.mktemp("tree").resolve()
    subprocess.run(["git", "init", "-q", top], check=True)
    plant(top, "drivers/spi/spi.c", "drivers/spi/Kconfig", "drivers/target/iscsi.c", "arch/boot/board.dts")
    plant(top, *(f"drivers/spi/made{number}.o.c" for number in range(3)), "arch/boot/made.o.c", "generated/a.c")
    plant(top, "private/notes.md", "secrets.txt", "conf/local.conf", "conf/bblayers.conf", "tmp/work/x.c")
    (top / "bundle.js").write_text("function a(b){return b+1};" * 1000)
    (top / ".gitignore").write_text("# built\n*.o.c\n/generated/\n")
    (top / ".bigosignore").write_text("secrets.txt\n!drivers/target/\n")
    (top / ".git" / "info" / "exclude").write_text("private\n")
    return top


@pytest.fixture(scope="module")
def first(make_home: Callable[[], Home], tree: Path) -> tuple[Home, Ran]:
    home = make_home()
    return home, home.ingest(tree, "--recursive", "--json", "-q")


def by_path(ran: Ran, top: Path) -> dict[str, str]:
    items = ran.json["outcomes"]
    return {str(Path(item["path"]).relative_to(top)): item["reason"] or item["outcome"] for item in items}


def test_each_name_in_a_source_tree_is_taken_or_left_out_under_a_reason(first: tuple[Home, Ran], tree: Path) -> None:
    _, ran = first
    assert ran.code == 0, ran.stderr
    assert by_path(ran, tree) == {
        ".bigosignore": "added",
        ".gitignore": "added",
        "arch/boot/board.dts": "added",
        "conf/bblayers.conf": "added",
        "conf/local.conf": "added",
        "drivers/spi/Kconfig": "added",
        "drivers/spi/spi.c": "added",
        "drivers/target/iscsi.c": "added",
        "bundle.js": "generated",
        ".git": "pruned directory",
        "tmp": "pruned directory",
        "arch/boot/made.o.c": "ignored",
        **{f"drivers/spi/made{number}.o.c": "ignored" for number in range(3)},
        "generated": "ignored",
        "private": "ignored",
        "secrets.txt": "ignored",
    }
    assert {(item["reason"], item["rule"], item["count"]) for item in ran.json["rules"]} == {
        ("ignored", ".gitignore:2 *.o.c", 4),
        ("ignored", ".gitignore:3 /generated/", 1),
        ("ignored", ".git/info/exclude:1 private", 1),
        ("ignored", ".bigosignore:1 secrets.txt", 1),
        ("pruned directory", ".git", 1),
        ("pruned directory", "tmp: Yocto build output: conf/bblayers.conf is beside it", 1),
    }


def test_the_report_for_a_reader_counts_by_rule_the_greediest_first(first: tuple[Home, Ran], tree: Path) -> None:
    home, _ = first
    told = home.ingest(tree, "--recursive", "-q").stdout
    assert told.startswith("nothing to do. Files: 8 unchanged, 10 skipped\n  skipped, ignored: 7\n")
    assert f"    .gitignore:2 *.o.c: {tree}/arch/boot/made.o.c and 3 more\n" in told


def test_a_second_run_reads_no_file_of_the_tree(first: tuple[Home, Ran], tree: Path) -> None:
    home, _ = first
    again = home.ingest(tree, "--recursive", "--json", "-q").json
    assert (again["files_read"], again["embedded"], again["files"]["unchanged"]) == (0, 0, 8)


def test_no_ignore_takes_what_ignore_files_leave_out_and_no_more(home: Home, tree: Path) -> None:
    ran = home.ingest(tree, "--recursive", "--no-ignore", "--dry-run", "--json", "-q")
    reasons = by_path(ran, tree)
    assert ran.json["files"]["added"] == 14
    assert {path for path, reason in reasons.items() if reason == "pruned directory"} == {
        ".git",
        "drivers/target",
        "tmp",
    }
    assert "ignored" not in reasons.values()


def test_a_tree_of_which_an_ignore_file_takes_all_says_so_and_how_to_go_on(home: Home, tmp_path: Path) -> None:
    plant(tmp_path, "venv2/lib/a.py", "venv2/b.py")
    (tmp_path / "venv2" / ".gitignore").write_text("*\n")
    ran = home.ingest(tmp_path / "venv2", "--recursive", "-q")
    assert ran.code == 1
    assert "but what ignore files leave out (.gitignore:1 *)." in ran.stderr
    assert "hint: the same command with --no-ignore" in ran.stderr


def test_too_many_files_are_refused_with_the_folders_that_have_most(home: Home, tmp_path: Path) -> None:
    plant(
        tmp_path, *(f"linux/drivers/d{n}.c" for n in range(7)), *(f"linux/arch/a{n}.c" for n in range(4)), "linux/x.c"
    )
    ran = home.ingest(tmp_path, "--recursive", "--max-files", "5")
    assert ran.code == 2
    assert "12 files are more than --max-files 5." in ran.stderr
    top = f"{tmp_path}/linux"
    assert f"name fewer folders (7 in {top}/drivers, 4 in {top}/arch)" in ran.stderr
    assert "say --max-files 12" in ran.stderr
    assert home.everything() == []


def test_an_empty_tree_and_a_file_where_a_folder_was_meant_are_no_errors(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = home.ingest(tmp_path / "empty", "--recursive", "-q")
    assert (ran.code, "there are no files in" in ran.stderr) == (1, True)
    plant(tmp_path, "one.c")
    assert home.ingest(tmp_path / "one.c", "--recursive", "-q").stdout.startswith("Files: 1 added\n")


def test_an_ignore_file_that_does_not_hold_is_a_failure_that_is_named(home: Home, tmp_path: Path) -> None:
    plant(tmp_path, "a.c")
    (tmp_path / ".bigosignore").mkdir()
    ran = home.ingest(tmp_path, "--recursive", "--json", "-q")
    assert ran.code == 3
    assert by_path(ran, tmp_path) == {"a.c": "added", ".bigosignore": "unreadable ignore file"}

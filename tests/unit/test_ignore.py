# SPDX-License-Identifier: GPL-2.0-only
"""Ignore rules are git's, down to the line that decides; patterns of any kind are answered in no time."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bigos.ignore import SPECIAL_NAMES, IgnoreFiles, Rule, RuleFile, Scope
from store_documents import memory_directory

FOLDERS = ("a", "ab", "é", "a b")
NAMES = (*FOLDERS, "b", "a.o", "b.c", "[a]", "-", "!a", "#b", "A", "aXb", "a\\b", "a ", "\n", "]", "^")
PIECES = (
    *("a", "b", "ab", ".o", ".c", "é", "A", "#", "!", "-", " ", "\t", "]", "*", "**", "***", "?", "/", "\\", "\\*"),
    *("*.o", "a/", "**/", "/**", "/*", "*/", "\\/", "[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[^]]", "[!-a]", "[b-a]"),
    *("[[:alpha:]]", "[[:punct:]]", "[[:x:]]", "[[.]", "[[:]", "[\\]]", "[\\a-\\c]", "[", "[a", "[a-"),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository of every name in every folder, three levels deep."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    with memory_directory(tmp_path_factory.mktemp("repository")) as base:
        top = base.resolve()
        subprocess.run(["git", "init", "-q", top], check=True, env=git_environment(top))
        for folder in ("", *FOLDERS, *(f"{one}/{two}" for one in FOLDERS for two in FOLDERS)):
            (top / folder).mkdir(exist_ok=True)
            for name in NAMES:
                if name not in FOLDERS or folder.count("/"):
                    (top / folder / name).touch()
        yield top


def git_environment(home: Path) -> dict[str, str]:
    path = os.environ["PATH"]  # noqa: TID251 - the test's own
    return {"PATH": path, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"}


def by_git(top: Path) -> dict[str, str | None]:
    """The rule, as file:line, that git finds for each path."""
    paths = "\0".join(os.path.relpath(path, top) for path in top.rglob("*") if ".git" not in path.parts)
    command = ["git", "-C", top, "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin"]
    answer = subprocess.run(command, input=paths.encode(), capture_output=True, env=git_environment(top)).stdout
    fields = answer.decode().split("\0")[:-1]
    quads = zip(fields[0::4], fields[1::4], fields[2::4], fields[3::4], strict=True)
    return {path: f"{source}:{line}" if source else None for source, line, _, path in quads}


def by_us(top: Path) -> dict[str, str | None]:
    """The same by our rules. Nobody looks into an ignored folder: what is in it has its folder's rule."""
    rules = IgnoreFiles(str(top), pytest.fail)
    found: dict[str, str | None] = {}

    def look(folder: Path, above: Scope, ignored_by: Rule | None) -> None:
        names = sorted(path.name for path in folder.iterdir())
        scope = above if ignored_by else rules.entered(above, str(folder), SPECIAL_NAMES.intersection(names))
        for name in names:
            if name == ".git":
                continue
            path = folder / name
            rule = ignored_by or scope.rule(str(path), name, path.is_dir())
            found[os.path.relpath(path, top)] = rule.place.split(" ")[0] if rule else None
            if path.is_dir():
                look(path, scope, rule if rule and not rule.negated else None)

    look(top, rules.above(), None)
    return found


patterns = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)
lines = st.builds(
    lambda sign, pattern, end: sign + pattern + end,
    st.sampled_from(["", "", "!"]),
    patterns,
    st.sampled_from(["", "", "", " ", "\\ ", "/", "\r"]),
)
ignore_files = st.dictionaries(
    st.sampled_from(["", "a", "ab", "é", "a/a", "ab/é"]),
    st.lists(lines, min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example({"": ["a**/b", "!a/ab", "/*/*.o"], "a": ["*", "!*/"]}, [])
@example({"": ["a/**", "**/b", "**", "!**/"]}, ["[[:alpha:]]"])
@example({"": ["\ufeff*.c", "#b", "\\#b", "\\!a", "a\\ ", "a  "]}, ["?", "é/"])
@given(ignore_files, st.lists(lines, max_size=2))
def test_each_path_is_decided_by_the_line_that_git_names(
    repository: Path, files: Mapping[str, list[str]], excluded: list[str]
) -> None:
    written = {repository / folder / ".gitignore": rules for folder, rules in files.items()}
    written[repository / ".git" / "info" / "exclude"] = excluded
    try:
        for file, rules in written.items():
            file.write_bytes("\n".join(rules).encode())
        assert by_us(repository) == by_git(repository)
    finally:
        for file in written:
            file.unlink()


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/a/" * 30 + "b", "x/" + "**/a*a/" * 20 + "b", "**\\/a/" * 30])
def test_no_pattern_takes_long_whatever_the_name(pattern: str) -> None:
    rules = RuleFile("/r", ".gitignore", pattern.encode())
    started = time.process_time()
    assert rules.last_match("/r/x/" + "a/" * 500 + "a" * 250, "a" * 250, False) is None
    assert time.process_time() - started < 1


def test_a_long_list_of_rules_costs_a_name_little() -> None:
    text = "".join(f"*.e{number}\nname{number}\n" for number in range(5000))
    rules = RuleFile("/r", ".gitignore", text.encode())
    started = time.process_time()
    found = [
        rules.last_match(f"/r/d/file{number}.e{number}", f"file{number}.e{number}", False) for number in range(10_000)
    ]
    assert time.process_time() - started < 2
    assert found[4999] is not None and found[4999].place == ".gitignore:9999 *.e4999"
    assert found[5000] is None


def test_a_file_full_of_endings_is_read_and_asked_quickly() -> None:
    text = "".join(f"*{number:05}.e~\n" for number in range(90_000))
    started = time.process_time()
    rules = RuleFile("/r", ".gitignore", text.encode())
    found = [rules.last_match(f"/r/{name}", name, False) for name in ("a00007.e~", "00007.e~", "0007.e~", "a00007.e")]
    assert time.process_time() - started < 10
    assert [rule and rule.number for rule in found] == [8, 8, None, None]


def scope_in(folder: Path, root: Path | None = None) -> Scope:
    """The scope in a folder reached from `root` (or itself), level by level."""
    root = root or folder
    rules = IgnoreFiles(str(root), pytest.fail)
    steps = [
        root,
        *(root.joinpath(*folder.relative_to(root).parts[: n + 1]) for n in range(len(folder.relative_to(root).parts))),
    ]
    scope = rules.above()
    for step in steps:
        scope = rules.entered(scope, str(step), SPECIAL_NAMES.intersection(path.name for path in step.iterdir()))
    return scope


def ignored(scope: Scope, path: Path) -> bool:
    rule = scope.rule(str(path), path.name, path.is_dir())
    return rule is not None and not rule.negated


def test_a_bigosignore_outranks_every_gitignore_at_whatever_depth(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    (tmp_path / ".bigosignore").write_text("!keep.log\nsecret.txt\n")
    (deep / ".gitignore").write_text("*.log\n!secret.txt\n")
    scope = scope_in(deep, tmp_path)
    assert not ignored(scope, deep / "keep.log")
    assert ignored(scope, deep / "other.log")
    assert ignored(scope, deep / "secret.txt")


def test_rules_above_the_root_hold_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    root = tmp_path / "repo" / "middle" / "root"
    root.mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("beyond.txt\n")
    (tmp_path / "repo" / ".git" / "info").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "info" / "exclude").write_text("private.txt\n")
    (tmp_path / "repo" / ".gitignore").write_text("/middle/root/top.txt\n")
    (tmp_path / "repo" / "middle" / ".gitignore").write_text("*.o\n")
    scope = scope_in(root)
    names = ["beyond.txt", "private.txt", "top.txt", "a.o", "a.c"]
    assert [name for name in names if ignored(scope, root / name)] == ["private.txt", "top.txt", "a.o"]
    rule = scope.rule(str(root / "a.o"), "a.o", False)
    assert rule is not None and rule.place == f"{tmp_path}/repo/middle/.gitignore:1 *.o"


def test_without_a_repository_nothing_above_the_root_is_looked_at(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / ".gitignore").write_text("*\n")
    assert scope_in(root) == Scope()


def test_a_repository_within_another_has_its_own_rules_only(tmp_path: Path) -> None:
    inner = tmp_path / "modules" / "inner"
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.o\n")
    (tmp_path / ".git" / "modules" / "inner" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "modules" / "inner" / "info" / "exclude").write_text("notes\n")
    inner.mkdir(parents=True)
    (inner / ".git").write_text("gitdir: ../../.git/modules/inner\n")
    scope = scope_in(inner, tmp_path)
    assert not ignored(scope, inner / "a.o")
    assert ignored(scope, inner / "notes")
    assert ignored(scope_in(tmp_path / "modules", tmp_path), tmp_path / "modules" / "a.o")


def test_a_worktree_has_the_exclude_file_of_its_repository(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    main = tmp_path / "main"
    environment = git_environment(tmp_path) | {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", "../tree"]):
        main.mkdir(exist_ok=True)
        subprocess.run(["git", "-C", main, *command], check=True, env=environment, capture_output=True)
    (main / ".git" / "info" / "exclude").write_text("private.txt\n")
    assert ignored(scope_in(tmp_path / "tree"), tmp_path / "tree" / "private.txt")


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "huge"])
def test_an_ignore_file_that_is_none_is_told_and_holds_nothing(tmp_path: Path, kind: str) -> None:
    file = tmp_path / ".gitignore"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "link":
        (tmp_path / "rules").write_text("*\n")
        file.symlink_to("rules")
    else:
        file.write_bytes(b"*\n" * 600_000)
    told: list[tuple[str, str]] = []
    scope = IgnoreFiles(str(tmp_path), lambda *words: told.append(words)).entered(
        Scope(), str(tmp_path), {".gitignore"}
    )
    assert scope == Scope()
    assert [path for path, _ in told] == [str(file)] and told[0][1]


def test_a_rule_in_bytes_that_are_not_utf_8_can_be_shown_and_matches(tmp_path: Path) -> None:
    rules = RuleFile("/r", ".gitignore", b"\xbf\xf3\xb3w?\n")
    name = os.fsdecode(b"\xbf\xf3\xb3w1")
    found = rules.last_match(f"/r/{name}", name, False)
    assert found is not None and found.place == ".gitignore:1 \\xbf\\xf3\\xb3w?"

# SPDX-License-Identifier: GPL-2.0-only
"""Which folders may be read when nobody says so: the home and the current project, never the whole disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bigos.allowed import allowed_roots, outside
from bigos.config import load_config


def test_the_default_is_the_home_and_the_repository_around_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src" / "deep").mkdir(parents=True)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project / "src" / "deep")
    config = load_config({"HOME": str(home)})
    assert allowed_roots(config) == (home.resolve(), project.resolve())
    inside = [home, home / "new.txt", project / "README", Path("x"), Path("../..")]
    assert outside(inside, config) == ()
    assert outside([tmp_path, tmp_path / "homework", Path("../../..")], config) == (
        tmp_path.resolve(),
        tmp_path.resolve() / "homework",
        tmp_path.resolve(),
    )


def test_a_link_is_where_it_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    (home / "out").symlink_to("..")
    (tmp_path / "in").symlink_to("home")
    assert outside([home / "out" / "a.txt", tmp_path / "in" / "a.txt"], load_config({"HOME": str(home)})) == (
        tmp_path.resolve() / "a.txt",
    )


@pytest.mark.parametrize("where", ["/", None])
def test_a_process_that_runs_at_the_root_of_the_disk_is_not_allowed_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(where or gone)
    gone.rmdir()
    monkeypatch.setenv("HOME", "/")
    config = load_config({"HOME": "/"})
    assert allowed_roots(config) == ()
    assert outside([Path("/etc/passwd")], config) == (Path("/etc/passwd"),)

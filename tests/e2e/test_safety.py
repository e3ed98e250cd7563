# SPDX-License-Identifier: GPL-2.0-only
"""What may go in, from where, and what is refused: as the command line and an MCP client see it."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Home
from processes import PATIENCE


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_a_whole_home_can_be_ingested_and_its_secrets_stay_out(home: Home) -> None:
    write(home.path / ".ssh", id_rsa="the heron nests in the reeds")
    write(home.path, bash__txt="a plain note", **{"__bash_history": "curl the heron"})
    first = home.ingest(home.path, "--recursive", "--json")
    assert first.code == 0, first.stderr
    denied = {item["path"]: item["detail"] for item in first.json["outcomes"] if item["reason"] == "denied"}
    assert denied == {f"{home.path}/.ssh": ".ssh", f"{home.path}/.bash_history": ".*_history"}
    assert home.bigos("search", "heron in the reeds", "--json").json["hits"][0]["source_name"] == "bash.txt"
    # By now there is an index below the home, which is not taken for documents.
    second = home.ingest(home.path, "--recursive", "--json")
    assert (second.json["files"]["unchanged"], second.json["files"]["added"]) == (1, 0)
    assert {item["path"] for item in second.json["outcomes"] if item["reason"] == "Bigos's own"} == {
        f"{home.path}/.local/share/bigos",
        f"{home.path}/.local/state/bigos",
    }


def test_a_denied_path_given_by_hand_is_refused_with_the_setting_that_does_it(home: Home) -> None:
    write(home.path / ".ssh", config="Host heron")
    ran = home.ingest(home.path / ".ssh" / "config")
    assert ran.code == 1
    assert "denied_patterns refuses (.ssh)" in ran.stderr
    assert home.ingest(home.path / ".ssh" / "config", BIGOS_DENIED_PATTERNS="*.pem").code == 0


def test_bigos_own_folders_are_refused_as_roots(home: Home) -> None:
    (home.path / ".local" / "share" / "bigos").mkdir(parents=True)
    ran = home.ingest(home.path / ".local" / "share" / "bigos", "-r")
    assert ran.code == 2
    assert "belongs to Bigos's own data_dir, which is never indexed" in ran.stderr


def test_a_path_outside_of_the_home_is_told_where_nobody_can_be_asked(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", a__txt="the heron nests in the reeds")
    ran = home.ingest(tmp_path / "elsewhere")
    assert (ran.code, ran.stderr.splitlines()[0]) == (
        0,
        f"{tmp_path}/elsewhere is outside of your home and of this project; allowed_roots can forbid that.",
    )
    assert "outside" not in home.ingest(tmp_path / "elsewhere", "--quiet").stderr
    assert "outside" not in home.ingest(tmp_path / "elsewhere", "--yes").stderr
    assert "does not exist" in home.ingest(tmp_path / "nowhere").stderr


def test_allowed_roots_that_somebody_has_set_refuse_what_lies_outside(home: Home, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", a__txt="the heron nests in the reeds")
    write(home.path / "docs", b__txt="a plain note")
    (home.path / "docs" / "away").symlink_to(tmp_path / "elsewhere")
    settings = {"BIGOS_ALLOWED_ROOTS": "~/docs"}
    for path in (tmp_path / "elsewhere", home.path / "docs" / "away" / "a.txt", home.path, tmp_path):
        ran = home.ingest(path, **settings)
        assert (ran.code, ran.stdout) == (2, "")
        assert f"is outside of what allowed_roots lets in ({home.path}/docs)" in ran.stderr
        assert "--yes" in ran.stderr
    assert home.ingest(tmp_path / "elsewhere", "--yes", **settings).code == 0
    assert home.ingest(home.path / "docs", **settings).code == 0


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 2), (b"no\n", 2)])
def test_on_a_terminal_a_path_outside_of_the_home_is_asked_about(
    home: Home, tmp_path: Path, answer: bytes, code: int
) -> None:
    write(tmp_path / "elsewhere", a__txt="the heron nests in the reeds")
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    command = [sys.executable, "-m", "bigos.ingest", tmp_path / "elsewhere", "--dry-run", "--json"]
    done = subprocess.run(
        command,
        env=home.environment(),
        cwd=home.path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=PATIENCE,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal ends that nobody writes to any more
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert done.returncode == code
    assert f"{tmp_path}/elsewhere is outside of your home and of this project. Read it? [y/N]".encode() in shown
    assert bool(done.stdout) == (code == 0)


def test_a_file_that_holds_a_token_is_left_out_and_named_until_it_is_allowed(home: Home) -> None:
    token = f"{'gh' + 'p_'}{'aZ3kQ9vB7xLm' * 3}"
    write(home.path / "docs", a__txt=f"# Deploying\n\nThe heron deploys with {token}\n", b__txt="a plain note")
    docs = home.path / "docs"
    first = home.ingest(docs, "--json")
    (skipped,) = (outcome for outcome in first.json["outcomes"] if outcome["outcome"] == "skipped")
    assert first.code == 0
    assert (skipped["path"], skipped["reason"], skipped["detail"]) == (
        f"{docs}/a.txt",
        "holds a secret",
        "line 3: GitHub token",
    )
    assert token not in first.stdout + first.stderr
    assert home.ingest(docs, "--json").json["files"]["skipped"] == 1
    allowed = home.ingest(docs, "--allow-secrets", "--json").json["files"]
    assert (allowed["added"], allowed["unchanged"]) == (1, 1)
    assert home.ingest(docs, "--json").json["files"]["unchanged"] == 2  # what was allowed stays
    write(docs, a__txt=f"The heron still deploys with {token}\n")
    assert home.ingest(docs, "--json").json["files"]["skipped"] == 1
    hits = home.bigos("search", "the heron deploys", "--json").json["hits"]
    assert [hit["source_name"] for hit in hits] == ["b.txt"]

# SPDX-License-Identifier: GPL-2.0-only
"""`bigos ingest --prune` as a person runs it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Home
from processes import PATIENCE


@pytest.fixture
def pot(home: Home) -> Path:
    """Four notes, indexed."""
    folder = home.path / "pot"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.txt").write_text(f"Note {name}: bread is made of flour, water and salt.\n")
    assert home.ingest(folder).code == 0
    return folder


def test_what_is_gone_from_the_disk_is_told_by_a_dry_run_and_then_goes(home: Home, pot: Path) -> None:
    (pot / "a.txt").unlink()
    dry = home.ingest("--prune", "--dry-run", pot)
    assert dry.code == 0
    assert f"  to forget, source is gone: 1\n    {pot / 'a.txt'}\n" in dry.stdout
    ran = home.ingest("--prune", "--json", pot)
    report = ran.json
    assert (ran.code, report["files"]["forgotten"], report["chunks"]["removed"]) == (0, 1, 1)
    assert (report["kept"], report["prune_refused"]) == ([], None)
    assert [(item["path"], item["outcome"], item["reason"]) for item in report["outcomes"]] == [
        (str(pot / "a.txt"), "forgotten", "source is gone")
    ]
    assert home.ingest("--prune", pot, "--json").json["outcomes"] == []


def test_more_than_half_is_refused_without_a_terminal_and_goes_with_yes(home: Home, pot: Path) -> None:
    for name in "abc":
        (pot / f"{name}.txt").unlink()
    (pot / "new.txt").write_text("A new story about a green bridge over the river.\n")
    ran = home.ingest("--prune", pot)
    assert ran.code == 2
    assert ran.stderr.endswith(
        "error: 3 of the 5 documents known there are gone from the disk, which is more than half: they were kept.\n"
        "hint: look whether a disk is away; if they are really gone, the same command with --yes\n"
    )
    assert ran.stdout.startswith("Files: 1 added, 1 unchanged\n")
    assert home.bigos("status", "--json").json["documents"] == 5
    ran = home.ingest("--prune", "--json", pot)
    assert (ran.code, ran.json["prune_refused"]) == (2, {"gone": 3, "known": 5})
    assert {item["reason"] for item in ran.json["kept"]} == {"more than half is gone"}
    ran = home.ingest("--prune", "--yes", pot)
    assert (ran.code, ran.stdout.splitlines()[0]) == (0, "Files: 2 unchanged, 3 forgotten")


@pytest.mark.parametrize(("answer", "left"), [("y\n", 1), ("n\n", 4), ("", 4)])
def test_more_than_half_is_asked_on_a_terminal(home: Home, pot: Path, answer: str, left: int) -> None:
    for name in "abc":
        (pot / f"{name}.txt").unlink()
    keyboard, screen = pty.openpty()
    os.write(keyboard, answer.encode() or b"\x04")
    with subprocess.Popen(
        [sys.executable, "-m", "bigos.ingest", "--prune", str(pot)],
        env=home.environment(),
        cwd=home.path,
        stdin=screen,
        stdout=subprocess.PIPE,
        stderr=screen,
        start_new_session=True,
    ) as process:
        os.close(screen)
        shown = b""
        while True:
            try:
                shown += (part := os.read(keyboard, 4096))
            except OSError:  # how a terminal ends that nobody has open any more
                break
            if not part:
                break
        assert process.wait(timeout=PATIENCE) == 0
    os.close(keyboard)
    assert b"3 of the 4 documents known there are gone from the disk. Forget them? [y/N]" in shown
    assert home.bigos("status", "--json").json["documents"] == left

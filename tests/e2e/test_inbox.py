# SPDX-License-Identifier: GPL-2.0-only
"""`python -m bigos.inbox`, which bigos-ingest.service runs, on a real folder with the real model."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from bigos import inbox
from bigos.config import load_config
from bigos.errors import ExitCode
from bigos.library import Library
from bigos.settling import Settling
from command_line import Home, Ran
from processes import PATIENCE, until

SPI = "# SPI\n\nThe divider of the serial clock is chosen in the control register.\n"
COFFEE = "# Coffee\n\nDescaling the espresso machine takes forty minutes.\n"
LEASE = "# Umowa\n\nOkres wypowiedzenia najmu wynosi trzy miesiące.\n"


@pytest.fixture
def folder(home: Home) -> Path:
    made = home.path / "bigos-inbox"
    made.mkdir()
    (made / inbox.MARKER).touch()
    return made


def take(home: Home, folder: Path | str, *, settle: float = 0.5, code: int = 0) -> list[str]:
    """Run the command; its lines, without those that tell times."""
    ran = home.bigos(folder, "--settle", str(settle), module="bigos.inbox")
    assert ran.code == code, ran.stderr
    assert ran.stdout == ""
    return [line for line in ran.stderr.splitlines() if not line.startswith("done in")]


def found(home: Home, question: str) -> list[tuple[str, str]]:
    """Name and text of the hits of a search."""
    ran: Ran = home.bigos("search", question, "--json")
    return [(hit["source_name"], hit["text"]) for hit in ran.json["hits"]] if ran.code == 0 else []


def names(home: Home, question: str) -> list[str]:
    return [name for name, _ in found(home, question)]


def grow(file: Path, pieces: Sequence[str], gap: float) -> float:
    """Write a file in pieces; the longest time that it stood still."""
    longest, last = 0.0, time.monotonic()
    for piece in pieces:
        time.sleep(gap)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(piece)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest


def test_a_file_that_is_copied_slowly_is_taken_after_its_last_byte(home: Home, folder: Path) -> None:
    settle = 2.0
    for attempt in range(3):
        file = folder / f"slow{attempt}.md"
        file.write_text("# A long report\n\n", encoding="utf-8")
        process = home.start(folder, "--settle", str(settle), module="bigos.inbox")
        pieces = [f"Section {number} of the report tells of pump number {number}.\n\n" for number in range(16)]
        longest = grow(file, pieces, 0.25)
        unseen = not (home.path / ".local" / "share" / "bigos" / "collections").exists() or not names(home, "pump")
        _, lines = process.communicate(timeout=PATIENCE)
        if longest < settle - 0.5:  # else the machine has slept, and so has the copy
            assert process.returncode == 0, lines
            assert unseen
            assert lines.count(f"came in: {file.name}") == 1
            assert f"changed: {file.name}" not in lines
            assert any("pump number 15" in text for name, text in found(home, "pump number 15") if name == file.name)
            return
        file.unlink()
    pytest.fail("the machine never wrote without long pauses")


def test_what_is_renamed_edited_or_comes_is_found_as_it_is_now(home: Home, folder: Path) -> None:
    (folder / "spi.md").write_text(SPI, encoding="utf-8")
    (folder / "sub").mkdir()
    (folder / "sub" / "coffee.md").write_text(COFFEE, encoding="utf-8")
    (folder / "letter.pdf.part").write_text("half a letter", encoding="utf-8")
    assert sorted(take(home, folder)) == ["came in: spi.md (1 chunk)", "came in: sub/coffee.md (1 chunk)"]
    assert take(home, folder) == []
    (folder / "sub" / "coffee.md").write_text(COFFEE.replace("forty", "ninety"), encoding="utf-8")
    (folder / "spi.md").rename(folder / "clock.md")
    (folder / "letter.pdf.part").rename(folder / "letter.md")
    lines = take(home, folder)
    assert "changed: sub/coffee.md (1 chunk)" in lines
    assert "came in: clock.md (1 chunk)" in lines
    assert "came in: letter.md (1 chunk)" in lines
    assert "went out: spi.md" in lines
    assert "ninety minutes" in dict(found(home, "descaling"))["coffee.md"]
    assert "spi.md" not in names(home, "serial clock divider")
    assert names(home, "serial clock divider")[0] == "clock.md"


def test_what_is_taken_out_is_forgotten_down_to_the_last_file_where_the_marker_is(home: Home, folder: Path) -> None:
    for name, text in (("spi.md", SPI), ("coffee.md", COFFEE), ("lease.md", LEASE)):
        (folder / name).write_text(text, encoding="utf-8")
    assert len(take(home, folder)) == 3
    (folder / "spi.md").unlink()
    assert take(home, folder) == ["went out: spi.md"]
    (folder / "lease.md").unlink()
    (folder / "coffee.md").unlink()
    (folder / inbox.MARKER).rename(home.path / "aside")  # as if the disk with the folder were away
    assert take(home, folder) == ["gone from the folder, kept in the index: 2 (folder is empty)"]
    assert "coffee.md" in names(home, "descaling")
    (home.path / "aside").rename(folder / inbox.MARKER)
    assert sorted(take(home, folder)) == ["went out: coffee.md", "went out: lease.md"]
    assert names(home, "descaling") == []


def test_names_that_shells_and_terminals_trip_over(home: Home, folder: Path) -> None:
    given = [
        "two words.md",
        "quo\"te's.md",
        "new\nline.md",
        "-rf.md",
        "--help.md",
        "100% $HOME.md",
        os.fsdecode(b"\xff\xfe.md"),
    ]
    for number, name in enumerate(given):
        (folder / name).write_text(f"# Nr {number}\n\nThe valve number {number} leaks.\n", encoding="utf-8")
    lines = take(home, folder)
    shown = sorted(line.removeprefix("came in: ").removesuffix(" (1 chunk)") for line in lines)
    assert shown == sorted(
        ["two words.md", "quo\"te's.md", "new\\x0aline.md", "-rf.md", "--help.md", "100% $HOME.md", "\\xff\\xfe.md"]
    )
    assert len(set(names(home, "valve leaks"))) == len(given)
    assert take(home, folder) == []


def test_a_folder_whose_name_begins_with_a_dash(home: Home) -> None:
    (home.path / "-in").mkdir()
    (home.path / "-in" / "a.md").write_text(COFFEE, encoding="utf-8")
    ran = home.bigos("--settle", "0.5", "--", "-in", module="bigos.inbox")
    assert "came in: a.md (1 chunk)" in ran.stderr.splitlines()


def test_what_fails_stays_is_listed_and_is_tried_again_when_it_changes(home: Home, folder: Path) -> None:
    bad = folder / "bad\nname.pdf"
    bad.write_bytes(b"%PDF-1.7 and then nonsense")
    (folder / "good.md").write_text(COFFEE, encoding="utf-8")
    (folder / ".bigosignore").mkdir()  # what the walk itself stumbles over
    lines = take(home, folder, code=3)
    assert any(line.startswith("failed: bad\\x0aname.pdf: damaged: ") for line in lines)
    assert any(line.startswith("failed: .bigosignore: unreadable ignore file: ") for line in lines)
    assert "came in: good.md (1 chunk)" in lines
    listed = home.path / ".local" / "state" / "bigos" / inbox.FAILURES_FILE
    before = listed.read_text("utf-8")
    [_, line] = before.splitlines()
    assert line.startswith(f"{folder}/bad\\x0aname.pdf\tdamaged: ")
    assert bad.exists()
    assert take(home, folder, code=3) == []  # known, and said once
    assert listed.read_text("utf-8") == before
    (folder / ".bigosignore").rmdir()
    bad.write_text(LEASE, encoding="utf-8")
    assert any(line.startswith("came in: bad\\x0aname.pdf") for line in take(home, folder))
    assert not listed.exists()


def test_a_folder_that_is_not_there_costs_nothing(home: Home, folder: Path) -> None:
    (folder / "coffee.md").write_text(COFFEE, encoding="utf-8")
    take(home, folder)
    away = folder.rename(home.path / "unmounted")
    assert take(home, folder) == [f"{folder} is not there or cannot be read: nothing was forgotten."]
    assert names(home, "descaling") == ["coffee.md"]
    away.rename(folder)
    assert take(home, folder) == []


def test_what_comes_while_a_pass_is_under_way_is_taken_by_the_same_run(home: Home, folder: Path) -> None:
    """systemd does not count events while the service runs."""
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if line.startswith("came in: first"):
            (folder / "second.md").write_text(LEASE, encoding="utf-8")

    (folder / "first.md").write_text(SPI, encoding="utf-8")
    code = inbox.serve(load_config(home.environment()), folder, Settling(folder, 0.3), say=say)
    assert code == ExitCode.OK
    assert [line for line in lines if line.startswith("came in")] == [
        "came in: first.md (1 chunk)", "came in: second.md (1 chunk)",
    ]  # fmt: skip


def test_what_comes_while_the_index_is_closed_is_taken_by_the_same_run(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Library.close
    lines: list[str] = []

    def closed_slowly(library: Library) -> None:
        close(library)
        if not (folder / "second.md").exists():
            (folder / "first.md").rename(folder / "second.md")

    monkeypatch.setattr(Library, "close", closed_slowly)
    (folder / "first.md").write_text(SPI, encoding="utf-8")
    code = inbox.serve(load_config(home.environment()), folder, Settling(folder, 0.3), say=lines.append)
    assert code == ExitCode.OK
    assert [line for line in lines if not line.startswith("done in")] == [
        "came in: first.md (1 chunk)", "came in: second.md (1 chunk)", "went out: first.md",
    ]  # fmt: skip


def test_sigterm_ends_the_wait(home: Home, folder: Path) -> None:
    (folder / "a.md").write_text(SPI, encoding="utf-8")
    process = home.start(folder, "--settle", "60", "-v", module="bigos.inbox")
    assert process.stderr is not None
    assert "waiting until nothing changes" in process.stderr.readline()
    process.terminate()
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr


def test_a_run_that_is_killed_is_finished_by_the_next_one(home: Home, folder: Path) -> None:
    many = 40
    for number in range(many):
        (folder / f"pump{number}.md").write_text(f"# Pump {number}\n\nIts valve is of bronze.\n", encoding="utf-8")
    process = home.start(folder, "--settle", "0.3", module="bigos.inbox")
    collections = home.path / ".local" / "share" / "bigos" / "collections"
    until(lambda: process.poll() is not None or any(collections.glob("*/*")))
    process.kill()  # in the middle of its pass: it has just opened the store
    _, stderr = process.communicate()
    assert len(take(home, folder, settle=0.3)) <= many - stderr.count("came in: pump")
    assert home.bigos("status", "--json").json["documents"] == many
    assert take(home, folder, settle=0.3) == []


def test_an_emptied_folder_without_its_marker_forgets_nothing(home: Home, folder: Path) -> None:
    """The bare mount point of a disk that is away looks like that."""
    for name, text in (("spi.md", SPI), ("coffee.md", COFFEE)):
        (folder / name).write_text(text, encoding="utf-8")
    take(home, folder)
    for file in folder.iterdir():
        file.unlink()
    assert take(home, folder) == ["gone from the folder, kept in the index: 2 (folder is empty)"]
    (folder / "lease.md").write_text(LEASE, encoding="utf-8")
    told, kept, hint = sorted(take(home, folder))
    assert told == "came in: lease.md (1 chunk)"
    assert kept == "gone from the folder, kept in the index: 2 (more than half is gone)"
    assert hint == f"hint: bigos ingest {folder} --recursive --prune --yes"
    assert sorted(names(home, "descaling")) == ["coffee.md", "lease.md", "spi.md"]
    (folder / inbox.MARKER).touch()
    assert sorted(take(home, folder)) == ["went out: coffee.md", "went out: spi.md"]

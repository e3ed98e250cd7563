# SPDX-License-Identifier: GPL-2.0-only
"""The lines and the list that a drop folder's pass leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bigos.errors import StoreError
from bigos.inbox import change_line, pass_line, write_failures
from bigos.report import IngestReport
from bigos.types import FileOutcome

INBOX = Path("/home/anna/in box")


def report(outcomes: Sequence[FileOutcome], unchanged: int = 0) -> IngestReport:
    made = IngestReport(seconds=2.0)
    made.files["unchanged"] = unchanged
    for outcome in outcomes:
        made.add(outcome)
    return made


def failed(name: str, reason: str = "damaged", detail: str | None = None) -> FileOutcome:
    return FileOutcome(f"{INBOX}/{name}", "failed", reason, detail)


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (FileOutcome(f"{INBOX}/notes.md", "added", chunks=3), "came in: notes.md (3 chunks)"),
        (FileOutcome(f"{INBOX}/sub/a.md", "updated", chunks=1), "changed: sub/a.md (1 chunk)"),
        (FileOutcome(f"{INBOX}/old.pdf", "forgotten", "source is gone", chunks=9), "went out: old.pdf"),
        (failed("two\nlines.pdf", "damaged", "no\nPDF"), "failed: two\\x0alines.pdf: damaged: no\\x0aPDF"),
        (FileOutcome(f"{INBOX}/a.zip", "skipped", "archive"), "left out: a.zip: archive"),
        (FileOutcome(f"{INBOX}/a.part", "skipped", "excluded"), None),
        (FileOutcome(f"{INBOX}/a.md", "unchanged"), None),
    ],
)
def test_a_change_is_one_line_with_the_name_below_the_folder(outcome: FileOutcome, line: str | None) -> None:
    assert change_line(outcome, INBOX) == line


def test_a_pass_counts_what_is_news() -> None:
    outcomes = [
        FileOutcome("/a", "added", chunks=1),
        FileOutcome("/b", "skipped", "excluded"),
        FileOutcome("/c", "skipped", "archive"),
    ]
    assert pass_line(report(outcomes, unchanged=4)) == "done in 2.0 s: 1 came in, 1 left out, 4 unchanged"


def test_failures_are_a_line_each_and_the_file_goes_with_the_last(tmp_path: Path) -> None:
    state = tmp_path / "not yet there"
    assert write_failures(report([]), state, [INBOX]) is None
    assert not state.exists()
    file = write_failures(
        report([failed("b.pdf"), failed("a\tb\n.pdf", "x", "y"), FileOutcome("/c", "added")]), state, [INBOX]
    )
    assert file == state / "inbox-failed.txt"
    assert file.read_text("utf-8") == f"{INBOX}/a\\x09b\\x0a.pdf\tx: y\n{INBOX}/b.pdf\tdamaged\n"
    assert write_failures(report([failed("b.pdf")]), state, [INBOX]) == file
    assert file.read_text("utf-8") == f"{INBOX}/b.pdf\tdamaged\n"
    assert write_failures(report([]), state, [INBOX]) is None
    assert list(state.iterdir()) == []


def test_what_is_known_of_a_failure_stays_when_the_file_was_not_read_again(tmp_path: Path) -> None:
    write_failures(report([failed("a.pdf", "damaged", "no reader opens it")]), tmp_path, [INBOX])
    file = write_failures(report([failed("a.pdf", "damaged")]), tmp_path, [INBOX])
    assert file is not None
    assert file.read_text("utf-8") == f"{INBOX}/a.pdf\tdamaged: no reader opens it\n"
    write_failures(report([failed("a.pdf", "timed out")]), tmp_path, [INBOX])
    assert file.read_text("utf-8") == f"{INBOX}/a.pdf\ttimed out\n"


def test_another_folders_failures_stay(tmp_path: Path) -> None:
    write_failures(report([failed("a.pdf")]), tmp_path, [INBOX])
    other = FileOutcome("/home/anna/in box 2/b.pdf", "failed", "damaged")
    file = write_failures(report([other]), tmp_path, [Path("/home/anna/in box 2")])
    assert file is not None
    assert len(file.read_text("utf-8").splitlines()) == 2
    # One file of a folder was looked at again, and is whole now.
    write_failures(report([]), tmp_path, [INBOX / "a.pdf"])
    assert file.read_text("utf-8") == "/home/anna/in box 2/b.pdf\tdamaged\n"


def test_a_list_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError, match=r"list of failures .* cannot be written"):
        write_failures(report([failed("a.pdf")]), tmp_path / "state", [INBOX])

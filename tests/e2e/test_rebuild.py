# SPDX-License-Identifier: GPL-2.0-only
"""`bigos ingest --rebuild` as a person runs it, with the real model on a few files."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from command_line import Home
from processes import until

OTHER = {"BIGOS_CHUNK_TOKENS": "48"}
"""Settings that the index was not made with."""


@pytest.fixture
def indexed(home: Home) -> Path:
    """A folder of files that are in the index."""
    folder = home.path / "notes"
    folder.mkdir()
    (folder / "zegar.md").write_text("# Zegar\n\n" + "Dzielnik zegara SPI jest liczony raz. " * 12, encoding="utf-8")
    (folder / "cat.txt").write_text("A cat sleeps on the roof of the old house.")
    assert home.ingest(folder).code == 0
    return folder


def test_settings_that_do_not_fit_name_the_command_that_makes_them_fit(home: Home, indexed: Path) -> None:
    refused = home.bigos("search", "dzielnik zegara", **OTHER)
    assert (refused.code, refused.stdout) == (5, "")
    assert "hint: bigos ingest --rebuild" in refused.stderr
    assert "hint: bigos ingest --rebuild" in home.bigos("status", **OTHER).stdout

    looked = home.bigos("ingest", "--rebuild", "--dry-run", "--json", **OTHER)
    assert looked.code == 0, looked.stderr
    assert looked.json["files"]["updated"] == 2
    assert looked.json["estimated_seconds"] > 0
    assert (looked.json["rebuild"]["documents"], looked.json["rebuild"]["swapped"]) == (2, False)

    (indexed / "new.txt").write_text("A kettle boils in the kitchen.")
    ran = home.bigos("ingest", "--rebuild", indexed, "--json", **OTHER)
    assert ran.code == 0, ran.stderr
    assert ran.json["schema"] == "bigos.ingest.v1"
    assert (ran.json["files"]["updated"], ran.json["files"]["added"]) == (2, 1)
    assert ran.json["rebuild"]["swapped"]
    assert ran.json["rebuild"]["from"] in refused.stderr

    found = home.bigos("search", "how is the clock divider computed", "--json", **OTHER)
    assert found.json["hits"][0]["source_name"] == "zegar.md"
    again = home.ingest(indexed, "--json", **OTHER)
    assert (again.json["files"]["unchanged"], again.json["embedded"], again.json["rebuild"]) == (3, 0, None)
    old = home.bigos("search", "zegar")
    assert (old.code, old.stdout) == (5, "")


def test_killed_in_the_middle_it_goes_on_and_the_old_one_serves_until_then(home: Home, indexed: Path) -> None:
    (indexed / "broken.pdf").write_bytes(b"%PDF-1.7\nnot really")
    assert home.ingest(indexed).code == 3
    collection = home.path / ".local/share/bigos/collections/bigos"
    process = home.start("ingest", "--rebuild", **OTHER)
    # The broken one is carried over.
    until(lambda: (collection / "rebuilt-2" / "shard").exists() or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert home.bigos("search", "cat", "--json").json["hits"][0]["source_name"] == "cat.txt"
    ran = home.bigos("ingest", "--rebuild", "--json", **OTHER)
    assert ran.code == 3, ran.stderr
    assert ran.json["rebuild"]["resumed"]
    assert ran.json["rebuild"]["swapped"]
    assert ran.json["files"]["unchanged"] + ran.json["files"]["updated"] == 2
    assert home.bigos("search", "cat", "--json", **OTHER).json["hits"][0]["source_name"] == "cat.txt"


def test_a_text_without_its_file_is_not_given_up_unasked(home: Home, indexed: Path) -> None:
    (indexed / "cat.txt").unlink()
    ran = home.bigos("ingest", "--rebuild", **OTHER)
    assert ran.code == 3
    assert f"{indexed / 'cat.txt'}: source is gone" in ran.stdout
    assert "hint: " in ran.stderr
    assert "bigos ingest --rebuild --yes" in ran.stderr
    assert home.bigos("search", "cat", "--json").json["hits"][0]["source_name"] == "cat.txt"
    # What is forgotten leaves the unfinished index too.
    (indexed / "zegar.md").unlink()
    assert home.ingest(indexed / "zegar.md", "--forget").code == 0
    ran = home.bigos("ingest", "--rebuild", "--yes", "--json", **OTHER)
    assert ran.code == 0, ran.stderr
    assert (ran.json["rebuild"]["resumed"], ran.json["rebuild"]["documents"]) == (True, 1)
    assert ran.json["files"]["forgotten"] == 1
    assert home.bigos("status", "--json", **OTHER).json["documents"] == 0


def test_what_cannot_be_rebuilt_is_said(home: Home) -> None:
    ran = home.bigos("ingest", "--rebuild")
    assert (ran.code, ran.stdout) == (1, "")
    assert "there is no index to rebuild.\nhint: " in ran.stderr
    assert home.bigos("ingest").code == 2
    assert home.bigos("ingest", "--rebuild", "--reindex").code == 2
    assert home.bigos("ingest", "--rebuild", "--forget").code == 2

# SPDX-License-Identifier: GPL-2.0-only
"""What an ingest tells while it runs, where there is no terminal."""

from __future__ import annotations

import io
import time

import pytest

from bigos.progress import ESTIMATE_SECONDS, watching
from bigos.report import ChunksEmbedded, Event, FileFinished, RunStarted
from bigos.terminal import Terminal
from bigos.types import FileOutcome


def told(monkeypatch: pytest.MonkeyPatch, events: list[tuple[float, Event]]) -> list[str]:
    """The lines that events at these seconds bring about."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stderr = io.StringIO()
    with watching(Terminal(io.StringIO(), stderr), quiet=False, verbose=False) as listener:
        for now, event in events:  # noqa: B007 - the clock above reads it
            listener(event)
    return stderr.getvalue().splitlines()


def finished(size: int) -> FileFinished:
    return FileFinished(FileOutcome("/a.md", "added", chunks=1), size)


def test_the_time_left_is_not_guessed_from_the_first_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    start = (0.0, RunStarted(13, 20_000, 0))
    assert told(monkeypatch, [start, (6.0, ChunksEmbedded(31)), (6.0, finished(1_000))]) == [
        "13 files to read (20,000 bytes), 0 unchanged",
        "0/13 files, 31 chunks, 5.2 chunks/s",
    ]
    late = (2 * ESTIMATE_SECONDS, finished(10_000))
    assert told(monkeypatch, [start, late])[-1] == "1/13 files, about 40 s left"

# SPDX-License-Identifier: GPL-2.0-only
"""What an ingest run tells: events while it goes, a report at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bigos.stores import Remains
from bigos.types import FileOutcome


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The walk is over: so many files to read, of so many bytes; the others are known."""

    files: int
    bytes: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class FileFinished:
    """One file has its outcome; an indexed one is durable by now."""

    outcome: FileOutcome
    bytes: int


@dataclass(frozen=True, slots=True)
class ChunksEmbedded:
    """So many more passages went through the model."""

    count: int


Event = RunStarted | FileFinished | ChunksEmbedded


def ignore(_event: Event) -> None:
    """For a caller that does not watch."""


@dataclass(slots=True)
class IngestReport:
    """What a run did. `outcomes` holds every file that was not simply unchanged; `files` counts all by outcome."""

    files: Counter[str] = field(default_factory=Counter)
    outcomes: list[FileOutcome] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    chunks_written: int = 0
    chunks_unchanged: int = 0
    chunks_removed: int = 0
    embedded: int = 0
    reused: int = 0
    """Chunks that took over a vector which had been made before: of moved and copied files, and of the same text."""
    files_read: int = 0
    seconds: float = 0.0
    dry_run: bool = False
    estimated_seconds: float | None = None
    interrupted: bool = False
    kept: list[tuple[str, str]] = field(default_factory=list)
    """Paths of documents that the walk did not find and that were not pruned, each with the reason."""
    prune_refused: tuple[int, int] | None = None
    """Documents that are gone, of how many that are known, where so many go only when somebody agrees."""
    remains: Remains | None = None
    """What of the forgotten is still in the store's files."""

    def add(self, outcome: FileOutcome) -> None:
        """Count a file; list it unless it is unchanged."""
        self.files[outcome.outcome] += 1
        if outcome.outcome != "unchanged":
            self.outcomes.append(outcome)

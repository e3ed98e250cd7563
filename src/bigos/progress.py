# SPDX-License-Identifier: GPL-2.0-only
"""What an ingest tells while it runs, on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bigos.pipeline import ChunksEmbedded, Event, FileFinished, RunStarted, ignore
from bigos.render import duration
from bigos.terminal import Terminal

LINE_SECONDS = 5.0
ESTIMATE_SECONDS = 20.0
"""No guess before that: the first files carry the start of the model and of the processes that read."""

_log = logging.getLogger(__name__)


@contextmanager
def watching(terminal: Terminal, *, quiet: bool, verbose: bool) -> Iterator[Callable[[Event], None]]:
    """The listener to give to `Library.ingest`. With `verbose` a line for each file too, and then no bar."""
    if quiet:
        yield ignore
    elif terminal.stderr.isatty() and not verbose:
        with _bar(terminal) as listener:
            yield listener
    else:
        yield _Lines(terminal)


class _Counts:
    """What has been done so far; feeds both forms."""

    def __init__(self) -> None:
        self.files = self.bytes = self.chunks = 0
        self.total_files = self.total_bytes = 0
        self.started = time.monotonic()

    def add(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.total_files, self.total_bytes, self.started = event.files, event.bytes, time.monotonic()
        elif isinstance(event, FileFinished):
            self.files += 1
            self.bytes += event.bytes
        else:
            self.chunks += event.count

    @property
    def rate(self) -> float:
        return self.chunks / max(time.monotonic() - self.started, 1e-3)

    def words(self) -> str:
        """Like `120/412 files, 1,234 chunks, 45.1 chunks/s, about 2 min 05 s left`."""
        text = f"{self.files:,}/{self.total_files:,} files"
        if self.chunks:
            text += f", {self.chunks:,} chunks, {self.rate:.1f} chunks/s"
        elapsed = time.monotonic() - self.started
        if elapsed >= ESTIMATE_SECONDS and 0 < self.bytes < self.total_bytes:
            text += f", about {duration(elapsed * (self.total_bytes - self.bytes) / self.bytes)} left"
        return text


class _Lines:
    """A line at the start, then one every LINE_SECONDS while something happens."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._counts = _Counts()
        self._told = 0.0

    def __call__(self, event: Event) -> None:
        self._counts.add(event)
        if isinstance(event, RunStarted):
            self._terminal.say(f"{event.files:,} files to read ({event.bytes:,} bytes), {event.unchanged:,} unchanged")
            self._told = time.monotonic()
            return
        if isinstance(event, FileFinished):
            done = event.outcome
            _log.debug("%s %s%s", done.outcome, done.path, f": {done.reason}" if done.reason else "")
        if time.monotonic() - self._told >= LINE_SECONDS:
            self._told = time.monotonic()
            self._terminal.say(self._counts.words())


@contextmanager
def _bar(terminal: Terminal) -> Iterator[Callable[[Event], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    counts = _Counts()
    with Progress(
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(file=terminal.stderr),
        transient=True,
    ) as bar:
        task = bar.add_task("looking at the files", total=None)

        def show(event: Event) -> None:
            counts.add(event)
            done = f"{counts.files:,}/{counts.total_files:,} files, {counts.chunks:,} chunks, {counts.rate:.1f}/s"
            if isinstance(event, RunStarted):
                bar.update(task, total=max(event.bytes, 1), description=done)
            elif isinstance(event, ChunksEmbedded | FileFinished):
                bar.update(task, completed=counts.bytes, description=done)

        yield show

# SPDX-License-Identifier: GPL-2.0-only
"""Tool calls of a server, each in a thread: how they are counted, what they tell meanwhile, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio
import anyio.to_thread

from bigos.errors import ExitCode, Interrupted

if TYPE_CHECKING:
    from bigos.pipeline import Event

PROGRESS_SECONDS = 1.0
STILL_THERE_SECONDS = 5.0
"""A call that has nothing new to tell tells that so often: a client drops one that is silent for long."""
STOP_SECONDS = 1.0
"""What an ingest gets to finish its file when the client has gone; clients kill a server 2 s after that."""
ANSWER_SECONDS = 10.0
"""What a search gets when stdin has ended: `printf '...' | bigos serve` is answered."""
LAST_WRITE_SECONDS = 0.6

_T = TypeVar("_T")


class Listener(Protocol):
    """The client, as far as it is told how a call gets on."""

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell it; nothing happens when it did not ask for that."""
        ...


class Calls:
    """The tool calls under way, each in a thread. A thread cannot be stopped, only asked to stop."""

    def __init__(self) -> None:
        self.leaving = threading.Event()
        self._lock = threading.Lock()
        self._ingesting = threading.Lock()
        self._running = 0
        self._ingests = 0

    @property
    def running(self) -> int:
        """Threads at work, those of cancelled calls too."""
        return self._running

    @property
    def ingests(self) -> int:
        """Those that ingest."""
        return self._ingests

    async def run(self, call: Callable[[], _T], *, ingests: bool = False) -> _T:
        """Make a call in a thread. When the awaiting task is cancelled, the thread goes on by itself."""

        def counted() -> _T:
            try:
                return call()
            finally:
                self._count(-1, ingests)

        self._count(+1, ingests)
        return await anyio.to_thread.run_sync(counted, abandon_on_cancel=True)

    @contextmanager
    def one_ingest(self, stop: Callable[[], bool]) -> Iterator[None]:
        """Wait until no other call of this server ingests: two at once would only share the same cores."""
        while not self._ingesting.acquire(timeout=0.1):
            if stop():
                raise Interrupted("the ingest was stopped before it began.", fix="call ingest_document again")
        try:
            yield
        finally:
            self._ingesting.release()

    async def wind_down(self) -> None:
        """Before the stream closes: ask ingests to stop, give what runs a moment to answer. Then we leave."""
        self.leaving.set()
        await anyio.sleep(0.05)  # requests that were read just now are not counted yet
        started = time.monotonic()
        while self._running and time.monotonic() - started < (STOP_SECONDS if self._ingests else ANSWER_SECONDS):
            await anyio.sleep(0.02)
        await anyio.sleep(0.05)  # the last answers are on their way to stdout
        backstop = threading.Timer(LAST_WRITE_SECONDS, leave_at_once)
        backstop.daemon = True
        backstop.start()

    def _count(self, change: int, ingests: bool) -> None:
        with self._lock:
            self._running += change
            self._ingests += change if ingests else 0


class Progress:
    """How far an ingest is: told by its thread, read by the event loop."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.files = 0
        self.chunks = 0
        self._told = ""
        self._sent = 0.0
        self._sent_at = 0.0

    def __call__(self, event: Event) -> None:
        """Take in what the pipeline says."""
        from bigos.pipeline import ChunksEmbedded, RunStarted

        if isinstance(event, RunStarted):
            self.total = event.files
        elif isinstance(event, ChunksEmbedded):
            self.chunks += event.count
        else:
            self.files += 1

    def __str__(self) -> str:
        if self.total is None:
            return "looking for files"
        return f"{self.files:,} of {self.total:,} files, {self.chunks:,} fragments"

    async def tell(self, client: Listener) -> None:
        """Report to the client. Each number is above the last, as the protocol wants it."""
        self._told, self._sent, self._sent_at = str(self), max(float(self.files), self._sent + 0.001), time.monotonic()
        await client.report_progress(self._sent, self.total, self._told)

    async def go_on_telling(self, client: Listener) -> None:
        """Report what is new, and now and then that there is nothing new, until cancelled."""
        while True:
            if str(self) != self._told or time.monotonic() - self._sent_at >= STILL_THERE_SECONDS:
                await self.tell(client)
            await anyio.sleep(PROGRESS_SECONDS)


def leave_at_once() -> None:
    """End the process though a thread is at work: what the store acknowledged is safe, the rest the next run does."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(ExitCode.OK)

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
STOP_SECONDS = 0.8
"""What an ingest gets to finish its file when the client has gone; clients kill a server 2 s after that."""
ANSWER_SECONDS = 10.0
"""What a search gets when stdin has ended: `printf '...' | bigos serve` is answered."""
LAST_WRITE_SECONDS = 0.4
"""What the last answers get to be written: a client that does not read them must not keep us."""
_A_MOMENT = 0.05

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
        self._hurried = False
        self._lock = threading.Lock()
        self._ingesting = threading.Lock()
        self._awaited = 0
        self._threads = {"ingest": 0, "other": 0}
        self._backstop: threading.Timer | None = None

    @property
    def running(self) -> int:
        """Threads at work, those of cancelled calls too."""
        return sum(self._threads.values())

    async def run(self, call: Callable[[], _T], *, ingests: bool = False) -> _T:
        """Make a call in a thread. When the awaiting task is cancelled, the thread goes on by itself."""
        sort = "ingest" if ingests else "other"

        def counted() -> _T:
            self._count(sort, +1)
            try:
                return call()
            finally:
                self._count(sort, -1)

        self._awaited += 1
        try:
            return await anyio.to_thread.run_sync(counted, abandon_on_cancel=True)
        finally:
            self._awaited -= 1

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

    def hurry(self) -> None:
        """Somebody wants the process to end: what runs gets STOP_SECONDS, whatever it is."""
        self._hurried = True

    async def wind_down(self) -> None:
        """Before the stream closes: ask ingests to stop, give what runs a moment to answer. Then we leave."""
        self.leaving.set()
        await anyio.sleep(_A_MOMENT)  # requests that were read just now are not counted yet
        started = time.monotonic()
        while self._awaited or self.running:
            patience = STOP_SECONDS if self._hurried or self._threads["ingest"] else ANSWER_SECONDS
            if time.monotonic() - started > patience:
                break
            await anyio.sleep(0.02)
        await anyio.sleep(_A_MOMENT)  # the last answers are on their way to stdout
        self._backstop = threading.Timer(LAST_WRITE_SECONDS, leave_at_once)
        self._backstop.daemon = True
        self._backstop.start()

    def ended(self) -> None:
        """Everything is closed: nobody has to end the process for us."""
        if self._backstop is not None:
            self._backstop.cancel()

    def _count(self, sort: str, change: int) -> None:
        with self._lock:
            self._threads[sort] += change


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

    @property
    def has_news(self) -> bool:
        """More has happened than was told."""
        return str(self) != self._told

    async def tell(self, client: Listener) -> None:
        """Report to the client. Each number is above the last, as the protocol wants it."""
        self._told, self._sent, self._sent_at = str(self), max(float(self.files), self._sent + 0.001), time.monotonic()
        await client.report_progress(self._sent, self.total, self._told)

    async def go_on_telling(self, client: Listener) -> None:
        """Report what is new, and now and then that there is nothing new, until cancelled."""
        while True:
            if self.has_news or time.monotonic() - self._sent_at >= STILL_THERE_SECONDS:
                await self.tell(client)
            await anyio.sleep(PROGRESS_SECONDS)


def leave_at_once(code: int = ExitCode.OK) -> None:
    """End the process though a thread is at work: what the store acknowledged is safe, the rest the next run does."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(code)

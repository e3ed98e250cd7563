# SPDX-License-Identifier: GPL-2.0-only
"""stdin and stdout for a protocol alone: whatever else reads or prints in this process cannot touch the stream."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bigos.errors import UsageError

_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class ProtocolDescriptors:
    """Private duplicates of what were fd 0 and fd 1."""

    reading: int
    writing: int


def claim() -> ProtocolDescriptors:
    """Take fd 0 and fd 1 away: fd 0 then reads nothing and fd 1 is stderr, for native libraries and children too.

    Raises UsageError when one of them is closed.
    """
    sys.stdout.flush()
    try:
        # Not inherited by worker processes: one of them would keep the client waiting for our end of the stream.
        own = ProtocolDescriptors(*(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1)))
    except OSError as error:
        raise UsageError(
            "the server needs an open stdin and stdout: an MCP client starts it.", fix="see .mcp.json"
        ) from error
    for fd in (own.reading, own.writing):
        os.set_blocking(fd, True)  # a client's pipe or socket may not block, which reads like its end
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return own


class ProtocolLines:
    """The lines of a descriptor, to be awaited; can be ended from outside, which a read that blocks cannot.

    Args:
        descriptor: read in a thread of its own until its end.
        at_end: awaited once, before the iteration ends.
    """

    def __init__(self, descriptor: int, at_end: Callable[[], Awaitable[None]]) -> None:
        self._descriptor = descriptor
        self._at_end = at_end
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="bigos-stdin", daemon=True).start()

    def __aiter__(self) -> ProtocolLines:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            await self._at_end()
            raise StopAsyncIteration
        return line

    def end(self) -> None:
        """End the iteration after the lines that have come in. Called in the event loop."""
        self._lines.put_nowait(None)

    def _read(self) -> None:
        # os.read, not a file object: a thread that blocks in one holds a lock that the interpreter's exit wants.
        rest: list[bytes] = []
        while chunk := self._next_bytes():
            *whole, tail = chunk.split(b"\n")
            for part in whole:
                self._hand_over(b"".join([*rest, part]).decode("utf-8", "replace"))
                rest = []
            rest.append(tail)
        self._hand_over(b"".join(rest).decode("utf-8", "replace"))  # what came without the end of its line
        self._hand_over(None)

    def _next_bytes(self) -> bytes:
        try:
            return os.read(self._descriptor, _READ_BYTES)
        except OSError:  # a terminal or socket that went away
            return b""

    def _hand_over(self, line: str | None) -> None:
        if line is None or line.strip():
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

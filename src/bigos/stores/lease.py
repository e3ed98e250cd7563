# SPDX-License-Identifier: GPL-2.0-only
"""One process at a time has a store open, and gives it up when another one asks.

Two files beside the store, both locked with flock, which the kernel drops when a process dies: no lock is ever stale.

    lock    held by whoever has the store open
    wait    held by whoever comes next, until it has `lock`

An idle holder keeps `lock`, because opening a store costs 0.1-0.4 s (4 s with 300,000 chunks), and looks every 25 ms
(and after every call) whether `wait` is taken; then it closes the store and lets go. To get in again it has to stand at
`wait` like everybody else, where the other one already is: so nobody starves. Both files carry the pid and name of
their holder for the message of a wait that took too long.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bigos.errors import StoreError, StoreLocked
from bigos.stores import faults

LOCK_FILE = "lock"
WAIT_FILE = "wait"
WATCH_SECONDS = 0.025
"""How often an idle holder looks for a waiter, who shall have the store within 100 ms, closing included."""

_log = logging.getLogger(__name__)
_leases: weakref.WeakSet[Lease] = weakref.WeakSet()


class Lease:
    """The right to have the store in `directory` open.

    Args:
        directory: where the lock files are; it exists when `held` is called.
        timeout: seconds to wait for another process before StoreLocked.
        on_release: closes the store; called just before the lock is let go, never while a call is under way.
        after: called when it has been let go, for what nobody should wait for.
        idle: seconds after the last call at which the store is closed though nobody asked.
    """

    def __init__(
        self,
        directory: Path,
        *,
        timeout: float,
        on_release: Callable[[], None],
        after: Callable[[], None] = lambda: None,
        idle: float = 300.0,
    ) -> None:
        self._directory = directory
        self._timeout = timeout
        self._on_release = on_release
        self._after = after
        self._idle = idle
        self._mutex = threading.RLock()
        self._lock_fd: int | None = None
        self._wait_fd: int | None = None
        self._turn = 0
        self._last_use = 0.0
        self._kept = 0
        self._exclusive = 0
        _leases.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the lock for one call; threads of this process take turns. Lets go after it only if somebody waits.

        Raises:
            StoreLocked: another process did not give it up in time.
            StoreError: the lock files cannot be written or looked at, or the system allows no more threads.
        """
        with self._mutex:
            if self._lock_fd is not None and self._moved():
                self.release()
            if self._lock_fd is None:
                self._acquire()
            try:
                yield
            finally:
                self._last_use = time.monotonic()
                if self._lock_fd is not None and not self._exclusive and self._somebody_waits():
                    self.release()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """As `held`, over several calls: whoever asks for the lock waits until the end."""
        with self.held():  # which keeps the mutex, so that the watching thread cannot let go either
            self._exclusive += 1
            try:
                yield
            finally:
                self._exclusive -= 1

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Do not close for idleness inside; another process that asks still gets its turn."""
        self._kept += 1
        try:
            yield
        finally:
            self._last_use = time.monotonic()
            self._kept -= 1

    def release(self) -> None:
        """Close the store and let go at once; waits for a call of another thread to end. Harmless when not held."""
        with self._mutex:
            lock_fd, wait_fd = self._lock_fd, self._wait_fd
            self._lock_fd = self._wait_fd = None
            if lock_fd is None:
                return
            try:
                self._on_release()
            finally:
                os.close(lock_fd)  # the last descriptor of a flock lets it go
                if wait_fd is not None:
                    os.close(wait_fd)
                self._after()

    def _acquire(self) -> None:
        deadline = time.monotonic() + self._timeout
        try:
            wait_fd = self._lock(WAIT_FILE, deadline)
            try:
                lock_fd = self._lock(LOCK_FILE, deadline)
            except BaseException:
                os.close(wait_fd)
                raise
        except OSError as error:
            raise self._unusable(error) from error
        # Kept open but not locked: `_somebody_waits` asks through it.
        fcntl.flock(wait_fd, fcntl.LOCK_UN)
        self._lock_fd, self._wait_fd = lock_fd, wait_fd
        self._last_use = time.monotonic()
        self._turn += 1
        try:
            threading.Thread(target=self._watch, args=(self._turn,), name="bigos-lease", daemon=True).start()
        except RuntimeError as error:  # no more threads: without one that watches we would keep it from everybody
            self.release()
            raise faults.store_error(str(error), self._directory) from error

    def _lock(self, name: str, deadline: float) -> int:
        """Lock one of the two files, bounded; its descriptor, with who we are written into it."""
        path = self._directory / name
        started, told = time.monotonic(), False
        while True:
            # Not inherited by a program we start; a fork is dealt with in `_before_fork`.
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                while not try_lock(fd):
                    if not told:
                        told = True
                        _log.debug("waiting for the store in %s: %s has it", self._directory, self._holder())
                    if time.monotonic() >= deadline:
                        raise self._locked()
                    time.sleep(random.uniform(0.003, 0.009))
                if _same_file(fd, path):
                    if told:
                        _log.debug("got %s of %s after %.3f s", name, self._directory, time.monotonic() - started)
                    sign(fd)
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # somebody moved the directory away while we waited

    def _somebody_waits(self) -> bool:
        if self._wait_fd is None:
            return False
        if not try_lock(self._wait_fd, fcntl.LOCK_SH):
            return True
        fcntl.flock(self._wait_fd, fcntl.LOCK_UN)
        return False

    def _moved(self) -> bool:
        """The directory we locked is no longer the one at this path: what we have open is somebody else's now."""
        try:
            return self._lock_fd is not None and not _same_file(self._lock_fd, self._directory / LOCK_FILE)
        except OSError as error:
            raise self._unusable(error) from error

    def _watch(self, turn: int) -> None:
        """Body of the watching thread, one for each time the lock is got; ends when it is let go."""
        while True:
            time.sleep(WATCH_SECONDS)
            # Not blocking: a call under way looks for waiters itself when it ends.
            if not self._mutex.acquire(blocking=False):
                continue
            try:
                if self._lock_fd is None or self._turn != turn:
                    return
                idle = not self._kept and time.monotonic() - self._last_use > self._idle
                if idle or self._somebody_waits():
                    self.release()
                    return
            except Exception:
                _log.warning("closing the store in %s failed", self._directory, exc_info=True)
                return
            finally:
                self._mutex.release()

    def _holder(self, name: str = LOCK_FILE) -> str:
        try:
            pid, _, command = (self._directory / name).read_text(encoding="utf-8", errors="replace").partition(" ")
        except OSError:
            return "another process"
        return f"process {pid} ({command.strip()})" if pid.isdigit() else "another process"

    def _unusable(self, error: OSError) -> StoreError:
        return StoreError(
            f"the store's lock in {self._directory} cannot be used: {error.strerror}.",
            fix=f"make {self._directory} writable for you",
        )

    def _locked(self) -> StoreLocked:
        """Name whoever is in the way: the holder, or a waiter that got stuck before it took what was free."""
        name = LOCK_FILE
        with contextlib.suppress(OSError):
            fd = os.open(self._directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
            try:
                name = WAIT_FILE if try_lock(fd, fcntl.LOCK_SH) else LOCK_FILE
            finally:
                os.close(fd)
        holder = self._holder(name)
        return StoreLocked(
            f"the store in {self._directory} is in use by {holder}; it was not free within {self._timeout:g} s.",
            fix=f"try again when {holder} has finished, or stop it",
        )


def try_lock(fd: int, how: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file, exclusively or as `how` says, without waiting; whether it could be had."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def sign(fd: int) -> None:
    """Who we are, for the message of others. A full disk must not stop us from reading, so failure is no matter."""
    name = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-", "-c", "-m") else "python"
    with contextlib.suppress(OSError):
        os.pwrite(fd, text := f"{os.getpid()} {name}\n".encode(errors="replace"), 0)
        os.ftruncate(fd, len(text))


def _release_all() -> None:
    for lease in list(_leases):
        with contextlib.suppress(Exception):
            lease.release()


_forking: list[Lease] = []


def _before_fork() -> None:
    # A forked child would share the lock and the engine's open files, and keep both after we gave them up. So nothing
    # is open across a fork; the mutex is held over it, so that no thread opens it in between.
    for lease in list(_leases):
        lease._mutex.acquire()
        _forking.append(lease)
        try:
            lease.release()
        except Exception:
            _log.warning("closing the store in %s before a fork failed", lease._directory, exc_info=True)


def _after_fork() -> None:
    while _forking:
        _forking.pop()._mutex.release()


atexit.register(_release_all)
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

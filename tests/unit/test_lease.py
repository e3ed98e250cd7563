# SPDX-License-Identifier: GPL-2.0-only
"""The lock without a store. Two leases of one process stand for two processes: flock tells them apart."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bigos.errors import StoreError, StoreLocked
from bigos.stores.lease import Lease
from processes import PATIENCE, python_environment, until


class Door:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Callable[..., tuple[Lease, Door]]]:
    made: list[Lease] = []

    def make(timeout: float = PATIENCE, idle: float = 10 * PATIENCE) -> tuple[Lease, Door]:
        door = Door()
        made.append(Lease(tmp_path, timeout=timeout, on_release=door.close, idle=idle))
        return made[-1], door

    yield make
    for each in made:
        each.release()


def test_an_idle_holder_keeps_it_open_until_another_asks(lease: Callable[..., tuple[Lease, Door]]) -> None:
    (first, door), (second, _) = lease(), lease()
    for _ in range(5):
        with first.held():
            pass
    time.sleep(0.1)
    assert door.closed == 0
    with second.held():
        assert door.closed == 1


def test_it_is_not_taken_away_during_a_call(lease: Callable[..., tuple[Lease, Door]]) -> None:
    (first, door), (hasty, _), (patient, _) = lease(), lease(timeout=0.2), lease()
    with first.held():
        with pytest.raises(StoreLocked), hasty.held():
            pass
        assert door.closed == 0
    with patient.held():
        assert door.closed == 1


def test_the_message_names_the_holder_and_comes_in_time(lease: Callable[..., tuple[Lease, Door]]) -> None:
    (first, _), (second, _) = lease(), lease(timeout=0.3)
    with first.held():
        started = time.monotonic()
        with pytest.raises(StoreLocked, match=r"in use by process \d+ \(\S+\)") as caught, second.held():
            pass
        assert 0.3 <= time.monotonic() - started < 60
    assert caught.value.fix


def test_a_holder_that_was_asked_lets_the_other_in_before_it_comes_back(
    lease: Callable[..., tuple[Lease, Door]],
) -> None:
    (busy, _), (other, _) = lease(), lease()
    stop = threading.Event()

    def hog() -> None:
        while not stop.is_set():
            with busy.held():
                time.sleep(0.002)

    thread = threading.Thread(target=hog)
    thread.start()
    try:
        for _ in range(20):
            with other.held():
                pass
    finally:
        stop.set()
        thread.join()


def test_many_waiters_all_get_through_and_never_two_at_once(lease: Callable[..., tuple[Lease, Door]]) -> None:
    inside, most, turns = 0, 0, [0] * 6
    guard = threading.Lock()
    end = time.monotonic() + PATIENCE

    def work(number: int, own: Lease) -> None:
        nonlocal inside, most
        while min(turns) < 5 and time.monotonic() < end:  # who has had its turns goes on asking until all have
            with own.held():
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.001)
                with guard:
                    inside -= 1
            turns[number] += 1

    threads = [threading.Thread(target=work, args=(number, lease()[0])) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert min(turns) >= 5, turns


def test_it_is_closed_after_a_while_of_idleness_but_not_when_kept(lease: Callable[..., tuple[Lease, Door]]) -> None:
    first, door = lease(idle=0.1)
    with first.kept():
        with first.held():
            pass
        time.sleep(0.3)
        assert door.closed == 0
    until(lambda: door.closed == 1)


def test_kept_is_still_lent(lease: Callable[..., tuple[Lease, Door]]) -> None:
    (first, door), (second, _) = lease(), lease()
    with first.kept():
        with first.held():
            pass
        with second.held():
            assert door.closed == 1
        with first.held():
            pass


def test_a_call_that_fails_leaves_the_lock_usable(lease: Callable[..., tuple[Lease, Door]]) -> None:
    (first, _), (second, _) = lease(), lease()
    with pytest.raises(RuntimeError), first.held():
        raise RuntimeError
    with second.held():
        pass


def test_a_killed_holder_blocks_nobody(lease: Callable[..., tuple[Lease, Door]], tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from bigos.stores.lease import Lease\n"
        "with Lease(pathlib.Path(sys.argv[1]), timeout=60, on_release=lambda: None).held():\n"
        "    print('in', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, env=python_environment())
    assert holder.stdout is not None
    with holder, holder.stdout:
        holder.stdout.readline()
        with pytest.raises(StoreLocked, match=rf"process {holder.pid} "), lease(timeout=0.1)[0].held():
            pass
        holder.kill()
        holder.wait()
    with lease()[0].held():
        pass


def test_a_directory_that_cannot_hold_a_lock_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "wait").mkdir()
    with pytest.raises(StoreError, match="lock"), Lease(tmp_path, timeout=1, on_release=lambda: None).held():
        pass


def test_without_a_thread_that_watches_the_lock_is_not_kept(
    lease: Callable[..., tuple[Lease, Door]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    first, door = lease()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StoreError, match="no more threads"), first.held():
            pass
    assert door.closed == 1
    with lease(timeout=0)[0].held():
        pass


def test_a_directory_that_can_no_longer_be_looked_into_is_a_store_error(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    held = Lease(folder, timeout=60, on_release=lambda: None)
    with held.held():
        pass
    folder.rename(tmp_path / "moved")
    folder.symlink_to(folder)  # whoever may not look is told as little, and root may always look
    with pytest.raises(StoreError, match="cannot be used"), held.held():
        pass
    held.release()


def test_what_nobody_should_wait_for_comes_when_the_lock_is_free(tmp_path: Path) -> None:
    order: list[str] = []

    def another_gets_in() -> None:
        with Lease(tmp_path, timeout=0, on_release=lambda: None).held():
            order.append("another")

    held = Lease(tmp_path, timeout=60, on_release=lambda: order.append("closed"), after=another_gets_in)
    with held.held():
        pass
    held.release()
    assert order == ["closed", "another"]

# SPDX-License-Identifier: GPL-2.0-only
"""A process that hangs in C code is ended by the kernel; one that gets on may take its time."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from bigos import time_limit


def run(code: str) -> int:
    return subprocess.run([sys.executable, "-c", f"import time\nfrom bigos import time_limit\n{code}"]).returncode


@pytest.mark.parametrize(
    ("hangs", "ended_by"), [("while True: pass", signal.SIGPROF), ("time.sleep(30)", signal.SIGALRM)]
)
def test_a_process_that_hangs_is_ended_whether_it_works_or_waits(hangs: str, ended_by: signal.Signals) -> None:
    code = run(f"time_limit.CLOCK_SHARE = {1000 if ended_by is signal.SIGPROF else 1}\ntime_limit.start(0.2)\n{hangs}")
    assert code == -ended_by
    assert code in time_limit.EXIT_CODES


def test_a_process_that_nobody_gives_time_to_is_not() -> None:
    """A machine that is busy with something else: the time goes by, and no work is done."""
    assert run("time_limit.start(0.3)\ntime.sleep(0.9)") == 0


def test_one_that_gets_on_and_one_that_is_done_are_not() -> None:
    work = "end = time.process_time() + 0.4\n  while time.process_time() < end: pass"
    patient = "time_limit.CLOCK_SHARE = 1000\n"  # nobody knows how long that takes by the clock
    assert run(f"{patient}time_limit.start(1)\nfor _ in range(4):\n  time_limit.extend(1)\n  {work}") == 0
    assert run(f"{patient}time_limit.start(0.2)\ntime_limit.stop()\nfor _ in range(1):\n  {work}") == 0


def test_one_that_gets_on_is_not_ended_by_the_clock_where_it_gets_little_time() -> None:
    assert run("time_limit.start(1)\ntime_limit.extend(3)\ntime.sleep(6)") == 0


def test_extending_never_shortens_and_starts_nothing() -> None:
    assert run("time_limit.start(20)\ntime_limit.extend(0.02)\ntime.sleep(0.3)") == 0
    assert run("time_limit.extend(0.1)\ntime.sleep(0.3)") == 0

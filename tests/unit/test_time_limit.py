# SPDX-License-Identifier: GPL-2.0-only
"""A process that hangs in C code is ended by the kernel; one that gets on may take its time."""

from __future__ import annotations

import subprocess
import sys

from bigos import time_limit


def run(code: str) -> int:
    return subprocess.run([sys.executable, "-c", f"import time\nfrom bigos import time_limit\n{code}"]).returncode


def test_a_process_that_hangs_is_ended() -> None:
    assert run("time_limit.start(0.2)\ntime.sleep(30)") == time_limit.EXIT_CODE


def test_one_that_gets_on_and_one_that_is_done_are_not() -> None:
    assert run("time_limit.start(2)\nfor _ in range(4):\n  time_limit.extend(2)\n  time.sleep(0.7)") == 0
    assert run("time_limit.start(0.2)\ntime_limit.stop()\ntime.sleep(0.4)") == 0


def test_extending_never_shortens_and_starts_nothing() -> None:
    assert run("time_limit.start(20)\ntime_limit.extend(0.1)\ntime.sleep(0.3)") == 0
    assert run("time_limit.extend(0.1)\ntime.sleep(0.3)") == 0

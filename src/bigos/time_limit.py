# SPDX-License-Identifier: GPL-2.0-only
"""How long the file at hand may take, kept by the kernel: a worker that hangs in C code is stopped too.

A worker calls `start` before a file and `stop` after it. What takes long for a good reason, as three hundred scanned
pages do, calls `extend` as it gets on. In a process that has not called `start` nothing is limited and nothing happens.
"""

from __future__ import annotations

import signal

EXIT_CODE = -int(signal.SIGALRM)
"""Exit code of a worker whose time was over."""

_running = False


def start(seconds: float) -> None:
    """Have the kernel end this process after so many seconds."""
    global _running  # noqa: PLW0603 - the timer is the process's, and there is one
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _running = True


def stop() -> None:
    """The file is done."""
    global _running  # noqa: PLW0603
    signal.setitimer(signal.ITIMER_REAL, 0)
    _running = False


def extend(seconds: float) -> None:
    """Allow at least so many seconds from now."""
    if _running and signal.getitimer(signal.ITIMER_REAL)[0] < seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds)

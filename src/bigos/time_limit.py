# SPDX-License-Identifier: GPL-2.0-only
"""How long the file at hand may take, kept by the kernel: a worker that hangs in C code is stopped too.

What counts is the time that the processor worked on it. On a machine that is busy with something else a worker, which
lets everybody go first, may get a hundredth of a core, and a sound file would be noted down as a failed one. The clock
only ends what does not work at all.

A worker calls `start` before a file and `stop` after it. What takes long for a good reason, as three hundred scanned
pages do, calls `extend` as it gets on. In a process that has not called `start` nothing is limited and nothing happens.
"""

from __future__ import annotations

import signal

EXIT_CODES = frozenset((-int(signal.SIGPROF), -int(signal.SIGALRM)))
"""Exit codes of a worker whose time was over."""
CLOCK_SHARE = 5
"""So many times as long may a file take by the clock."""

_running = False


def start(seconds: float) -> None:
    """Have the kernel end this process after so many seconds of work, or CLOCK_SHARE times as many by the clock."""
    global _running  # noqa: PLW0603 - the timer is the process's, and there is one
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, CLOCK_SHARE * seconds)
    _running = True


def stop() -> None:
    """The file is done."""
    global _running  # noqa: PLW0603
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _running = False


def extend(seconds: float) -> None:
    """Allow at least so many seconds of work from now, or CLOCK_SHARE times as many by the clock."""
    if not _running:
        return
    for timer, longest in ((signal.ITIMER_PROF, seconds), (signal.ITIMER_REAL, CLOCK_SHARE * seconds)):
        if signal.getitimer(timer)[0] < longest:
            signal.setitimer(timer, longest)

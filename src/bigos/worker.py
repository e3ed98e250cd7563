# SPDX-License-Identifier: GPL-2.0-only
"""A process that reads files for another: how it begins, and how it ends with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def start_worker(memory_mb: int) -> None:
    """A worker's first acts: leave Ctrl-C to the parent, let the model's threads go first, bound its own memory."""
    import resource

    os.setpgid(0, 0)  # so that what it starts (tesseract, ...) can be ended with it
    os.nice(10)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    limit = memory_mb * 1024 * 1024
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def end_programs_of(worker: int | None) -> None:
    """End the programs that a worker started, now that it has ended itself and nobody waits for them."""
    if worker:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker, signal.SIGKILL)


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent is killed: nobody would be left to stop a file that hangs.

    A thread that watches the parent would not do: what hangs in C code holds the interpreter's lock.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # no prctl: not Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)

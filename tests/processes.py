# SPDX-License-Identifier: GPL-2.0-only
"""Other processes, as a test sees them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def is_running(process: int) -> bool:
    """Whether it does anything still: what has ended stays in the table until somebody has waited for it."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for it, as long as a busy machine may need; it is no limit that anything is measured by."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)

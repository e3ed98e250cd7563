# SPDX-License-Identifier: GPL-2.0-only
"""Other processes, as a test sees them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bigos.config import user_environment

PATIENCE = 180
"""Seconds after which something hangs, on any machine; what gets on may take its time, so nothing is measured by it."""


def python_environment(**more: str) -> dict[str, str]:
    """Variables for a Python that is to import what this one does: the sources and helpers beside these tests."""
    return user_environment() | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | more


def is_running(process: int) -> bool:
    """Whether it does anything still: what has ended stays in the table until somebody has waited for it."""
    found = _state_and_group(Path(f"/proc/{process}/stat"))
    return found is not None and found[0] not in "ZX"


def group_is_running(group: int) -> bool:
    """Whether any process of the group does. To ask by a signal would find those that nobody has waited for."""
    found = (_state_and_group(stat) for stat in Path("/proc").glob("[0-9]*/stat"))
    return any(each is not None and each[1] == group and each[0] not in "ZX" for each in found)


def _state_and_group(stat: Path) -> tuple[str, int] | None:
    try:
        state, _parent, group, *_ = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return state, int(group)


def until(condition: Callable[[], bool], seconds: float = PATIENCE, shown: Callable[[], object] = lambda: "") -> None:
    """Wait for it, as long as a busy machine may need; what is `shown` tells why it did not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, shown()
        time.sleep(0.02)

# SPDX-License-Identifier: GPL-2.0-only
"""Whether a file's timestamps tell that it has not changed since it was read.

A file system notes times in steps: of the system's clock, some milliseconds, or of whole seconds, two on FAT. What is
written within the step in which a file was read leaves the same time behind, and so nothing to be recognised by.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from bigos.types import UNSETTLED, SourceFile

STEP_NS = 20_000_000
"""No clock of a system ticks more slowly than 100 times a second; twice that."""
LONG_STEP_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000


def settled(source: SourceFile, now_ns: int) -> SourceFile:
    """The file as it may be remembered when it is read from `now_ns` on (`time.time_ns()`).

    Its `ctime_ns` is UNSETTLED where a later change could leave the same timestamps: the next run reads it once more.
    """
    times = (source.mtime_ns, source.ctime_ns)
    step = STEP_NS if any(time % _SECOND_NS for time in times) else LONG_STEP_NS
    if any(abs(now_ns - time) < step for time in times):
        return replace(source, ctime_ns=UNSETTLED)
    return source


def changed_before(ctime_ns: int, moment: str) -> bool:
    """Whether a file's last change came before a moment (ISO 8601 with its zone, as in a Record's `ingested_at`)."""
    try:
        return ctime_ns + LONG_STEP_NS < datetime.fromisoformat(moment).timestamp() * 1e9
    except ValueError:
        return False

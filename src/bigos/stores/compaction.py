# SPDX-License-Identifier: GPL-2.0-only
"""Getting forgotten text out of the in-process engine's files.

A deleted point leaves searches at once, and its bytes stay in two places: in its segment, until that is rewritten, and
in the write-ahead log, whose files of 32 MB go only when they are full and everything in them is in segments (seen in
qdrant-edge 0.9; a log file that was taken away would take the operation numbers with it, and the engine ignores writes
whose number it has seen). So segments are rewritten by the engine's own optimiser, and the log is pushed over with
operations that change nothing.

The file `compact` beside the data says that there is something to get rid of: it is there before the first point is
deleted, and goes when the last byte has gone, so that a run which was cut off is made up for by the next one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bigos.errors import StoreError
from bigos.stores import Remains, collection, faults
from bigos.stores import shard as shards

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard

MARKER = "compact"
AT_ONCE = 100_000
"""Points up to which whoever forgets also waits for the files: 4 s for 20,000 chunks, 35 s for 200,000, others waiting
for the store meanwhile."""
_LOG_ROOM = 160 << 20
"""What the log takes at most while it is pushed over."""

_POINTS_A_SECOND = 5000
COMMAND = "bigos doctor --deep --repair"

_log = logging.getLogger(__name__)

_PUSH = "x" * (4 << 20)
_MOST_PUSHES = 64
"""Eight fill a file, and there are two or three."""
_LOG_FILES = ("open-", "closed-")


def pending(data: Path) -> bool:
    """Whether the engine's files in `data` may hold what was forgotten."""
    return _marker(data).exists()


def demand(data: Path) -> None:
    """Say that there is something to get rid of; on the disk when it returns. Raises OSError."""
    if not pending(data):
        os.close(os.open(_marker(data), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        collection.sync_directory(data.parent)


def done(data: Path) -> None:
    """Nothing is left to get rid of. Raises OSError."""
    _marker(data).unlink(missing_ok=True)


def compact(shard: EdgeShard, data: Path, at_once: int | None) -> Remains | None:
    """Rewrite segments with deleted points, then empty the log; what is told when that is for another time.

    The old segments' files go when the shard is closed.

    Args:
        shard: open, nobody else at it.
        data: where its files are.
        at_once: points up to which it is done now; None: however many.

    Raises what the engine does, and StoreError when the log stays.
    """
    there, place = shard.info().points_count, data.parent
    if at_once is not None and there > at_once:
        return Remains(
            f"no search finds it, but its bytes stay in {place} until that is rewritten: about "
            f"{there / _POINTS_A_SECOND:,.0f} s in which nobody else can use the index.",
            fix=COMMAND,
        )
    try:
        # Blocks, not length: the engine's files are sparse.
        segments = sum(file.stat().st_blocks * 512 for file in (data / "segments").rglob("*") if file.is_file())
        faults.require_room(place, 0, faults.DELETE_RESERVE + _LOG_ROOM + segments)
    except StoreError:
        return Remains(
            f"no search finds it, but its bytes stay in {place} until there is room to rewrite that.",
            fix=f"free {(_LOG_ROOM + faults.DELETE_RESERVE + segments) >> 20} MB (df -h {place}), then {COMMAND}",
        )
    started = time.monotonic()
    shard.flush()
    shard.optimize()
    _push_log_over(shard, data / "wal")
    _log.debug("rewrote %d points in %.1f s", there, time.monotonic() - started)
    return None


def _marker(data: Path) -> Path:
    return data.parent / MARKER


def _push_log_over(shard: EdgeShard, log: Path) -> None:
    from qdrant_edge import UpdateOperation

    with contextlib.ExitStack() as stack:
        # Open, so that no new file gets the number of one that went.
        before = [stack.enter_context(file.open("rb")) for file in log.iterdir() if file.name.startswith(_LOG_FILES)]
        for _ in range(_MOST_PUSHES):
            # No document has such an id: the operation is written down, changes nothing, and the flush is past it.
            shard.update(UpdateOperation.delete_points_by_filter(shards.match(doc_id=_PUSH)))
            shard.flush()
            if not any(os.fstat(file.fileno()).st_nlink for file in before):
                return
    raise faults.damaged(log.parent.parent, "its log does not get shorter")

# SPDX-License-Identifier: GPL-2.0-only
"""What of a document may go from a server when its new version is there, while other hosts write to the collection.

Several hosts may write to one collection at once, without any lock. A replace therefore deletes by what it saw before
it began, and asks the server to compare once more as it deletes:

- Chunks that were written with the Record (same content, same `ingested_at`) go, if they still are the ones that were
  seen: `ingested_at` changes when somebody writes them again.
- Any others are what a crash left over, or what another host is writing at this moment, before its Record. They go only
  when they are older than any replace takes (IN_FLIGHT_SECONDS).

So of two hosts that replace one document, the last to write its Record wins, and has all of its chunks. What is left
over of the other is hidden from searches, and removed by the next change of the document.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bigos.stores import Replacement, points
from bigos.stores.server_points import Points, match

IN_FLIGHT_SECONDS = 3600.0
"""A replace takes seconds, or as long as it waits for a server that restarts; hosts' clocks may differ by the rest."""


class Seen(NamedTuple):
    """A chunk point as it was before a replace began."""

    point_id: str
    doc_id: str
    content_hash: str
    ingested_at: str


def before_replace(stored: Points, items: Sequence[Replacement]) -> list[Seen]:
    """What is there of these documents now and may go when their new versions are written."""
    stale: list[Seen] = []
    for page in points.pages(items):
        writing = {item.record.doc_id: item.record for item in page}
        records = stored.record_payloads(list(writing), ["content_hash", "ingested_at"])
        new = {points.chunk_point_id(item.record, chunk.index) for item in page for chunk in item.chunks}
        of_these = match(doc_id=list(writing), point=points.CHUNK)
        for point_id, payload in stored.scroll(of_these, ["doc_id", "content_hash", "ingested_at"]):
            if point_id in new:
                continue
            seen = Seen(point_id, payload["doc_id"], payload["content_hash"], payload["ingested_at"])
            named = records.get(seen.doc_id)
            complete = named is not None and (named["content_hash"], named["ingested_at"]) == seen[2:]
            if complete or older(seen.ingested_at, writing[seen.doc_id].ingested_at):
                stale.append(seen)
    return stale


def delete_unchanged(stored: Points, stale: Sequence[Seen]) -> int:
    """Delete those that nobody has written again since they were seen."""
    by_time: dict[str, list[str]] = {}
    for seen in stale:
        by_time.setdefault(seen.ingested_at, []).append(seen.point_id)
    for ingested_at, ids in by_time.items():
        for page in points.pages(ids):
            stored.delete(match(ids=page, ingested_at=ingested_at))
    return len(stale)


def older(seen: str, now: str) -> bool:
    """Whether a chunk was written so long before `now` that no replace can still be at it. Unknown times are not."""
    try:
        return (datetime.fromisoformat(now) - datetime.fromisoformat(seen)).total_seconds() > IN_FLIGHT_SECONDS
    except (ValueError, TypeError):
        return False

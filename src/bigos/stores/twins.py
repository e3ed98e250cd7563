# SPDX-License-Identifier: GPL-2.0-only
"""Documents by their content, whatever their number: ten thousand copies of one licence are no more work than ten."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bigos.stores import MOST_TWINS
from bigos.stores.points import Payload, record_from_payload
from bigos.types import Record

CONTENTS = 250
"""So many contents are asked for at once."""


def find(content_hashes: Sequence[str], read: Callable[[list[str], int], Sequence[Payload]]) -> dict[str, list[Record]]:
    """Records that have chunks of these contents, by content; MOST_TWINS of each are looked at, whichever come first.

    Args:
        content_hashes: the contents.
        read: the payloads of at most so many Records that have one of these contents; fewer only if there are no more.
    """
    found: dict[str, list[Record]] = {}
    contents = list(dict.fromkeys(content_hashes))
    for start in range(0, len(contents), CONTENTS):
        asked = contents[start : start + CONTENTS]
        while asked:
            limit = MOST_TWINS * len(asked)
            there = read(asked, limit)
            alike: dict[str, list[Payload]] = {}
            for payload in there:
                alike.setdefault(payload["content_hash"], []).append(payload)
            for content_hash, payloads in alike.items():
                whole = [payload for payload in payloads[:MOST_TWINS] if payload["chunk_count"]]
                found[content_hash] = [record_from_payload(payload) for payload in whole]
            # One that thousands have may have taken all the room: the others are asked for without it.
            asked = [] if len(there) < limit else [each for each in asked if len(alike.get(each, ())) < MOST_TWINS]
    return {content_hash: records for content_hash, records in found.items() if records}

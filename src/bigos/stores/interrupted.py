# SPDX-License-Identifier: GPL-2.0-only
"""What a replace that was killed left over, out of the in-process engine.

Its chunks are hidden, since no Record names them, and the next replace of the same document removes them. But there may
be none: when another process had written a later version of the document before, its file is as the Record says. So
the documents of a replace are written down beside the data before its first chunk is, and struck out after its last
deletion; whoever opens the store and finds such a list was preceded by a crash.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bigos.stores import faults, points
from bigos.stores.shard import delete_points, match, record_payloads, scroll

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard

FILE = "replacing-now"

_log = logging.getLogger(__name__)


def begin(data: Path, doc_ids: Sequence[str]) -> None:
    """Write down which documents are replaced; it is on the disk when this returns. Raises OSError."""
    fd = os.open(_file(data), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as stream:
        # A list that a crash cut short is no matter: then no chunk was written yet.
        stream.writelines(f"{doc_id}\n" for doc_id in doc_ids)
        stream.flush()
        os.fsync(fd)


def done(data: Path) -> None:
    """The replace is over. Raises OSError."""
    _file(data).unlink(missing_ok=True)


def clean_up(shard: EdgeShard, data: Path) -> None:
    """Remove what a replace that was killed left over; nothing when there was none. Needs the store's lock.

    It is for another time when that cannot be done now: nobody should be kept from searching by it.
    """
    try:
        doc_ids = points.valid_ids(_file(data).read_text(encoding="ascii", errors="replace").split())
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warning("what a killed run left over stays for now: %s", error)
        return
    try:
        faults.require_room(data.parent, 0, faults.DELETE_RESERVE)
        removed = sum(_remove_surplus(shard, page) for page in points.pages(doc_ids))
        done(data)
    except Exception as error:  # the engine raises nothing else, and a point that is damaged may lack any key
        _log.warning("what a killed run left over stays for now: %s", error)
        return
    _log.debug("removed %d chunks that a killed run left over", removed)


def _remove_surplus(shard: EdgeShard, doc_ids: Sequence[str]) -> int:
    records = record_payloads(shard, doc_ids, points.CURRENCY_KEYS)
    keys = ["doc_id", "content_hash", "chunk_index"]
    surplus = [
        point_id
        for point_id, payload in scroll(shard, match(doc_id=list(doc_ids), point=points.CHUNK), keys)
        if not points.is_current(payload, records.get(payload["doc_id"]))
    ]
    if surplus:
        delete_points(shard, surplus)
        shard.flush()
    return len(surplus)


def _file(data: Path) -> Path:
    return data.parent / FILE

# SPDX-License-Identifier: GPL-2.0-only
"""The state of the index: what is in it, whether the configured model fits it, and what has moved on since.

Looks at Records and stats files; opens no model, creates nothing.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bigos import last_run
from bigos.errors import BigosError
from bigos.library import Library
from bigos.stores import Stats, Unfinished
from bigos.stores.generations import disk_bytes
from bigos.types import Record, Status, document_path


@dataclass(frozen=True, slots=True)
class Drift:
    """How known documents differ from the disk, by stat alone; `unreachable` ones could not be looked at."""

    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    unreachable: tuple[str, ...]


CURABLE = ("needs ", "too large")
"""How reasons of skipped files begin that a user can take away: a program to install, a password, a limit."""


@dataclass(frozen=True, slots=True)
class FileError:
    """A file that is not in the index though somebody may want it there; `since` is when that was seen."""

    path: str
    status: Status
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What `bigos status` tells. `fits` is None when there is no index, or no model to compare it with.

    `last_ingest` is when this machine's last run ended, or a document was written since, by whomever.
    """

    stats: Stats
    reasons: Mapping[str, int]
    errors: tuple[FileError, ...]
    last_ingest: str | None
    store_place: str
    store_dir: Path | None
    """None where the store is a server's."""
    store_bytes: int | None
    new_index_advice: str
    expected_fingerprint: str | None
    fits: bool | None
    model_problem: str | None
    drift: Drift
    rebuild: Unfinished | None
    """An index that is being made, or was begun, and has not taken this one's place."""


def look(library: Library) -> IndexStatus:
    """Put the state together. Raises StoreError when the store cannot be opened."""
    with library.reading_store.hold():
        stats = library.stats()
        records = library.records()
    expected, problem = None, None
    try:
        expected = library.expected_fingerprint()
    except BigosError as error:
        problem = str(error)
    ended = last_run.noted(library.config, library.store_place)
    moments = [record.ingested_at for record in records.values()] + ([ended] if ended else [])
    known = stats.fingerprint is not None and expected is not None
    local = library.config.store == "embedded"
    return IndexStatus(
        stats=stats,
        reasons=Counter(record.reason for record in records.values() if record.reason),
        errors=errors(records.values()),
        last_ingest=max(moments, default=None),
        store_place=library.store_place,
        store_dir=library.store_dir if local else None,
        store_bytes=disk_bytes(library.store_dir) if local else None,
        new_index_advice=library.new_index_advice,
        expected_fingerprint=expected,
        fits=stats.fingerprint == expected if known else None,
        model_problem=problem,
        drift=drift(records.values()),
        rebuild=library.succession.under_way(),
    )


def errors(records: Iterable[Record]) -> tuple[FileError, ...]:
    """What failed, and what was left out for a reason that can be cured: failures first, then by path."""
    found = [
        FileError(record.source_path, record.status, record.reason or "no reason given", record.ingested_at)
        for record in records
        if record.status == "failed"
        or (record.status == "skipped" and record.reason is not None and record.reason.startswith(CURABLE))
    ]
    return tuple(sorted(found, key=lambda error: (error.status, error.path)))


def drift(records: Iterable[Record]) -> Drift:
    """Compare each known document with its file as stat sees it, the way an ingest does."""
    changed, deleted, unreachable = [], [], []
    for record in records:
        path = document_path(record.source_path, record.doc_id)
        try:
            if path is None:
                raise OSError
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError  # a folder of that name by now
        except (FileNotFoundError, NotADirectoryError):
            deleted.append(record.source_path)
        except OSError:
            unreachable.append(record.source_path)
        else:
            if not _as_recorded(record, status):
                changed.append(record.source_path)
    return Drift(tuple(sorted(changed)), tuple(sorted(deleted)), tuple(sorted(unreachable)))


def _as_recorded(record: Record, status: os.stat_result) -> bool:
    # Without a ctime of its own, the Record's file is looked at once more by the next ingest, which is no change.
    known = (record.size, record.mtime_ns, record.inode, record.ctime_ns or status.st_ctime_ns)
    return known == (status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)

# SPDX-License-Identifier: GPL-2.0-only
"""When an ingest last came to its end. Records tell when a document was written, and most runs find none to write.

A note of this machine's in state_dir, of which nothing depends: without it the newest document has to do.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

from bigos.config import Config
from bigos.ocr_cache import write_whole


def _file(config: Config) -> Path:
    return config.state_dir / f"last-ingest-{config.store}-{config.collection}"


def note(config: Config, place: str) -> None:
    """Remember that a run over the index in this place has ended now; where that cannot be written, it is not."""
    file = _file(config)
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, f"{datetime.now(UTC).isoformat(timespec='microseconds')} {place}\n")


def noted(config: Config, place: str) -> str | None:
    """When that was (ISO 8601 with its zone); None where nothing tells, or the index is another one by now."""
    try:
        moment, _, where = _file(config).read_text("utf-8").strip().partition(" ")
        datetime.fromisoformat(moment)
    except (OSError, ValueError):
        return None
    return moment if where == place else None

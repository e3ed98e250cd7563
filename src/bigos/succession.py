# SPDX-License-Identifier: GPL-2.0-only
"""Between two indexes: one serves, another is being made anew for other settings, and somebody comes with a question.

The old one answers whoever asks with the model that it was made with, whatever the windows; for the others, and for
files, there are sentences that say how far the new one is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bigos.config import Config
from bigos.errors import FingerprintMismatch

if TYPE_CHECKING:
    from bigos.stores import Successor, Unfinished
    from bigos.stores.server import ServerStore

AGAIN = "bigos ingest --rebuild"
_STATES = {
    True: "is being made anew with {}",
    False: "was being made anew with {} until that was stopped",
    None: "is to be made anew with {}",
}
"""In words what `Unfinished.running` says."""
MADE_ANEW = "the index was made anew with other settings since this program read its configuration"
"""What a server that runs for days is told: its own settings are the old ones."""


@dataclass(frozen=True, slots=True)
class Succession:
    """The successor of the configured collection, whichever store it is in."""

    config: Config
    store_dir: Path
    open_server: Callable[[str | None, int | None, str | None], ServerStore]

    @contextmanager
    def successor(self, fingerprint: str, dimension: int) -> Iterator[Successor]:
        """The one that was begun for this fingerprint, or the next. Raises StoreError."""
        if self.config.store == "server":
            from bigos.stores.server_successor import server_successor

            with server_successor(self.open_server, fingerprint, dimension) as successor:
                yield successor
            return
        from bigos.stores.embedded_successor import embedded_successor

        with embedded_successor(self.store_dir, fingerprint, dimension, self.config.lock_timeout) as successor:
            yield successor

    def under_way(self) -> Unfinished | None:
        """What has been begun and has not taken over. Raises StoreError where a server has to be asked."""
        if self.config.store == "server":
            from bigos.stores import server_successor

            return server_successor.under_way(self.open_server)
        from bigos.stores import embedded_successor

        return embedded_successor.under_way(self.store_dir)

    def forget(self, paths: Sequence[Path]) -> None:
        """Have what was begun forget files and folders, too. Raises what the store does."""
        if self.config.store == "server":
            from bigos.stores import server_successor

            server_successor.forget_in_unfinished(self.open_server, paths)
        else:
            from bigos.stores import embedded_successor

            embedded_successor.forget_in_unfinished(self.store_dir, paths, self.config.lock_timeout)


def being_made(unfinished: Unfinished, settings: str = "these settings") -> str:
    """How far it is, and who says so: "the index is being made anew with these settings (4 of 9 documents, ...)"."""
    if unfinished.documents is None or unfinished.known is None:
        told = "just begun"
    else:
        told = f"{unfinished.documents:,} of {unfinished.known:,} documents"
    if unfinished.process is not None:
        told += f", by process {unfinished.process}"
    elif unfinished.heard_at is not None:
        told += f" at {unfinished.heard_at}"
    return f"the index {_STATES[unfinished.running].format(settings)} ({told})"


def advice(unfinished: Unfinished) -> str:
    """What there is to do about one that was begun for the settings of who asks."""
    if unfinished.running:
        return "the same command again when it is complete; bigos status tells how far it is"
    return AGAIN + (", which goes on from there" if unfinished.running is False else ", unless it is at work somewhere")


def notice(unfinished: Unfinished) -> str:
    """What is said with an answer of the old index."""
    return f"{being_made(unfinished)}; the old one answers until then.\nhint: {advice(unfinished)}"


def refusal(unfinished: Unfinished, *, other_model: bool) -> FingerprintMismatch:
    """Why the old index cannot answer, or does not take files."""
    why = "cannot answer, it was made with another model" if other_model else "answers questions but takes no files"
    return FingerprintMismatch(
        f"{being_made(unfinished)}; until that is complete the old one {why}.", fix=advice(unfinished)
    )


def superseded(*, other_model: bool) -> FingerprintMismatch:
    """Why a program that has run since before a rebuild cannot go on."""
    why = "which its model cannot search" if other_model else "which it can search but not add to"
    return FingerprintMismatch(f"{MADE_ANEW}, {why}.", fix="start it again (in Claude Code: /mcp, then reconnect)")

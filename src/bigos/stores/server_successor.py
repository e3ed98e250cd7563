# SPDX-License-Identifier: GPL-2.0-only
"""A server collection's successor: another collection, which takes over the name (server_succession.py).

Nobody can be kept out of a server. What another host writes between the last comparison and the moment at which the
name changes is not taken over: some milliseconds, and its next ingest finds those files changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

from bigos.errors import StoreError, StoreLocked
from bigos.stores import Unfinished, server_succession
from bigos.stores.server import ServerStore


class ServerSuccessor:
    """See `Successor`. Made by `server_successor`."""

    def __init__(self, old: ServerStore, new: ServerStore, name: str, *, resumed: bool) -> None:
        self.old = old
        self.new = new
        self.resumed = resumed
        self._name = name
        self._told: tuple[int, int] | None = None

    def require_room(self) -> None:
        """See `Successor.require_room`: the server's disk is not ours to look at."""

    def tell(self, documents: int, known: int) -> None:
        """See `Successor.tell`."""
        self.new.make()
        with contextlib.suppress(StoreError):
            server_succession.tell(self.old.connection, self._name, documents, known, at_work=True)
            self._told = documents, known

    def undisturbed(self) -> AbstractContextManager[None]:
        """See `Successor.undisturbed`, and the module."""
        return nullcontext()

    def take_over(self) -> None:
        """See `Successor.take_over`."""
        self.new.make()
        before = self.old.identity()
        if before is None:
            raise StoreError("the collection was deleted while it was rebuilt.", fix="run the same command again")
        server_succession.take_over(self.old.connection, self._name, before)
        self._told = None

    def close(self) -> None:
        """See `Successor.close`."""
        if self._told is not None:
            with contextlib.suppress(StoreError):
                server_succession.tell(self.old.connection, self._name, *self._told, at_work=False)
        self.new.close()
        self.old.close()


@contextmanager
def server_successor(
    open_store: Callable[[str | None, int | None, str | None], ServerStore], fingerprint: str, dimension: int
) -> Iterator[ServerSuccessor]:
    """The successor of a collection: the one that was begun, or the next.

    What was begun for another fingerprint is deleted. Raises StoreLocked when another host is at that.

    Args:
        open_store: a store by fingerprint, dimension, and the collection's name (None: the one that is rebuilt).
        fingerprint: of the successor.
        dimension: of the successor.
    """
    old = open_store(None, None, None)
    connection = old.connection
    name, there = server_succession.serving(connection), server_succession.successors(connection)
    number = next((number for number, each in there.items() if each == name), 0)
    newest = max(there, default=0)
    resumed = newest > number
    if resumed:
        begun = open_store(None, None, there[newest])
        identity = begun.identity()
        begun.close()
        if identity is not None and (identity.fingerprint, identity.dimension) != (fingerprint, dimension):
            other = server_succession.under_way(connection)
            if other is not None and other.running:
                old.close()
                raise StoreLocked(
                    f"{connection.address.collection} on {connection.address.shown} is being rebuilt for other "
                    f"settings, heard of at {other.heard_at}.",
                    fix="wait until that is complete, or stop it and try again two minutes later",
                )
            connection.call(lambda client: client.delete_collection(there[newest]))
            resumed = False
    chosen = there[newest] if resumed else f"{connection.address.collection}-rebuilt-{newest + 1}"
    successor = ServerSuccessor(old, open_store(fingerprint, dimension, chosen), chosen, resumed=resumed)
    try:
        yield successor
    finally:
        successor.close()


def under_way(open_store: Callable[[str | None, int | None, str | None], ServerStore]) -> Unfinished | None:
    """The successor that has not taken over yet, the newest if there are several. Raises what the store does."""
    with closing(open_store(None, None, None)) as store:
        return server_succession.under_way(store.connection)


def forget_in_unfinished(
    open_store: Callable[[str | None, int | None, str | None], ServerStore], paths: Sequence[Path]
) -> None:
    """Forget files and folders in a rebuild that was stopped, or goes on: it has their text as well.

    Call it when the one that serves has forgotten them. One that has taken its place since then is looked through, too:
    it may have been compared with the old one just before.

    Raises what the store does.
    """
    with closing(open_store(None, None, None)) as store:
        there = server_succession.successors(store.connection)
    for name in there.values():
        with closing(open_store(None, None, name)) as unfinished:
            for path in paths:
                unfinished.forget(path)

# SPDX-License-Identifier: GPL-2.0-only
"""A server collection as one file, and back: the server's own snapshots, which it makes, sends and recovers.

A snapshot is of what one node has. So a collection that is spread over several is refused: each node has to be asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

from bigos.errors import StoreError
from bigos.stores import server_succession
from bigos.stores.server_connection import Connection
from bigos.stores.server_faults import NoCollection

_PIECE = 1 << 20


class Snapshot(NamedTuple):
    """A snapshot on its way: its size in bytes, and its contents."""

    size: int
    pieces: Iterator[bytes]


@contextmanager
def snapshot(connection: Connection) -> Iterator[Snapshot]:
    """A snapshot of the collection as it is now. The server's copy of it is deleted at the end.

    Raises StoreError, also for a collection that is spread over several nodes.
    """
    name = server_succession.serving(connection)
    shards = connection.call(lambda client: client.http.distributed_api.collection_cluster_info(name)).result
    if shards is not None and shards.remote_shards:
        raise StoreError(
            f"the collection {name} on {connection.address.shown} is spread over several nodes; "
            "a snapshot has only one node's part.",
            fix="bigos migrate --to embedded, then bigos backup with BIGOS_STORE=embedded",
        )
    made = connection.call(lambda client: client.create_snapshot(name, wait=True))
    if made is None:
        raise StoreError(f"Qdrant at {connection.address.shown} made no snapshot.", fix=connection.address.journal)
    try:
        yield Snapshot(made.size, connection.download(f"collections/{name}/snapshots/{made.name}", _PIECE))
    finally:
        with contextlib.suppress(StoreError):  # a server that went away: its snapshot is not what to tell of
            connection.call(lambda client: client.delete_snapshot(name, made.name))


def recover(connection: Connection, stream: IO[bytes]) -> str:
    """Have the server make a new collection of a snapshot; its name, which nothing stands for yet.

    Raises StoreError; nothing is left then.
    """
    there = server_succession.successors(connection)
    name = f"{connection.address.collection}-rebuilt-{max(there, default=0) + 1}"
    try:
        connection.upload(f"collections/{name}/snapshots/upload?wait=true&priority=snapshot", "snapshot", stream)
        # What was rebuilt or restored before would else be taken for a successor that only lacks its name.
        server_succession.not_complete(connection, name)
    except BaseException:
        discard(connection, name)
        raise
    return name


def discard(connection: Connection, name: str) -> None:
    """Delete a collection that is not to serve."""
    with contextlib.suppress(NoCollection):
        connection.call(lambda client: client.delete_collection(name))

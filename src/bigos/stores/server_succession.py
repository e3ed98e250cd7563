# SPDX-License-Identifier: GPL-2.0-only
"""Which collection of a server stands behind a name, and how another one takes the name.

    NAME                   the collection, until its first rebuild; from then on an alias
    NAME-rebuilt-1         what the alias stands for
    NAME-rebuilt-2         its successor, in the making

An alias is turned to another collection in one step. A collection of the name itself has to be deleted first, and the
name stands for nothing until the alias is made, a request later. So the successor is marked as complete before that:
whoever finds the name gone and a complete successor there waits for the alias, and makes it if it does not come, since
whoever was about to was cut off.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bigos.errors import StoreError
from bigos.stores import Unfinished, server_collection
from bigos.stores.server_collection import META_ID, Identity
from bigos.stores.server_connection import Connection
from bigos.stores.server_faults import NoCollection

if TYPE_CHECKING:
    from qdrant_client.http.models import AliasOperations

COMPLETE = "complete"
PROGRESS = "progress"
REPLACES = "replaces"
SILENT_SECONDS = 120.0
"""So long after it was heard of, a rebuild may have been killed, or reads a long file."""
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5)
_MOST_REMEMBERED = 50
"""Collections that a successor says it has replaced: more rebuilds than that no running process has slept through."""


def serving(connection: Connection) -> str:
    """The collection that stands behind the name: another one where the name is an alias."""
    name = connection.address.collection
    aliases = connection.call(lambda client: client.get_aliases()).aliases
    return next((alias.collection_name for alias in aliases if alias.alias_name == name), name)


def successors(connection: Connection) -> dict[int, str]:
    """Every collection of a rebuild that there is, by number."""
    pattern = re.compile(re.escape(connection.address.collection) + r"-rebuilt-(\d{1,9})")
    found = connection.call(lambda client: client.get_collections()).collections
    names = ((pattern.fullmatch(each.name), each.name) for each in found)
    return {int(match[1]): name for match, name in names if match}


def tell(connection: Connection, successor: str, documents: int, known: int, *, at_work: bool) -> None:
    """Have the successor itself say how far it is, for whoever asks. Raises StoreError."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    told = {"documents": documents, "known": known, "heard_at": now, "at_work": at_work}
    _mark(connection, successor, {PROGRESS: told})


def under_way(connection: Connection) -> Unfinished | None:
    """The newest collection that may take the name some day; None when there is none. Raises StoreError."""
    there, current = successors(connection), serving(connection)
    number = max(there, default=0)
    if not number or number <= next((each for each, name in there.items() if name == current), 0):
        return None
    try:
        payload = _meta(connection, there[number])
    except NoCollection:
        return None  # it has just been given up
    told = payload.get(PROGRESS) or {}
    fingerprint = payload.get("fingerprint")
    return Unfinished(
        there[number],
        None if fingerprint is None else str(fingerprint),
        told.get("documents"),
        told.get("known"),
        told.get("heard_at"),
        _is_running(told),
    )


def _is_running(told: dict[str, Any]) -> bool | None:
    """Whether somebody is at it: said so a moment ago, or said that it ended; None for one that fell silent."""
    if told.get("at_work") is False:
        return False
    try:
        silent = (datetime.now(UTC) - datetime.fromisoformat(told["heard_at"])).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None
    return True if silent < SILENT_SECONDS else None


def wait_for_successor(connection: Connection) -> Identity | None:
    """Called when the server has no collection of the name. None when none is about to take it.

    Raises StoreError when the server does not let us finish what was cut off.
    """
    there = successors(connection)
    complete = [number for number in there if _is_complete(connection, there[number])]
    if not complete:
        return None
    for pause in _PAUSES:
        found = _identity(connection)
        if found is not None:
            return found
        time.sleep(pause)
    try:
        turn(connection, there[max(complete)])
    except StoreError as error:
        raise StoreError(
            f"a rebuild of {connection.address.collection} on {connection.address.shown} was cut off in its last step.",
            fix="bigos ingest --rebuild, with a key that may write",
        ) from error
    return _identity(connection)


def take_over(connection: Connection, successor: str, before: Identity | None) -> None:
    """Let `successor` stand behind the name instead of the collection with the identity `before`, which is deleted.

    What other rebuilds left over goes too. `before` is None where nothing stands behind the name. Harmless where the
    successor stands there already.
    """
    name, old = connection.address.collection, serving(connection)
    replaced = () if before is None else (before.made, *before.replaces)
    _mark(connection, successor, {COMPLETE: True, PROGRESS: None, REPLACES: list(replaced)[:_MOST_REMEMBERED]})
    if old == name:
        connection.call(lambda client: client.delete_collection(name))
        turn(connection, successor)
    elif old != successor:
        turn(connection, successor, anew=True)
        connection.call(lambda client: client.delete_collection(old))
    for left_over in successors(connection).values():
        if left_over != successor:
            connection.call(lambda client, name=left_over: client.delete_collection(name))  # type: ignore[misc]


def not_complete(connection: Connection, successor: str) -> None:
    """Take the mark from a collection that has it from an earlier life: a snapshot has all that was in its points."""
    _mark(connection, successor, {COMPLETE: False})


def turn(connection: Connection, successor: str, *, anew: bool = False) -> None:
    """Have the name stand for `successor`; `anew` when it is an alias already."""
    from qdrant_client import models

    name = connection.address.collection
    operations: list[AliasOperations] = []
    if anew:
        operations.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=name)))
    create = models.CreateAlias(collection_name=successor, alias_name=name)
    operations.append(models.CreateAliasOperation(create_alias=create))
    connection.call(lambda client: client.update_collection_aliases(operations))


def _identity(connection: Connection) -> Identity | None:
    try:
        return server_collection.read_meta(connection)
    except NoCollection:
        return None


def _mark(connection: Connection, name: str, marks: dict[str, Any]) -> None:
    connection.call(
        lambda client: client.set_payload(
            name, marks, points=[META_ID], wait=True, ordering=server_collection.ordering()
        )
    )


def _is_complete(connection: Connection, name: str) -> bool:
    try:
        return bool(_meta(connection, name).get(COMPLETE))
    except NoCollection:
        return False


def _meta(connection: Connection, name: str) -> dict[str, Any]:
    """What a collection of any name says of itself; nothing where it does not. Raises NoCollection."""
    found = connection.call(lambda client: client.retrieve(name, [META_ID], with_payload=True, with_vectors=False))
    return found[0].payload or {} if found else {}

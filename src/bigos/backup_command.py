# SPDX-License-Identifier: GPL-2.0-only
"""`bigos backup FILE` and `bigos restore FILE`: the whole index into one file, and back."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigos import __version__
from bigos.arguments import EXIT_CODES, Parser, add_common
from bigos.errors import BigosError, ExitCode, StoreError, StoreLocked, UsageError
from bigos.terminal import Terminal, read_config

if TYPE_CHECKING:
    from bigos.backup_file import Backup, Manifest, Writer
    from bigos.library import Library
    from bigos.stores import Store
    from bigos.stores.server_snapshots import Snapshot

BACKUP = "Write the whole index, vectors and all, into one file with a checksum."
RESTORE = "Put an index back from a file that `bigos backup` wrote; what is there stays until the other is found whole."
BACKUP_SCHEMA = "bigos.backup.v1"
RESTORE_SCHEMA = "bigos.restore.v1"
FILE_RESERVE = 1 << 20
"""Room that a backup takes beside the data: names and checksum. A plain file needs none of what an engine lays out."""
NAMED = 10
QUIET_TRIES = 5
"""Snapshots that are made of a server's collection until one finds it as it was before."""


def add_arguments(parser: Parser) -> None:
    """Describe either command's arguments."""
    parser.epilog = EXIT_CODES
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--yes", action="store_true", help="do what would be asked first")
    add_common(parser)


# --- backup ----------------------------------------------------------------------------------------------------------


def run_backup(args: argparse.Namespace, terminal: Terminal) -> int:
    """Back up as parsed arguments ask for; the exit code."""
    from bigos.files import expanded
    from bigos.library import open_library
    from bigos.render import duration

    started = time.monotonic()
    target = Path(os.path.abspath(expanded(args.file)))  # noqa: PTH100 - a link keeps its name
    with open_library(read_config(args.config)) as library:
        _require_place(target, library, terminal, over=args.yes)
        made = _written(library, target, over=args.yes)
    if made is None:
        terminal.say("there is no index to back up.\nhint: bigos ingest FOLDER --recursive")
        return int(ExitCode.NOTHING_FOUND)
    manifest, size = made
    seconds = time.monotonic() - started
    if args.json:
        document = {"schema": BACKUP_SCHEMA, "file": str(target), "bytes": size, "seconds": round(seconds, 3)}
        terminal.document(document | _manifest_document(manifest))
    else:
        terminal.result(
            f"{manifest.documents:,} documents, {manifest.chunks:,} chunks in {target}, {size / 1e6:,.1f} MB, "
            f"in {duration(seconds)}\n"
        )
    return int(ExitCode.OK)


def _require_place(target: Path, library: Library, terminal: Terminal, *, over: bool) -> None:
    from bigos.backup_file import exists

    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is not a folder.", fix=f"mkdir -p {target.parent}")
    if target.is_dir():
        raise UsageError(f"{target} is a folder.", fix=f"bigos backup {target}/bigos.backup")
    if os.path.lexists(target) and not (target.is_symlink() or target.is_file()):
        raise UsageError(f"{target} is no plain file.", fix="name a file elsewhere")
    if library.store_dir in target.parents:
        raise UsageError(f"{target} would lie within the index.", fix="name a file elsewhere")
    there = os.path.lexists(target)
    if there and not over and not (terminal.can_ask and terminal.agrees(f"{target} exists. Write over it?")):
        raise exists(target)


def _written(library: Library, target: Path, *, over: bool) -> tuple[Manifest, int] | None:
    from bigos import backup_file
    from bigos.stores import collection, embedded_backup
    from bigos.stores.embedded import EmbeddedStore

    over = over or os.path.lexists(target)  # agreed to by now
    if library.config.store == "server":
        return _written_by_server(library, target, over=over)
    directory = library.store_dir
    with closing(EmbeddedStore(directory, None, None, lock_timeout=library.config.lock_timeout)) as store:
        if store.stats().fingerprint is None:
            return None
        store.compact(at_once=None)  # what was forgotten must not live on in a backup
        embedded_backup.require_room(target.parent, embedded_backup.size(directory), FILE_RESERVE)
        with store.exclusive():
            stats, made_with = store.stats(), collection.read(directory)
            assert made_with is not None
            assert stats.fingerprint is not None
            with embedded_backup.files_at_rest(store, directory) as data:
                manifest = backup_file.Manifest(
                    store="embedded",
                    collection=library.config.collection,
                    fingerprint=stats.fingerprint,
                    dimension=made_with.dimension,
                    schema=made_with.schema,
                    documents=stats.documents,
                    chunks=stats.chunks,
                    bytes=embedded_backup.size(directory),
                    created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                    bigos=__version__,
                    engine=f"qdrant-edge-py {importlib.metadata.version('qdrant-edge-py')}",
                )
                return manifest, backup_file.write(target, manifest, lambda to: to.add_tree(data), over=over)


def _written_by_server(library: Library, target: Path, *, over: bool) -> tuple[Manifest, int] | None:
    from bigos import backup_file
    from bigos.stores import embedded_backup, server_snapshots

    with closing(library.open_server(None, None)) as store:
        for _ in range(QUIET_TRIES):
            identity, stats = store.identity(), store.stats()
            if identity is None:
                return None
            with server_snapshots.snapshot(store.connection) as snapshot:
                if store.stats() != stats:
                    continue  # another host writes: its snapshot could not be told from one that lacks something
                embedded_backup.require_room(target.parent, snapshot.size, FILE_RESERVE)
                manifest = backup_file.Manifest(
                    store="server",
                    collection=library.config.collection,
                    fingerprint=identity.fingerprint,
                    dimension=identity.dimension,
                    schema=identity.schema,
                    documents=stats.documents,
                    chunks=stats.chunks,
                    bytes=snapshot.size,
                    created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                    bigos=__version__,
                    engine=f"Qdrant {store.connection.version().version}",
                )
                return manifest, backup_file.write(target, manifest, _Snapshot(snapshot), over=over)
    raise StoreError(
        f"the index in {library.store_place} is being written to.", fix="run the same command when that has ended"
    )


class _Snapshot:
    """Fills a backup with a server's snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __call__(self, to: Writer) -> None:
        to.add_pieces("collection.snapshot", self._snapshot.size, self._snapshot.pieces)


def _manifest_document(manifest: Manifest) -> dict[str, Any]:
    return {
        "store": manifest.store,
        "collection": manifest.collection,
        "fingerprint": manifest.fingerprint,
        "documents": manifest.documents,
        "chunks": manifest.chunks,
        "created_at": manifest.created_at,
    }


# --- restore ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Change:
    """Paths of documents that only the backup has, which come back; and of those that it lacks, which go."""

    came_back: list[str]
    went: list[str]


@dataclass(frozen=True, slots=True)
class _Before:
    """The index that is there when one is to be restored; None for what cannot be read."""

    documents: int | None
    chunks: int | None


def run_restore(args: argparse.Namespace, terminal: Terminal) -> int:
    """Restore as parsed arguments ask for; the exit code."""
    from bigos import backup_file
    from bigos.files import expanded
    from bigos.library import open_library
    from bigos.render import duration

    started = time.monotonic()
    path = expanded(args.file)
    with open_library(read_config(args.config)) as library, backup_file.opened(path) as backup:
        manifest = backup.manifest
        _require_kind(manifest, library, path)
        before = _before(library)
        if before is not None and not args.yes:
            _ask(before, library, terminal)
        begun = library.succession.under_way()
        change = _restore(backup, library)
        expected = _expected(library)
    seconds = time.monotonic() - started
    if args.json:
        document: dict[str, Any] = {"schema": RESTORE_SCHEMA, "file": str(path), "place": library.store_place}
        document |= _manifest_document(manifest) | {
            "replaced": None if before is None else {"documents": before.documents, "chunks": before.chunks},
            "came_back": None if change is None else change.came_back,
            "went": None if change is None else change.went,
            "fits_configuration": None if expected is None else expected == manifest.fingerprint,
            "seconds": round(seconds, 3),
        }
        terminal.document(document)
    else:
        terminal.result(
            f"restored {manifest.documents:,} documents, {manifest.chunks:,} chunks of {manifest.created_at} to "
            f"{library.store_place} in {duration(seconds)}\n" + _change_text(change)
        )
    if begun is not None:
        terminal.say(f"the rebuild that was begun in {begun.place} is gone with the index that it was made from.")
    if expected is not None and expected != manifest.fingerprint:
        terminal.say(
            f"it was made with {manifest.fingerprint}, the configuration says {expected}.\n"
            f"hint: {library.new_index_advice}"
        )
    return int(ExitCode.OK)


def _require_kind(manifest: Manifest, library: Library, path: Path) -> None:
    from bigos.stores.points import READABLE

    kind = library.config.store
    if manifest.schema not in READABLE:
        raise UsageError(
            f"{path} is of schema {manifest.schema}, made by Bigos {manifest.bigos}; this one reads "
            f"{', '.join(map(str, READABLE))}.",
            fix="restore it with the Bigos that made it",
        )
    if manifest.store != kind:
        raise UsageError(
            f"{path} is a backup of the {manifest.store} store, the configuration says {kind}.",
            fix=f"BIGOS_STORE={manifest.store} bigos restore {path}, then bigos migrate --to {kind}",
        )


def _before(library: Library) -> _Before | None:
    """What a restore would replace; None for nothing worth asking about."""
    try:
        stats = library.stats()
    except StoreLocked:
        raise
    except StoreError:
        return _Before(None, None)  # damaged, or of a schema that is not ours: a reason to restore
    finally:
        library.close()
    return _Before(stats.documents, stats.chunks) if sum(stats.by_status.values()) else None


def _ask(before: _Before, library: Library, terminal: Terminal) -> None:
    what = "an index that cannot be read" if before.documents is None else f"an index of {before.documents:,} documents"
    told = f"there is {what} in {library.store_place}"
    if not (terminal.can_ask and terminal.agrees(f"{told}. Put the backup in its place?")):
        raise UsageError(f"{told}, which a restore replaces.", fix="bigos backup FILE first, or this again with --yes")


def _change(before: Store, restored: Store) -> _Change | None:
    """What a restore does to the documents there are; None where there is no index, or none that can be read."""
    try:
        if before.made_with() is None:
            return None
        old = {record.source_path for record in before.known().values()}
    except StoreLocked:
        raise
    except StoreError:
        return None
    new = {record.source_path for record in restored.known().values()}
    return _Change(sorted(new - old), sorted(old - new))


def _change_text(change: _Change | None) -> str:
    """What a reader has to know of it: above all, that what was forgotten is not forgotten any more."""
    from bigos.render import one_line

    if change is None:
        return ""
    lines = []
    back = "are back that the index no longer had (forgotten or pruned since)"
    gone = "are gone that came after the backup was made"
    for paths, what, cure in (
        (change.came_back, back, "bigos ingest --forget"),
        (change.went, gone, "bigos ingest"),
    ):
        if paths:
            lines.append(f"  {len(paths):,} documents {what}; {cure} PATH undoes that:")
            lines += [f"    {one_line(path)}" for path in paths[:NAMED]]
            lines += [f"    ... and {len(paths) - NAMED:,} more (--json names all)"] * (len(paths) > NAMED)
    return "".join(f"{line}\n" for line in lines)


def _restore(backup: Backup, library: Library) -> _Change | None:
    """Put the backup in the place of what is there; what that changed. Raises StoreError, and all is as it was."""
    from bigos.stores import embedded_backup, faults
    from bigos.stores.collection import Collection
    from bigos.stores.embedded import EmbeddedStore

    if library.config.store == "server":
        return _restore_on_server(backup, library)
    manifest, directory = backup.manifest, library.store_dir
    made_with = Collection(manifest.fingerprint, manifest.dimension, manifest.schema)
    embedded_backup.require_room(directory, manifest.bytes)
    with embedded_backup.restoring(directory) as data:
        with faults.translated(directory):
            backup.unpack(data)
        embedded_backup.verify(data, made_with, manifest.documents, manifest.chunks)
        with closing(EmbeddedStore(directory, None, None, lock_timeout=library.config.lock_timeout)) as store:
            with closing(EmbeddedStore(data.parent, None, None)) as restored:
                change = _change(store, restored)
            embedded_backup.take_over(store, directory, data, made_with)
            return change


def _restore_on_server(backup: Backup, library: Library) -> _Change | None:
    """As a collection beside the one that serves, which takes over its name once it is found whole."""
    from bigos.stores import server_snapshots, server_succession

    manifest = backup.manifest
    with closing(library.open_server(None, None)) as store:
        connection = store.connection
        name = server_snapshots.recover(connection, backup.only_file())
        try:
            with closing(library.open_server(None, None, name)) as restored:
                identity, stats, change = restored.identity(), restored.stats(), _change(store, restored)
            found = (stats.fingerprint, stats.documents, stats.chunks)
            if identity is None or found != (manifest.fingerprint, manifest.documents, manifest.chunks):
                raise StoreError(
                    f"what the server made of the backup has {stats.documents} documents and {stats.chunks} chunks of "
                    f"{manifest.documents} and {manifest.chunks}; the index is as it was.",
                    fix="use another backup",
                )
            before = store.identity()
        except BaseException:
            server_snapshots.discard(connection, name)
            raise
        server_succession.take_over(connection, name, before)
        return change


def _expected(library: Library) -> str | None:
    """What the configuration says; None where there is no model to tell."""
    try:
        return library.expected_fingerprint()
    except BigosError:
        return None

# SPDX-License-Identifier: GPL-2.0-only
"""An action that replaces a collection, killed at each thing that it does to the disk: kill_points.py ACTION FOLDER.

A process that has imported everything and opened nothing forks one child a try, so that a try costs no start. A child
is killed (SIGKILL) when it is about to open a file for writing, rename, remove or make something for the n-th time;
n rises by one with each try, until one comes to its end. After each kill another child looks at what serves, and prints
`n STATE`: "old" or "new", whole, or what is wrong. Then the next try goes on from there.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from bigos import pipeline
from bigos.backup_file import Manifest, opened, write
from bigos.embedders import Window
from bigos.fingerprint import compose
from bigos.pipeline import IngestRequest
from bigos.rebuild import rebuild
from bigos.stores import embedded_backup
from bigos.stores.collection import Collection
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.embedded_successor import embedded_successor
from bigos.stores.points import SCHEMA_VERSION
from hash_embedder import DIMENSION, HashEmbedder, LabelledEmbedder
from small_index import SETTINGS
from vocabulary import tokenizer

OLD = compose("words-hashed/48/old", Window(48, 6), Window(48, 6))
NEW = compose("words-hashed/48/new", Window(48, 6), Window(48, 6))
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"}
FILES_OF_A_TREE = 40
"""One of so many files that come or go with a tree is a point to be killed at."""
FILES = {"a.txt": "Kot śpi na dachu.", "b.txt": "The clock divider. " * 40, "gone.txt": "Ulotna notatka."}


def ingest(base: Path, fingerprint: str = OLD) -> None:
    """An index of a few files, one of which is gone by the end."""
    folder = base / "files"
    folder.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    with closing(EmbeddedStore(base / "store", fingerprint, DIMENSION)) as store:
        pipeline.run(
            IngestRequest((folder,), recursive=True),
            store=store,
            embedder=LabelledEmbedder(HashEmbedder()),
            settings=SETTINGS,
            fingerprint=fingerprint,
            workers=0,
        )
    (folder / "gone.txt").unlink()


def rebuild_index(base: Path) -> None:
    with embedded_successor(base / "store", NEW, DIMENSION, 10) as successor:
        report = rebuild(
            successor,
            embedder=LabelledEmbedder(HashEmbedder()),
            settings=SETTINGS,
            fingerprint=NEW,
            workers=0,
        )
    assert report.swapped


def restore_index(base: Path) -> None:
    """Put a backup of the new index in the place of the old one, as `bigos restore` does."""
    backup = base / "new.backup"
    with closing(EmbeddedStore(base / "store", None, None, lock_timeout=60)) as store, opened(backup) as found:
        manifest = found.manifest
        made_with = Collection(manifest.fingerprint, manifest.dimension, manifest.schema)
        with embedded_backup.restoring(base / "store") as data:
            found.unpack(data)
            embedded_backup.verify(data, made_with, manifest.documents, manifest.chunks)
            embedded_backup.take_over(store, base / "store", data, made_with)


def make_backup(base: Path) -> None:
    """A backup of an index of the same files, made with NEW."""
    directory = base / "store"
    ingest(base, NEW)
    with closing(EmbeddedStore(directory, None, None)) as store:
        stats = store.stats()
        with embedded_backup.files_at_rest(store, directory) as data:
            manifest = Manifest(
                store="embedded",
                collection="bigos",
                fingerprint=NEW,
                dimension=DIMENSION,
                schema=SCHEMA_VERSION,
                documents=stats.documents,
                chunks=stats.chunks,
                bytes=embedded_backup.size(directory),
                created_at="",
                bigos="",
                engine="",
            )
            write(base / "new.backup", manifest, lambda to: to.add_tree(data), over=False)
    shutil.rmtree(directory)


def look(base: Path) -> str:
    """What serves: it must be whole."""
    with closing(EmbeddedStore(base / "store", None, None, lock_timeout=60)) as store:
        fingerprint = store.stats().fingerprint
        items = store.documents(list(store.known()))
        names = sorted(Path(item.record.source_path).name for item in items)
        assert names == sorted(FILES), names
        for item in items:
            assert len(item.chunks) == item.record.chunk_count, item.record
            assert "".join(chunk.text for chunk in item.chunks)
            assert item.record.fingerprint.startswith(str(fingerprint))
    return {OLD: "old", NEW: "new"}[str(fingerprint)]


def kill_at(number: int, base: Path) -> None:
    """From here on, the `number`-th change below `base` is not made: the process is killed."""
    left, removed, unpacked = number, 0, 0
    root = str(base)

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal left, removed, unpacked
        if event == "open":
            flags = args[2] if isinstance(args[2], int) else 0
            if not flags & (os.O_WRONLY | os.O_RDWR):
                return
        elif event not in CHANGES:
            return
        if event == "os.remove" and args[-1] != -1:  # by a tree that goes, relative to its folder
            removed += 1
            if removed % FILES_OF_A_TREE:
                return
        elif event == "open" and "segments" in str(args[0]):  # one of many files that are unpacked
            unpacked += 1
            if unpacked % FILES_OF_A_TREE:
                return
        elif not isinstance(args[0], str | os.PathLike) or not str(args[0]).startswith(root):
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def forked(action: Callable[[], object]) -> tuple[bool, str]:
    """Run in a child: whether it was killed, and what it gave."""
    sys.stdout.flush()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        try:
            told = str(action())
        except BaseException:
            told = "failed: " + traceback.format_exc()
        os.write(sending, told.encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, encoding="utf-8") as stream:
        told = stream.read()
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), told


def main(action: Callable[[Path], None], base: Path) -> None:
    def attempt(number: int) -> None:
        kill_at(number, base / "store")
        action(base)

    tokenizer()  # once, for all children
    forked(partial(make_backup, base))
    forked(partial(ingest, base))
    number = 0
    while True:
        number += 1
        killed, told = forked(partial(attempt, number))
        _, state = forked(partial(look, base))
        there = sorted(entry.name for entry in (base / "store").iterdir())
        print(number, state if killed or told == "None" else told, *there, flush=True)
        if not killed:
            return
        if state == "new":  # the next try has to come to the next point
            (base / "store").rename(base / f"done {number}")
            forked(partial(ingest, base))


ACTIONS = {"rebuild": rebuild_index, "restore": restore_index}

if __name__ == "__main__":
    main(ACTIONS[sys.argv[1]], Path(sys.argv[2]))

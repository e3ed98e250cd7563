# SPDX-License-Identifier: GPL-2.0-only
"""Any sequence of changes and runs ends in the index that a first run over the same files would make."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from bigos.forgetting import forget
from bigos.pruning import INBOX_MARKER
from bigos.stores.embedded import EmbeddedStore
from bigos.types import UNSETTLED, Record
from small_index import FINGERPRINT, SmallIndex, small_index, touch_later

NAMES = ("a.txt", "b.txt", "c.md", "one/a.txt", "one/c.md", "one/deep/b.txt", "two/a.txt")
FOLDERS = ("one", "two", "one/deep", "three")
PARTS = ("The clock divider is computed once, part {0}.\n\n", "Zegar magistrali jest dzielony, część {0}.\n\n")
CONTENTS = (
    b"",
    b"The old bridge is green.\n",
    b"The new bridge is white.\n",  # as long as the one before
    "".join(PARTS[0].format(number) for number in range(12)).encode(),
    "".join(PARTS[1].format(number) for number in range(12)).encode(),
    b"# Bread\n\nIt is made of flour.\n\n# Soup\n\n" + PARTS[0].format(1).encode() * 9,
)

names, folders, contents = st.sampled_from(NAMES), st.sampled_from(FOLDERS), st.sampled_from(CONTENTS)


class IncrementalRuns(RuleBasedStateMachine):
    """Files in a folder, and what a run has to make of them."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = contextlib.ExitStack()
        fallback = Path(self._closing.enter_context(tempfile.TemporaryDirectory()))
        self.index: SmallIndex = self._closing.enter_context(small_index(fallback))
        self.index.write(INBOX_MARKER, "")  # so that pruning may take the last file
        self.known: dict[str, bytes] = {}
        """What the index has, by name: also files that are gone and were not pruned."""

    def teardown(self) -> None:
        self._closing.close()

    # --- the tree ------------------------------------------------------------------------------------------------

    @property
    def tree(self) -> dict[str, bytes]:
        found = (path for path in self.index.folder.rglob("*") if path.is_file() and path.name != INBOX_MARKER)
        return {str(path.relative_to(self.index.folder)): path.read_bytes() for path in found}

    def at(self, name: str) -> Path:
        return self.index.folder / name

    def a_file(self, name: str) -> Path | None:
        """This one if it is there, else the first."""
        there = sorted(self.tree)
        return self.at(name if name in there else there[0]) if there else None

    @initialize(first=st.dictionaries(names, contents, max_size=4))
    def begin(self, first: dict[str, bytes]) -> None:
        for name, content in first.items():
            self.index.write(name, content)

    @rule(name=names, content=contents)
    def write_anew(self, name: str, content: bytes) -> None:
        path = self.at(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "new").write_bytes(content)
        (path.parent / "new").replace(path)

    @rule(name=names, content=contents)
    def write_in_place(self, name: str, content: bytes) -> None:
        self.index.write(name, content)

    @rule(name=names)
    def write_in_place_with_the_old_time_and_size(self, name: str) -> None:
        path = self.a_file(name)
        if path is None or path.read_bytes() not in CONTENTS[1:3]:
            return
        status = path.stat()
        with path.open("r+b") as stream:
            stream.write(CONTENTS[1] if path.read_bytes() == CONTENTS[2] else CONTENTS[2])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    @rule(name=names)
    def touch(self, name: str) -> None:
        if path := self.a_file(name):
            touch_later(path)

    @rule(name=names, to=names)
    def rename(self, name: str, to: str) -> None:
        if path := self.a_file(name):
            self.at(to).parent.mkdir(parents=True, exist_ok=True)
            path.replace(self.at(to))

    @rule(name=names, to=names)
    def copy(self, name: str, to: str) -> None:
        path = self.a_file(name)
        if path is not None and path != self.at(to):
            self.at(to).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, self.at(to))

    @rule(name=names)
    def delete(self, name: str) -> None:
        if path := self.a_file(name):
            path.unlink()

    @rule(folder=folders, to=folders)
    def rename_a_folder(self, folder: str, to: str) -> None:
        if self.at(folder).is_dir() and not self.at(to).exists() and self.at(to).parent.is_dir():
            with contextlib.suppress(OSError):  # into itself
                self.at(folder).rename(self.at(to))

    @rule(folder=folders)
    def delete_a_folder(self, folder: str) -> None:
        shutil.rmtree(self.at(folder), ignore_errors=True)

    # --- runs ----------------------------------------------------------------------------------------------------

    @rule(prune=st.booleans(), reindex=st.sampled_from([False, False, True]))
    def ingest(self, prune: bool, reindex: bool) -> None:
        before = {(content, Path(name).suffix) for name, content in self.known.items()}
        tree = self.tree
        report = self.index.ingest(prune=prune, yes=True, reindex=reindex)
        assert report.kept == []
        assert report.files["failed"] == 0
        if not reindex and {(content, Path(name).suffix) for name, content in tree.items()} <= before:
            assert report.embedded == 0
        self.known = tree if prune else self.known | tree
        self.compare(tree)
        again = self.index.ingest(prune=prune, yes=True)
        assert (again.files_read, again.embedded, again.chunks_written, again.chunks_removed) == (0, 0, 0, 0)

    @rule(folder=st.sampled_from(["one", "two", "one/deep"]))
    def ingest_a_folder(self, folder: str) -> None:
        if self.at(folder).is_dir():
            self.index.ingest(self.at(folder), prune=True, yes=True)
            below = {name: content for name, content in self.tree.items() if name.startswith(f"{folder}/")}
            if not any(self.at(folder).iterdir()):  # it may be the place of a disk that is away
                return
            self.known = {name: old for name, old in self.known.items() if not name.startswith(f"{folder}/")} | below
            self.compare(below)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted({part for path in self.known for part in (path, path.split("/")[0])})))
        going = {path for path in self.known if path == name or path.startswith(f"{name}/")}
        report = forget([self.at(name)], self.index.store, self.index.pages)
        assert report.files["forgotten"] == len(going)
        self.known = {path: content for path, content in self.known.items() if path not in going}
        assert self.names(self.index.store) == self.known.keys()

    # --- what has to hold ----------------------------------------------------------------------------------------

    def names(self, store: EmbeddedStore) -> set[str]:
        start = f"{self.index.folder}/"
        return {record.source_path.removeprefix(start) for record in store.known().values()}

    def compare(self, tree: dict[str, bytes]) -> None:
        """What the index has of these files is what a first run makes of them; of the others, what it was."""
        store, fresh_dir = self.index.store, self.index.folder.parent / "fresh"
        fresh = EmbeddedStore(fresh_dir, FINGERPRINT, self.index.embedder.dimension)
        self.index.store = fresh
        try:
            self.index.ingest()
            wanted = documents(fresh)
        finally:
            self.index.store = store
            fresh.close()
            shutil.rmtree(fresh_dir, ignore_errors=True)
        found = documents(store)
        assert self.names(store) == self.known.keys()
        for doc_id, (record, chunks, vectors) in wanted.items():
            if record.source_path.removeprefix(f"{self.index.folder}/") not in tree:
                continue
            assert found[doc_id][0] == record
            assert found[doc_id][1] == chunks
            np.testing.assert_allclose(found[doc_id][2], vectors, atol=1e-5)


def documents(store: EmbeddedStore) -> dict[str, tuple[Record, Any, Any]]:
    """Everything in a store by document, but for the times of writing."""
    found = {}
    for item in store.documents(list(store.known())):
        assert len(item.chunks) == item.record.chunk_count
        assert item.record.ctime_ns != UNSETTLED
        found[item.record.doc_id] = replace(item.record, ingested_at=""), list(item.chunks), item.vectors
    return found


TestIncrementalRuns = IncrementalRuns.TestCase
TestIncrementalRuns.settings = settings(
    max_examples=20,
    stateful_step_count=24,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a shorter example would take minutes to find
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

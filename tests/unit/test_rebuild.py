# SPDX-License-Identifier: GPL-2.0-only
"""Rebuild over real parts: what the new collection holds, when it takes over, and that nothing is lost on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from bigos.embedders import Window
from bigos.errors import EmbedderError, FingerprintMismatch, StoreError
from bigos.fingerprint import compose
from bigos.preparation import PreparationSettings
from bigos.rebuild import OTHER_WINDOWS, RebuildReport, rebuild
from bigos.rebuild_plan import GONE
from bigos.rebuild_preview import look
from bigos.report import Event
from bigos.stores import Replacement
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.embedded_successor import embedded_successor
from bigos.types import Record
from bigos.versions import let_in
from hash_embedder import DIMENSION, HashEmbedder, LabelledEmbedder
from small_index import SETTINGS, SmallIndex, small_index, touch_later

OLD = compose("words-hashed/48/old-means", Window(48, 6), Window(48, 6))
NEW = compose("words-hashed/48/new-means", Window(48, 6), Window(48, 6))
SHORT = compose("words-hashed/48/new-means", Window(24, 3), Window(24, 3))
SHORTER = dataclasses.replace(SETTINGS, window=Window(24, 3), code_window=Window(24, 3))


class Fallen(HashEmbedder):
    """Another model: other vectors for the same texts."""

    def embed_passages(self, texts, tokens=None):  # type: ignore[no-untyped-def]
        return super().embed_passages([f"other {text}" for text in texts], tokens)


class Rebuilding(SmallIndex):
    """A small index whose collection can be rebuilt."""

    made_with = OLD

    def ingest_old(self, *paths: Path, settings: PreparationSettings = SETTINGS, **request: object) -> None:
        from bigos import pipeline
        from bigos.pipeline import IngestRequest

        with closing(self.open_store(OLD)) as store:
            pipeline.run(
                IngestRequest(paths or (self.folder,), recursive=True, **request),  # type: ignore[arg-type]
                store=store,
                embedder=self.embedder,
                settings=settings,
                fingerprint=OLD,
                workers=0,
            )

    def rebuild(
        self,
        fingerprint: str = NEW,
        settings: PreparationSettings = SETTINGS,
        *,
        raw: HashEmbedder | None = None,
        accept_losses: bool = False,
        on_event: Callable[[Event], None] = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
        dimension: int = DIMENSION,
    ) -> RebuildReport:
        self.new_embedder = LabelledEmbedder(raw or Fallen())
        with embedded_successor(self.store_dir, fingerprint, dimension, 10) as successor:
            return rebuild(
                successor,
                embedder=self.new_embedder,
                settings=settings,
                fingerprint=fingerprint,
                workers=0,
                accept_losses=accept_losses,
                on_event=on_event,
                stop=stop,
            )

    def held(self) -> tuple[str | None, dict[str, Replacement]]:
        """What the collection that serves was made with and holds, by path."""
        with closing(EmbeddedStore(self.store_dir, None, None, lock_timeout=60)) as store:
            items = store.documents(list(store.known()))
            return store.stats().fingerprint, {Path(item.record.source_path).name: item for item in items}

    def names(self) -> list[str]:
        return sorted(path.name for path in self.store_dir.iterdir() if path.is_dir())


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Rebuilding]:
    from store_documents import memory_directory

    with memory_directory(tmp_path) as base:
        made = Rebuilding(base)
        made.write("a.md", "# Clocks\n\n" + "The clock divider is computed once. " * 30)
        made.write("b.c", "int main(void)\n{\n\treturn 0;\n}\n")
        made.write("c.txt", "Kot śpi na dachu i nikomu nie przeszkadza.")
        made.ingest_old()
        yield made
        made.store.close()


def texts(item: Replacement) -> list[str]:
    return [chunk.text for chunk in item.chunks]


def test_everything_is_embedded_anew_and_then_serves(index: Rebuilding) -> None:
    _, before = index.held()
    report = index.rebuild()
    assert (report.swapped, report.resumed, report.losses) == (True, False, [])
    assert (report.made_with, report.fingerprint, report.documents) == (OLD, NEW, 3)
    assert dict(+report.ingest.files) == {"updated": 3}
    assert report.ingest.embedded == report.chunks == sum(len(item.chunks) for item in before.values())
    fingerprint, after = index.held()
    assert fingerprint == NEW
    assert {name: texts(item) for name, item in after.items()} == {name: texts(item) for name, item in before.items()}
    for name, item in after.items():
        assert item.record.fingerprint.startswith(NEW)
        assert not np.allclose(item.vectors, before[name].vectors)
    assert index.names() == ["rebuilt-2"]


def test_other_windows_cut_the_sources_anew(index: Rebuilding) -> None:
    _, before = index.held()
    assert index.rebuild(SHORT, SHORTER).swapped
    _, after = index.held()
    assert len(after["a.md"].chunks) > len(before["a.md"].chunks)


def test_what_was_let_in_though_it_holds_a_secret_is_cut_anew_too(index: Rebuilding) -> None:
    token = "gh" + "p_" + "aZ3kQ9vB7xLm" * 3
    index.write("deploy.txt", f"The heron deploys with {token} every night. " + "It nests in the reeds. " * 12)
    index.ingest_old(settings=dataclasses.replace(SETTINGS, allow_secrets=True))
    _, before = index.held()
    report = index.rebuild(SHORT, SHORTER)
    assert (report.swapped, report.losses) == (True, [])
    _, after = index.held()
    assert len(after["deploy.txt"].chunks) > len(before["deploy.txt"].chunks) > 0
    assert let_in(after["deploy.txt"].record) == after["deploy.txt"].record.content_hash


def test_the_old_one_serves_until_the_new_one_is_whole(index: Rebuilding) -> None:
    seen: list[str | None] = []
    index.rebuild(on_event=lambda _: seen.append(index.held()[0]))
    assert seen
    assert set(seen) == {OLD}
    with closing(index.open_store(OLD)) as old, pytest.raises(FingerprintMismatch):
        old.known()


def test_what_was_stopped_goes_on_where_it_was(index: Rebuilding) -> None:
    with pytest.raises(EmbedderError):
        index.rebuild(raw=HashEmbedder(breaks_after=0))
    for number in range(20):
        index.write(f"more/{number}.txt", f"Document number {number} tells of something else. " * 40)
    index.ingest_old()
    stopped = index.rebuild(stop=lambda: bool(index.new_embedder.raw.passages))
    assert (stopped.swapped, stopped.ingest.interrupted) == (False, True)
    assert index.held()[0] == OLD
    assert index.names() == ["rebuilt-2", "shard"]
    report = index.rebuild()
    assert (report.swapped, report.resumed) == (True, True)
    done = stopped.ingest.files["updated"]
    assert done
    assert dict(+report.ingest.files) == {"unchanged": done, "updated": 23 - done}
    assert len(index.held()[1]) == 23


def test_what_was_begun_for_other_settings_is_begun_anew(index: Rebuilding) -> None:
    index.rebuild(stop=lambda: True)
    report = index.rebuild(SHORT, SHORTER)
    assert (report.swapped, report.resumed) == (True, False)
    assert index.held()[0] == SHORT


def test_a_document_without_its_source_is_made_of_its_stored_text(index: Rebuilding) -> None:
    _, before = index.held()
    (index.folder / "a.md").unlink()
    (index.folder / "b.c").unlink()
    report = index.rebuild()
    assert report.swapped
    assert sorted(Path(path).name for path in report.from_stored_text) == ["a.md", "b.c"]
    _, after = index.held()
    for name in ("a.md", "b.c"):
        old, new = before[name], after[name]
        assert new.chunks == old.chunks
        assert new.record == dataclasses.replace(old.record, fingerprint=old.record.fingerprint.replace(OLD, NEW))
        assert not np.allclose(new.vectors, old.vectors)


def test_stored_text_is_embedded_as_the_file_was(index: Rebuilding) -> None:
    index.rebuild()
    _, from_files = index.held()
    labels = sorted(index.new_embedder.labels, key=str)
    for name in ("a.md", "b.c", "c.txt"):
        (index.folder / name).unlink()
    index.rebuild()
    _, from_text = index.held()
    assert sorted(index.new_embedder.labels, key=str) == labels  # the same passages with the same labels
    for name, item in from_text.items():
        np.testing.assert_allclose(item.vectors, from_files[name].vectors, atol=1e-6)


def test_what_would_be_lost_is_named_and_waits_for_consent(index: Rebuilding) -> None:
    gone = index.folder / "a.md"
    gone.unlink()
    report = index.rebuild(SHORT, SHORTER)
    assert not report.swapped
    assert [(loss.path, loss.source, loss.reason) for loss in report.losses] == [(str(gone), GONE, OTHER_WINDOWS)]
    assert index.held()[0] == OLD
    report = index.rebuild(SHORT, SHORTER, accept_losses=True)
    assert (report.swapped, report.resumed, report.ingest.embedded) == (True, True, 0)
    assert report.ingest.files["forgotten"] == 1
    assert sorted(index.held()[1]) == ["b.c", "c.txt"]


def test_the_source_that_came_back_is_read(index: Rebuilding) -> None:
    gone = index.folder / "a.md"
    text = gone.read_text()
    gone.unlink()
    index.rebuild(SHORT, SHORTER)
    gone.write_text(text)
    report = index.rebuild(SHORT, SHORTER)
    assert (report.swapped, report.losses) == (True, [])
    assert len(index.held()[1]) == 3


def test_a_source_that_cannot_be_read_any_more_keeps_its_text_and_is_said_to_have_failed(index: Rebuilding) -> None:
    _, before = index.held()
    (index.folder / "a.md").rename(index.folder / "a.pdf")
    index.write("a.md", b"%PDF-1.7\nnot really")
    report = index.rebuild()
    assert report.swapped
    failed = [(Path(item.path).name, item.outcome) for item in report.ingest.outcomes if item.outcome == "failed"]
    assert failed == [("a.md", "failed")]
    _, after = index.held()
    assert after["a.md"].chunks == before["a.md"].chunks
    assert (after["a.md"].record.status, after["a.md"].record.chunk_count) == ("failed", len(before["a.md"].chunks))


def test_what_became_something_that_is_left_out_goes(index: Rebuilding) -> None:
    index.write("c.txt", b"\x00\x01\x02" * 500)
    report = index.rebuild()
    assert report.swapped
    _, after = index.held()
    assert (after["c.txt"].record.status, after["c.txt"].record.chunk_count) == ("skipped", 0)


def test_what_failed_and_what_was_left_out_is_carried_over_unread(index: Rebuilding) -> None:
    index.write("broken.pdf", b"%PDF-1.7\nnot really")
    index.write("blob.bin", b"\x00\x01\x02" * 500)
    index.ingest_old()
    _, before = index.held()
    assert {before["broken.pdf"].record.status, before["blob.bin"].record.status} == {"failed", "skipped"}
    report = index.rebuild()
    assert report.ingest.files_read == 3
    assert (report.ingest.files["failed"], report.ingest.files["skipped"]) == (1, 1)
    _, after = index.held()
    for name in ("broken.pdf", "blob.bin"):
        made_with = before[name].record.fingerprint.replace(OLD, NEW)
        assert after[name].record == dataclasses.replace(before[name].record, fingerprint=made_with)


def test_a_document_that_no_model_took_is_tried_with_the_new_one(index: Rebuilding) -> None:
    index.write("odd.txt", "An odd text that a model may refuse.")
    index.embedder.raw.refuses = "odd text"
    index.ingest_old()
    assert index.held()[1]["odd.txt"].record.status == "failed"
    index.rebuild()
    assert index.held()[1]["odd.txt"].record.status == "indexed"


def test_what_the_new_model_does_not_take_keeps_nothing_silently(index: Rebuilding) -> None:
    """The old text cannot be embedded either: it is a loss, and said."""
    report = index.rebuild(raw=HashEmbedder(refuses="Kot śpi"))
    assert not report.swapped
    assert [(Path(loss.path).name, loss.reason) for loss in report.losses] == [("c.txt", "cannot be embedded")]
    report = index.rebuild(raw=HashEmbedder(refuses="Kot śpi"), accept_losses=True)
    assert report.swapped
    assert index.held()[1]["c.txt"].record.status == "failed"


def test_what_an_ingest_writes_meanwhile_is_taken_over(index: Rebuilding) -> None:
    changed, added = index.folder / "c.txt", index.folder / "d.txt"
    once: list[int] = []

    def meanwhile(_: Event) -> None:
        if not once:
            once.append(1)
            changed.write_text("Pies szczeka na podwórzu.")
            added.write_text("Nowy dokument o zupie.")
            touch_later(changed)
            index.ingest_old(changed, added)
            with closing(EmbeddedStore(index.store_dir, None, None)) as store:
                store.forget(index.folder / "b.c")

    assert index.rebuild(on_event=meanwhile).swapped
    _, after = index.held()
    assert sorted(after) == ["a.md", "c.txt", "d.txt"]
    assert texts(after["c.txt"]) == ["Pies szczeka na podwórzu."]


def test_what_an_ingest_writes_of_a_file_that_then_goes_is_taken_over_from_its_text(index: Rebuilding) -> None:
    fleeting = index.folder / "fleeting.txt"
    once: list[int] = []

    def meanwhile(_: Event) -> None:
        if not once:
            once.append(1)
            fleeting.write_text("Ulotna notatka.")
            index.ingest_old(fleeting)
            fleeting.unlink()

    assert index.rebuild(on_event=meanwhile).swapped
    assert texts(index.held()[1]["fleeting.txt"]) == ["Ulotna notatka."]


def test_a_dry_run_tells_what_there_is_to_do_and_writes_nothing(index: Rebuilding) -> None:
    index.write("broken.pdf", b"%PDF-1.7\nnot really")
    index.ingest_old()
    (index.folder / "a.md").unlink()
    before = sorted(index.store_dir.iterdir())
    with closing(EmbeddedStore(index.store_dir, None, None)) as old:
        kept = look(old, embedder=index.embedder, settings=SETTINGS, fingerprint=NEW)
        lost = look(old, embedder=index.embedder, settings=SHORTER, fingerprint=SHORT)
    assert (kept.documents, kept.ingest.files["updated"], kept.ingest.files["failed"]) == (4, 3, 1)
    assert kept.ingest.chunks_written == kept.chunks
    assert kept.ingest.estimated_seconds is not None
    assert (len(kept.from_stored_text), kept.losses) == (1, [])
    assert [Path(loss.path).name for loss in lost.losses] == ["a.md"]
    assert sorted(index.store_dir.iterdir()) == before


def test_a_dry_run_counts_the_chunks_as_they_are_cut_from_now_on(index: Rebuilding) -> None:
    (index.folder / "c.txt").rename(index.folder / "d.txt")
    index.write("c.txt", b"%PDF-1.7\nnot really")
    with closing(EmbeddedStore(index.store_dir, None, None)) as old:
        told = look(old, embedder=index.embedder, settings=SHORTER, fingerprint=SHORT, workers=0)
    assert [(Path(loss.path).name, loss.reason) for loss in told.losses] == [("c.txt", OTHER_WINDOWS)]
    done = index.rebuild(SHORT, SHORTER, accept_losses=True)
    assert done.swapped
    assert told.ingest.chunks_written == done.ingest.chunks_written > told.chunks
    assert told.ingest.estimated_seconds is not None
    assert told.ingest.files_read == done.ingest.files_read


def test_a_collection_whose_documents_all_failed_is_rebuilt_too(tmp_path: Path) -> None:
    with small_index(tmp_path) as small:
        index = small
        index.write("broken.pdf", b"%PDF-1.7\nnot really")
        record: Record | None = None
        with closing(index.open_store(OLD)) as store:
            index.store = store
            index.ingest()
            record = next(iter(store.known().values()))
        with embedded_successor(index.store_dir, NEW, DIMENSION, 10) as successor:
            report = rebuild(successor, embedder=index.embedder, settings=SETTINGS, fingerprint=NEW, workers=0)
        assert report.swapped
        with closing(index.open_store(NEW)) as store:
            assert next(iter(store.known().values())).reason == record.reason


def test_too_little_room_is_said_before_anything_is_read(index: Rebuilding, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12, 10**6))
    with pytest.raises(StoreError, match=r"needs \d{3} MB in .*, 1 MB are free"):
        index.rebuild()
    assert not index.new_embedder.raw.passages
    monkeypatch.undo()
    assert index.held()[0] == OLD

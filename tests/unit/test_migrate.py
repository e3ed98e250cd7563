# SPDX-License-Identifier: GPL-2.0-only
"""An index copied from store to store: what goes over, what stays, what is looked at afterwards, what a stop leaves."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigos import migrate
from bigos.errors import FingerprintMismatch, StoreError
from bigos.migrate import Finding, GroupCopied, GroupVerified, MigrationReport, MigrationStarted
from bigos.render_migrate import Route, migrate_document, migrate_text
from bigos.stores import Replacement, Written
from bigos.stores.embedded import EmbeddedStore
from bigos.types import Record
from store_documents import (
    DIMENSION,
    FINGERPRINT,
    document,
    memory_directory,
    random_units,
    texts_in,
    with_record,
)

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard


class Pair:
    """Two places; `migrate` copies from the first to the second as the command does."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.source = EmbeddedStore(base / "source", FINGERPRINT, DIMENSION, lock_timeout=60)
        self.target = EmbeddedStore(base / "target", FINGERPRINT, DIMENSION, lock_timeout=60)

    def migrate(
        self,
        *,
        target: EmbeddedStore | None = None,
        on_event: Callable[[migrate.Event], None] = migrate.ignore,
        stop: Callable[[], bool] = lambda: False,
        dry_run: bool = False,
    ) -> MigrationReport:
        looking = EmbeddedStore(self.base / "source", None, None, lock_timeout=60)
        try:
            return migrate.migrate(looking, target or self.target, on_event=on_event, stop=stop, dry_run=dry_run)
        finally:
            looking.close()

    def close(self) -> None:
        self.source.close()
        self.target.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with memory_directory(tmp_path) as base:
        made = Pair(base)
        yield made
        made.close()


def assert_alike(source: EmbeddedStore, target: EmbeddedStore) -> None:
    """The same Records, chunks and vectors, to the last document."""
    assert target.known() == source.known()
    assert target.stats() == source.stats()
    ids = sorted(source.known())
    for ours, theirs in zip(source.documents(ids), target.documents(ids), strict=True):
        assert theirs.record == ours.record
        assert theirs.chunks == ours.chunks
        np.testing.assert_allclose(theirs.vectors, ours.vectors, atol=1e-6)


MIXED = [
    document("/a/x.txt", 12, seed=1),
    document("/a/y.c", 3, kind="code", seed=2),
    document("/a/Zażółć \U0001f9ed.md", 1, seed=3),
    with_record(document("/a/failed.pdf", 0), status="failed", reason="encrypted", kind=None),
    with_record(document("/a/was better.pdf", 2, seed=4), status="failed", reason="encrypted"),
    with_record(document("/a/picture.txt", 0), status="skipped", reason="binary", kind=None),
]


# --- what goes over ------------------------------------------------------------------------------------------------


def test_every_document_goes_over_with_its_vectors_and_so_do_failures(pair: Pair) -> None:
    pair.source.replace(MIXED)
    report = pair.migrate()
    assert_alike(pair.source, pair.target)
    assert (report.documents, report.chunks) == (6, 18)
    assert (report.copied, report.chunks_copied, report.already_there) == (6, 18, 0)
    assert (report.counted, report.compared) == (6, 4)
    assert (report.differences, report.damaged, report.only_in_target) == ([], [], [])
    assert report.fingerprint == FINGERPRINT
    assert not report.interrupted


def test_what_is_there_already_is_not_copied_again(pair: Pair) -> None:
    pair.source.replace(MIXED)
    pair.migrate()
    pair.source.replace([document("/a/x.txt", 4, "v2", seed=8), document("/a/new.txt", 2, seed=9)])
    report = pair.migrate()
    assert (report.copied, report.chunks_copied, report.already_there) == (2, 6, 5)
    assert (report.counted, report.differences) == (7, [])
    assert_alike(pair.source, pair.target)


def test_the_source_stays_as_it_is(pair: Pair) -> None:
    pair.source.replace(MIXED)
    ids = [item.record.doc_id for item in MIXED]
    before, stats = pair.source.documents(ids), pair.source.stats()
    pair.migrate()
    after = pair.source.documents(ids)
    assert pair.source.stats() == stats
    assert [(item.record, item.chunks) for item in after] == [(item.record, item.chunks) for item in before]
    assert all(np.array_equal(one.vectors, other.vectors) for one, other in zip(after, before, strict=True))


def test_what_only_the_target_has_stays_and_is_named(pair: Pair) -> None:
    own = [document("/b/2.txt", 2, seed=5), document("/b/1.txt", 1, seed=6)]
    pair.source.replace(MIXED)
    pair.target.replace(own)
    report = pair.migrate()
    assert report.only_in_target == ["/b/1.txt", "/b/2.txt"]
    assert report.copied == 6
    found = pair.target.documents([item.record.doc_id for item in own])
    assert [item.chunks for item in found] == [item.chunks for item in own]


def test_a_version_that_was_ingested_later_into_the_target_is_kept(pair: Pair) -> None:
    newer = with_record(document("/a/x.txt", 2, "v2", seed=7), ingested_at="2026-12-01T12:00:00+00:00")
    pair.source.replace(MIXED)
    pair.target.replace([newer])
    report = pair.migrate()
    assert report.newer_in_target == ["/a/x.txt"]
    assert (report.copied, report.counted, report.differences) == (5, 5, [])
    assert pair.target.record(newer.record.doc_id) == newer.record


def test_chunks_that_a_crash_left_over_do_not_go_over(pair: Pair) -> None:
    pair.source.replace(MIXED)
    with pair.source._writing() as shard:
        pair.source._write_chunks(shard, [document("/a/x.txt", 20, "v2", seed=9), document("/a/orphan.txt", 3)])
    pair.migrate()
    assert texts_in(pair.target) == sorted(chunk.text for item in MIXED for chunk in item.chunks)


def test_a_dry_run_counts_and_creates_nothing(pair: Pair) -> None:
    pair.source.replace(MIXED)
    report = pair.migrate(dry_run=True)
    assert (report.to_copy, report.chunks_to_copy) == (6, 18)
    assert (report.copied, report.counted, report.compared) == (0, 0, 0)
    assert report.dry_run
    assert not (pair.base / "target").exists()


def test_many_documents_and_a_long_one_go_over_in_bounded_groups(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "GROUP_CHUNKS", 50)
    monkeypatch.setattr(migrate, "GROUP_DOCUMENTS", 20)
    pair.source.replace([document(f"/a/{number}.txt", number % 8, seed=number) for number in range(150)])
    pair.source.replace([document("/a/long.txt", 120, seed=7)])
    skipped = [with_record(document(f"/b/{n}.bin", 0), status="skipped", reason="binary") for n in range(49)]
    pair.source.replace(skipped)
    events: list[migrate.Event] = []
    report = pair.migrate(on_event=events.append)
    assert_alike(pair.source, pair.target)
    copied = [event for event in events if isinstance(event, GroupCopied)]
    assert events[0] == MigrationStarted(200, report.chunks, 0)
    assert sum(event.documents for event in copied) == 200
    assert sum(event.chunks for event in copied) == report.chunks
    assert [event for event in copied if event.chunks > 50] == [GroupCopied(1, 120)]
    assert max(event.documents for event in copied) == 20
    assert [event for event in events if isinstance(event, GroupVerified)][-1] == GroupVerified(200, 200)


_versions = st.dictionaries(
    st.sampled_from([f"/a/{name}.txt" for name in "abcdef"]),
    st.tuples(st.integers(0, 3), st.sampled_from(["v1", "v2"])),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=_versions, theirs=_versions)
def test_whatever_both_hold_the_target_ends_with_all_of_the_source(
    tmp_path: Path, ours: dict[str, tuple[int, str]], theirs: dict[str, tuple[int, str]]
) -> None:
    ours = ours | {"/a/always.txt": (2, "v1")}
    with memory_directory(tmp_path / "fresh") as base:
        base.mkdir(exist_ok=True)
        pair = Pair(base)
        try:
            for store, versions in ((pair.source, ours), (pair.target, theirs)):
                store.replace([document(path, *version) for path, version in versions.items()])
            report = pair.migrate()
            equal = sum(theirs.get(path) == version for path, version in ours.items())
            assert (report.already_there, report.copied) == (equal, len(ours) - equal)
            assert report.only_in_target == sorted(theirs.keys() - ours.keys())
            wanted = [document(path, *version) for path, version in (theirs | ours).items()]
            assert texts_in(pair.target) == sorted(chunk.text for item in wanted for chunk in item.chunks)
            assert pair.migrate().copied == 0
        finally:
            pair.close()


# --- stopped, and gone on ------------------------------------------------------------------------------------------


def test_a_stop_between_groups_keeps_what_was_copied_and_the_next_run_does_the_rest(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "GROUP_CHUNKS", 4)
    items = [document(f"/a/{number:02}.txt", 2, seed=number) for number in range(10)]
    pair.source.replace(items)
    copied: list[GroupCopied] = []

    def watch(event: migrate.Event) -> None:
        if isinstance(event, GroupCopied):
            copied.append(event)

    report = pair.migrate(on_event=watch, stop=lambda: len(copied) == 3)
    assert report.interrupted
    assert (report.copied, report.counted) == (6, 0)
    assert {record.source_path for record in pair.target.known().values()} == {f"/a/{n:02}.txt" for n in range(6)}
    report = pair.migrate()
    assert (report.already_there, report.copied, report.interrupted) == (6, 4, False)
    assert_alike(pair.source, pair.target)


def test_a_stop_while_it_is_verified_says_that_it_was_not(pair: Pair) -> None:
    pair.source.replace(MIXED)
    seen: list[migrate.Event] = []
    report = pair.migrate(on_event=seen.append, stop=lambda: any(isinstance(one, GroupCopied) for one in seen))
    assert report.interrupted
    assert (report.copied, report.counted) == (6, 0)


class BreaksAfter(EmbeddedStore):
    """A store whose disk is full after some calls, when the chunks are written and the Records are not."""

    calls_left = 2

    def _write_chunks(self, shard: EdgeShard, items: Sequence[Replacement]) -> None:
        super()._write_chunks(shard, items)
        if not self.calls_left:
            raise OSError(28, "No space left on device")
        self.calls_left -= 1


def test_a_target_that_fails_in_the_middle_keeps_whole_documents(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "GROUP_CHUNKS", 4)
    pair.source.replace([document(f"/a/{number}.txt", 2, seed=number) for number in range(8)])
    target = BreaksAfter(pair.base / "target", FINGERPRINT, DIMENSION, lock_timeout=60)
    with pytest.raises(StoreError, match="no room"):
        pair.migrate(target=target)
    target.close()
    assert pair.target.stats().chunks == len(texts_in(pair.target)) == 8
    assert pair.migrate().copied == 4
    assert_alike(pair.source, pair.target)


# --- looked at afterwards ------------------------------------------------------------------------------------------


class Forgetful(EmbeddedStore):
    """A store that spoils what it is given, so many times; the worst a server could do and say nothing."""

    times = 1
    spoil: Callable[[EmbeddedStore, Replacement], None]

    def replace(self, items: Sequence[Replacement]) -> Written:
        written = super().replace(items)
        for item in items:
            if self.times and item.record.source_path == "/a/x.txt":
                self.times -= 1
                type(self).spoil(self, item)
        return written


def _lose_a_chunk(store: EmbeddedStore, item: Replacement) -> None:
    from qdrant_edge import UpdateOperation

    from bigos.stores import points

    with store._writing() as shard:
        shard.update(UpdateOperation.delete_points([points.chunk_point_id(item.record, 5)]))


def _lose_the_record(store: EmbeddedStore, item: Replacement) -> None:
    from qdrant_edge import UpdateOperation

    with store._writing() as shard:
        shard.update(UpdateOperation.delete_points([item.record.doc_id]))


def _other_record(store: EmbeddedStore, item: Replacement) -> None:
    store.refresh([dataclasses.replace(item.record, title="another")])


def _other_vectors(store: EmbeddedStore, item: Replacement) -> None:
    vectors = item.vectors.copy()
    vectors[-1] = random_units(1, seed=99)[0]
    EmbeddedStore.replace(store, [dataclasses.replace(item, vectors=vectors)])


def _other_text(store: EmbeddedStore, item: Replacement) -> None:
    chunks = [*item.chunks[:-1], dataclasses.replace(item.chunks[-1], text="another")]
    EmbeddedStore.replace(store, [dataclasses.replace(item, chunks=chunks)])


FAULTS = {
    "has 11 of 12 chunks there": _lose_a_chunk,
    "is not there": _lose_the_record,
    "has another Record there": _other_record,
    "has other vectors there": _other_vectors,
    "has other text or places there": _other_text,
}


@pytest.fixture(params=FAULTS)
def forgetful(request: pytest.FixtureRequest, pair: Pair) -> Iterator[tuple[Forgetful, str]]:
    made = type("Spoiling", (Forgetful,), {"spoil": staticmethod(FAULTS[request.param])})
    target = made(pair.base / "target", FINGERPRINT, DIMENSION, lock_timeout=60)
    yield target, request.param
    target.close()


def test_a_document_that_differs_at_the_target_is_named_with_what_differs(
    pair: Pair, forgetful: tuple[Forgetful, str]
) -> None:
    target, what = forgetful
    target.times = 2
    pair.source.replace(MIXED)
    report = pair.migrate(target=target)
    assert report.differences == [Finding("/a/x.txt", what)]
    assert not report.interrupted


def test_a_document_that_differs_once_is_copied_again_and_right(pair: Pair, forgetful: tuple[Forgetful, str]) -> None:
    target, _ = forgetful
    pair.source.replace(MIXED)
    report = pair.migrate(target=target)
    assert target.times == 0
    assert (report.differences, report.copied) == ([], 6)
    target.close()
    assert_alike(pair.source, pair.target)


@pytest.mark.parametrize("what", ["has 11 of 12 chunks there", "is not there", "has another Record there"])
def test_losses_are_found_in_every_document_and_not_only_in_the_sample(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(migrate, "SAMPLE_DOCUMENTS", 0)
    made = type("Spoiling", (Forgetful,), {"spoil": staticmethod(FAULTS[what]), "times": 2})
    target = made(pair.base / "target", FINGERPRINT, DIMENSION, lock_timeout=60)
    pair.source.replace(MIXED)
    assert pair.migrate(target=target).differences == [Finding("/a/x.txt", what)]
    target.close()


def test_what_was_copied_again_is_compared_whether_or_not_it_is_in_the_sample(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "SAMPLE_DOCUMENTS", 0)
    faults = iter([_lose_a_chunk, _other_vectors])

    def spoil(store: EmbeddedStore, item: Replacement) -> None:
        next(faults)(store, item)

    made = type("Spoiling", (Forgetful,), {"spoil": spoil, "times": 2})
    target = made(pair.base / "target", FINGERPRINT, DIMENSION, lock_timeout=60)
    pair.source.replace(MIXED)
    assert pair.migrate(target=target).differences == [Finding("/a/x.txt", "has other vectors there")]
    target.close()


def test_damage_that_an_earlier_run_left_is_found_and_mended(pair: Pair) -> None:
    pair.source.replace(MIXED)
    pair.migrate()
    _lose_a_chunk(pair.target, MIXED[0])
    report = pair.migrate()
    assert (report.already_there, report.copied, report.differences) == (6, 0, [])
    assert_alike(pair.source, pair.target)


def test_a_change_in_the_source_meanwhile_goes_over_too(pair: Pair) -> None:
    pair.source.replace(MIXED)
    changed: list[Written] = []

    def ingest_meanwhile(event: migrate.Event) -> None:
        if isinstance(event, GroupCopied) and not changed:
            pair.source.forget(Path("/a/y.c"))
            new = [document("/a/x.txt", 3, "v2", seed=5), document("/a/new.txt", 1, seed=6)]
            changed.append(pair.source.replace(new))

    report = pair.migrate(on_event=ingest_meanwhile)
    assert report.differences == []
    theirs = pair.target.known()
    assert {doc_id: theirs[doc_id] for doc_id in pair.source.known()} == pair.source.known()


def test_only_a_sample_of_a_large_index_is_compared(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "SAMPLE_DOCUMENTS", 5)
    pair.source.replace([document(f"/a/{number}.txt", 2, seed=number) for number in range(30)])
    report = pair.migrate()
    assert (report.counted, report.compared) == (30, 5)
    monkeypatch.setattr(migrate, "SAMPLE_CHUNKS", 3)
    assert pair.migrate().compared == 2


# --- what cannot be copied -----------------------------------------------------------------------------------------


def test_a_document_that_is_not_whole_in_the_source_is_named_and_the_others_go_over(pair: Pair) -> None:
    pair.source.replace(MIXED)
    _lose_a_chunk(pair.source, MIXED[0])
    report = pair.migrate()
    assert report.damaged == [Finding("/a/x.txt", "has 11 of 12 chunks in the source")]
    assert (report.copied, report.counted, report.differences) == (5, 5, [])
    assert pair.target.record(MIXED[0].record.doc_id) is None


def test_a_document_that_was_torn_when_it_was_read_goes_over_once_it_is_whole(pair: Pair) -> None:
    pair.source.replace(MIXED)
    _lose_a_chunk(pair.source, MIXED[0])

    def mend(event: migrate.Event) -> None:
        if isinstance(event, GroupCopied):
            pair.source.replace([MIXED[0]])

    report = pair.migrate(on_event=mend)
    assert (report.damaged, report.differences) == ([], [])
    assert_alike(pair.source, pair.target)


@pytest.mark.parametrize("open_with", [FINGERPRINT, "other-model/2"])
def test_a_target_of_another_model_is_refused_and_left_alone(pair: Pair, open_with: str) -> None:
    other = EmbeddedStore(pair.base / "target", "other-model/2", DIMENSION, lock_timeout=60)
    theirs: dict[str, Record] = {}
    other.replace([document("/b/1.txt", 1)])
    theirs = other.known()
    pair.source.replace(MIXED)
    target = other if open_with != FINGERPRINT else None
    with pytest.raises(FingerprintMismatch, match=rf"{FINGERPRINT}.*other-model/2|other-model/2.*{FINGERPRINT}"):
        pair.migrate(target=target)
    assert other.known() == theirs
    other.close()


def test_the_source_tells_how_its_copy_has_to_be_opened(pair: Pair) -> None:
    looking = EmbeddedStore(pair.base / "source", None, None, lock_timeout=60)
    assert migrate.identity(looking) is None
    pair.source.replace([MIXED[3]])
    assert migrate.identity(looking) is None, "no vector tells the dimension"
    pair.source.replace(MIXED)
    assert migrate.identity(looking) == (FINGERPRINT, DIMENSION)
    looking.close()


# --- told ----------------------------------------------------------------------------------------------------------

ROUTE = Route("embedded", "/data/bigos", "server", "http://127.0.0.1:6333, collection bigos", "embedded")


def test_a_report_is_told_with_what_to_change_in_the_configuration(pair: Pair) -> None:
    pair.source.replace(MIXED)
    pair.target.replace([document("/b/1.txt", 1)])
    report = pair.migrate()
    text = migrate_text(report, ROUTE)
    assert f"6 documents, 18 chunks, made with {FINGERPRINT}" in text
    assert "copied 6 documents (18 chunks)" in text
    assert "verified: 6 by count of chunks, 4 by text and vectors" in text
    assert "only there, and kept: 1\n    /b/1.txt\n" in text
    assert text.endswith('to use it, set this in config.toml: store = "server"\n')
    configured = dataclasses.replace(ROUTE, configured="server")
    assert migrate_text(report, configured).endswith('the configuration uses it already: store = "server"\n')
    found = migrate_document(report, ROUTE)
    assert found["schema"] == "bigos.migrate.v1"
    assert (found["to"]["store"], found["copied"], found["to_copy"]) == (
        "server", {"documents": 6, "chunks": 18}, {"documents": 6, "chunks": 18}
    )  # fmt: skip
    assert (found["only_in_target"], found["verified"]) == (["/b/1.txt"], {"counted": 6, "compared": 4})
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"dry_run": True, "to_copy": 7, "chunks_to_copy": 1234}, "would copy 7 documents (1,234 chunks), 0 there"),
        ({"interrupted": True, "to_copy": 7, "copied": 3}, "stopped: copied 3 documents, 4 are left; the same"),
        ({"interrupted": True, "to_copy": 7, "copied": 7}, "stopped: copied 7 documents, they were not verified; the"),
        (
            {"differences": [Finding("/a/x.txt", "is not there")]},
            "DIFFER from the source: 1\n    /a/x.txt is not there",
        ),
        ({"damaged": [Finding("/a/x\n.txt", "is torn")]}, "not copied: 1\n    /a/x\\x0a.txt is torn"),
        ({"newer_in_target": [f"/{n}" for n in range(12)]}, "/9\n    ... and 2 more (--json names all)"),
    ],
)
def test_a_report_tells_what_is_not_as_it_should_be(changes: dict[str, object], line: str) -> None:
    report = dataclasses.replace(MigrationReport(FINGERPRINT), **changes)  # type: ignore[arg-type]
    text = migrate_text(report, ROUTE)
    assert line in text
    assert ("to use it" in text) == ({"damaged", "newer_in_target"} >= changes.keys())

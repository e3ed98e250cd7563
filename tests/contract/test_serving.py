# SPDX-License-Identifier: GPL-2.0-only
"""Which index answers while another one is made, over every store: the old one, if its model is the one wanted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest

from bigos import rebuild, render_state, status
from bigos.config import Config, load_config
from bigos.errors import FingerprintMismatch
from bigos.library import Library
from bigos.pipeline import IngestRequest
from bigos.rebuild import RebuildReport
from bigos.report import Event, FileFinished
from bigos.search import SearchRequest, SearchResult
from command_line import MODELS
from doubles.qdrant_server import Fault, QdrantDouble
from hash_embedder import HashEmbedder, LabelledEmbedder
from store_documents import memory_directory

DOCUMENTS = 2


class OtherEmbedder(HashEmbedder):
    fingerprint = "words-hashed/48/other"


class HashLibrary(Library):
    """A library of real parts but for the model."""

    raw: type[HashEmbedder] = HashEmbedder

    @cached_property
    def embedder(self) -> LabelledEmbedder:
        return LabelledEmbedder(self.raw())

    def expected_fingerprint(self) -> str:
        return self.fingerprint


class OtherLibrary(HashLibrary):
    raw = OtherEmbedder


class Place:
    """A home with files in it, and libraries that work there."""

    def __init__(self, home: Path, stack: ExitStack, **flags: object) -> None:
        self.folder = home / "notes"
        self.folder.mkdir()
        for name in range(DOCUMENTS):
            text = f"Note {name} tells of clock dividers. " * 8
            (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")
        environment = {"HOME": str(home), "BIGOS_MODELS_DIR": str(MODELS)}
        self._config = load_config(environment, flags)
        self._stack = stack

    def config(self, tokens: int) -> Config:
        return replace(self._config, chunk_tokens=tokens)

    def library(self, tokens: int = 48, kind: type[HashLibrary] = HashLibrary) -> HashLibrary:
        return self._stack.enter_context(kind(self.config(tokens)))

    def rebuilt(
        self,
        library: Library,
        on_event: Callable[[Event], None] = lambda _: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> RebuildReport:
        with library.succession.successor(library.fingerprint, library.embedder.dimension) as successor:
            return rebuild.rebuild(
                successor,
                embedder=library.embedder,
                settings=library.preparation_settings(None),
                fingerprint=library.fingerprint,
                workers=0,
                on_event=on_event,
                stop=stop,
            )


def asked(library: Library) -> SearchResult:
    return library.search(SearchRequest("clock dividers"))


def ingested(library: Library, place: Place) -> None:
    library.ingest(IngestRequest((place.folder,), recursive=True))


@pytest.fixture(params=["embedded", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with memory_directory(tmp_path) as home, ExitStack() as stack:
        flags = {"store": request.param, "qdrant_wait": 1.0}
        if request.param == "server":
            flags["qdrant_url"] = stack.enter_context(QdrantDouble()).url
        made = Place(home, stack, **flags)
        with HashLibrary(made.config(48)) as first:
            ingested(first, made)
        yield made


def begun(place: Place, library: Library) -> None:
    """Have a rebuild stopped when it has one document."""
    seen: list[Event] = []
    report = place.rebuilt(library, seen.append, lambda: any(isinstance(event, FileFinished) for event in seen))
    assert report.ingest.interrupted


def test_other_windows_are_refused_where_nothing_is_made_of_them(place: Place) -> None:
    new = place.library(24)
    with pytest.raises(FingerprintMismatch, match=r"made with .*window-48.*the configuration says .*window-24"):
        asked(new)
    with pytest.raises(FingerprintMismatch, match="the configuration says"):
        ingested(new, place)
    assert new.stats().documents == DOCUMENTS  # whoever only looks is not refused for that


def test_a_rebuild_that_was_stopped_leaves_the_old_index_to_answer(place: Place) -> None:
    new = place.library(24)
    begun(place, new)
    assert status.look(new).rebuild.running is False  # type: ignore[union-attr]
    result = asked(new)
    assert result.hits
    assert result.notice is not None
    assert f"{status.look(new).rebuild.documents} of {DOCUMENTS} documents" in result.notice  # type: ignore[union-attr]
    assert "hint: bigos ingest --rebuild" in result.notice
    with pytest.raises(FingerprintMismatch, match=f"of {DOCUMENTS} documents.*answers questions but takes no files"):
        ingested(new, place)
    assert asked(place.library(48)).notice is None  # its settings are those of the index that serves
    assert place.rebuilt(new).swapped
    result = asked(new)
    assert (bool(result.hits), result.notice) == (True, None)
    assert status.look(new).rebuild is None


def test_a_rebuild_at_work_is_told_to_who_asks_meanwhile(place: Place) -> None:
    told: list[tuple[SearchResult, status.IndexStatus]] = []
    asking = place.library(24)

    def look(event: Event) -> None:
        if isinstance(event, FileFinished) and not told:
            told.append((asked(asking), status.look(asking)))

    assert place.rebuilt(place.library(24), look).swapped
    ((result, seen),) = told
    assert result.hits
    assert result.notice is not None
    assert "the old one answers until then" in result.notice
    assert seen.fits is False
    assert seen.rebuild is not None
    document = render_state.status_document(seen)["rebuild"]
    assert (document["of"], document["fits_configuration"]) == (DOCUMENTS, True)
    here = seen.store_dir is not None
    assert (document["running"], document["process"]) == (True, os.getpid() if here else None)
    assert f"of {DOCUMENTS} documents" in render_state.status_text(seen)
    assert asked(asking).notice is None  # and then the new one answers


def test_another_model_is_told_that_the_old_index_cannot_answer_and_how_far_the_new_one_is(place: Place) -> None:
    new = place.library(48, OtherLibrary)
    begun(place, new)
    with pytest.raises(FingerprintMismatch, match=f"of {DOCUMENTS} documents.*cannot answer.*another model") as caught:
        asked(new)
    assert caught.value.fix.startswith("bigos ingest --rebuild")
    assert "rebuild: the index " in render_state.status_text(status.look(new))
    third = place.library(24)
    with pytest.raises(FingerprintMismatch, match="the configuration says"):
        asked(third)  # what was begun is not for its settings
    assert "with other settings, words-hashed/48/other" in render_state.status_text(status.look(third))


def test_what_is_forgotten_in_the_last_moment_is_not_in_the_new_index(tmp_path: Path) -> None:
    """On a server, which keeps nobody out: after the last comparison, before the name stands for another collection."""
    with QdrantDouble() as server, ExitStack() as stack:
        place = Place(tmp_path, stack, store="server", qdrant_url=server.url, qdrant_wait=1.0)
        old = place.library(48)
        ingested(old, place)
        gone: list[int] = []

        def forget() -> None:
            server.faults = []
            gone.append(old.forget([place.folder / "0.txt"]).files["forgotten"])

        server.faults = [Fault(path=r"^DELETE /collections/bigos$", call=forget)]
        assert place.rebuilt(place.library(24)).swapped
        assert gone == [1]
        assert [Path(record.source_path).name for record in place.library(24).records().values()] == ["1.txt"]


@pytest.mark.parametrize(("tokens", "kind", "answers"), [(24, HashLibrary, True), (48, OtherLibrary, False)])
def test_a_program_that_has_run_since_before_the_rebuild_is_told_to_start_again(
    place: Place, tokens: int, kind: type[HashLibrary], answers: bool
) -> None:
    old = place.library(48)
    assert asked(old).notice is None
    assert place.rebuilt(place.library(tokens, kind)).swapped
    for _ in range(2):
        if answers:
            assert "start it again" in (asked(old).notice or "")
        else:
            with pytest.raises(FingerprintMismatch, match="made anew with other settings") as caught:
                asked(old)
            assert caught.value.fix.startswith("start it again")
        with pytest.raises(FingerprintMismatch, match="made anew with other settings"):
            ingested(old, place)
        assert old.stats().documents == DOCUMENTS

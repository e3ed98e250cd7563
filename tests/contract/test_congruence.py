# SPDX-License-Identifier: GPL-2.0-only
"""The same documents and questions give the same hits in every store, filters included."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient

from bigos.config import user_environment
from bigos.lexicon import Lexicon
from bigos.stores import Replacement, Store, StoreQuery
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.server import ServerStore
from bigos.types import Hit, Kind
from doubles.qdrant_server import QdrantDouble
from store_documents import document, memory_directory, random_units

DIMENSION = 64
TOLERANCE = 1e-3
REAL_SERVER = user_environment().get("BIGOS_TEST_QDRANT_URL", "")
REAL_KEY = user_environment().get("BIGOS_TEST_QDRANT_API_KEY")
REAL_COLLECTION = f"bigos-test-{uuid.uuid4().hex}"
OTHERS = ["server-memory", "server-http", *(["server-real"] if REAL_SERVER else [])]

pytestmark = [
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
]


def corpus() -> list[Replacement]:
    """Documents whose vectors lie in a few bundles, so that scores are near each other; some are replaced or twins."""
    centres = random_units(6, seed=100, dimension=DIMENSION)
    items = []
    for number in range(60):
        noise = random_units(5, seed=number, dimension=DIMENSION)
        vectors = centres[number % 6] + 0.7 * noise
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        if number % 10 == 9:
            vectors = items[-1].vectors  # a copy of the document before: every score is a tie
        kind = "code" if number % 2 else "document"
        path = f"/srv/{'abc'[number % 3]}/{number % 7}/plik {number}.txt"
        items.append(document(path, 5, f"v{number}", kind=kind, vectors=vectors, dimension=DIMENSION))
    return items


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Store]]:
    client = QdrantClient(":memory:")
    with memory_directory(tmp_path_factory.mktemp("store")) as directory, QdrantDouble() as double:
        stores: dict[str, Store] = {
            "embedded": EmbeddedStore(directory / "bigos", "model/1", DIMENSION),
            "server-memory": ServerStore("http://memory", "bigos", "model/1", DIMENSION, client=client),
            "server-http": ServerStore(double.url, "bigos", "model/1", DIMENSION),
        }
        if REAL_SERVER:
            stores["server-real"] = ServerStore(REAL_SERVER, REAL_COLLECTION, "model/1", DIMENSION, api_key=REAL_KEY)
        old = [document(item.record.source_path, 7, "old", dimension=DIMENSION) for item in corpus()[::4]]
        for store in stores.values():
            store.replace(old)
            store.replace(corpus())
            store.forget(Path("/srv/a/3"))
        yield stores
        for store in stores.values():
            store.close()
    client.close()
    if REAL_SERVER:
        real = QdrantClient(url=REAL_SERVER, headers={"api-key": REAL_KEY} if REAL_KEY else None)
        if real.collection_exists(REAL_COLLECTION):
            real.delete_collection(REAL_COLLECTION)
        real.close()


QUERIES = [
    (seed, limit, kind, paths)
    for seed in range(8)
    for limit, kind, paths in [
        (10, None, ()),
        (1, None, ()),
        (400, None, ()),
        (10, "code", ()),
        (10, "document", ("/srv/b", "/srv/c/2")),
        (10, None, ("/srv/a/6",)),
        (10, "code", ("/srv/b",)),
    ]
]


def assert_same(one: Sequence[Hit], other: Sequence[Hit]) -> None:
    """Equal scores in order, and equal hits but for the order of ties; at the cut a tie may fall either way."""
    assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=TOLERANCE)
    assert [hit.ranks.dense for hit in one] == [hit.ranks.dense for hit in other]
    scores = {hit.chunk_id: hit.score for hit in (*one, *other)}
    mine, theirs = ({hit.chunk_id: hit for hit in hits} for hits in (one, other))
    last = min((hit.score for hit in one), default=0.0)
    for chunk_id in mine.keys() ^ theirs.keys():
        assert scores[chunk_id] == pytest.approx(last, abs=TOLERANCE)
    for chunk_id in mine.keys() & theirs.keys():
        assert mine[chunk_id].score == pytest.approx(theirs[chunk_id].score, abs=TOLERANCE)
        assert mine[chunk_id].chunk == theirs[chunk_id].chunk
        assert mine[chunk_id].source_path == theirs[chunk_id].source_path
        assert mine[chunk_id].content_hash == theirs[chunk_id].content_hash


@pytest.mark.parametrize("other", OTHERS)
def test_stores_give_the_same_hits_with_and_without_filters(stores: dict[str, Store], other: str) -> None:
    questions = random_units(8, seed=7, dimension=DIMENSION)
    centres = random_units(6, seed=100, dimension=DIMENSION)
    for number, limit, kind, paths in QUERIES:
        vector = questions[number] if number % 2 else centres[number % 6]
        wanted: Kind | None = kind  # type: ignore[assignment]
        query = StoreQuery(vector, limit, wanted, tuple(Path(path) for path in paths))
        expected = stores["embedded"].search(query)
        assert expected
        assert_same(expected, stores[other].search(query))


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("words", ["Zażółć", "gęślą jaźń", "d"])
def test_stores_rank_words_alike(stores: dict[str, Store], other: str, words: str) -> None:
    query = StoreQuery(Lexicon().question_vector(words, None), 1000)
    expected, found = ({hit.chunk_id: hit.score for hit in stores[name].search(query)} for name in ("embedded", other))
    assert expected.keys() == found.keys()
    # As a part of the best: one engine counts Records among the passages of which a word is rare, the other does not.
    parts = [score / max(expected.values()) for score in expected.values()]
    assert [found[chunk_id] / max(found.values()) for chunk_id in expected] == pytest.approx(parts, rel=2e-3)


@pytest.mark.parametrize("other", OTHERS)
def test_stores_hold_the_same(stores: dict[str, Store], other: str) -> None:
    embedded, server = stores["embedded"], stores[other]
    assert embedded.stats() == server.stats()
    known = embedded.known()
    assert known == server.known()
    assert len(known) == 57
    for mine, theirs in zip(embedded.documents(list(known)), server.documents(list(known)), strict=True):
        assert (mine.record, mine.chunks) == (theirs.record, theirs.chunks)
        np.testing.assert_allclose(mine.vectors, theirs.vectors, atol=1e-6)

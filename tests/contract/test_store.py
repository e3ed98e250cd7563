# SPDX-License-Identifier: GPL-2.0-only
"""What every store does, written against the port. A further store is one more line in FACTORIES."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from bigos.config import user_environment
from bigos.errors import ExitCode, FingerprintMismatch
from bigos.lexical import term_number
from bigos.lexicon import Lexicon
from bigos.stores import MOST_TWINS, Forgotten, Replacement, Store, StoreQuery, Written, stamp_state
from bigos.stores.embedded import EmbeddedStore
from bigos.stores.server import ServerStore
from bigos.types import Chunk, Record, chunk_id, document_id
from doubles.qdrant_grpc import GrpcDouble
from doubles.qdrant_server import QdrantDouble
from processes import until
from store_documents import DIMENSION, FINGERPRINT, document, memory_directory, random_units, unit, with_record


@contextmanager
def embedded(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    def open_one(fingerprint: str | None = FINGERPRINT, dimension: int | None = DIMENSION) -> Store:
        return EmbeddedStore(tmp_path / "data" / "bigos", fingerprint, dimension, lock_timeout=60)

    yield open_one


@contextmanager
def server_memory(_: Path) -> Iterator[Callable[..., Store]]:
    from qdrant_client import QdrantClient

    client = QdrantClient(":memory:")

    def open_one(fingerprint: str | None = FINGERPRINT, dimension: int | None = DIMENSION) -> Store:
        return ServerStore("http://memory", "bigos", fingerprint, dimension, client=client)

    yield open_one
    client.close()


@contextmanager
def server_http(_: Path) -> Iterator[Callable[..., Store]]:
    with QdrantDouble() as double:

        def open_one(fingerprint: str | None = FINGERPRINT, dimension: int | None = DIMENSION) -> Store:
            return ServerStore(double.url, "bigos", fingerprint, dimension, wait=5)

        yield open_one


@contextmanager
def server_grpc(_: Path) -> Iterator[Callable[..., Store]]:
    with QdrantDouble() as double, GrpcDouble(double) as uploads:

        def open_one(fingerprint: str | None = FINGERPRINT, dimension: int | None = DIMENSION) -> Store:
            return ServerStore(double.url, "bigos", fingerprint, dimension, grpc=True, grpc_port=uploads.port, wait=5)

        yield open_one


@contextmanager
def server_real(_: Path) -> Iterator[Callable[..., Store]]:
    """A real server: its URL in BIGOS_TEST_QDRANT_URL, its key in BIGOS_TEST_QDRANT_API_KEY when it wants one."""
    from qdrant_client import QdrantClient

    key, collection = user_environment().get("BIGOS_TEST_QDRANT_API_KEY"), f"bigos-test-{uuid.uuid4().hex}"

    def open_one(fingerprint: str | None = FINGERPRINT, dimension: int | None = DIMENSION) -> Store:
        return ServerStore(REAL_SERVER, collection, fingerprint, dimension, api_key=key)

    yield open_one
    client = QdrantClient(url=REAL_SERVER, headers={"api-key": key} if key else None, check_compatibility=False)
    if client.collection_exists(collection):
        client.delete_collection(collection)
    client.close()


REAL_SERVER = user_environment().get("BIGOS_TEST_QDRANT_URL", "")

FACTORIES: dict[str, Callable[[Path], AbstractContextManager[Callable[..., Store]]]] = {
    "embedded": embedded,
    "server-memory": server_memory,
    "server-http": server_http,
    "server-grpc": server_grpc,
}
if REAL_SERVER:
    FACTORIES["server-real"] = server_real

# What the client says of its in-memory server, which is a stand-in here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
]


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    with memory_directory(tmp_path) as directory:
        yield directory


@pytest.fixture(params=FACTORIES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    opened: list[Store] = []
    with FACTORIES[request.param](tmp_path) as open_one:

        def remembered(*arguments: object) -> Store:
            opened.append(open_one(*arguments))
            return opened[-1]

        yield remembered
        for store in opened:
            store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


def everything(store: Store, limit: int = 100, **filters: object) -> list[str]:
    """The texts that a search for anything brings up."""
    found = store.search(StoreQuery(unit(1), limit, **filters))  # type: ignore[arg-type]
    return sorted(hit.chunk.text for hit in found)


def texts(item: Replacement) -> list[str]:
    return sorted(chunk.text for chunk in item.chunks)


# --- round trip ----------------------------------------------------------------------------------------------------


def test_every_field_comes_back_as_it_went_in(store: Store) -> None:
    path = Path("/home/ala/Książki/zażółć gęślą.pdf")
    chunk = Chunk(
        doc_id=document_id(path),
        index=0,
        text="Wąż 𝄞\x00 „cudzysłów”\n\ttab",
        char_start=3,
        char_end=77,
        line_start=5,
        line_end=9,
        page=12,
        page_end=13,
        heading_path=("Rozdział 1", "a/b", ""),
        token_count=512,
        language="pl",
        chunk_language="en",
        kind="document",
        code_language="c",
    )
    item = with_record(document(path, 1), title="Tytuł", reason="powód", format="pdf", language="pl")
    item = dataclasses.replace(item, chunks=[chunk], vectors=unit(1, 2)[None, :])
    assert store.replace([item]) == Written(1, 0)

    (hit,) = store.search(StoreQuery(unit(1, 2), 5))
    assert hit.chunk == chunk
    assert hit.chunk_id == chunk_id(item.record.doc_id, item.record.content_hash, 0)
    assert hit.source_path == str(path)
    assert hit.source_name == "zażółć gęślą.pdf"
    assert (hit.content_hash, hit.ingested_at) == (item.record.content_hash, item.record.ingested_at)
    assert hit.score == pytest.approx(1.0, abs=1e-5)
    assert (hit.ranks.dense, hit.ranks.fused, hit.ranks.lexical) == (1, None, None)
    assert hit.ranks.dense_score == hit.score
    assert store.record(item.record.doc_id) == item.record
    stored = store.chunk(hit.chunk_id)
    assert stored is not None
    assert (stored.chunk, stored.source_path, stored.source_name) == (chunk, hit.source_path, hit.source_name)
    assert store.chunks(item.record.doc_id) == [stored]


def test_what_does_not_apply_comes_back_as_none(store: Store) -> None:
    item = with_record(document("/a/x.c", 1, kind="code"), code_language=None, kind=None, format=None)
    nulls = ("line_start", "line_end", "page", "page_end", "language", "chunk_language", "code_language")
    chunk = dataclasses.replace(item.chunks[0], **dict.fromkeys(nulls))
    store.replace([dataclasses.replace(item, chunks=[chunk])])
    assert store.chunks(item.record.doc_id)[0].chunk == chunk
    assert store.record(item.record.doc_id) == item.record


def test_a_document_that_failed_is_remembered_without_chunks(store: Store) -> None:
    store.replace([document("/a/x.pdf", 2)])
    failed = with_record(document("/a/x.pdf", 0, "v2"), status="failed", reason="encrypted", kind=None)
    assert store.replace([failed]) == Written(0, 2)
    assert store.known() == {failed.record.doc_id: failed.record}
    assert everything(store) == []


def test_the_index_outlives_the_store(open_store: Callable[..., Store]) -> None:
    item = document("/a/x.txt")
    first = open_store()
    first.replace([item])
    first.close()
    assert everything(open_store()) == texts(item)
    assert everything(first) == texts(item)  # a closed store opens again when it is asked


# --- replace -------------------------------------------------------------------------------------------------------


def test_replacing_twice_with_the_same_changes_nothing(store: Store) -> None:
    items = [document(f"/a/{name}.txt", seed=seed) for seed, name in enumerate("abc")]
    store.replace(items)
    before, stats = everything(store), store.stats()
    assert store.replace(items) == Written(9, 0)
    assert everything(store) == before
    assert store.stats() == stats


def test_a_new_version_takes_the_place_of_the_old_one(store: Store) -> None:
    old, new = document("/a/x.txt", 3, "v1"), document("/a/x.txt", 5, "v2")
    other = document("/a/y.txt", 2, "v1", seed=5)
    store.replace([old, other])
    assert store.replace([new]) == Written(5, 3)
    assert everything(store) == sorted(texts(new) + texts(other))
    assert store.chunk(chunk_id(old.record.doc_id, "v1", 0)) is None


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_document_that_shrank_leaves_no_old_chunk(store: Store, version: str) -> None:
    store.replace([document("/a/x.txt", 6, "v1")])
    new = document("/a/x.txt", 2, version)
    assert store.replace([new]).removed == (4 if version == "v1" else 6)
    assert everything(store) == texts(new)
    assert [stored.chunk.index for stored in store.chunks(new.record.doc_id)] == [0, 1]
    assert store.stats().chunks == 2


def test_many_documents_and_a_long_one_in_one_call(store: Store) -> None:
    items = [document(f"/a/{number}.txt", 3, seed=number) for number in range(500)]
    items.append(document("/a/long.txt", 2500, seed=9))
    assert store.replace(items) == Written(4000, 0)
    assert store.stats().chunks == 4000
    assert len(store.known()) == 501
    long = store.chunks(items[-1].record.doc_id)
    assert [stored.chunk for stored in long] == list(items[-1].chunks)


def test_a_reader_never_sees_a_mixture_while_a_document_changes(store: Store) -> None:
    versions = [document("/a/x.txt", 4 + number, f"v{number}") for number in range(8)]
    allowed = {tuple(texts(item)) for item in versions}
    store.replace(versions[:1])
    stop, seen, wrong = threading.Event(), set(), []

    def read() -> None:
        while not stop.is_set():
            found = tuple(everything(store))
            seen.add(found)
            if found not in allowed:
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for item in versions[1:]:
        store.replace([item])
    until(lambda: bool(seen) or not any(reader.is_alive() for reader in readers))
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert seen


def test_refresh_rewrites_the_record_of_an_unchanged_document_only(store: Store) -> None:
    item = document("/a/x.txt", 2, "v1")
    store.replace([item])
    touched = dataclasses.replace(item.record, mtime_ns=5)
    changed = document("/a/x.txt", 2, "v2").record
    absent = document("/a/y.txt").record
    assert store.refresh([touched, absent]) == 1
    assert store.refresh([changed]) == 0
    assert store.known() == {touched.doc_id: touched}
    assert everything(store) == texts(item)


# --- the last door -------------------------------------------------------------------------------------------------


def bad_vectors() -> dict[str, np.ndarray]:
    good = random_units(3)
    nan, infinite, zero, long = good.copy(), good.copy(), good.copy(), good.copy()
    nan[1, 2], infinite[0, 0], zero[2], long[1] = np.nan, np.inf, 0, long[1] * 1.01
    return {
        "not a number": nan,
        "infinite": infinite,
        "zero": zero,
        "not of unit length": long,
        "wrong dimension": random_units(3, dimension=DIMENSION + 1),
        "too few": good[:2],
        "flat": good.reshape(-1),
    }


@pytest.mark.parametrize("name", bad_vectors())
def test_an_impossible_vector_is_refused_and_nothing_of_the_call_is_written(store: Store, name: str) -> None:
    good, bad = document("/a/good.txt"), document("/a/bad.txt", vectors=bad_vectors()[name])
    with pytest.raises(ValueError, match=r"/a/bad\.txt"):
        store.replace([good, bad])
    assert store.known() == {}
    assert everything(store) == []


def test_a_bad_replacement_leaves_the_old_version(store: Store) -> None:
    old = document("/a/x.txt", 3, "v1")
    store.replace([old])
    with pytest.raises(ValueError):
        store.replace([document("/a/x.txt", 3, "v2", vectors=bad_vectors()["not a number"])])
    assert everything(store) == texts(old)


def _with_chunk(item: Replacement, **changes: object) -> Replacement:
    first = dataclasses.replace(item.chunks[0], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(item, chunks=[first, *item.chunks[1:]])


@pytest.mark.parametrize(
    "item",
    [
        with_record(document("/a/x.txt"), chunk_count=4),
        with_record(document("/a/x.txt"), source_path="a/x.txt"),
        with_record(document("/a/x.txt"), doc_id="x"),
        with_record(document("/a/x.txt"), title="\ud800"),
        _with_chunk(document("/a/x.txt"), index=1),
        _with_chunk(document("/a/x.txt"), doc_id=document_id(Path("/a/y.txt"))),
        _with_chunk(document("/a/x.txt"), text="half a pair: \ud800"),
    ],
)
def test_a_replacement_that_contradicts_itself_is_refused(store: Store, item: Replacement) -> None:
    with pytest.raises(ValueError):
        store.replace([item])
    assert store.known() == {}


def test_a_document_twice_in_one_call_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="twice"):
        store.replace([document("/a/x.txt", 1, "v1"), document("/a/x.txt", 1, "v2")])


def test_an_impossible_query_vector_is_refused(store: Store) -> None:
    for vector in (unit(1, dimension=DIMENSION + 1), unit(1) * 2, unit(1) * np.nan):
        with pytest.raises(ValueError):
            store.search(StoreQuery(vector.astype(np.float32), 3))


# --- search --------------------------------------------------------------------------------------------------------


def test_hits_are_ordered_by_cosine_and_cut_at_the_limit(store: Store) -> None:
    vectors = np.stack([unit(1, 0), unit(1, 1), unit(0, 1), unit(-1, 0)])
    store.replace([document("/a/x.txt", 4, vectors=vectors)])
    found = store.search(StoreQuery(unit(1), 3))
    assert [hit.chunk.index for hit in found] == [0, 1, 2]
    assert [hit.score for hit in found] == pytest.approx([1.0, 0.7071, 0.0], abs=1e-4)
    assert [hit.ranks.dense for hit in found] == [1, 2, 3]
    assert store.search(StoreQuery(unit(1), 0)) == []
    assert len(store.search(StoreQuery(unit(1), 50))) == 4


def test_filters_apply_before_the_nearest_are_chosen(store: Store) -> None:
    near = [document(f"/near/{n}.c", 10, kind="code", vectors=np.tile(unit(1), (10, 1))) for n in range(100)]
    far = document("/far/x.txt", 2, vectors=np.stack([unit(-1, 0.1), unit(-1, 0.2)]))
    store.replace([*near, far])
    assert everything(store, 5, paths=(Path("/far"),)) == texts(far)
    assert everything(store, 5, paths=(Path("/far/x.txt"),)) == texts(far)
    assert everything(store, 5, kind="document") == texts(far)
    assert everything(store, 5, kind="code", paths=(Path("/far"),)) == []
    assert len(everything(store, 2000, paths=(Path("/near"), Path("/far")))) == 1002
    assert len(everything(store, 2000, paths=(Path("/"),))) == 1002
    assert everything(store, 5, paths=(Path("/fa"),)) == []


def test_chunks_of_a_document_are_read_on_by_position(store: Store) -> None:
    item = document("/a/x.txt", 10)
    store.replace([item, document("/a/y.txt", 3)])
    doc_id = item.record.doc_id
    assert [stored.chunk.index for stored in store.chunks(doc_id, 3, 5)] == [3, 4, 5]
    assert [stored.chunk.index for stored in store.chunks(doc_id, -2, 1)] == [0, 1]
    assert [stored.chunk.index for stored in store.chunks(doc_id, 8, 99)] == [8, 9]
    assert store.chunks(doc_id, 10) == []
    assert store.chunks(document_id(Path("/none"))) == []


@pytest.mark.parametrize("wrong", ["", "x", "1", "ąę", "00000000-0000-0000-0000-000000000000"])
def test_an_id_that_nothing_has_gives_none(store: Store, wrong: str) -> None:
    item = document("/a/x.txt")
    store.replace([item])
    assert store.chunk(wrong) is None
    assert store.record(wrong) is None
    assert store.chunks(wrong) == []
    assert store.chunk(item.record.doc_id) is None
    assert store.record(chunk_id(item.record.doc_id, "v1", 0)) is None


# --- by words --------------------------------------------------------------------------------------------------------


def by_words(store: Store, words: str, limit: int = 10, **filters: object) -> list[tuple[str, float]]:
    hits = store.search(StoreQuery(Lexicon().question_vector(words, None), limit, **filters))  # type: ignore[arg-type]
    assert [(hit.ranks.lexical, hit.ranks.lexical_score, hit.ranks.dense) for hit in hits] == [
        (rank, hit.score, None) for rank, hit in enumerate(hits, start=1)
    ]
    return [(hit.source_name, hit.score) for hit in hits]


def test_words_find_what_has_them_the_rarest_and_most_frequent_first(store: Store) -> None:
    texts = {
        "often.txt": "ecspi_clkdiv ecspi_clkdiv ecspi_clkdiv clock",
        "once.txt": "ecspi_clkdiv clock",
        "clock.txt": "clock",
        "clocks.txt": "clocks and other things",
        "none.txt": "zupa",
    }
    store.replace([document(f"/a/{name}", 1, text=text, seed=at) for at, (name, text) in enumerate(texts.items())])
    found = by_words(store, "ecspi_clkdiv clock")
    assert [name for name, _ in found] == ["often.txt", "once.txt", "clock.txt", "clocks.txt"]
    assert all(score > 0 for _, score in found)
    assert by_words(store, "the of") == by_words(store, "unheard") == []
    assert [name for name, _ in by_words(store, "ecspi_clkdiv clock", 1)] == ["often.txt"]


def test_a_hit_of_either_leg_brings_its_terms(store: Store) -> None:
    store.replace([document("/src/x.c", 1, text="ecspi_clkdiv of a clock", kind="code")])
    for by in (unit(1), Lexicon().question_vector("clock", None)):
        (hit,) = store.search(StoreQuery(by, 5))
        for term in ("ecspi_clkdiv", "ecspi", "clkdi", "clock", "src"):
            assert term_number(term) in hit.terms, term
        assert term_number("zupa") not in hit.terms


def test_words_of_names_titles_headings_and_paths_of_code_count(store: Store) -> None:
    page = with_record(document("/a/handbook.txt", 1), title="Zegary")
    page = dataclasses.replace(page, chunks=[dataclasses.replace(page.chunks[0], heading_path=("Dividers",))])
    code = document("/src/drivers/spi/x.c", 1, kind="code", seed=4)
    store.replace([page, code])
    for words in ("handbook", "zegara", "divider"):
        assert [name for name, _ in by_words(store, words)] == ["handbook.txt"], words
    assert [name for name, _ in by_words(store, "drivers spi")] == ["x.c"]


def test_filters_and_versions_hold_for_words_too(store: Store) -> None:
    store.replace([document("/a/x.txt", 2, text="divider"), document("/b/y.c", 2, text="divider", kind="code", seed=3)])
    assert {name for name, _ in by_words(store, "divider", kind="code")} == {"y.c"}
    assert {name for name, _ in by_words(store, "divider", paths=(Path("/a"),))} == {"x.txt"}
    store.replace([document("/a/x.txt", 1, "v2", text="multiplier")])
    assert {name for name, _ in by_words(store, "divider")} == {"y.c"}
    store.forget(Path("/b"))
    assert by_words(store, "divider") == []


def test_only_the_chunks_that_are_named_are_ranked(store: Store) -> None:
    item = document("/a/x.txt", 4, text="divider")
    store.replace([item, document("/a/y.txt", 2, text="divider", seed=9)])
    ids = tuple(chunk_id(item.record.doc_id, item.record.content_hash, index) for index in (1, 3))
    assert {hit.chunk_id for hit in store.search(StoreQuery(unit(1), 9, chunk_ids=ids))} == set(ids)
    words = StoreQuery(Lexicon().question_vector("divider", None), 9, chunk_ids=ids)
    assert {hit.chunk_id for hit in store.search(words)} == set(ids)
    assert store.search(StoreQuery(unit(1), 9, chunk_ids=())) == []


def test_a_chunk_without_any_word_is_stored_and_found_by_meaning(store: Store) -> None:
    item = document("/!", 1, text="?!")
    item = dataclasses.replace(item, chunks=[dataclasses.replace(item.chunks[0], text="?!")])
    store.replace([item])
    assert everything(store) == ["?!"]


# --- forget and known ----------------------------------------------------------------------------------------------

TREE = ["/a/b/1.txt", "/a/b/c/2.txt", "/a/bc/3.txt", "/a/b.txt", "/z/4.txt"]


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        ("/a/b/1.txt", {"/a/b/1.txt"}),
        ("/a/b", {"/a/b/1.txt", "/a/b/c/2.txt"}),
        ("/a", {"/a/b/1.txt", "/a/b/c/2.txt", "/a/bc/3.txt", "/a/b.txt"}),
        ("/", set(TREE)),
        ("/a/b/1", set()),
    ],
)
def test_forgetting_takes_a_file_or_a_tree_and_no_sibling(store: Store, path: str, gone: set[str]) -> None:
    store.replace([document(name, 2, seed=seed, text=name) for seed, name in enumerate(TREE)])
    assert {record.source_path for record in store.known(Path(path)).values()} == gone
    assert store.forget(Path(path)) == Forgotten(len(gone), 2 * len(gone))
    assert {record.source_path for record in store.known().values()} == set(TREE) - gone
    assert {text.split()[0] for text in everything(store)} == set(TREE) - gone
    assert store.known(Path(path)) == {}
    assert store.forget(Path(path)) == Forgotten(0, 0)


def test_documents_are_removed_by_their_ids_however_many(store: Store) -> None:
    items = [document(f"/a/{number}.txt", 2, seed=number) for number in range(1100)]
    kept = document("/a/kept.txt", 3)
    store.replace([*items, kept])
    absent = ["", "x", document_id(Path("/a/none")), chunk_id(kept.record.doc_id, "v1", 0)]
    assert store.remove([*absent, *(item.record.doc_id for item in items)]) == Forgotten(1100, 2200)
    assert store.known() == {kept.record.doc_id: kept.record}
    assert everything(store) == texts(kept)
    assert store.remove([items[0].record.doc_id]) == store.remove([]) == Forgotten(0, 0)


def test_compacting_keeps_what_was_not_forgotten(store: Store) -> None:
    assert store.compact() is None
    items = [document(f"/a/{number}.txt", 20, seed=number) for number in range(20)]
    kept = document("/b/x.txt", 12, seed=99)
    store.replace([*items, kept])
    assert store.compact() is None  # nothing was forgotten
    store.forget(Path("/a"))
    remains = store.compact()
    assert remains is None or remains.fix
    assert store.compact() is None
    assert store.stats().chunks == 12
    assert everything(store) == texts(kept)
    (found,) = store.documents([kept.record.doc_id])
    np.testing.assert_allclose(found.vectors, kept.vectors, atol=1e-6)
    store.close()
    assert everything(store) == texts(kept)


def test_forgetting_a_relative_path_is_a_mistake(store: Store) -> None:
    with pytest.raises(ValueError):
        store.forget(Path("a"))


def test_a_path_forty_levels_deep_is_found_filtered_and_forgotten(store: Store) -> None:
    deep = Path("/" + "/".join(f"poziom {level}" for level in range(40)) + "/plik.txt")
    item = document(deep)
    store.replace([item, document("/other.txt", seed=4)])
    for prefix in (deep, deep.parent, deep.parents[20]):
        assert everything(store, paths=(prefix,)) == texts(item)
    assert store.forget(deep.parents[35]) == Forgotten(1, 3)


def test_names_that_differ_in_a_space_or_an_underscore_are_two_documents(store: Store) -> None:
    names = ["/a/my file.txt", "/a/my_file.txt", "/a/my-file.txt", "/a/My file.txt", "/a/my file.txt "]
    items = [document(name, 1, text=f"<{name}>") for name in names]
    store.replace(items)
    assert len(store.known()) == len(names)
    assert store.forget(Path("/a/my file.txt")) == Forgotten(1, 1)
    assert everything(store) == sorted(text for item in items[1:] for text in texts(item))


def test_a_name_that_is_not_utf8_is_kept(store: Store) -> None:
    path = Path("/a/za\udcbfółć.txt")
    item = document(path)
    store.replace([item])
    assert everything(store, paths=(path,)) == texts(item)
    assert store.forget(path).documents == 1


def test_known_reads_more_than_a_page(store: Store) -> None:
    items = [document(f"/a/{number % 7}/{number}.txt", 0) for number in range(2345)]
    store.replace(items)
    assert store.known() == {item.record.doc_id: item.record for item in items}
    assert len(store.known(Path("/a/3"))) == 335


# --- stamps and records ----------------------------------------------------------------------------------------------


def stamp_of(record: Record) -> str:
    state = stamp_state(record.fingerprint, record.status)
    times = f"{record.mtime_ns} {record.inode} {record.ctime_ns or 0}"
    return f"{record.chunk_count} {state} {record.size} {times} {record.source_path}"


def assert_remembers(store: Store, *records: Record) -> None:
    """These are the store's Records, and their stamps the only ones."""
    assert store.known() == {record.doc_id: record for record in records}
    assert store.records([record.doc_id for record in records]) == store.known()
    assert sorted(store.stamps()) == sorted(map(stamp_of, records))


def test_stamps_follow_every_change_of_the_records(open_store: Callable[..., Store]) -> None:
    store = open_store()
    x, y = document("/a/x.txt", 3), document("/a/y.txt", 2, seed=1)
    store.replace([x, y])
    assert_remembers(store, x.record, y.record)
    changed = with_record(document("/a/x.txt", 5, "v2"), size=555, mtime_ns=7, inode=8)
    store.replace([changed])
    assert_remembers(store, changed.record, y.record)
    touched = dataclasses.replace(y.record, mtime_ns=9)
    assert store.refresh([touched, x.record]) == 1
    assert_remembers(store, changed.record, touched)
    failed = with_record(document("/a/x.txt", 0, "v3"), status="failed", reason="encrypted", kind=None)
    store.replace([failed])
    assert_remembers(store, failed.record, touched)
    store.close()
    assert_remembers(store, failed.record, touched)
    assert_remembers(open_store(), failed.record, touched)
    store.forget(Path("/a/x.txt"))
    assert_remembers(store, touched)
    store.replace([x])
    assert_remembers(store, x.record, touched)
    store.forget(Path("/"))
    assert_remembers(store)


@pytest.mark.parametrize(
    "change",
    [{"size": 101}, {"mtime_ns": 1}, {"inode": 1}, {"ctime_ns": 1}, {"fingerprint": "other/1"}, {"status": "skipped"}],
)
def test_a_stamp_tells_each_thing_that_makes_a_file_be_looked_at(store: Store, change: dict[str, object]) -> None:
    item = document("/a/x.txt")
    other = with_record(item, **change)
    assert stamp_of(other.record) != stamp_of(item.record)
    store.replace([item])
    store.replace([other])
    assert store.stamps() == [stamp_of(other.record)]


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/a/b/1.txt", "/a/b/1", "/a/b.txt"])
def test_stamps_are_of_a_file_or_a_tree_and_no_sibling(store: Store, path: str) -> None:
    store.replace([document(name, 1) for name in TREE])
    below = store.known(Path(path))
    assert sorted(store.stamps(Path(path))) == sorted(map(stamp_of, below.values()))


def test_stamps_and_records_have_paths_of_every_kind(store: Store) -> None:
    names = [
        "/a/my file.txt",
        "/a/my file.txt ",
        "/a/zażółć\n\t.txt",
        "/a/za\udcbfółć.txt",
        "/a/za\\xbfółć.txt",
        "/a/1b4e28ba-2fa1-11d2-883f-0016d3cca427",
        "/" + "/".join(["poziom"] * 500) + "/plik.txt",
    ]
    items = [with_record(document(name, 1), inode=number) for number, name in enumerate(names)]
    store.replace(items)
    assert_remembers(store, *(item.record for item in items))


def test_stamps_and_records_are_more_than_a_page(store: Store) -> None:
    items = [document(f"/a/{number % 7}/{number}.txt", 0) for number in range(2345)]
    store.replace(items)
    assert_remembers(store, *(item.record for item in items))
    assert len(store.stamps(Path("/a/3"))) == 335


def test_records_that_are_not_there_are_left_out(store: Store) -> None:
    item = document("/a/x.txt")
    store.replace([item, document("/a/y.txt")])
    absent = ["", "x", "ąę", document_id(Path("/a/none")), chunk_id(item.record.doc_id, "v1", 0)]
    assert store.records([*absent, item.record.doc_id, item.record.doc_id]) == {item.record.doc_id: item.record}
    assert store.records([]) == store.records(absent) == {}


# --- twins -----------------------------------------------------------------------------------------------------------


def test_documents_of_one_content_are_found_by_it(store: Store) -> None:
    x, y, other = document("/a/x.txt", 2, "v1"), document("/b/y.md", 2, "v1"), document("/a/z.txt", 1, "v2")
    nothing = with_record(document("/a/failed.txt", 0, "v1"), status="failed", reason="damaged")
    assert store.twins(["v1"]) == {}
    store.replace([x, y, other, nothing])
    found = store.twins(["v1", "v2", "v3", "v1", ""])
    assert found.keys() == {"v1", "v2"}
    assert sorted(record.source_path for record in found["v1"]) == ["/a/x.txt", "/b/y.md"]
    assert found["v2"] == [other.record]
    store.replace([document("/a/x.txt", 2, "v4")])
    store.forget(Path("/b"))
    assert store.twins(["v1", "v4"]).keys() == {"v4"}
    assert store.twins([]) == {}


def test_of_very_many_twins_some_are_found(store: Store) -> None:
    store.replace([document(f"/a/{number}.txt", 1, "v1") for number in range(MOST_TWINS + 5)])
    assert len(store.twins(["v1"])["v1"]) == MOST_TWINS
    assert len(store.twins([f"v{number}" for number in range(2500)])) == 1


def test_a_content_that_very_many_have_hides_no_other(store: Store) -> None:
    alone = {f"v{number}": document(f"/b/{number}.txt", 1, f"v{number}").record for number in range(2, 12)}
    store.replace([document(f"/a/{number}.txt", 1, "v1") for number in range(20 * MOST_TWINS)])
    store.replace([document(record.source_path, 1, record.content_hash) for record in alone.values()])
    found = store.twins(["v1", *alone])
    assert len(found.pop("v1")) == MOST_TWINS
    assert found == {content_hash: [record] for content_hash, record in alone.items()}


# --- stats, fingerprint, nothing there -----------------------------------------------------------------------------


def test_stats_count_documents_and_chunks_by_what_they_are(store: Store) -> None:
    store.replace(
        [
            document("/a/1.txt", 2),
            with_record(document("/a/2.txt", 3), language="en"),
            with_record(document("/a/5.txt", 1), language=None),
            document("/a/3.c", 4, kind="code"),
            with_record(document("/a/4.bin", 0), status="skipped", reason="binary", kind=None),
        ]
    )
    stats = store.stats()
    assert (stats.documents, stats.chunks) == (4, 10)
    assert stats.by_status == {"indexed": 4, "skipped": 1}
    assert stats.by_kind == {"document": 6, "code": 4}
    assert stats.by_language == {"pl": 2, "en": 3, "unknown": 1}
    assert stats.by_code_language == {"c": 4}
    assert stats.fingerprint == FINGERPRINT


def test_another_models_index_is_refused_with_both_names(open_store: Callable[..., Store]) -> None:
    item = document("/a/x.txt")
    open_store().replace([item])
    other = open_store("other-model/2")
    for action in (
        lambda: other.search(StoreQuery(unit(1), 3)),
        lambda: other.replace([item]),
        other.known,
        other.stamps,
        lambda: other.records([item.record.doc_id]),
        lambda: other.forget(Path("/a")),
    ):
        with pytest.raises(FingerprintMismatch, match=rf"{FINGERPRINT}.*other-model/2") as caught:
            action()
        assert caught.value.exit_code == ExitCode.FINGERPRINT_MISMATCH
        assert caught.value.fix
    with pytest.raises(FingerprintMismatch):
        open_store(FINGERPRINT, DIMENSION + 1).known()
    assert everything(open_store()) == texts(item)


def test_without_a_fingerprint_one_may_look_and_forget_but_not_write_or_search(
    open_store: Callable[..., Store],
) -> None:
    item = document("/a/x.txt")
    open_store().replace([item])
    looking = open_store(None, None)
    assert looking.stats().fingerprint == FINGERPRINT
    assert looking.known() == looking.records([item.record.doc_id]) == {item.record.doc_id: item.record}
    assert looking.stamps() == [stamp_of(item.record)]
    with pytest.raises(ValueError):
        looking.replace([item])
    with pytest.raises(ValueError):
        looking.search(StoreQuery(unit(1), 3))
    assert looking.forget(Path("/a")) == Forgotten(1, 3)


def test_reading_what_is_not_there_gives_nothing_and_creates_nothing(store: Store, tmp_path: Path) -> None:
    record: Record = document("/a/x.txt").record
    assert everything(store) == []
    assert store.known() == {}
    assert store.forget(Path("/a")) == Forgotten(0, 0)
    assert store.refresh([record]) == 0
    assert store.record(record.doc_id) is None
    assert store.chunk(chunk_id(record.doc_id, "v1", 0)) is None
    assert store.chunks(record.doc_id) == []
    assert store.stamps() == store.stamps(Path("/a")) == []
    assert store.records([record.doc_id]) == {}
    assert store.replace([]) == Written(0, 0)
    with store.hold(), store.turn():
        stats = store.stats()
    assert (stats.documents, stats.chunks, stats.fingerprint, stats.by_kind) == (0, 0, None, {})
    assert list(tmp_path.iterdir()) == []


def test_threads_share_a_store(store: Store) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round_ in range(5):
                store.replace([document(f"/t/{number}.txt", 2, f"v{round_}", seed=number)])
                assert len(everything(store, paths=(Path(f"/t/{number}.txt"),))) == 2
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.stats().chunks == 8


# --- documents in whole --------------------------------------------------------------------------------------------


def assert_same_document(found: Replacement, expected: Replacement) -> None:
    assert found.record == expected.record
    assert list(found.chunks) == list(expected.chunks)
    assert found.vectors.dtype == np.float32
    assert found.vectors.shape == (len(expected.chunks), DIMENSION)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)


def test_documents_come_back_as_they_could_be_written_again(store: Store) -> None:
    items = [
        document("/a/x.txt", 12, seed=1),
        with_record(document("/a/failed.pdf", 0), status="failed", reason="encrypted", kind=None),
        with_record(document("/a/was better.pdf", 2, seed=2), status="failed", reason="encrypted"),
        document("/a/y.c", 1, kind="code", seed=3),
    ]
    store.replace([*items, document("/a/not asked for.txt", 2)])
    wanted = [item.record.doc_id for item in reversed(items)]
    for found, expected in zip(store.documents(wanted), reversed(items), strict=True):
        assert_same_document(found, expected)
    before = store.stats()
    store.replace(store.documents(wanted))
    assert store.stats() == before
    for found, expected in zip(store.documents(wanted), reversed(items), strict=True):
        assert_same_document(found, expected)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_documents_show_current_chunks_only(store: Store, version: str) -> None:
    new = document("/a/x.txt", 2, version, text="nowy", seed=9)
    store.replace([document("/a/x.txt", 7, "v1")])
    store.replace([new])
    (found,) = store.documents([new.record.doc_id])
    assert_same_document(found, new)


def test_documents_that_are_not_there_are_left_out(store: Store) -> None:
    item = document("/a/x.txt")
    assert store.documents([item.record.doc_id]) == []
    store.replace([item])
    absent = ["", "x", "ąę", document_id(Path("/a/none")), chunk_id(item.record.doc_id, "v1", 0)]
    (found,) = store.documents([*absent, item.record.doc_id, item.record.doc_id])
    assert_same_document(found, item)
    assert store.documents([]) == []


def test_documents_can_be_read_without_knowing_the_model(open_store: Callable[..., Store]) -> None:
    item = document("/a/x.txt", 4)
    open_store().replace([item])
    (found,) = open_store(None, None).documents([item.record.doc_id])
    assert_same_document(found, item)


def test_many_documents_and_a_long_one_are_read_in_one_call(store: Store) -> None:
    items = [document(f"/a/{number}.txt", number % 3, seed=number) for number in range(1100)]
    items.insert(500, document("/a/long.txt", 2100, seed=7))
    store.replace(items)
    found = store.documents([item.record.doc_id for item in items])
    assert len(found) == len(items)
    for one, expected in zip(found, items, strict=True):
        assert_same_document(one, expected)

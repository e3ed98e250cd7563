# SPDX-License-Identifier: GPL-2.0-only
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigos import fingerprint
from bigos.embedders import Window
from bigos.stores import points
from bigos.types import Chunk
from store_documents import DIMENSION, document, random_units, with_record

CHUNK_NAMES = {
    "kind", "code_language", "language", "chunk_language", "source_path", "source_name", "path_tree", "page",
    "page_end", "line_start", "line_end", "heading_path", "chunk_index", "char_start", "char_end", "token_count",
    "content_hash", "ingested_at", "text",
}  # fmt: skip

number = st.integers(0, 2**40)
maybe = st.none() | number
words = st.text(st.characters(exclude_categories=["Cs"]))
chunks = st.builds(
    Chunk,
    doc_id=words, index=number, text=words, char_start=number, char_end=number, line_start=maybe, line_end=maybe,
    page=maybe, page_end=maybe, heading_path=st.lists(words).map(tuple), token_count=number,
    language=st.none() | words, chunk_language=st.none() | words, kind=st.sampled_from(["code", "document"]),
    code_language=st.none() | words,
)  # fmt: skip


def test_a_chunks_payload_has_exactly_the_names_of_the_design() -> None:
    item = document("/a/Łódź.txt", 1)
    payload = points.chunk_payload(item.record, item.chunks[0])
    assert set(payload) == CHUNK_NAMES | {"doc_id", "point"}
    assert payload["point"] == "chunk"
    assert payload["page"] is None
    assert payload["source_name"] == "Łódź.txt"


@given(chunks)
def test_a_chunk_survives_its_payload_and_json(chunk: Chunk) -> None:
    payload = points.chunk_payload(document("/a/b.txt").record, chunk)
    assert points.chunk_from_payload(json.loads(json.dumps(payload))) == chunk


def test_a_record_survives_its_payload_and_json() -> None:
    record = with_record(document("/a/b.txt", 7), reason="powód", title="Tytuł").record
    payload = json.loads(json.dumps(points.record_payload(record)))
    assert points.record_from_payload(payload) == record
    assert payload["point"] == "record"


@pytest.mark.parametrize(
    ("path", "tree"),
    [
        ("/a/b.txt", ["/", "/a", "/a/b.txt"]),
        ("/x", ["/", "/x"]),
        ("/", ["/"]),
        ("/a b/ż_/c ", ["/", "/a b", "/a b/ż_", "/a b/ż_/c "]),
    ],
)
def test_the_path_tree_is_the_path_and_all_that_is_above_it(path: str, tree: list[str]) -> None:
    assert points.path_tree(path) == tree


def test_current_is_what_the_record_names() -> None:
    record = {"content_hash": "v2", "chunk_count": 3}
    assert points.is_current({"content_hash": "v2", "chunk_index": 2}, record)
    assert not points.is_current({"content_hash": "v2", "chunk_index": 3}, record)
    assert not points.is_current({"content_hash": "v1", "chunk_index": 0}, record)
    assert not points.is_current({"content_hash": "v2", "chunk_index": 0}, None)


def test_slices_are_bounded_keep_documents_whole_and_lose_nothing() -> None:
    items = [document(f"/a/{n}.txt", size, seed=n) for n, size in enumerate([1000, 24, 1, 0, 2500, 3, 900])]
    slices = list(points.slices(items))
    assert all(0 < len(batch) <= points.SLICE_POINTS for batch in slices)
    ids = [point.point_id for batch in slices for point in batch]
    assert ids == [points.chunk_point_id(item.record, index) for item in items for index in range(len(item.chunks))]
    for item in items:
        where = {
            n for n, batch in enumerate(slices) for point in batch if point.payload["doc_id"] == item.record.doc_id
        }
        assert len(where) <= 1 or len(item.chunks) > points.SLICE_POINTS


def test_slices_are_bounded_in_bytes() -> None:
    items = [document(f"/a/{n}.txt", 1, text="x" * (3 << 20)) for n in range(5)]
    assert [len(batch) for batch in points.slices(items)] == [2, 2, 1]


def test_a_norm_may_be_off_by_a_thousandth() -> None:
    vectors = random_units(4) * 1.0009
    points.check_vectors(vectors, (4, DIMENSION), "x")
    with pytest.raises(ValueError, match="unit length"):
        points.check_vectors(vectors * 1.0009, (4, DIMENSION), "x")


def test_a_fingerprint_names_the_schema_and_the_windows_alone_are_not_the_model() -> None:
    one, two = Window(48, 6), Window(24, 3)
    made = fingerprint.compose("model/1", one, two)
    assert made.endswith(f"/schema-{points.SCHEMA_VERSION}")
    assert fingerprint.same_model(made, fingerprint.compose("model/1", two, one))
    assert not fingerprint.same_model(made, fingerprint.compose("model/2", one, two))
    assert not fingerprint.same_model(made, made + "9")

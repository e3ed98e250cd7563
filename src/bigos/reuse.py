# SPDX-License-Identifier: GPL-2.0-only
"""Vectors that are there already: of a file that was moved, copied, or only read again.

A vector follows from what the embedder is given: a chunk's text, the title and headings above it, its language. Where
those are the same, so is the vector. Of code neither title nor headings are given (see passages.py), but the file's
name; a renamed file keeps the vectors with its old name all the same, as they are nearly the same and a renamed tree
would be embedded in whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bigos.embedders import Vectors
from bigos.preparation import Prepared
from bigos.stores import Replacement, Store
from bigos.types import Chunk, Record


def reads_alike(prepared: Prepared, title: str | None, language: str | None, chunks: Sequence[Chunk]) -> bool:
    """Whether the embedder would be given the same for these chunks, of a document with this title and language."""
    return (
        prepared.title == title
        and prepared.language == language
        and len(prepared.chunks) == len(chunks)
        and all(_given(ours) == _given(theirs) for ours, theirs in zip(prepared.chunks, chunks, strict=True))
    )


def _given(chunk: Chunk) -> tuple[object, ...]:
    return chunk.text, chunk.kind, chunk.chunk_language, () if chunk.kind == "code" else chunk.heading_path


def stored_vectors(items: Sequence[Prepared], known: Mapping[str, Record], store: Store) -> list[Vectors | None]:
    """The vectors that the store has for each of these documents, under their own ids or under any other's.

    Args:
        items: documents with chunks.
        known: what the store has of them, by document id.
        store: asked twice, whatever the number of items.
    """
    own = [_own(item, known) for item in items]
    twins = store.twins([item.content_hash for item, record in zip(items, own, strict=True) if record is None])
    chosen = [
        record or _nearest(item, twins.get(item.content_hash, ())) for item, record in zip(items, own, strict=True)
    ]
    documents = {
        found.record.doc_id: found for found in store.documents([record.doc_id for record in chosen if record])
    }
    return [
        _taken(item, documents.get(record.doc_id)) if record else None
        for item, record in zip(items, chosen, strict=True)
    ]


def _own(item: Prepared, known: Mapping[str, Record]) -> Record | None:
    record = known.get(item.source.doc_id)
    return record if record is not None and _may_be(item, record) else None


def _nearest(item: Prepared, twins: Iterable[Record]) -> Record | None:
    """Of documents with the same content the one that is most likely to have been cut the same."""
    fitting = [record for record in twins if _may_be(item, record)]
    return min(fitting, key=lambda record: (record.format != item.format, record.title != item.title), default=None)


def _may_be(item: Prepared, record: Record) -> bool:
    return (record.content_hash, record.chunk_count) == (item.content_hash, len(item.chunks))


def _taken(item: Prepared, found: Replacement | None) -> Vectors | None:
    if found is None or not reads_alike(item, found.record.title, found.record.language, found.chunks):
        return None
    return found.vectors

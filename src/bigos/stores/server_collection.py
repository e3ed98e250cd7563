# SPDX-License-Identifier: GPL-2.0-only
"""A collection on a Qdrant server: how it is laid out, and what it says of itself.

Fingerprint, dimension and schema are the payload of one point without a vector. Collections have metadata of their own
only since Qdrant 1.16, and an older server drops it without a word; a point works everywhere. It is written last,
after the payload indexes, so a collection that has it is complete, and an empty one without it is a creation that was
interrupted, which the next write finishes.

Layout, for 1,000,000 chunks of 1,024 dimensions on a server with 4 GB of memory. Qdrant's capacity planning reckons
vectors x dimensions x bytes x 1.5 of memory for what is held in it; the half on top is for graph, point versions and
the segments that an optimisation builds.

    original vectors, 4 bytes, on disk             1e6 x 1024 x 4 x 1.5 = 6.1 GB of disk, read to rescore
    int8 copies, always in memory                  1e6 x 1024 x 1 x 1.5 = 1.5 GB of memory
    HNSW graph, 32 links of 4 bytes a point        1e6 x 32 x 4         = 0.13 GB, of the half above; so not on disk
    payload, some 3 KB a chunk, on disk            1e6 x 3 KB x 1.5     = 4.5 GB of disk
    keyword indexes of the payload, on disk        read through the page cache
    left for the page cache                        4 - 1.5 - the server = about 2 GB

With the originals in memory it would be 6.1 GB. `on_disk` and `always_ram` are what every version knows; since 1.19
they are short for the tiers "cold" and "pinned".

Exact where it is small: a segment below INDEXING_KB is scanned, and so is what a filter leaves below it. Searches leave
`indexed_only` off, which would hide what was just written from them until the server has indexed it.

The sparse vector is the lexical leg; the server knows how rare each of its terms is.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bigos.errors import FingerprintMismatch, StoreError
from bigos.stores import Remains, points
from bigos.stores.points import SCHEMA_VERSION
from bigos.stores.server_connection import Connection
from bigos.stores.server_faults import Address, CollectionExists, NoCollection
from bigos.types import ServiceDescription

if TYPE_CHECKING:
    from qdrant_client.http.models import CollectionInfo, SearchParams, WriteOrdering

META_ID = "b1605000-0000-5000-8000-000000000001"
META = "collection"
"""Value of the payload's key `point`, beside points.CHUNK and points.RECORD."""

INDEXING_KB = 40_000
"""Kilobytes of vectors in a segment, below which it is scanned: some 10,000 chunks of 1,024 dimensions."""
OVERSAMPLING = 2.0

INDEXES = (*points.KEYWORD_INDEXES, "content_hash", "ingested_at")
"""Every payload key that a filter of the server store names."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the collection says of itself. `made` is another one for a collection made anew under the same name."""

    fingerprint: str
    dimension: int
    schema: int
    made: str
    replaces: tuple[str, ...] = ()
    """`made` of the collections whose place this one has taken, the last one first (server_succession.py)."""

    def require(self, fingerprint: str | None, dimension: int | None, where: Address) -> None:
        """Raises FingerprintMismatch unless vectors of `fingerprint` belong here. None does not ask."""
        if self.schema in points.READABLE and fingerprint is None:
            return
        another = f'set collection = "{where.collection}-2" in config.toml and ingest again'
        if self.schema in points.READABLE and self.schema != SCHEMA_VERSION:
            raise FingerprintMismatch(
                f"the collection {where.collection} on {where.shown} has schema {self.schema}, "
                f"this Bigos writes {SCHEMA_VERSION}.",
                fix="bigos ingest --rebuild",
            )
        if self.schema != SCHEMA_VERSION:
            raise FingerprintMismatch(
                f"the collection {where.collection} on {where.shown} has schema {self.schema}, "
                f"this Bigos reads {SCHEMA_VERSION}.",
                fix=f"{another}, or go back to the Bigos it was made with",
            )
        if fingerprint not in (None, self.fingerprint) or dimension not in (None, self.dimension):
            raise FingerprintMismatch(
                f"the collection {where.collection} on {where.shown} was made with {self.fingerprint} "
                f"({self.dimension} dimensions), the configuration says {fingerprint} ({dimension} dimensions).",
                fix="bigos ingest --rebuild, or set the model and windows it was made with",
            )


def read(connection: Connection) -> Identity | None:
    """The identity of a complete collection; None for one that holds nothing yet, or is not there.

    Raises StoreError for a collection with points that is not ours.
    """
    try:
        found = read_meta(connection)
        if found is None and _count(connection):
            raise _foreign(connection.address)
    except NoCollection:
        return None
    return found


def create(connection: Connection, fingerprint: str, dimension: int, *, shards: int, replicas: int) -> Identity:
    """Make the collection, or finish what was begun; whoever does it at the same time, all get the same one.

    Raises FingerprintMismatch when another got there first with another model, StoreError for one that is not ours.
    """
    from qdrant_client import models

    name = connection.address.collection
    try:
        connection.call(lambda client: client.create_collection(name, **_layout(dimension, shards, replicas)))
    except CollectionExists:
        if _count(connection):
            if (found := read_meta(connection)) is not None:
                return found
            raise _foreign(connection.address) from None
    _require_vectors(connection, dimension)
    for key in INDEXES:
        index = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, on_disk=True)
        connection.call(lambda client, key=key, index=index: client.create_payload_index(name, key, index, wait=True))  # type: ignore[misc]
    payload = {
        "point": META,
        "fingerprint": fingerprint,
        "dimension": dimension,
        "schema": SCHEMA_VERSION,
        "made": str(uuid.uuid4()),
    }
    point = models.PointStruct(id=META_ID, vector={}, payload=payload)
    connection.call(
        # The first one stays; a server before 1.17 does not know the mode, and there the last one does.
        lambda client: client.upsert(
            name, [point], wait=True, ordering=ordering(), update_mode=models.UpdateMode.INSERT_ONLY
        )
    )
    found = read_meta(connection)
    if found is None:
        raise NoCollection(
            f"the collection {name} on {connection.address.shown} was deleted while it was made.",
            fix="run the same command again",
        )
    return found


def info(connection: Connection) -> CollectionInfo:
    """What the server says of the collection. Raises NoCollection."""
    return connection.call(lambda client: client.get_collection(connection.address.collection))


def describe(connection: Connection) -> ServiceDescription:
    """Version, state and size of what the server has. Raises StoreError when it does not answer."""
    version = connection.version().version
    warning = connection.skew(version)
    fix = "use a Qdrant server and a qdrant-client of neighbouring minor versions" if warning else None
    what = f"Qdrant {version} at {connection.address.shown}, collection {connection.address.collection}"
    try:
        found = info(connection)
    except NoCollection:
        return ServiceDescription(f"{what}: not made yet", warning, fix)
    compressed = "int8 copies in memory" if found.config.quantization_config is not None else "no quantisation"
    text = f"{what}: {found.status}, {found.points_count or 0} points, {compressed}"
    if found.status == "red" and warning is None:
        reason = connection.address.clean(str(getattr(found.optimizer_status, "error", "no reason given")))
        warning, fix = f"the server cannot optimise the collection: {reason}.", connection.address.journal
    return ServiceDescription(text, warning, fix)


def remains(address: Address) -> Remains:
    """What to tell who forgot something here: a server rewrites its files when it thinks fit."""
    return Remains(
        f"no search finds it, but {address.shown} drops the bytes from its files by its own rules: from a segment when "
        "a fifth of its points is deleted, from its log as new writes push them out.",
        fix="lower optimizers_config.deleted_threshold of the collection, or delete it and ingest again",
    )


def ordering() -> WriteOrdering:
    """Concurrent writes of one point reach every replica in one order; a node that goes passes the lead on."""
    from qdrant_client import models

    return models.WriteOrdering.MEDIUM


def search_params() -> SearchParams:
    """Candidates come from the int8 copies, twice as many as wanted, and are ranked by the original vectors."""
    from qdrant_client import models

    return models.SearchParams(
        quantization=models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING), indexed_only=False
    )


def _layout(dimension: int, shards: int, replicas: int) -> dict[str, Any]:
    from qdrant_client import models

    return {
        "vectors_config": {
            points.VECTOR_NAME: models.VectorParams(size=dimension, distance=models.Distance.COSINE, on_disk=True)
        },
        "sparse_vectors_config": {points.LEXICAL_NAME: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        "quantization_config": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        "hnsw_config": models.HnswConfigDiff(m=16, on_disk=False, full_scan_threshold=INDEXING_KB),
        "optimizers_config": models.OptimizersConfigDiff(indexing_threshold=INDEXING_KB),
        "on_disk_payload": True,
        "shard_number": shards,
        "replication_factor": replicas,
        # One copy of two, two of three: a write waits for most, and goes on when a node is away.
        "write_consistency_factor": (replicas + 1) // 2,
    }


def read_meta(connection: Connection) -> Identity | None:
    """What the collection says of itself; None when it does not. Raises NoCollection, StoreError for a foreign one."""
    found = connection.call(
        lambda client: client.retrieve(connection.address.collection, [META_ID], with_payload=True, with_vectors=False)
    )
    payload = found[0].payload if found else None
    if not payload:
        return None
    try:
        return Identity(
            str(payload["fingerprint"]),
            int(payload["dimension"]),
            int(payload["schema"]),
            str(payload["made"]),
            tuple(map(str, payload.get("replaces", ()))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _foreign(connection.address) from error


def _count(connection: Connection) -> int:
    return connection.call(lambda client: client.count(connection.address.collection, exact=True)).count


def _require_vectors(connection: Connection, dimension: int) -> None:
    vectors = info(connection).config.params.vectors
    params = vectors.get(points.VECTOR_NAME) if isinstance(vectors, dict) else None
    if params is None:
        raise _foreign(connection.address)
    if params.size != dimension:
        address = connection.address
        raise FingerprintMismatch(
            f"the collection {address.collection} on {address.shown} is laid out for {params.size} dimensions, "
            f"the configuration says {dimension}.",
            fix=f'set collection = "{address.collection}-2" in config.toml, or the model it was made for',
        )


def _foreign(address: Address) -> StoreError:
    return StoreError(
        f"the collection {address.collection} on {address.shown} was not made by Bigos; nothing was changed in it.",
        fix=f'set collection = "{address.collection}-2" in config.toml',
    )


def deleted(address: Address) -> StoreError:
    """The collection that was there is not there any more, or is another one that has not replaced it."""
    return StoreError(
        f"the collection {address.collection} on {address.shown} was deleted while it was in use; "
        "nothing was made in its place.",
        fix="bigos ingest the folders again, or restore the server's snapshot",
    )

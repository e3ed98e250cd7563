# SPDX-License-Identifier: GPL-2.0-only
"""What a collection says of itself: collection.json beside the data, the only place of fingerprint and dimension.

It also names the directory that its data are in (see generations.py). It is written, whole and synced, before that
exists; so data without it is a damaged collection, and it without data is one that holds nothing yet.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from bigos.errors import FingerprintMismatch
from bigos.stores import faults
from bigos.stores.points import READABLE, SCHEMA_VERSION

FILE = "collection.json"
FIRST = "shard"
"""Where the data of a new collection are."""
_DATA = re.compile(r"shard|(?:rebuilt|restored)-[0-9]{1,9}/shard")


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection's identity: vectors in it are comparable with those of an equal fingerprint, and only those."""

    fingerprint: str
    dimension: int
    schema: int = SCHEMA_VERSION
    data: str = FIRST
    """The directory of the engine's files, relative to the collection's."""

    def require(self, fingerprint: str | None, dimension: int | None, directory: Path) -> None:
        """Raises FingerprintMismatch unless vectors of `fingerprint` belong here. None does not ask."""
        if self.schema in READABLE and fingerprint is None:
            return
        if self.schema in READABLE and self.schema != SCHEMA_VERSION:
            raise FingerprintMismatch(
                f"the store in {directory} has schema {self.schema}, this Bigos writes {SCHEMA_VERSION}.",
                fix="bigos ingest --rebuild",
            )
        if self.schema != SCHEMA_VERSION:
            raise FingerprintMismatch(
                f"the store in {directory} has schema {self.schema}, this Bigos reads {SCHEMA_VERSION}.",
                fix=f"mv {directory} {directory}.old and ingest again, or go back to the Bigos it was made with",
            )
        if fingerprint not in (None, self.fingerprint) or dimension not in (None, self.dimension):
            raise FingerprintMismatch(
                f"the store in {directory} was made with {self.fingerprint} ({self.dimension} dimensions), "
                f"the configuration says {fingerprint} ({dimension} dimensions).",
                fix="bigos ingest --rebuild, or set the model and windows it was made with",
            )


def read(directory: Path) -> Collection | None:
    """The collection in `directory`, None when there is none.

    Raises:
        StoreError: the file cannot be read, or is not one of ours.
    """
    file = directory / FILE
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        data = str(values.get("data", FIRST))
        if not _DATA.fullmatch(data):  # never out of the directory
            raise ValueError(f"data is {data!r}")
        return Collection(str(values["fingerprint"]), int(values["dimension"]), int(values["schema"]), data)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise faults.store_error(str(error), directory) from error
    except (ValueError, KeyError, TypeError) as error:
        raise faults.damaged(directory, f"{FILE}: {error}") from error


def data(directory: Path) -> Path:
    """Where the engine's files of the collection are, or will be. Raises StoreError as `read` does."""
    made_with = read(directory)
    return directory / (FIRST if made_with is None else made_with.data)


def exists(directory: Path) -> bool:
    """Whether there is a collection; looks, creates nothing. Raises StoreError for data without its file.

    Also when the system does not let us look.
    """
    with faults.translated(directory):  # a folder that may not be looked into
        if (directory / FILE).exists():
            return True
        if (directory / FIRST).exists():
            raise faults.damaged(directory, f"{FILE} is missing")
        return False


def make_directory(directory: Path) -> None:
    """Create `directory` and what is missing above it, for the user alone. Raises OSError."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def write(directory: Path, collection: Collection) -> None:
    """Put it there as a whole and on the disk, or not at all. Raises OSError."""
    write_back(directory, json.dumps(asdict(collection), indent=1).encode())


def write_back(directory: Path, content: bytes | None) -> None:
    """As `write`, of what the file held before; None when there was none. Raises OSError."""
    if content is None:
        (directory / FILE).unlink(missing_ok=True)
        return
    temporary = directory / f"{FILE}.new"
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(directory / FILE)
    sync_directory(directory)


def sync_directory(directory: Path) -> None:
    """Make renames in it last over a power cut. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

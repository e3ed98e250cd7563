# SPDX-License-Identifier: GPL-2.0-only
"""The values that flow through the house. Frozen, without behaviour beyond their own identity; imports nothing of ours.

Offsets are in Unicode characters of `Document.text`, half open. Lines count from 1 and are both inclusive. Pages count
from 1. What does not apply is None.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Kind = Literal["code", "document"]
Outcome = Literal["added", "updated", "unchanged", "skipped", "failed", "forgotten"]
Status = Literal["indexed", "skipped", "failed"]

UNSETTLED = 0
"""A `ctime_ns` that no file has: it is not known whether the file has changed since, see timestamps.py."""

_NAMESPACE = uuid.UUID("6f1a2e0c-4b0e-5d0a-9c57-b160500b1605")


def path_text(path: Path) -> str:
    """A path as text that any UTF-8 writer accepts: bytes that are not UTF-8 are shown as \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def document_id(path: Path) -> str:
    """uuid5 of the canonical absolute path's bytes; the caller has resolved the path."""
    return str(uuid.uuid5(_NAMESPACE, os.fsencode(path).hex()))


def document_path(source_path: str, doc_id: str) -> Path | None:
    """The file that `path_text` made `source_path` of, told by its id; None for an id that is no such file's.

    Text alone does not tell: a name may have had \\x80 in it as four characters, or as the byte.
    """
    text = source_path.encode()  # not os.fsencode, which in a C locale may know no Polish letters
    names = text, re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), text)
    paths = (Path(os.fsdecode(name)) for name in names)
    return next((path for path in paths if document_id(path) == doc_id), None)


def chunk_id(doc_id: str, content_hash: str, index: int) -> str:
    """uuid5 of (document, content, position): the same ingest twice gives the same ids."""
    return str(uuid.uuid5(uuid.UUID(doc_id), f"{content_hash}:{index}"))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A regular file that the walk found, as stat saw it. `path` is absolute and canonical."""

    path: Path
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = UNSETTLED

    @property
    def doc_id(self) -> str:
        """The id of the document that this file is."""
        return document_id(self.path)


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the document's text under one heading trail, on one page.

    `text` is `document.text[char_start:char_start + len(text)]`. `line_start` is the source line of its first
    character, None where lines mean nothing to a reader (HTML, PDF).
    """

    text: str
    char_start: int
    page: int | None = None
    line_start: int | None = None
    heading_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """What a loader makes of a file. `blocks` are in reading order, do not overlap, and hold all but white space."""

    source: SourceFile
    title: str | None
    format: str
    kind: Kind
    code_language: str | None
    text: str
    blocks: tuple[Block, ...]
    content_hash: str
    warnings: tuple[str, ...] = ()
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One window of a document. `text` is `document.text[char_start:char_end]`, exactly."""

    doc_id: str
    index: int
    text: str
    char_start: int
    char_end: int
    line_start: int | None
    line_end: int | None
    page: int | None
    page_end: int | None
    heading_path: tuple[str, ...]
    token_count: int
    language: str | None
    chunk_language: str | None
    kind: Kind
    code_language: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """What the store remembers of a document: enough to tell that it has not changed, and what became of it."""

    doc_id: str
    source_path: str
    content_hash: str
    size: int
    mtime_ns: int
    inode: int
    fingerprint: str
    chunk_count: int
    status: Status
    reason: str | None
    title: str | None
    kind: Kind | None
    format: str | None
    language: str | None
    code_language: str | None
    ingested_at: str
    ctime_ns: int | None = None
    """UNSETTLED where the file has to be read once more; None in Records older than the field."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where each leg of the search put a hit (from 1), and the score it gave; None where a leg did not find it.

    `coverage`, from 0 to 1, is how much of the question the hit speaks of.
    """

    dense: int | None = None
    dense_score: float | None = None
    lexical: int | None = None
    lexical_score: float | None = None
    coverage: float | None = None
    fused: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One found chunk with all that a reader needs to go there."""

    chunk_id: str
    score: float
    source_path: str
    source_name: str
    chunk: Chunk
    content_hash: str
    ingested_at: str
    ranks: Ranks = field(default_factory=Ranks)
    terms: frozenset[int] = field(default=frozenset(), repr=False)
    """The numbers of the terms that it has; see `bigos.lexical`."""


@dataclass(frozen=True, slots=True)
class ServiceDescription:
    """What a service says of itself, on one line; with a `warning`, and its `fix`, when it works but not well."""

    text: str
    warning: str | None = None
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What a run did with one file; `reason` says why when it was not indexed."""

    path: str
    outcome: Outcome
    reason: str | None = None
    detail: str | None = None
    chunks: int = 0

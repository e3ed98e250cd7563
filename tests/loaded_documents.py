# SPDX-License-Identifier: GPL-2.0-only
"""Loads bytes as ingest does, and holds every result to what a Document promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from bigos.errors import DocumentError
from bigos.loaders import LoadOptions, content_hash, load_document
from bigos.types import Document, SourceFile

FIXTURES = Path(__file__).parent / "data" / "loaders"


def load(name: str, data: bytes, options: LoadOptions | None = None) -> Document:
    """The document, whose blocks are exact, in order, and hold all but white space."""
    source = SourceFile(Path("/nowhere") / name, len(data), 0, 0)
    document = load_document(source, data, content_hash(data), options or LoadOptions())
    end = 0
    for block in document.blocks:
        assert block.text == document.text[block.char_start : block.char_start + len(block.text)]
        assert not document.text[end : block.char_start].strip()
        end = block.char_start + len(block.text)
    assert not document.text[end:].strip()
    return document


def load_fixture(name: str) -> Document:
    return load(name, (FIXTURES / name).read_bytes())


def blocks(document: Document) -> list[tuple[tuple[str, ...], str]]:
    """Heading trail and text of each block."""
    return [(block.heading_path, block.text) for block in document.blocks]


def failure(name: str, data: bytes, options: LoadOptions | None = None) -> DocumentError:
    """What a file that must not load is told."""
    with pytest.raises(DocumentError) as caught:
        load(name, data, options)
    return caught.value


def program(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a shell script on PATH, before nothing but the system's own programs."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n" + text)
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

# SPDX-License-Identifier: GPL-2.0-only
"""The embedded store by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bigos.stores.embedded import EmbeddedStore
from store_documents import DIMENSION, FINGERPRINT, memory_directory


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where an embedded store can be made; nothing is there yet."""
    with memory_directory(tmp_path) as memory:
        yield memory / "data" / "bigos"


@pytest.fixture
def store(directory: Path) -> Iterator[EmbeddedStore]:
    """An embedded store that does not exist until it is written to."""
    store = EmbeddedStore(directory, FINGERPRINT, DIMENSION, lock_timeout=60)
    yield store
    store.close()

# SPDX-License-Identifier: GPL-2.0-only
"""What many unit tests begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from small_index import SmallIndex, small_index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SmallIndex]:
    """An empty folder with an empty index of it."""
    with small_index(tmp_path) as made:
        yield made

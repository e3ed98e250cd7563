# SPDX-License-Identifier: GPL-2.0-only
"""Homes to run commands in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import MODELS, Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A fresh home for one test."""
    return _made(tmp_path / "home")


@pytest.fixture(scope="session")
def make_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Home]:
    """Makes homes that outlive a test, for indexes that several tests read."""
    return lambda: _made(tmp_path_factory.mktemp("home"))


def _made(path: Path) -> Home:
    if not (MODELS / "multilingual-e5-small" / "model.onnx").is_file():
        pytest.skip("the model is not built: ./setup.sh")
    path.mkdir(exist_ok=True)
    return Home(path)

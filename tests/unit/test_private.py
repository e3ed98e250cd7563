# SPDX-License-Identifier: GPL-2.0-only
"""Folders that an earlier version left open are closed; a folder that is not Bigos's own is left as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigos.config import load_config
from bigos.private import close_to_others, private_files


def made(path: Path, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    path.chmod(mode)
    return path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_was_left_open_is_closed_to_others(tmp_path: Path) -> None:
    config = load_config({"HOME": str(tmp_path)})
    index = made(config.data_dir / "collections" / "bigos" / "segments" / "vectors.dat")
    model = made(config.data_dir / "models" / "model.onnx")
    page = made(config.cache_dir / "ocr" / "ab" / "page.txt", 0o666)
    outside = made(tmp_path / "shared.txt")
    (config.data_dir / "collections" / "link").symlink_to(outside)
    close_to_others(config)
    folders = (config.data_dir, config.cache_dir, index.parent, index.parent.parent, page.parent, page.parent.parent)
    assert {mode(folder) for folder in folders} == {0o700}
    assert (mode(index), mode(page)) == (0o600, 0o600)
    assert (mode(model), mode(outside)) == (0o644, 0o644)
    assert not config.state_dir.exists()


def test_a_folder_with_other_things_in_it_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    theirs = made(tmp_path / "home" / "notes.txt")
    index = made(tmp_path / "home" / "collections" / "bigos" / "x.dat")
    close_to_others(load_config({"HOME": str(tmp_path), "BIGOS_DATA_DIR": str(tmp_path / "home")}))
    assert (mode(tmp_path / "home"), mode(theirs)) == (0o755, 0o644)
    assert (mode(index.parent.parent), mode(index)) == (0o755, 0o644)


def test_files_are_private_for_the_time_and_no_longer(tmp_path: Path) -> None:
    with private_files():
        (tmp_path / "within").write_text("x")
    (tmp_path / "after").write_text("x")
    assert (mode(tmp_path / "within"), mode(tmp_path / "after")) == (0o600, 0o644)

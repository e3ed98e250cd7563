# SPDX-License-Identifier: GPL-2.0-only
"""The cache of recognised pages: what was put is got, by everything that tells it apart; bounded; forgotten whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigos.ocr_cache import OcrCache

FIRST, SECOND = "ab" * 16, "cd" * 16
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=60).map(lambda text: text.replace("\r", ""))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(text=TEXTS, other=TEXTS)
def test_what_was_put_is_got(tmp_path: Path, text: str, other: str) -> None:
    cache = OcrCache(tmp_path / "ocr")
    cache.put(FIRST, 1, "300dpi-pol+eng-5.3.0", text)
    cache.put(FIRST, 2, "300dpi-pol+eng-5.3.0", other)
    assert cache.get(FIRST, 1, "300dpi-pol+eng-5.3.0") == text
    assert cache.get(FIRST, 2, "300dpi-pol+eng-5.3.0") == other
    for page, key in ((3, "300dpi-pol+eng-5.3.0"), (1, "300dpi-pol-5.3.0"), (1, "300dpi-pol+eng-5.4.0")):
        assert cache.get(FIRST, page, key) is None
    assert cache.get(SECOND, 1, "300dpi-pol+eng-5.3.0") is None


def test_forgetting_removes_every_page_and_the_empty_folder(tmp_path: Path) -> None:
    cache = OcrCache(tmp_path / "ocr")
    for page in (1, 2):
        for key in ("pol", "eng"):
            cache.put(FIRST, page, key, "secret")
    cache.put(SECOND, 1, "pol", "kept")
    assert cache.forget(FIRST)
    assert not cache.forget(FIRST)
    assert [path.read_text() for path in (tmp_path / "ocr").rglob("*") if path.is_file()] == ["kept"]
    assert [path.name for path in (tmp_path / "ocr").iterdir()] == [SECOND[:2]]


def test_the_documents_used_longest_ago_go_first(tmp_path: Path) -> None:
    cache = OcrCache(tmp_path / "ocr", most_bytes=250)
    digests = [f"{number:02x}" * 16 for number in range(5)]
    for number, digest in enumerate(digests):
        cache.put(digest, 1, "pol", "x" * 100)
        os.utime(tmp_path / "ocr" / digest[:2] / digest, (1_000_000 + number, 1_000_000 + number))
    assert cache.get(digests[0], 1, "pol")  # used again
    cache.prune()
    assert [digest for digest in digests if cache.get(digest, 1, "pol")] == [digests[0], digests[4]]


def test_a_cache_that_cannot_be_written_or_read_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "ocr").write_text("a file where the folder should be")
    cache = OcrCache(tmp_path / "ocr")
    cache.put(FIRST, 1, "pol", "text")
    assert cache.get(FIRST, 1, "pol") is None
    cache.prune()
    assert not cache.forget(FIRST)
    whole = OcrCache(tmp_path / "whole")
    whole.put(FIRST, 1, "pol", "text")
    next((tmp_path / "whole").rglob("*.txt")).write_bytes(b"\xff\xfe\xff")
    assert whole.get(FIRST, 1, "pol") is None


@pytest.mark.parametrize("digest", ["../../etc", "", "AB" * 16, "a/b"])
def test_only_a_content_hash_names_a_document(tmp_path: Path, digest: str) -> None:
    with pytest.raises(ValueError, match="no content hash"):
        OcrCache(tmp_path).forget(digest)

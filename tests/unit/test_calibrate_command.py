# SPDX-License-Identifier: GPL-2.0-only
"""Language means computed by command: where they go, when they are kept, what a change of them says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from bigos.calibrate_command import calibrated
from bigos.config import load_config
from bigos.embedders import TokenIds, Vectors
from bigos.embedders.calibration import calibration_file, load_calibration
from bigos.errors import EmbedderError
from bigos.library import Library
from bigos.render_migrate import calibrate_document, calibrate_text
from hash_embedder import HashEmbedder


class HashLibrary(Library):
    """A library whose service answers in process."""

    @cached_property
    def raw_embedder(self) -> HashEmbedder:
        return HashEmbedder()


class TurnedEmbedder(HashEmbedder):
    """The same model by name, on a machine that computes otherwise."""

    def embed_passages(self, texts: Sequence[str], tokens: Sequence[TokenIds] | None = None) -> Vectors:
        return np.roll(super().embed_passages(texts, tokens), 1, axis=1)


@pytest.fixture
def library(tmp_path: Path) -> HashLibrary:
    return HashLibrary(load_config({"HOME": str(tmp_path)}, {"embedder": "ollama"}))


def test_the_means_are_computed_once_and_kept_by_fingerprint_in_the_data_folder(library: HashLibrary) -> None:
    first = calibrated(library, again=False)
    assert (first.computed, first.changed) == (True, None)
    assert first.file == calibration_file(library.config.data_dir / "calibrations", HashEmbedder.fingerprint)
    assert first.languages == ["code", "en", "pl"]
    assert load_calibration(first.file, HashEmbedder()).checksum == first.checksum
    content = first.file.read_bytes()
    second = calibrated(library, again=False)
    assert (second.computed, second.changed, second.checksum) == (False, None, first.checksum)
    assert first.file.read_bytes() == content
    assert "--again" in calibrate_text(second)


def test_asked_again_they_are_computed_again_and_a_change_is_told(library: HashLibrary) -> None:
    first = calibrated(library, again=True)
    same = calibrated(library, again=True)
    assert (same.computed, same.changed, same.checksum) == (True, False, first.checksum)
    assert "the same as before" in calibrate_text(same)
    library.__dict__["raw_embedder"] = TurnedEmbedder()
    other = calibrated(library, again=True)
    assert (other.computed, other.changed) == (True, True)
    assert other.checksum != first.checksum
    assert "has to be made anew" in calibrate_text(other)


def test_damaged_means_are_computed_again(library: HashLibrary) -> None:
    first = calibrated(library, again=False)
    first.file.write_bytes(first.file.read_bytes()[:500])
    mended = calibrated(library, again=False)
    assert (mended.computed, mended.changed, mended.checksum) == (True, None, first.checksum)
    load_calibration(first.file, HashEmbedder())


def test_of_two_processes_that_use_a_model_first_at_once_both_take_the_same_means(library: HashLibrary) -> None:
    other = HashLibrary(library.config)
    other.__dict__["raw_embedder"] = TurnedEmbedder()

    class Slow(HashEmbedder):
        """Not at its end when the other is."""

        def embed_query(self, text: str) -> Vectors:
            assert other.embedder
            return super().embed_query(text)

    library.__dict__["raw_embedder"] = Slow()
    assert library.embedder.fingerprint == other.embedder.fingerprint
    assert HashLibrary(library.config).embedder.fingerprint == other.embedder.fingerprint
    assert [file.suffix for file in library.calibration_file.parent.iterdir()] == [".npz"]


def test_the_library_uses_what_the_command_computed(library: HashLibrary) -> None:
    result = calibrated(library, again=False)
    assert library.embedder.fingerprint == f"{HashEmbedder.fingerprint}/means-{result.checksum}"


def test_missing_texts_are_one_sentence_with_a_cure(tmp_path: Path) -> None:
    library = HashLibrary(
        load_config({"HOME": str(tmp_path), "BIGOS_CALIBRATION_DIR": str(tmp_path / "none")}, {"embedder": "ollama"})
    )
    with pytest.raises(EmbedderError, match="calibration texts") as caught:
        calibrated(library, again=False)
    assert caught.value.fix
    assert not library.calibration_file.exists()


def test_the_document_has_every_field(library: HashLibrary) -> None:
    result = calibrated(library, again=False)
    found = calibrate_document(result)
    assert found == {
        "schema": "bigos.calibrate.v1",
        "embedder": HashEmbedder.fingerprint,
        "file": str(result.file),
        "checksum": result.checksum,
        "languages": ["code", "en", "pl"],
        "computed": True,
        "changed": None,
        "seconds": round(result.seconds, 3),
    }
    assert json.loads(json.dumps(found)) == found

# SPDX-License-Identifier: GPL-2.0-only
"""`bigos calibrate` with the real model: kept when there, computed when not, a sentence when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import MODELS, REPO, Home

FEW = 12
"""Texts a file: enough for means, few enough for a test."""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The models of this checkout, but for the language means."""
    folder = tmp_path / "models"
    for name in ("tokenizer", "multilingual-e5-small"):
        (folder / name).mkdir(parents=True)
        for file in (MODELS / name).iterdir():
            if not file.name.startswith("calibration-"):
                (folder / name / file.name).symlink_to(file)
    return folder


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "calibration"
    folder.mkdir()
    for file in (REPO / "data" / "calibration").glob("*.jsonl"):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / file.name).write_text("".join(lines[:FEW]), encoding="utf-8")
    return folder


def test_means_that_are_there_are_kept(home: Home) -> None:
    ran = home.bigos("calibrate", "--json")
    assert ran.code == 0, ran.stderr
    assert (ran.json["schema"], ran.json["computed"], ran.json["changed"]) == ("bigos.calibrate.v1", False, None)
    assert ran.json["languages"] == ["code", "en", "pl"]
    assert Path(ran.json["file"]).parent == MODELS / "multilingual-e5-small"


def test_means_that_are_missing_are_computed_and_then_used(home: Home, models: Path, texts: Path) -> None:
    home.models = models
    home.env["BIGOS_CALIBRATION_DIR"] = str(texts)
    before = home.bigos("status", "--json").json
    assert "language means" in before["model_problem"]
    ran = home.bigos("calibrate", "--json")
    assert ran.code == 0, ran.stderr
    assert (ran.json["computed"], ran.json["changed"]) == (True, None)
    fingerprint = home.bigos("status", "--json").json["expected_fingerprint"]
    assert f"/means-{ran.json['checksum']}/" in fingerprint


def test_a_model_that_is_not_there_is_one_sentence(home: Home, tmp_path: Path) -> None:
    home.models = tmp_path / "none"
    ran = home.bigos("calibrate", "--json")
    assert (ran.code, ran.stdout) == (4, "")
    assert ran.stderr.startswith("error: ")
    assert "hint: " in ran.stderr

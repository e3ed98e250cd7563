# SPDX-License-Identifier: GPL-2.0-only
"""The big pair as a person uses it: the same commands, a model and a store behind HTTP, and both of them away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import REPO, Home
from doubles.embedding_server import EmbeddingServer
from doubles.qdrant_server import QdrantDouble
from store_documents import memory_directory

SAMPLES = REPO / "data" / "samples" / "english"


@pytest.fixture(scope="module")
def model() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


@pytest.fixture(scope="module")
def qdrant() -> Iterator[QdrantDouble]:
    with QdrantDouble() as server:
        yield server


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model: EmbeddingServer, qdrant: QdrantDouble) -> Iterator[Home]:
    with memory_directory(tmp_path_factory.mktemp("home")) as base:
        folder = base / ".config" / "bigos"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(
            'embedder = "ollama"\nstore = "server"\nqdrant_wait = 1\n'
            f'ollama_url = "{model.url}"\nqdrant_url = "{qdrant.url}"\n'
        )
        made = Home(base)
        ran = made.ingest(SAMPLES, "--recursive", "--json")
        assert ran.code == 0, ran.stderr
        assert ran.json["embedded"] == ran.json["chunks"]["written"] >= 5
        yield made


def test_what_is_written_is_on_the_server_and_the_language_means_are_in_the_data_folder(
    home: Home, qdrant: QdrantDouble
) -> None:
    assert qdrant.engine.count("bigos").count >= 10
    written = [name for name in home.everything() if "/cache/" not in name]
    assert [name for name in written if "calibrations/calibration-" in name]
    assert not [name for name in written if "collections/" in name], "the embedded store stays out of it"


def test_a_second_run_embeds_nothing_and_writes_nothing(home: Home, model: EmbeddingServer) -> None:
    asked = len(model.asked)
    again = home.ingest(SAMPLES, "--recursive", "--json").json
    assert (again["embedded"], again["chunks"]["written"], again["files_read"]) == (0, 0, 0)
    assert len(model.asked) == asked


def test_a_question_is_answered_with_file_and_lines(home: Home) -> None:
    found = home.bigos("search", "SPI clock divider rates", "--json").json
    assert found["schema"] == "bigos.search.v1"
    first = found["hits"][0]
    assert Path(first["source_path"]).name == "spi-clock-notes.md"
    lines = Path(first["source_path"]).read_text().split("\n")
    assert "\n".join(lines[first["line_start"] - 1 : first["line_end"]]).strip() == first["text"].strip()
    shown = home.bigos("show", first["chunk_id"], "--json").json
    assert shown["chunks"][0]["text"] == first["text"]


def test_status_and_doctor_name_the_services(home: Home, model: EmbeddingServer, qdrant: QdrantDouble) -> None:
    status = home.bigos("status", "--json").json
    assert status["fits_configuration"] is True
    assert status["store"] == {"path": None, "bytes": None, "place": f"{qdrant.url}, collection bigos"}
    checks = {check["name"]: check for check in home.bigos("doctor", "--warmup", "--json").json["checks"]}
    assert {name for name, check in checks.items() if check["state"] == "failed"} == set()
    assert "bge-m3" in checks["embedding service"]["detail"]
    assert qdrant.url in checks["store"]["detail"]
    assert "model file" not in checks


def test_a_look_at_a_new_installation_computes_nothing(home: Home, tmp_path: Path, model: EmbeddingServer) -> None:
    config = home.path / ".config" / "bigos" / "config.toml"
    new = Home(tmp_path, env={"BIGOS_CONFIG": str(config), "BIGOS_COLLECTION": "new"})
    status = new.bigos("status", "--json")
    assert (status.code, status.json["expected_fingerprint"]) == (0, None)
    assert "hint: bigos calibrate" in status.json["model_problem"]
    doctor = new.bigos("doctor", "--json")
    checks = {check["name"]: check for check in doctor.json["checks"]}
    assert (checks["language means"]["state"], checks["language means"]["fix"]) == ("warning", "bigos calibrate")
    assert "tokens/s" in checks["embedder"]["detail"]
    assert [name for name in new.everything() if "calibration" in name] == []


def test_an_openai_service_with_the_least_that_has_to_be_set(tmp_path: Path, model: EmbeddingServer) -> None:
    new = Home(tmp_path, env={"BIGOS_EMBEDDER": "openai", "BIGOS_OPENAI_URL": f"{model.url}/v1"})
    new.env["BIGOS_OPENAI_MODEL"] = "bge-m3"
    ran = new.ingest(SAMPLES, "--recursive", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["embedded"] >= 5
    first = new.bigos("search", "SPI clock divider rates", "--json").json["hits"][0]
    assert Path(first["source_path"]).name == "spi-clock-notes.md"


def test_services_that_are_away_are_told_soon_each_with_its_command(
    home: Home, model: EmbeddingServer, qdrant: QdrantDouble
) -> None:
    before = home.bigos("search", "SPI clock divider rates", "--json").json["hits"]
    model.stop()
    try:
        started = time.monotonic()
        ran = home.bigos("search", "SPI clock divider rates", "--json")
        assert (ran.code, ran.stdout) == (4, "")
        assert "hint: systemctl start ollama" in ran.stderr
        assert time.monotonic() - started < 60
        qdrant.stop()
        doctor = home.bigos("doctor", "--json")
        failed = {check["name"]: check["fix"] for check in json.loads(doctor.stdout)["checks"] if check["fix"]}
        assert doctor.code == 4
        assert failed["embedding service"] == "systemctl start ollama"
        assert failed["store server"] == "systemctl --user start qdrant"
        status = home.bigos("status")
        assert (status.code, status.stdout) == (4, "")
        assert "hint: systemctl --user start qdrant" in status.stderr
    finally:
        model.start()
        qdrant.start()
    assert home.bigos("search", "SPI clock divider rates", "--json").json["hits"] == before

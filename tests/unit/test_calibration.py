# SPDX-License-Identifier: GPL-2.0-only
"""Language means and scaling: what they take off, what they fall back to, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bigos.embedders import PassagesRejected, TokenIds, Vectors, Window, checked
from bigos.embedders.calibration import (
    CODE,
    Calibration,
    CalibrationSet,
    NeutralEmbedder,
    calibrate,
    calibration_file,
    fitted,
    load_calibration,
    read_calibration_set,
    save_calibration,
)
from bigos.errors import EmbedderError
from bigos.tokenizer import Tokenizer
from hash_embedder import TEXTS as WORDS
from hash_embedder import HashEmbedder
from vocabulary import TOKENIZER

DATA = Path(__file__).resolve().parents[2] / "data" / "calibration"
DIMENSION = 16


class BiasedEmbedder:
    """Meaning on the first axes, the language as a large constant on the last: e5's fault, made visible.

    A text is "language:number"; texts with the same number mean the same, but for some noise on one axis.
    """

    dimension = DIMENSION
    max_tokens = 100
    window = Window(64, 8)
    code_window = Window(64, 8)
    gloss_shares: Mapping[str, float] = {}

    def __init__(self, fingerprint: str = "biased/1") -> None:
        self.fingerprint = fingerprint

    def embed_passages(self, texts: Sequence[str], tokens: Sequence[TokenIds] | None = None) -> Vectors:
        return np.stack([self._vector(text, 3.0) for text in texts]) if texts else np.empty((0, DIMENSION), np.float32)

    def embed_query(self, text: str) -> Vectors:
        return self._vector(text, -2.0)

    def close(self) -> None:
        pass

    def _vector(self, text: str, role: float) -> Vectors:
        language, number = text.split(":")
        vector = np.zeros(DIMENSION, np.float32)
        meaning = np.random.default_rng(int(number)).normal(size=10)
        vector[:10] = meaning / np.linalg.norm(meaning)
        vector[10] = np.random.default_rng([int(number), len(language), ord(language[0])]).normal(0, 0.4)
        vector[{"pl": 12, "en": 13, "code": 14}.get(language, 15)] = 4.0
        vector[11] = role
        return (vector / np.linalg.norm(vector)).astype(np.float32)


def texts(label: str, numbers: range) -> list[str]:
    return [f"{label}:{number}" for number in numbers]


TEXTS = CalibrationSet(
    {label: texts(label, range(1000, 1200)) for label in ("pl", "en", CODE)},
    {label: texts(label, range(2000, 2200)) for label in ("pl", "en")},
)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibrate(BiasedEmbedder(), TEXTS)


@pytest.fixture
def neutral(calibration: Calibration) -> NeutralEmbedder:
    return NeutralEmbedder(BiasedEmbedder(), calibration)


def test_a_polish_question_finds_the_english_text_among_polish_ones(neutral: NeutralEmbedder) -> None:
    # The promise that names the project: one collection, and no filter on language.
    raw = BiasedEmbedder()
    pot = [*texts("pl", range(100)), "en:777"]
    labels = ["pl"] * 100 + ["en"]
    assert int(np.argmax(raw.embed_passages(pot) @ raw.embed_query("pl:777"))) != 100, "the raw model must fail here"
    assert int(np.argmax(neutral.embed_passages(pot, labels) @ neutral.embed_query("pl:777", "pl"))) == 100


def test_code_has_a_mean_of_its_own(neutral: NeutralEmbedder) -> None:
    pot = [*texts("en", range(100)), "code:777"]
    found = neutral.embed_passages(pot, ["en"] * 100 + [CODE]) @ neutral.embed_query("pl:777", "pl")
    assert int(np.argmax(found)) == 100


def test_directions_in_which_translations_differ_weigh_less(calibration: Calibration) -> None:
    weights = np.diag(calibration.scaling)
    assert weights[10] < weights[:10].min()
    assert np.linalg.slogdet(calibration.scaling)[1] == pytest.approx(0, abs=1e-3)


def test_an_unknown_language_gets_the_mean_of_the_languages_without_code(calibration: Calibration) -> None:
    middle = (calibration.passage_means["pl"] + calibration.passage_means["en"]) / 2
    assert np.allclose(calibration.passage_mean(None), middle)
    assert np.allclose(calibration.passage_mean("de"), middle)
    assert np.allclose(calibration.query_mean(None), calibration.query_mean("de"))


def test_vectors_are_unit_and_one_a_text(neutral: NeutralEmbedder) -> None:
    vectors = neutral.embed_passages(["pl:1", "en:2", "code:3", "de:4"], ["pl", "en", CODE, None])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert neutral.embed_passages([], []).shape == (0, DIMENSION)


def test_a_text_equal_to_its_mean_is_refused_and_not_stored_as_zero() -> None:
    only = CalibrationSet({"pl": ["pl:1"], "en": ["en:1"], CODE: ["code:1"]}, {"pl": ["pl:1"], "en": ["en:1"]})
    same = BiasedEmbedder()
    with pytest.raises((EmbedderError, np.linalg.LinAlgError)), np.errstate(all="ignore"):
        NeutralEmbedder(same, calibrate(same, only)).embed_passages(["pl:1"], ["pl"])


def test_what_is_saved_is_what_is_loaded(calibration: Calibration, tmp_path: Path) -> None:
    file = calibration_file(tmp_path, "biased/1")
    save_calibration(calibration, file)
    loaded = load_calibration(file, BiasedEmbedder())
    assert loaded.checksum == calibration.checksum
    assert np.array_equal(loaded.scaling, calibration.scaling)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(("folder", "file"), [(0o755, 0o644), (0o700, 0o600), (0o770, 0o660)])
def test_the_means_may_be_read_by_whoever_may_enter_their_folder(
    calibration: Calibration, tmp_path: Path, folder: int, file: int
) -> None:
    tmp_path.chmod(folder)
    save_calibration(calibration, tmp_path / "means.npz")
    assert (tmp_path / "means.npz").stat().st_mode & 0o777 == file


def test_means_of_another_model_are_refused(calibration: Calibration, tmp_path: Path) -> None:
    file = tmp_path / "means.npz"
    save_calibration(calibration, file)
    with pytest.raises(EmbedderError, match="another model"):
        load_calibration(file, BiasedEmbedder("biased/2"))


@pytest.mark.parametrize("cut", [0, 10, 500])
def test_damaged_means_are_refused_with_the_fix(calibration: Calibration, tmp_path: Path, cut: int) -> None:
    file = tmp_path / "means.npz"
    save_calibration(calibration, file)
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(EmbedderError) as caught:
        load_calibration(file, BiasedEmbedder())
    assert caught.value.fix == "bigos calibrate"


def test_a_changed_number_is_noticed(calibration: Calibration, tmp_path: Path) -> None:
    file = tmp_path / "means.npz"
    save_calibration(calibration, file)
    with np.load(file) as data:
        arrays = {name: np.array(data[name]) for name in data.files}
    arrays["passage:pl"][0] += 0.01
    np.savez(file, **arrays)
    with pytest.raises(EmbedderError, match="damaged"):
        load_calibration(file, BiasedEmbedder())


def test_the_checksum_follows_every_part(calibration: Calibration) -> None:
    means = dict(calibration.passage_means)
    changed = [
        replace(calibration, passage_means=means | {"pl": means["pl"] + 1e-3}),
        replace(calibration, scaling=calibration.scaling * 1.01),
        replace(calibration, embedder_fingerprint="biased/9"),
        replace(calibration, code_weight=calibration.code_weight + 0.01),
    ]
    assert len({item.checksum for item in (calibration, *changed)}) == 5


def test_scores_of_code_are_weighed_up_to_those_of_documents(neutral: NeutralEmbedder) -> None:
    numbers = range(3000, 3100)
    queries = np.stack([neutral.embed_query(text, "pl") for text in texts("pl", numbers)])
    prose = np.std(queries @ neutral.embed_passages(texts("en", numbers), ["en"] * 100).T)
    code = np.std(queries @ neutral.embed_passages(texts(CODE, numbers), [CODE] * 100).T)
    assert prose / code == pytest.approx(neutral.code_weight, rel=0.1)


def test_the_set_in_the_repository_is_parallel_and_as_large_as_promised() -> None:
    found = read_calibration_set(DATA)
    assert len(found.passages["pl"]) == len(found.passages["en"]) >= 150
    assert len(found.queries["pl"]) == len(found.queries["en"]) >= 100
    assert len(found.passages[CODE]) >= 100


@pytest.mark.parametrize("content", ["{", '{"en": "only English"}\n', ""])
def test_a_damaged_set_is_refused_in_one_sentence(tmp_path: Path, content: str) -> None:
    for name in ("passages-a.jsonl", "questions.jsonl", "code.jsonl"):
        (tmp_path / name).write_text(json.dumps({"pl": "a", "en": "b", "text": "c"}) + "\n", encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(EmbedderError) as caught:
        read_calibration_set(tmp_path)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("vectors", "what"),
    [
        (np.ones((2, 3), np.float32), "shape"),
        (np.full((1, DIMENSION), np.nan, np.float32), "finite"),
        (np.zeros((1, DIMENSION), np.float32), "unit"),
    ],
)
def test_the_gate_lets_no_impossible_vector_through(vectors: Vectors, what: str) -> None:
    with pytest.raises(EmbedderError, match=what):
        checked(vectors, 1, DIMENSION)


def test_calibration_leaves_out_texts_that_the_model_cannot_take_in_every_language_alike() -> None:
    made = calibrate(HashEmbedder(refuses="Sieć"), WORDS)
    rest = CalibrationSet(
        {
            label: [row for index, row in enumerate(rows) if index != 2 or label == CODE]
            for label, rows in WORDS.passages.items()
        },
        WORDS.queries,
    )
    assert made.checksum == calibrate(HashEmbedder(), rest).checksum
    with pytest.raises(EmbedderError, match="most of the calibration texts"):
        calibrate(HashEmbedder(refuses="e"), WORDS)


def test_rejected_passages_go_on_up_with_the_others_made_neutral() -> None:
    embedder = NeutralEmbedder(HashEmbedder(refuses="cat"), calibrate(HashEmbedder(), WORDS))
    whole = NeutralEmbedder(HashEmbedder(), calibrate(HashEmbedder(), WORDS))
    texts = ["a dog barks", "a cat sleeps", "pies szczeka"]
    labels = ["en", "en", "pl"]
    with pytest.raises(PassagesRejected) as caught:
        embedder.embed_passages(texts, labels)
    assert set(caught.value.reasons) == {1}
    assert np.isnan(caught.value.vectors[1]).all()
    assert np.array_equal(caught.value.vectors[[0, 2]], whole.embed_passages(texts, labels)[[0, 2]])


def test_means_that_cannot_be_written_are_told_with_their_place(calibration: Calibration, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(EmbedderError, match="cannot be written to") as caught:
        save_calibration(calibration, tmp_path / "file" / "means.npz")
    assert str(tmp_path / "file") in caught.value.fix


@pytest.mark.parametrize("most", [9, 62, 448, 8190])
def test_texts_longer_than_the_model_takes_lose_their_ends_only(most: int) -> None:
    tokenizer = Tokenizer.load(TOKENIZER)
    texts = CalibrationSet({"en": ["a clock " * 300, "a cat"], "code": ["int i;\n" * 200]}, {"en": ["zażółć " * 100]})
    fit = fitted(texts, tokenizer, most)
    for before, after in ((texts.passages, fit.passages), (texts.queries, fit.queries)):
        for label, rows in before.items():
            for row, cut in zip(rows, after[label], strict=True):
                assert row.startswith(cut)
                assert 0 < tokenizer.count(cut) <= most
                assert cut == row or tokenizer.count(cut) >= most - 16

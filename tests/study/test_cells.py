"""Cells are computed as they are described: controls, trainings, vectors, and the cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
from tests.study.toys import TINY, toy_data, toy_study

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.classify.features import TokenizedTexts, build_task_vocabulary
from elmo.classify.linear import SVM_STRENGTHS
from elmo.embed.config import MixConfig
from elmo.errors import UserError
from elmo.files import sha256
from elmo.language_model import LanguageModel
from elmo.static.contextual import contextual_vectors
from elmo.static.train import StaticConfig, SvdConfig, svd_vectors
from elmo.static.vectors import StaticVectors
from elmo.study.cells import Study, StudyBiLM, majority, tfidf, train
from elmo.study.data import StaticFeatures, WithoutTaskIds
from elmo.study.rows import (
    CANDIDATES,
    DISTILLED,
    ELMO,
    Cell,
    Embedding,
    Outcome,
    classifier_config,
    vector_files,
    vectors_cell,
)
from elmo.text.corpus import is_held_out
from elmo.text.tokenizer import TokenizerConfig

DATA = toy_data()
TEXTS = TokenizedTexts(DATA.words, build_task_vocabulary(DATA.words, 1))
GOLD = DATA.classes[DATA.test]


# The controls are what counting and scikit-learn say they are.


def test_the_majority_class_is_the_most_frequent_one() -> None:
    counts = np.bincount(DATA.classes[: DATA.train_count])
    found = majority(DATA)
    assert set(found.predictions) == {counts.argmax()}
    rate = (DATA.classes[DATA.train_count :] == counts.argmax()).mean()
    assert found.test.accuracy.value == pytest.approx(rate)


def test_tfidf_is_a_linear_machine_over_words_and_pairs() -> None:
    def analysed(text: str) -> list[str]:
        words = text.lower().split()
        return words + [" ".join(words[idx : idx + 2]) for idx in range(len(words) - 1)]

    vectorizer = TfidfVectorizer(analyzer=analysed, sublinear_tf=True)
    fitted = vectorizer.fit_transform(DATA.texts[: DATA.train_count])
    test = vectorizer.transform(DATA.texts[DATA.train_count :])
    found = tfidf(DATA)
    by_strength = [
        LinearSVC(C=strength, random_state=0, tol=1e-3)
        .fit(fitted, DATA.classes[: DATA.train_count])
        .predict(test)
        for strength in SVM_STRENGTHS
    ]
    assert found.predictions in [tuple(some.tolist()) for some in by_strength]
    assert found.test.accuracy.value > 0.9
    assert found.train_rows == DATA.train_count
    few = [tfidf(DATA, per_class=4, seed=seed) for seed in (0, 0, 1)]
    assert few[0].predictions == few[1].predictions != few[2].predictions
    assert few[0].train_rows == 8


# One training: the same seed gives the same outcome, and what is reported is what was learned.

CELL = Cell(
    name="x",
    row="x",
    kind="network",
    classifier=classifier_config(replace(TINY, epochs=2), MixConfig(), 0, CANDIDATES[0], "beside"),
    measures_train=False,
)


def static_features() -> StaticFeatures:
    words = sorted({word for text in DATA.words for word in text})
    drawn = np.random.default_rng(1).normal(size=(len(words), 4)).astype(np.float32)
    return StaticFeatures(TEXTS, StaticVectors(tuple(words), drawn))


def test_an_easy_task_is_learned_and_told_of() -> None:
    fractions: list[float] = []
    cell = replace(CELL, steps=150, measures_train=True)
    found = train(DATA, static_features(), (1, 4), cell, fractions.append)
    assert found.test.accuracy.value > 0.9
    assert (np.array(found.predictions) == GOLD).mean() == found.test.accuracy.value
    assert found.train is not None
    assert found.train.count == DATA.train_count
    assert found.layer_weights == (1.0,)
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1)


def test_the_seed_decides_and_few_rows_are_read_more_often() -> None:
    def loss(seed: int) -> float:
        assert CELL.classifier is not None
        learning = replace(CELL.classifier.learning, seed=seed)
        cell = replace(CELL, classifier=replace(CELL.classifier, learning=learning))
        return train(DATA, static_features(), (1, 4), cell).test.log_loss

    assert loss(3) == loss(3) != loss(4)


def test_few_rows_are_learned_until_the_loss_stops_falling() -> None:
    """As elmo classify train does: two epochs of a few steps teach nothing."""
    assert CELL.classifier is not None
    learning = replace(CELL.classifier.learning, epochs=None)
    cell = replace(CELL, per_class=16, classifier=replace(CELL.classifier, learning=learning))
    found = train(DATA, static_features(), (1, 4), cell)
    assert found.train is None
    assert found.train_rows == 26
    assert found.epochs is not None
    assert found.epochs > 20
    assert found.test.accuracy.value > 0.9


def test_task_embeddings_learn_by_themselves() -> None:
    cell = replace(CELL, steps=150)
    assert train(DATA, StaticFeatures(TEXTS, None), (1, 0), cell).test.accuracy.value > 0.9


# What cells share is computed once, and is what each would have computed.


def test_a_file_of_vectors_is_read_for_the_words_of_the_texts(tmp_path: Path) -> None:
    words = ("water", "zebra", "bank", "loan")
    vectors = StaticVectors(words, np.arange(8, dtype=np.float32).reshape(4, 2) + 1)
    vectors.save(tmp_path / "mine.bin")
    study = toy_study(tmp_path, word_vectors=(str(tmp_path / "mine.bin"),))
    known = study.load_vectors("file-mine")
    assert known.words == ("water", "bank", "loan")
    read = [StaticFeatures(TEXTS, some, DATA.packed).read([1]) for some in (known, vectors)]
    assert torch.equal(read[0].layers, read[1].layers)


def test_texts_without_task_embeddings_have_the_shape_of_their_ids() -> None:
    ids = WithoutTaskIds(DATA.words, TEXTS.task_vocabulary).task_ids([0, 3])
    assert ids.shape == TEXTS.task_ids([0, 3]).shape
    assert not ids.any()


def test_cells_of_another_precision_are_not_used(tmp_path: Path) -> None:
    keys = {
        toy_study(tmp_path, precision=precision).key(replace(CELL, embedding="nothing"))
        for precision in ("fp32", "bf16")
    }
    assert len(keys) == 2


# Static vectors are those of the training texts, held-out ones left out.


def made(study: Study, config: StaticConfig, name: str = "svd-2") -> Embedding:
    cell = replace(vectors_cell("svd-2", TINY), name=name, embedding=name, static=config)
    return study.compute(cell)


def test_vectors_are_made_of_the_training_texts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Study, "held_out_fraction", 0.3)
    study, config = toy_study(tmp_path), SvdConfig(window=2, dim=4, min_count=2)
    embedding = made(study, config)
    texts = [text.split() for text in DATA.texts[:80]]
    used = [words for words in texts if not is_held_out(words, 0.3)]
    assert len(used) < 80
    vocabulary = build_task_vocabulary(used, 2)
    expected = svd_vectors([vocabulary.encode(text) for text in used], vocabulary, config)
    path = study.vectors_path("svd-2")
    found = StaticVectors.load(path)
    assert found.words == expected.words
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    assert (embedding.parameters, embedding.key) == (4 * len(found), sha256(path))
    with pytest.raises(UserError, match="no word is seen 1000 times"):
        made(study, SvdConfig(min_count=1000), "x")


def test_distilled_vectors_are_means_of_the_layers_that_were_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(word_dim=8, hidden=8), build_task_vocabulary(DATA.words, 1))
    loaded = LanguageModel(model, TokenizerConfig())
    study = toy_study(tmp_path)
    study.add_bilm(ELMO, StudyBiLM(loaded, tmp_path, "toy", None), "key")
    study.read_layers(ELMO, lambda done: None)
    study.compute(vectors_cell(DISTILLED, TINY))
    found = StaticVectors.load(study.vectors_path(DISTILLED))
    texts = [w for w in DATA.words[:80] if not is_held_out(w, study.held_out_fraction)]
    vocabulary = build_task_vocabulary(texts, 3)
    expected = contextual_vectors(texts, vocabulary, loaded)
    assert found.words == expected.words
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-3)  # half precision


def test_vectors_of_the_user_are_read_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "glove.6B.txt"
    path.write_text("bank 1 2\nthe 3 4\n")
    study = toy_study(tmp_path / "out", word_vectors=(str(path),))
    cell = vectors_cell("file-glove.6B", study.config)
    assert study.compute(cell) == Embedding(key=sha256(path), parameters=4)
    key = study.key(cell)
    path.write_text("bank 1 2\nthe 3 5\n")
    assert study.key(cell) != key
    with pytest.raises(UserError, match="different names"):
        vector_files(replace(TINY, word_vectors=("a/x.txt", "b/x.txt")))


# The cache: a result is known for the same description only, and damage means doing it again.


def test_a_cell_is_cached_for_the_same_inputs_only(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    outcome = majority(DATA)
    assert study.cached(CELL) is None
    study.store(CELL, outcome)
    assert study.cached(CELL) == outcome
    assert isinstance(outcome, Outcome)
    assert study.cached(replace(CELL, row="another title")) == outcome
    assert study.cached(replace(CELL, steps=7)) is None
    assert study.cached(replace(CELL, name="y")) is None
    study.data = replace(study.data, train_count=79)
    assert study.cached(CELL) is None


def test_static_vectors_are_made_once_for_all_biLMs_that_are_given(tmp_path: Path) -> None:
    model = BiLM(BiLMConfig(word_dim=8, hidden=8), build_task_vocabulary(DATA.words, 1))
    loaded = LanguageModel(model, TokenizerConfig(), {"vocabulary": {"held_out_share": 0.3}})
    study, cell = toy_study(tmp_path), vectors_cell("svd-2", TINY)
    key = study.key(cell)
    study.add_bilm(ELMO, StudyBiLM(loaded, tmp_path, "given", None), "key")
    assert study.key(cell) == key
    # One that the study trains has not learned from these texts, nor may the vectors.
    study.add_bilm(ELMO, StudyBiLM(loaded, tmp_path, "trained by this study", 7.0), "key")
    assert study.held_out_fraction == 0.3
    assert study.key(cell) != key


def test_vectors_without_their_file_are_made_again(tmp_path: Path) -> None:
    study, cell = toy_study(tmp_path), vectors_cell("svd-2", TINY)
    study.store(cell, Embedding(key="k"))
    assert study.cached(cell) is None
    path = study.vectors_path("svd-2")
    path.parent.mkdir()
    path.touch()
    assert study.cached(cell) == Embedding(key="k")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": 1}', '{"key": "KEY"}', "null"])
def test_a_damaged_cell_is_computed_again(tmp_path: Path, damage: str) -> None:
    study = toy_study(tmp_path)
    path = tmp_path / "cells" / "x.json"
    path.parent.mkdir()
    path.write_text(damage.replace("KEY", study.key(CELL)))
    assert study.cached(CELL) is None

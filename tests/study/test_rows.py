"""Cells are what they describe: rows, controls, vectors, trainings, choices, and the cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC
from tests.study.toys import TINY, TOPICS, toy_data, toy_study

from elmo.classify.features import build_task_vocabulary
from elmo.embed.config import MixConfig
from elmo.errors import UserError
from elmo.files import sha256
from elmo.static.train import SkipGramConfig, SvdConfig, encode_texts, svd_vectors
from elmo.static.vectors import StaticVectors
from elmo.study.data import NoFeatures, StaticFeatures
from elmo.study.rows import (
    NETWORK_CANDIDATES,
    SVM_CANDIDATES,
    Cell,
    Embedding,
    Outcome,
    Row,
    choose,
    chosen_rows,
    classifier_config,
    majority,
    make_vectors,
    row_cells,
    tfidf,
    train,
    tuning_cells,
    vectors_cell,
    words_and_pairs,
    work,
)
from elmo.text.corpus import is_held_out

DATA = toy_data()
TEXTS = DATA.rows_for(DATA.split, 1)
GOLD = DATA.classes[DATA.test]
NETWORK, SVM = Row("average", "Average", "elmo"), Row("tfidf", "TF-IDF", "control", "tfidf")
DEVELOPMENT_ROWS = 4730
"""Of which a standard error at an accuracy of 0.9 is 0.0044."""


# Which rows and cells there are.


def test_rows_are_chosen_by_name_and_kind() -> None:
    every = [row.name for row in chosen_rows(TINY, 2)]
    assert every == [
        "majority", "tfidf", "own", "svd-2", "skipgram-2", "layer-0", "layer-1", "layer-2",
        "average", "frozen", "trainable", "function", "fine-tuned",
    ]  # fmt: skip
    some = replace(TINY, rows=("mixes", "static", "tfidf"))
    assert [row.name for row in chosen_rows(some, 1)] == [
        "tfidf", "svd-2", "skipgram-2", "frozen", "trainable", "function",
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"got 'trainble' .did you mean 'trainable'"):
        chosen_rows(replace(TINY, rows=("trainble",)), 1)


def test_every_row_is_tuned_and_trained_alike() -> None:
    config = replace(TINY, fine_tune_seeds=1)
    rows = {row.name: row for row in chosen_rows(config, 1)}
    tuned = [cell.name for cell in tuning_cells(config, rows.values())]
    assert len(tuned) == 4 + 3 * (len(rows) - 3)  # neither the majority nor the fine-tuned row
    for cell in tuning_cells(config, [rows["svd-2"]]):
        assert (cell.train_rows, cell.measures_train) == (config.tuning_rows, False)
    seeds = {name: [cell.seed for cell in row_cells(config, row)] for name, row in rows.items()}
    assert seeds["own"] == seeds["frozen"] == [0, 1]
    assert seeds["tfidf"] == seeds["majority"] == seeds["fine-tuned"] == [0]
    frozen = [cell.classifier for cell in row_cells(config, rows["frozen"])]
    assert [one and one.network.mix.mix_seed for one in frozen] == [0, 1]
    settings = {"learning_rate": 0.5, "dropout": 0.25}
    (cell,) = row_cells(config, rows["fine-tuned"], settings)
    assert cell.classifier is not None
    assert cell.classifier.learning.fine_tuning.fine_tune_epochs == config.fine_tune_epochs
    assert cell.classifier.learning.learning_rate == 0.5
    assert cell.classifier.network.dropout == 0.25


def test_work_grows_with_what_is_read() -> None:
    rows = {row.name: row for row in chosen_rows(TINY, 1)}
    own, layer, function, tuned = (
        work(row_cells(replace(TINY, least_steps=1), rows[name])[0], 1000, 2)
        for name in ("own", "layer-1", "function", "fine-tuned")
    )
    assert own == 1000 * TINY.epochs
    assert own < layer < function < tuned
    few = replace(row_cells(TINY, rows["own"])[0], per_class=4)
    assert work(few, 1000, 2) == TINY.least_steps * 64
    assert work(vectors_cell("skipgram-5", TINY), 100, 2) > work(
        vectors_cell("svd-5", TINY), 100, 2
    )
    dim = vectors_cell("svd-5-dim50", TINY).static
    assert dim is not None
    assert (dim.window, dim.dim) == (5, 50)


# Settings are chosen by what development rows can tell.


def chosen(row: Row, *accuracies: float | None) -> Any:
    outcomes: Any = {
        f"tuning-{row.name}-{idx}": SimpleNamespace(development_accuracy=accuracy)
        for idx, accuracy in enumerate(accuracies)
        if accuracy is not None
    }
    return choose(row, outcomes, DEVELOPMENT_ROWS)


def test_a_lead_within_a_standard_error_is_none() -> None:
    assert chosen(NETWORK, 0.896, 0.900, 0.899)[0] == NETWORK_CANDIDATES[0]
    assert chosen(NETWORK, 0.895, 0.897, 0.900)[0] == NETWORK_CANDIDATES[1]
    assert chosen(NETWORK, 0.880, 0.890, 0.900)[0] == NETWORK_CANDIDATES[2]
    # What was tried on all rows is taken as it is.
    assert chosen(SVM, 0.9034, 0.9082, 0.9089, 0.9082)[0] == SVM_CANDIDATES[2]
    assert chosen(SVM, 0.9, 0.9, 0.9, 0.8)[0] == SVM_CANDIDATES[0]


def test_settings_that_fail_are_passed_over() -> None:
    assert chosen(NETWORK, None, None, None) is None
    best, candidates = chosen(NETWORK, None, 0.9, 0.8)
    assert best == NETWORK_CANDIDATES[1]
    assert [one["development_accuracy"] for one in candidates] == [0.9, 0.8]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_choice_is_never_far_below_the_best(accuracies: list[float]) -> None:
    best = chosen(NETWORK, *accuracies)[0]
    accuracy, highest = accuracies[NETWORK_CANDIDATES.index(best)], max(accuracies)
    assert (highest - accuracy) ** 2 <= highest * (1 - highest) / DEVELOPMENT_ROWS + 1e-12


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
    machine = LinearSVC(C=0.5, random_state=0).fit(fitted, DATA.classes[: DATA.train_count])
    expected = machine.predict(vectorizer.transform(DATA.texts[DATA.train_count :]))
    found = tfidf(DATA, 0.5)
    assert found.predictions == tuple(expected)
    assert found.test.accuracy.value > 0.9
    assert found.parameters == machine.coef_.size + 1
    assert words_and_pairs(["The", "Old", "bank"]) == ["the", "old", "bank", "the old", "old bank"]
    few = [tfidf(DATA, 0.5, per_class=4, seed=seed).predictions for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]


# One training: the same seed gives the same outcome, and what is reported is what was learned.

CELL = Cell(
    name="x",
    row="x",
    kind="network",
    classifier=classifier_config(replace(TINY, epochs=2), MixConfig(), seed=0),
    measures_train=False,
)


def static_features() -> StaticFeatures:
    words = sorted({word for text in DATA.words for word in text})
    drawn = np.random.default_rng(0).normal(size=(len(words), 4)).astype(np.float32)
    return StaticFeatures(TEXTS, StaticVectors(tuple(words), drawn))


def test_an_easy_task_is_learned_and_told_of() -> None:
    fractions: list[float] = []
    cell = replace(CELL, least_steps=150, measures_train=True)
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
    fractions: list[float] = []
    cell = replace(CELL, per_class=4, least_steps=31)
    assert train(DATA, static_features(), (1, 4), cell, fractions.append).train is None
    assert len(fractions) == 31


def test_task_embeddings_alone_learn_and_start_from_given_vectors() -> None:
    few, many = (replace(CELL, least_steps=steps) for steps in (15, 150))
    assert train(DATA, NoFeatures(TEXTS), (1, 0), many).test.accuracy.value > 0.9
    sizes = {"money": 3.0, "river": -3.0}
    rows = {word: size for topic, size in sizes.items() for word in TOPICS[topic] if word != "bank"}
    vectors = np.array([[size] * 4 for size in rows.values()], np.float32)
    data = replace(DATA, word_vectors=StaticVectors(tuple(rows), vectors))
    features = NoFeatures(data.rows_for(data.split, 1))
    without = train(DATA, NoFeatures(TEXTS), (1, 0), few).test.accuracy.value
    assert train(data, features, (1, 0), few).test.accuracy.value > 0.9 > without


# Static vectors are those of the training texts, held-out ones left out.


def test_vectors_are_made_of_the_training_texts_alone(tmp_path: Path) -> None:
    path, config = tmp_path / "svd-2.bin", SvdConfig(window=2, dim=4, min_count=2)
    made = make_vectors(DATA, config, 0.3, path)
    texts = [text.split() for text in DATA.texts[:80]]
    used = [words for words in texts if not is_held_out(words, 0.3)]
    assert len(used) < 80
    vocabulary = build_task_vocabulary(used, 2)
    expected = svd_vectors(encode_texts(used, vocabulary), vocabulary, config)
    found = StaticVectors.load(path)
    assert found.words == expected.words
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    assert (made.parameters, made.key) == (4 * len(found), sha256(path))
    with pytest.raises(UserError, match="no word is seen 1000 times"):
        make_vectors(DATA, SvdConfig(min_count=1000), 0.0, tmp_path / "x.bin")
    fractions: list[float] = []
    slow = SkipGramConfig(window=2, dim=4, min_count=2, epochs=30)
    make_vectors(DATA, slow, 0.0, tmp_path / "skipgram-2.bin", fractions.append)
    assert fractions == [1000 / 2400, 2000 / 2400]


# The cache: a result is known for the same description only, and damage means doing it again.


def test_a_cell_is_cached_for_the_same_inputs_only(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    outcome = majority(DATA)
    assert study.cached(CELL) is None
    study.store(CELL, outcome)
    assert study.cached(CELL) == outcome
    assert isinstance(outcome, Outcome)
    assert study.cached(replace(CELL, row="another title")) == outcome
    assert study.cached(replace(CELL, least_steps=7)) is None
    assert study.cached(replace(CELL, name="y")) is None
    study.data = replace(study.data, train_count=79)
    assert study.cached(CELL) is None


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

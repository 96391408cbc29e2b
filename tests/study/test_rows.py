"""Sweeps are read strictly, and tried for the rows that have the setting."""

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
from tests.study.test_results import outcome
from tests.study.toys import TINY, TOPICS, toy_bench, toy_data, toy_request

from elmo.classify.features import build_task_vocabulary
from elmo.embed.config import MixConfig
from elmo.errors import UserError
from elmo.files import sha256
from elmo.static.train import SkipGramConfig, SvdConfig, encode_texts, svd_vectors
from elmo.static.vectors import StaticVectors
from elmo.study.data import NoFeatures, StaticFeatures
from elmo.study.jobs import Failure, StepProgress
from elmo.study.results import Row
from elmo.study.rows import (
    NETWORKS,
    SVMS,
    AskedSweep,
    EmbeddingFacts,
    Reading,
    Training,
    best_static,
    choose,
    compared,
    majority,
    make_vectors,
    parse_sweeps,
    planned,
    row_result,
    shared_classifier,
    static_name,
    static_settings,
    sweep_job,
    sweeps_found,
    tfidf,
    train_network,
    tries_of,
    words_and_pairs,
)
from elmo.study.runner import run_study
from elmo.text.corpus import is_held_out

# The controls are what counting and scikit-learn say they are.


DATA = toy_data()


def test_the_majority_class_is_the_most_frequent_one() -> None:
    counts = np.bincount(DATA.classes[: DATA.train_count])
    found = majority(DATA)
    assert set(found.predictions) == {counts.argmax()}
    share = (DATA.classes[DATA.train_count :] == counts.argmax()).mean()
    assert found.test.accuracy.value == pytest.approx(share)


def test_tfidf_is_a_linear_machine_over_words_and_pairs() -> None:
    def analysed(text: str) -> list[str]:
        words = text.lower().split()
        return words + [" ".join(words[place : place + 2]) for place in range(len(words) - 1)]

    vectorizer = TfidfVectorizer(analyzer=analysed, sublinear_tf=True)
    train = vectorizer.fit_transform(DATA.texts[: DATA.train_count])
    machine = LinearSVC(C=0.5, random_state=0).fit(train, DATA.classes[: DATA.train_count])
    expected = machine.predict(vectorizer.transform(DATA.texts[DATA.train_count :]))
    found = tfidf(DATA, 0.5)
    assert found.predictions == tuple(expected)
    assert found.test.accuracy.value > 0.9
    assert found.parameters == machine.coef_.size + 1


def test_words_and_pairs_are_in_lower_case() -> None:
    assert words_and_pairs(["The", "Old", "bank"]) == ["the", "old", "bank", "the old", "old bank"]
    assert words_and_pairs([]) == []


def test_few_labels_are_drawn_by_the_seed() -> None:
    found = [tfidf(DATA, 0.5, per_class=4, seed=seed) for seed in (0, 0, 1)]
    assert found[0].predictions == found[1].predictions
    assert found[0].predictions != found[2].predictions


# What is planned is what will be done, in the same units.


def test_static_rows_weigh_what_was_planned(tmp_path: Path) -> None:
    request = toy_request(tmp_path, rows=("tfidf", "svd"), samples=(), draws=0)
    heard: dict[str, StepProgress] = {}
    run_study(request, lambda step: heard.update({step.name: step}))
    for row in planned(request):
        done = sum(step.weight for step in heard.values() if step.row == row.name)
        assert done == pytest.approx(row.work)


def test_analyses_weigh_what_was_planned(tmp_path: Path) -> None:
    chosen = ("tfidf", "skipgram", "trainable")
    request = toy_request(tmp_path, rows=chosen, samples=(2, 3), draws=2)
    heard: dict[str, StepProgress] = {}
    run_study(request, lambda step: heard.update({step.name: step}))
    plan = {row.name: row.work for row in planned(request)}
    for name in ("draws", "samples"):
        done = sum(step.weight for step in heard.values() if step.row == name)
        assert done == pytest.approx(plan[name])


def test_a_bilm_that_is_to_be_trained_is_planned(tmp_path: Path) -> None:
    names = [row.name for row in planned(toy_request(tmp_path, rows=("layer-0",)))]
    assert names == ["biLM", "reading", "layer-0", "draws"]
    assert [row.name for row in planned(toy_request(tmp_path, rows=("own",)))] == ["own"]


# Settings are chosen by what development rows can tell.


NETWORK = Row("average", "Average", "elmo")
SVM = Row("tfidf", "TF-IDF", "control", "tfidf")
ROWS = 4730
"""Of which a standard error at an accuracy of 0.9 is 0.0044."""


def outcomes(row: Row, *accuracies: float | None) -> dict[str, object]:
    return {
        f"tuning-{row.name}-{number}": Failure("astray")
        if accuracy is None
        else SimpleNamespace(development_accuracy=accuracy)
        for number, accuracy in enumerate(accuracies)
    }


def chosen(row: Row, *accuracies: float | None) -> object:
    choice = choose(row, outcomes(row, *accuracies), ROWS)
    return None if choice is None else choice.best


def test_a_lead_within_a_standard_error_is_none() -> None:
    assert chosen(NETWORK, 0.896, 0.900, 0.899) == NETWORKS[0]
    assert chosen(NETWORK, 0.895, 0.897, 0.900) == NETWORKS[1]
    assert chosen(NETWORK, 0.880, 0.890, 0.900) == NETWORKS[2]


def test_what_was_tried_on_all_rows_is_taken_as_it_is() -> None:
    assert chosen(SVM, 0.9034, 0.9082, 0.9089, 0.9082) == SVMS[2]
    assert chosen(SVM, 0.9, 0.9, 0.9, 0.8) == SVMS[0]


def test_settings_that_fail_are_passed_over() -> None:
    assert chosen(NETWORK, None, 0.9, 0.9) == NETWORKS[1]
    assert chosen(NETWORK, None, None, None) is None
    choice = choose(NETWORK, outcomes(NETWORK, None, 0.9, 0.8), ROWS)
    assert choice is not None
    assert [one.development_accuracy for one in choice.candidates] == [0.9, 0.8]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_choice_is_never_far_below_the_best(accuracies: list[float]) -> None:
    best = chosen(NETWORK, *accuracies)
    accuracy = accuracies[[*NETWORKS].index(best)]  # pyright: ignore
    highest = max(accuracies)
    assert (highest - accuracy) ** 2 <= highest * (1 - highest) / ROWS + 1e-12


# One training: the same seed gives the same outcome, and what is reported is what was learned.

TEXTS = DATA.rows_for(DATA.split, 1)
CONFIG = shared_classifier(replace(TINY, epochs=2), MixConfig(), seed=0)


def vectors() -> StaticVectors:
    words = sorted({word for text in DATA.words for word in text})
    drawn = np.random.default_rng(0).normal(size=(len(words), 4)).astype(np.float32)
    return StaticVectors(tuple(words), drawn)


READING = Reading(StaticFeatures(TEXTS, vectors()), 1, 4)


def test_an_easy_task_is_learned_and_told_of() -> None:
    shares: list[float] = []
    found = train_network(DATA, READING, Training(config=CONFIG, least_steps=150), shares.append)
    assert found.test.accuracy.value > 0.9
    gold = DATA.classes[DATA.test]
    assert (np.array(found.predictions) == gold).mean() == pytest.approx(found.test.accuracy.value)
    assert found.train is not None
    assert found.train.count == DATA.train_count
    assert found.layer_weights == (1.0,)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_the_seed_decides() -> None:
    def probabilities(seed: int) -> float:
        config = replace(CONFIG, learning=replace(CONFIG.learning, seed=seed))
        return train_network(DATA, READING, Training(config=config)).test.log_loss

    assert probabilities(3) == probabilities(3) != probabilities(4)


def test_few_rows_are_read_more_often() -> None:
    few = Training(config=CONFIG, per_class=4, measures_train=False, least_steps=31)
    shares: list[float] = []
    found = train_network(DATA, READING, few, shares.append)
    assert len(shares) == 31
    assert found.train is None


def test_own_words_begin_as_given() -> None:
    words = {"money": 3.0, "river": -3.0}
    rows = {word: size for topic, size in words.items() for word in TOPICS[topic] if word != "bank"}
    given = StaticVectors(tuple(rows), np.array([[size] * 4 for size in rows.values()], np.float32))
    data = replace(DATA, word_vectors=given)
    reading = Reading(NoFeatures(data.rows_for(data.split, 1)), 1, 0)
    training = Training(config=CONFIG, measures_train=False, least_steps=15)
    found = train_network(data, reading, training).test.accuracy.value
    without = train_network(DATA, Reading(NoFeatures(TEXTS), 1, 0), training).test.accuracy.value
    assert found > 0.9 > without


def test_own_words_alone_can_learn_too() -> None:
    reading = Reading(NoFeatures(TEXTS), 1, 0)
    found = train_network(
        DATA, reading, Training(config=CONFIG, measures_train=False, least_steps=150)
    )
    assert found.test.accuracy.value > 0.9


# Rows of the table: what is best, what is confused with what, how fast it is.

GOLD = DATA.classes[DATA.test]
SVD, SKIP_GRAM, ELMO = (
    Row(name, name, group)  # pyright: ignore
    for name, group in (("svd-2", "static"), ("skipgram-2", "static"), ("trainable", "elmo"))
)


def good(development: float, wrong: int = 0, **changes: Any) -> Any:
    predictions = np.where(np.arange(len(GOLD)) < wrong, 1 - GOLD, GOLD)
    one = outcome(predictions)
    return replace(one, development_accuracy=development, train=one.test, **changes)


def test_the_best_static_row_is_chosen_on_development_rows() -> None:
    outcomes = {
        "svd-2": [good(0.8, wrong=0), good(0.7)],
        "skipgram-2": [good(0.76, wrong=20), good(0.76)],
        "trainable": [good(0.99)],
    }
    assert best_static((SVD, SKIP_GRAM, ELMO), outcomes) == SKIP_GRAM
    assert best_static((ELMO,), outcomes) is None
    assert compared(SKIP_GRAM, outcomes, SKIP_GRAM, DATA) is None
    found = compared(ELMO, outcomes, SKIP_GRAM, DATA)
    assert found is not None
    assert (found.only_this, found.only_other) == (20, 0)


def test_a_row_holds_its_figures() -> None:
    some = [good(0.8, wrong=6, texts_per_second=100.0), good(0.6, wrong=3, texts_per_second=300.0)]
    facts = EmbeddingFacts(parameters=7, seconds=3.0, texts_per_second=200.0)
    found = row_result(ELMO, some, None, facts, DATA, (5, 6), None, shows_texts=False)
    assert [one.seed for one in found.seeds] == [5, 6]
    assert found.test_accuracy.mean == pytest.approx(1 - 4.5 / 30)
    assert found.development_accuracy.mean == pytest.approx(0.7)
    assert found.texts_per_second == pytest.approx(100)
    assert found.embedding_parameters == 7
    wrong = {(GOLD[row], 1 - GOLD[row]): 0 for row in range(6)}
    for row in range(6):
        wrong[GOLD[row], 1 - GOLD[row]] += 1
    assert {one.count for one in found.confusions} == set(wrong.values())
    assert all(one.text is None for each in found.confusions for one in each.examples)


def test_examples_are_rows_that_were_really_taken_for_it() -> None:
    found = row_result(
        ELMO, [good(0.5, wrong=9)], None, EmbeddingFacts(), DATA, (0,), None, shows_texts=True
    )
    for confusion in found.confusions:
        for example in confusion.examples:
            row = DATA.train_count + example.row
            assert DATA.labels[DATA.classes[row]] == confusion.label != confusion.predicted
            assert example.text == DATA.texts[row]
            assert example.row < 9


# Static vectors of a study are those of its training texts, held-out ones left out.

CONFIG_vectors = SvdConfig(window=2, dim=4, min_count=2)


def test_they_are_made_of_the_training_texts_alone(tmp_path: Path) -> None:
    path = tmp_path / "svd-2.bin"
    made = make_vectors(DATA, CONFIG_vectors, 0.3, path)
    texts = [text.split() for text in DATA.texts[:80]]
    kept = [words for words in texts if not is_held_out(words, 0.3)]
    assert len(kept) < 80
    vocabulary = build_task_vocabulary(kept, 2)
    expected = svd_vectors(encode_texts(kept, vocabulary), vocabulary, CONFIG_vectors)
    found = StaticVectors.load(path)
    assert found.words == expected.words
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    assert (made.words, made.dim, made.sha256) == (len(found), 4, sha256(path))


def test_text_without_frequent_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no word is seen 1000 times"):
        make_vectors(DATA, SvdConfig(min_count=1000), 0.0, tmp_path / "x.bin")


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    shares: list[float] = []
    config = SkipGramConfig(window=2, dim=4, min_count=2, epochs=30)
    make_vectors(DATA, config, 0.0, tmp_path / "skipgram-2.bin", shares.append)
    assert shares == [1000 / 2400, 2000 / 2400]


def test_sweeps_are_read() -> None:
    assert parse_sweeps(("window=1,3", "mix-pull=0,0.001")) == (
        AskedSweep("window", (1, 3)),
        AskedSweep("mix-pull", (0.0, 0.001)),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("windw=3", "did you mean 'window'"),
        ("window", "expected setting=value"),
        ("window=1.5", "whole numbers behind window=, got '1.5'"),
        ("window=", "got ''"),
        ("dim=0", "dim cannot be 0"),
        ("learning-rate=-1", "cannot be -1"),
        ("learning-rate=nan", "cannot be nan"),
    ],
)
def test_mistakes_are_named(given: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_sweeps((given,))


def test_which_rows_a_sweep_is_tried_for() -> None:
    window = tries_of(AskedSweep("window", (1, 3)), 300)
    assert [one.embedding for one in window] == ["svd-1", "skipgram-1", "svd-3", "skipgram-3"]
    dim = tries_of(AskedSweep("dim", (50, 300)), 300)
    assert [one.embedding for one in dim[::2]] == ["svd-5-dim50", "svd-5"]
    hidden = tries_of(AskedSweep("hidden", (64,)), 300)
    assert [one.name for one in hidden] == ["sweep-hidden-trainable-64"]
    for one in (*window, *dim):
        method, size, length = static_settings(one.embedding, 300)
        assert static_name(method, size, length, 300) == one.embedding


def test_only_the_setting_varies(tmp_path: Path) -> None:
    bench = toy_bench(tmp_path)
    bench.embedding_keys["elmo"] = "key"
    pulls = tries_of(AskedSweep("mix-pull", (0.0, 0.5)), 300)
    rates = tries_of(AskedSweep("learning-rate", (0.01,)), 300)
    one, other, rate = (sweep_job(bench, each).inputs["training"] for each in (*pulls, *rates))
    assert other["config"]["network"]["mix"].pop("mix_pull") == 0.5
    assert one["config"]["network"]["mix"].pop("mix_pull") == 0.0
    assert one == other
    assert rate["config"]["learning"]["learning_rate"] == 0.01


def test_points_are_gathered_by_row_and_failures_left_out(tmp_path: Path) -> None:
    bench = toy_bench(tmp_path)
    sweep = AskedSweep("window", (1, 3))
    tries = tries_of(sweep, 300)
    gold = bench.data.classes[bench.data.test]
    results: dict[str, Any] = {tries[0].name: outcome(gold), tries[3].name: outcome(1 - gold)}
    svd, skip_gram = sweeps_found(bench, {sweep: tries}, results, {"svd-1": "a note"})
    assert (svd.row, skip_gram.row) == ("svd", "skipgram")
    assert [(point.value, point.test_accuracy) for point in svd.points] == [(1, 1.0)]
    assert svd.points[0].note == "a note"
    assert [(point.value, point.test_accuracy) for point in skip_gram.points] == [(3, 0.0)]

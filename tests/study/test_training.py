"""One training: the same seed gives the same outcome, and what is reported is what was learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.study.toys import TINY, TOPICS, toy_data

from elmo.contextual.mix_config import MixConfig
from elmo.static.vectors import StaticVectors
from elmo.study.static_features import NoFeatures, StaticFeatures
from elmo.study.training import Reading, Training, train_network
from elmo.study.workbench import shared_classifier

DATA = toy_data()
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

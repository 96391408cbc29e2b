"""What learns and what does not, end to end on a toy task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.classify.toy import TOPICS, toy_config, toy_model, toy_texts

from elmo.classify.config import FineTuningConfig
from elmo.classify.features import FrozenFeatures
from elmo.classify.labelled import LabelledTexts
from elmo.classify.own_words import own_vocabulary
from elmo.classify.text_rows import TextRows, cut_into_words
from elmo.classify.train import Surroundings, _class_weights, train
from elmo.contextual.mix_config import MixConfig
from elmo.errors import ConfigError, UserError
from elmo.static.vectors import StaticVectors

DATA = toy_texts()
BASE = toy_config()
MODEL = toy_model()
"""For tests in which it is frozen."""


def with_mix(**settings: Any) -> Any:
    return replace(BASE, network=replace(BASE.network, mix=MixConfig(**settings)))


def test_trainable_weights_change_and_the_bilm_does_not() -> None:
    loaded = toy_model()
    before = {name: one.clone() for name, one in loaded.model.state_dict().items()}
    trained = train(loaded, DATA, BASE)
    mix = trained.classifier.network.mix
    assert mix.weights != pytest.approx((1 / 3,) * 3, abs=1e-4)
    assert mix.gamma != pytest.approx(1, abs=1e-4)
    after = loaded.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert trained.probabilities.shape == (60, 2)
    right = trained.probabilities.argmax(1) == trained.classes
    assert right.mean() >= 0.9
    assert trained.trouble is None


def test_words_never_seen_are_understood_by_the_vectors_given_for_them() -> None:
    like = {"animals": [2.0, -1], "weather": [-1.0, 2]}
    rows = {word: like[topic] for topic, words in TOPICS.items() for word in words}
    rows |= {"horse": like["animals"], "snow": like["weather"]}
    given = StaticVectors(tuple(rows), np.array(list(rows.values()), np.float32))
    trained = train(toy_model(), DATA, BASE, word_vectors=given)
    labels = [one.label for one in trained.classifier.predict(["Horse", "the snow", "HORSE"])]
    assert labels == ["animals", "weather", "animals"]
    without = train(toy_model(), DATA, BASE).classifier.probabilities(["Horse", "Snow"])
    assert np.array_equal(without[0], without[1])


def test_without_own_words_there_is_nothing_to_begin_with_given_vectors() -> None:
    given = StaticVectors(("cat",), np.ones((1, 2), np.float32))
    config = replace(BASE, network=replace(BASE.network, own_words=0))
    with pytest.raises(UserError, match="--own-words 2"):
        train(MODEL, DATA, config, word_vectors=given)


def test_frozen_weights_do_not_change_at_all() -> None:
    weights, gamma = (0.2, 0.5, 0.3), 0.7
    trained = train(toy_model(), DATA, with_mix(mix="frozen", layer_weights=weights, gamma=gamma))
    mix = trained.classifier.network.mix
    assert mix.weights == pytest.approx(weights, abs=1e-7)
    assert mix.gamma == pytest.approx(gamma, abs=1e-7)
    assert all(report.mix_weights == mix.weights for report in trained.history)


def test_a_drawn_mix_follows_from_its_seed() -> None:
    drawn = [
        train(toy_model(), DATA, with_mix(mix="frozen", mix_seed=seed)).classifier.network.mix
        for seed in (1, 1, 2)
    ]
    assert drawn[0].weights == drawn[1].weights != drawn[2].weights


def test_a_learned_function_learns() -> None:
    trained = train(toy_model(), DATA, with_mix(mix="function", function_hidden=6))
    mix = trained.classifier.network.mix
    assert mix.weights is None
    fresh = train(
        toy_model(), DATA,
        replace(
            with_mix(mix="function", function_hidden=6),
            learning=replace(BASE.learning, learning_rate=1e-12),
        ),
    ).classifier.network.mix  # fmt: skip
    pairs = zip(mix.parameters(), fresh.parameters(), strict=True)
    assert all(not torch.allclose(one, other) for one, other in pairs)


def test_fine_tuning_changes_every_layer_of_the_bilm() -> None:
    loaded = toy_model()
    before = {name: one.clone() for name, one in loaded.model.named_parameters()}
    tuning = FineTuningConfig(fine_tune_epochs=2, fine_tune_rate=0.01, language_weight=0.1)
    config = replace(BASE, learning=replace(BASE.learning, epochs=1, fine_tuning=tuning))
    trained = train(loaded, DATA, config)
    assert {report.phase for report in trained.history} == {"network", "fine-tuning"}
    changed = {n for n, p in loaded.model.named_parameters() if not torch.equal(p, before[n])}
    assert changed >= {name for name in before if not name.startswith("output.")}
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())


def test_words_of_development_texts_alone_have_no_vector() -> None:
    trained = train(toy_model(), DATA, BASE)
    seen = {word for row in trained.split.train for word in DATA.texts[int(row)].split()}
    assert set(trained.classifier.own.words[3:]) == seen


def test_balanced_weights_make_classes_count_alike() -> None:
    classes = np.array([0, 0, 0, 1])
    balanced = replace(BASE.learning, class_weights="balanced")
    weights = _class_weights(classes, 2, replace(BASE, learning=balanced))
    assert weights is not None
    sums = np.bincount(classes, weights=weights.numpy()[classes])
    np.testing.assert_allclose(sums, [2, 2], rtol=1e-6)
    assert _class_weights(classes, 2, BASE) is None


def test_the_same_seed_gives_the_same_classifier_and_leaves_chance_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = train(MODEL, DATA, BASE)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(99)
    other = train(MODEL, DATA, BASE)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_layers_computed_before_change_nothing(tmp_path: Path) -> None:
    words = cut_into_words(MODEL, DATA.texts, 100)
    texts = TextRows(words, own_vocabulary(words, 1))
    features = FrozenFeatures.compute(texts, MODEL.model, memory=1, folder=tmp_path)
    given = train(MODEL, DATA, BASE, Surroundings(features=features))
    np.testing.assert_array_equal(given.probabilities, train(MODEL, DATA, BASE).probabilities)
    with pytest.raises(UserError, match="other texts"):
        train(MODEL, toy_texts(seed=8), BASE, Surroundings(features=features))


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="have no labels"):
        train(toy_model(), LabelledTexts(["a"], None, ["row 0"]), BASE)
    with pytest.raises(UserError, match="at least 2 rows"):
        train(toy_model(), LabelledTexts(["a", "b", "c"], ["x", "x", "y"], ["1", "2", "3"]), BASE)
    bad = replace(BASE, learning=replace(BASE.learning, epochs=0, clip=-1.0))
    with pytest.raises(ConfigError, match="2 problems"):
        train(toy_model(), DATA, bad)

"""A classifier that was written and read is the same; what does not fit is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix
from tests.classify.toy import WORDS, toy_config, toy_model, toy_texts

from elmo.classify.classifier import (
    DESCRIPTION,
    TextClassifier,
    evaluate,
    load_classifier,
    save_classifier,
    write_evaluation,
)
from elmo.classify.data import LabelledTexts
from elmo.classify.training import train
from elmo.embed.config import MixConfig
from elmo.errors import UserError
from elmo.model_folder import save_weights

TEXTS = toy_texts(20, seed=5).texts


def trained(mix: str = "trainable") -> TextClassifier:
    base = toy_config()
    learning = replace(base.learning, epochs=1)
    network = replace(base.network, mix=MixConfig(mix=mix, function_hidden=4))  # pyright: ignore
    return train(
        toy_model(), toy_texts(), replace(base, network=network, learning=learning)
    ).classifier


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_classifier(trained(), tmp_path)
    return tmp_path


@pytest.mark.parametrize("mix", ["trainable", "frozen", "function", "concatenation"])
def test_saved_and_loaded_it_says_the_same(tmp_path: Path, mix: str) -> None:
    classifier = trained(mix)
    save_classifier(classifier, tmp_path)
    loaded = load_classifier(tmp_path)
    expected, found = classifier.probabilities(TEXTS), loaded.probabilities(TEXTS)
    np.testing.assert_array_equal(found, expected)
    assert loaded.labels == classifier.labels
    assert loaded.config == classifier.config


def test_in_bf16_it_is_half_as_large_and_says_nearly_the_same(tmp_path: Path) -> None:
    classifier = trained()
    for name in ("fp32", "bf16"):
        (tmp_path / name).mkdir()
        save_classifier(classifier, tmp_path / name, precision=name)  # pyright: ignore
    found = load_classifier(tmp_path / "bf16").probabilities(TEXTS)
    np.testing.assert_allclose(found, classifier.probabilities(TEXTS), rtol=0, atol=0.02)
    sizes = [
        (tmp_path / name / "classifier.safetensors").stat().st_size for name in ("bf16", "fp32")
    ]
    assert sizes[0] < 0.7 * sizes[1]


def test_a_bilm_elsewhere_is_named_with_its_checksum(tmp_path: Path) -> None:
    classifier = trained()
    (tmp_path / "first").mkdir()
    save_classifier(classifier, tmp_path / "first")
    (tmp_path / "second").mkdir()
    bilm = tmp_path / "first" / "bilm"
    save_classifier(classifier, tmp_path / "second", bilm=bilm)
    assert not (tmp_path / "second" / "bilm").exists()
    found = load_classifier(tmp_path / "second").probabilities(TEXTS)
    np.testing.assert_array_equal(found, classifier.probabilities(TEXTS))
    other = toy_model(seed=9)
    save_weights(bilm / "model.safetensors", other.model)
    with pytest.raises(UserError, match="not the biLM that the classifier"):
        load_classifier(tmp_path / "second")


def edited(folder: Path, change: Any) -> None:
    path = folder / DESCRIPTION
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_what_does_not_fit_is_named(folder: Path) -> None:
    edited(folder, lambda content: content["config"]["network"].update(hidden=9))
    with pytest.raises(UserError, match="hidden"):
        load_classifier(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(format=7), "format 7"),
        (lambda content: content.update(labels=["a", "a"]), "different labels"),
        (lambda content: content.update(extra=1), "unknown key 'extra'"),
        (lambda content: content["bilm"].update(path="../elsewhere"), "leads out of"),
        (lambda content: content["config"]["network"].update(pooling="sum"), "pooling"),
        (lambda content: content["bilm"].update(sha256="0"), "another checksum"),
    ],
)
def test_a_description_that_is_wrong_is_told(folder: Path, change: Any, message: str) -> None:
    edited(folder, change)
    with pytest.raises(UserError, match=message):
        load_classifier(folder)


def test_links_out_of_the_folder_are_refused(folder: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "own_words.txt"
    (folder / "own_words.txt").rename(outside)
    (folder / "own_words.txt").symlink_to(outside)
    with pytest.raises(UserError, match="leads out of"):
        load_classifier(folder)


def test_a_folder_without_a_classifier_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a classifier folder"):
        load_classifier(tmp_path)


def test_nothing_learns_in_a_loaded_classifier(folder: Path) -> None:
    loaded = load_classifier(folder)
    assert not loaded.loaded.model.forward_stack.layers[0].bias.requires_grad  # pyright: ignore
    assert torch.is_grad_enabled()


# Figures are those of the predictions, and the files hold them.


CLASSIFIER = train(toy_model(), toy_texts(), toy_config()).classifier


def test_against_predictions_and_scikit_learn(tmp_path: Path) -> None:
    data = toy_texts(40, seed=3)
    evaluation = evaluate(CLASSIFIER, data)
    predicted = [one.label for one in CLASSIFIER.predict(data.texts)]
    assert evaluation.metrics.accuracy.value == accuracy_score(data.labels, predicted)
    wanted = confusion_matrix(data.labels, predicted, labels=list(CLASSIFIER.labels.names))
    np.testing.assert_array_equal(evaluation.metrics.confusion, wanted)
    write_evaluation(evaluation, "test", tmp_path)
    written = json.loads((tmp_path / "metrics_test.json").read_text())
    assert written["confusion"] == wanted.tolist()
    wrong = sum(map(str.__ne__, data.labels or (), predicted))
    assert len(json.loads((tmp_path / "mistakes_test.json").read_text())) == wrong
    assert (tmp_path / "confusion_test.png").read_bytes().startswith(b"\x89PNG")


def test_empty_texts_are_counted_and_unknown_labels_named() -> None:
    data = LabelledTexts(["cat", " "], ["animals", "weather"], ["row 1", "row 2"])
    assert evaluate(CLASSIFIER, data).empty == (1,)
    strange = LabelledTexts(["cat", "dog"], ["animals", "anmals"], ["row 1", "row 2"])
    with pytest.raises(UserError, match=r"'anmals', first at row 2 \(did you mean 'animals'"):
        evaluate(CLASSIFIER, strange)
    with pytest.raises(UserError, match="have no labels"):
        evaluate(CLASSIFIER, LabelledTexts(["cat"], None, ["row 1"]))


# A text's prediction is its own: the same alone, in any batch and in any order.

TEXT = st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=9)


@given(st.lists(TEXT, min_size=1, max_size=8), st.randoms())
def test_one_by_one_and_in_any_batch(texts: list[list[str]], random: object) -> None:
    together = CLASSIFIER.probabilities(texts)
    alone = np.concatenate([CLASSIFIER.probabilities([text]) for text in texts])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    order = list(range(len(texts)))
    random.shuffle(order)  # pyright: ignore
    shuffled = CLASSIFIER.probabilities([texts[place] for place in order])
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)
    np.testing.assert_allclose(together.sum(1), 1, rtol=0, atol=1e-5)


def test_predictions_name_labels_and_flag_empty_texts() -> None:
    cat, nothing = CLASSIFIER.predict(["the cat", " "])
    assert cat.label == "animals"
    assert set(cat.probabilities) == {"animals", "weather"}
    assert cat.probabilities["animals"] == max(cat.probabilities.values())
    assert not cat.empty
    assert nothing.empty
    assert sum(nothing.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_predictions_and_one_string_is_a_mistake() -> None:
    assert CLASSIFIER.predict([]) == []
    with pytest.raises(UserError, match="put it in a list"):
        CLASSIFIER.predict("the cat")

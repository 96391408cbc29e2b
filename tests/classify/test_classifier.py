"""A classifier that was written and read is the same; what does not fit is refused."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tests.classify.toy import WORDS, toy_config, toy_model, toy_texts

from elmo.classify.classifier import (
    DESCRIPTION,
    TextClassifier,
    write_evaluation,
)
from elmo.classify.training import train, train_classifier
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
    trained().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mix", ["trainable", "frozen", "function", "concatenation"])
def test_saved_and_loaded_it_says_the_same(tmp_path: Path, mix: str) -> None:
    classifier = trained(mix)
    classifier.save_pretrained(tmp_path)
    loaded = TextClassifier.from_pretrained(tmp_path)
    expected, found = classifier.predict_proba(TEXTS), loaded.predict_proba(TEXTS)
    np.testing.assert_array_equal(found, expected)
    assert loaded.labels == classifier.labels
    assert loaded.config_ == classifier.config_


def test_in_bf16_it_is_half_as_large_and_says_nearly_the_same(tmp_path: Path) -> None:
    classifier = trained()
    for name in ("fp32", "bf16"):
        classifier.save_pretrained(tmp_path / name, precision=name)  # pyright: ignore
    found = TextClassifier.from_pretrained(tmp_path / "bf16").predict_proba(TEXTS)
    np.testing.assert_allclose(found, classifier.predict_proba(TEXTS), rtol=0, atol=0.02)
    sizes = [
        (tmp_path / name / "classifier.safetensors").stat().st_size for name in ("bf16", "fp32")
    ]
    assert sizes[0] < 0.7 * sizes[1]


def test_a_bilm_elsewhere_is_named_with_its_checksum(tmp_path: Path) -> None:
    classifier = trained()
    classifier.save_pretrained(tmp_path / "first")
    bilm = tmp_path / "first" / "bilm"
    classifier.save_pretrained(tmp_path / "second", bilm=bilm)
    assert not (tmp_path / "second" / "bilm").exists()
    found = TextClassifier.from_pretrained(tmp_path / "second").predict_proba(TEXTS)
    np.testing.assert_array_equal(found, classifier.predict_proba(TEXTS))
    other = toy_model(seed=9)
    save_weights(bilm / "model.safetensors", other.model)
    with pytest.raises(UserError, match=r"not the biLM that .*second was trained on"):
        TextClassifier.from_pretrained(tmp_path / "second")


def edited(folder: Path, change: Any) -> None:
    path = folder / DESCRIPTION
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_what_does_not_fit_is_named(folder: Path) -> None:
    edited(folder, lambda content: content["config"]["network"].update(hidden=9))
    with pytest.raises(UserError, match="hidden"):
        TextClassifier.from_pretrained(folder)


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
        TextClassifier.from_pretrained(folder)


def test_links_out_of_the_folder_are_refused(folder: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "own_words.txt"
    (folder / "own_words.txt").rename(outside)
    (folder / "own_words.txt").symlink_to(outside)
    with pytest.raises(UserError, match="leads out of"):
        TextClassifier.from_pretrained(folder)


def test_a_folder_without_a_classifier_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a classifier folder"):
        TextClassifier.from_pretrained(tmp_path)


def test_nothing_learns_in_a_loaded_classifier(folder: Path) -> None:
    loaded = TextClassifier.from_pretrained(folder)
    assert not loaded.language_model.model.forward_stack.layers[0].bias.requires_grad  # pyright: ignore
    assert torch.is_grad_enabled()


# Figures are those of the predictions, and the files hold them.


CLASSIFIER = train(toy_model(), toy_texts(), toy_config()).classifier


def test_against_predictions_and_scikit_learn(tmp_path: Path) -> None:
    data = toy_texts(40, seed=3)
    labels = data.labels or []
    evaluation = CLASSIFIER.evaluate(data.texts, labels)
    predicted = CLASSIFIER.predict(data.texts).tolist()
    assert evaluation.metrics.accuracy.value == accuracy_score(labels, predicted)
    wanted = confusion_matrix(labels, predicted, labels=list(CLASSIFIER.labels))
    np.testing.assert_array_equal(evaluation.metrics.confusion, wanted)
    write_evaluation(evaluation, "test", tmp_path)
    written = json.loads((tmp_path / "metrics_test.json").read_text())
    assert written["confusion"] == wanted.tolist()
    wrong = sum(map(str.__ne__, labels, predicted))
    assert len(json.loads((tmp_path / "mistakes_test.json").read_text())) == wrong
    assert (tmp_path / "confusion_test.png").read_bytes().startswith(b"\x89PNG")


def test_empty_texts_are_counted_and_unknown_labels_named() -> None:
    assert CLASSIFIER.evaluate(["cat", " "], ["animals", "weather"]).empty == (1,)
    with pytest.raises(UserError, match=r"'anmals', first at line 2 \(did you mean 'animals'"):
        CLASSIFIER.evaluate(["cat", "dog"], ["animals", "anmals"], locations=["line 1", "line 2"])


# A text's prediction is its own: the same alone, in any batch and in any order.

TEXT = st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=9)


@given(st.lists(TEXT, min_size=1, max_size=8), st.randoms())
def test_one_by_one_and_in_any_batch(texts: list[list[str]], random: object) -> None:
    together = CLASSIFIER.predict_proba(texts)
    alone = np.concatenate([CLASSIFIER.predict_proba([text]) for text in texts])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    order = list(range(len(texts)))
    random.shuffle(order)  # pyright: ignore
    shuffled = CLASSIFIER.predict_proba([texts[place] for place in order])
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)
    np.testing.assert_allclose(together.sum(1), 1, rtol=0, atol=1e-5)


def test_predictions_are_the_most_probable_labels() -> None:
    texts = ["the cat", "rain", " "]
    probabilities = CLASSIFIER.predict_proba(texts)
    assert CLASSIFIER.classes_.tolist() == ["animals", "weather"]
    assert CLASSIFIER.predict(texts).tolist()[:2] == ["animals", "weather"]
    assert probabilities[0, 0] > 0.5 < probabilities[1, 1]
    assert CLASSIFIER.score(texts[:2], ["animals", "animals"]) == 0.5
    one_by_one = list(CLASSIFIER.predict_iter(iter(texts)))
    assert [text for text, _ in one_by_one] == texts
    np.testing.assert_allclose([row for _, row in one_by_one], probabilities, atol=1e-6)


def test_a_text_is_predicted_before_the_next_is_read() -> None:
    read: list[str] = []

    def texts() -> Iterator[str]:
        for text in ["the cat", "rain", "sun", "dog", "cow"]:
            read.append(text)
            yield text

    found = CLASSIFIER.predict_iter(texts())
    assert next(found)[0] == "the cat"
    assert read == ["the cat"]
    assert [text for text, _ in found] == ["rain", "sun", "dog", "cow"]


def test_no_texts_give_no_predictions_and_one_string_is_a_mistake() -> None:
    assert CLASSIFIER.predict([]).tolist() == []
    with pytest.raises(UserError, match="put it in a list"):
        CLASSIFIER.predict("the cat")


# Shaped like a scikit-learn classifier, from lists in memory.


@pytest.fixture(scope="module")
def bilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit") / "classifier"
    CLASSIFIER.save_pretrained(folder)
    return folder / "bilm"


def test_fit_is_train_and_labels_keep_their_type(bilm: Path) -> None:
    data = toy_texts()
    labels = [int(label == "weather") for label in data.labels or []]
    classifier = TextClassifier(bilm, toy_config())
    assert "not trained" in repr(classifier)
    with pytest.raises(UserError, match="not trained yet; call fit"):
        classifier.predict(["the cat"])
    assert classifier.fit(data.texts, labels) is classifier
    assert classifier.classes_.tolist() == [0, 1]
    assert classifier.predict(["the cat", "rain"]).tolist() == [0, 1]
    assert classifier.evaluate(data.texts, labels).metrics.accuracy.value == (
        classifier.score(data.texts, labels)
    )
    expected = CLASSIFIER.predict_proba(TEXTS)
    np.testing.assert_allclose(classifier.predict_proba(TEXTS), expected, rtol=0, atol=1e-5)
    assert "2 labels" in repr(classifier)
    by_words = TextClassifier(bilm, toy_config()).fit([text.split() for text in data.texts], labels)
    np.testing.assert_allclose(by_words.predict_proba(TEXTS), expected, rtol=0, atol=1e-5)


def test_a_pickle_knows_the_weights_of_its_bilm(bilm: Path, tmp_path: Path) -> None:
    mine = shutil.copytree(bilm, tmp_path / "bilm")
    data = toy_texts()
    classifier = TextClassifier(mine, toy_config()).fit(data.texts, data.labels or [])
    expected = classifier.predict_proba(TEXTS)
    content, state = pickle.dumps(classifier), classifier.__getstate__()
    np.testing.assert_array_equal(pickle.loads(content).predict_proba(TEXTS), expected)
    save_weights(mine / "model.safetensors", toy_model(seed=9).model)
    with pytest.raises(UserError, match="not the biLM that this pickle was trained on"):
        pickle.loads(content)
    before = TextClassifier.__new__(TextClassifier)  # of a version that stored no checksum
    before.__setstate__({**state, "language_model": state["language_model"][:2]})
    assert before.predict_proba(TEXTS).shape == expected.shape


def test_scikit_learn_can_copy_it_and_change_its_parameters(bilm: Path) -> None:
    classifier = TextClassifier(bilm, toy_config(), device="cpu")
    copy = clone(classifier)
    assert copy is not classifier
    assert copy.get_params() == classifier.get_params()
    assert copy.set_params(config=None).config is None
    with pytest.raises(UserError, match="unknown parameter 'layers'"):
        classifier.set_params(layers=3)


def test_scikit_learn_can_validate_it_and_search_its_settings(bilm: Path) -> None:
    data = toy_texts(60)
    texts, labels = np.array(data.texts), np.array(data.labels)
    few = toy_config(learning=replace(toy_config().learning, epochs=1))
    classifier = TextClassifier(bilm, few)
    expected: list[float] = []
    for train_rows, test_rows in StratifiedKFold(2).split(texts, labels):
        fitted = TextClassifier(bilm, few).fit(texts[train_rows], labels[train_rows])
        right = fitted.predict(list(texts[test_rows])) == labels[test_rows]
        expected.append(right.sum() / len(test_rows))
    assert cross_val_score(classifier, data.texts, data.labels, cv=2).tolist() == expected
    pipeline = make_pipeline(FunctionTransformer(lambda texts: list(texts)), classifier)
    search = GridSearchCV(pipeline, {"textclassifier__config": [few, toy_config()]}, cv=2)
    search.fit(data.texts, data.labels)
    assert search.best_params_ == {"textclassifier__config": toy_config()}
    assert search.predict(["the cat", "rain"]).tolist() == ["animals", "weather"]


def test_a_test_label_without_training_texts_is_found_first(bilm: Path, tmp_path: Path) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("label,text\n" + "a,the cat\nb,the rain\n" * 5)
    test.write_text("label,text\na,the dog\nc,the sun\n")
    with pytest.raises(UserError, match=r"'c', first at '.*test\.csv', row 2"):
        train_classifier(str(train), bilm, tmp_path / "out", toy_config(), test=str(test))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.csv", "train.csv"]


def test_one_label_per_text() -> None:
    with pytest.raises(UserError, match="got 2 texts and 1 labels"):
        TextClassifier().fit(["a", "b"], ["x"])
    with pytest.raises(UserError, match="put it in a list"):
        TextClassifier().fit("a", ["x"])


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match="expected a new or an empty folder"):
        CLASSIFIER.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]

"""A classifier that was written and read is the same; what does not fit is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.classify.toy import toy_config, toy_model, toy_texts

from elmo.checkpoint import save_weights
from elmo.classify.classifier import TextClassifier
from elmo.classify.folder import DESCRIPTION, load_classifier, save_classifier
from elmo.classify.train import train
from elmo.contextual.mix_config import MixConfig
from elmo.errors import UserError

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

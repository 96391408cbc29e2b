"""From files to a folder that holds all there is to know."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.classify.toy import toy_config, toy_model, toy_texts

from elmo.checkpoint import save_config, save_weights
from elmo.classify.config import FineTuningConfig
from elmo.classify.folder import load_classifier
from elmo.classify.train_run import train_classifier
from elmo.errors import UserError


def write_toy(folder: Path) -> None:
    """A biLM's folder and two tables."""
    loaded = toy_model()
    (folder / "bilm").mkdir()
    save_config(folder / "bilm", loaded.model.config, loaded.tokenizer, {})
    loaded.model.vocabulary.save(folder / "bilm" / "vocabulary.txt")
    save_weights(folder / "bilm" / "model.safetensors", loaded.model)
    for name, seed in (("train", 0), ("test", 1)):
        data = toy_texts(60, seed)
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["label", "text"])
            writer.writerows(zip(data.labels or (), data.texts, strict=True))


def test_a_folder_holds_classifier_figures_pictures_and_card(tmp_path: Path) -> None:
    write_toy(tmp_path)
    out = tmp_path / "out"
    made = train_classifier(
        str(tmp_path / "train.csv"), tmp_path / "bilm", out, toy_config(),
        test=str(tmp_path / "test.csv"), command="elmo classify train …",
    )  # fmt: skip
    assert {path.name for path in out.iterdir()} == {
        "README.md", "bilm", "classifier.json", "classifier.safetensors",
        "confusion_development.png", "confusion_test.png", "confusion_train.png",
        "learning_curve.png", "log.jsonl",
        "metrics_development.json", "metrics_test.json", "metrics_train.json",
        "mistakes_development.json", "mistakes_test.json", "mistakes_train.json", "own_words.txt",
    }  # fmt: skip
    assert made.evaluations["test"].metrics.count == 60
    assert made.evaluations["train"].metrics.count == len(made.trained.split.train)
    assert made.evaluations["test"].metrics.accuracy.value >= 0.9
    again = load_classifier(out)
    texts = toy_texts(9, seed=2).texts
    expected = made.trained.classifier.probabilities(texts)
    np.testing.assert_array_equal(again.probabilities(texts), expected)
    card = (out / "README.md").read_text()
    assert "elmo classify train …" in card
    assert "| animals, weather |" in card
    assert f"{made.evaluations['test'].metrics.accuracy.value:.4f}" in card
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [entry["epoch"] for entry in log] == [1, 2, 3, 4, 5, 6]


def test_a_classifier_keeps_the_word_vectors_it_began_with(tmp_path: Path) -> None:
    write_toy(tmp_path)
    vectors = tmp_path / "glove.txt"
    vectors.write_text("cat 1 2\nzebra 3 4\nhail 5 6\n")
    made = train_classifier(
        str(tmp_path / "train.csv"), tmp_path / "bilm", tmp_path / "out", toy_config(),
        word_vectors=vectors,
    )  # fmt: skip
    again = load_classifier(tmp_path / "out")
    assert again.network.own_words is not None
    assert again.network.own_words.weight[again.own.id("zebra")].tolist() == [3, 4, 0, 0]
    texts = ["the Zebra", "Hail on a cat", "a cat"]
    expected = made.trained.classifier.probabilities(texts)
    np.testing.assert_array_equal(again.probabilities(texts), expected)
    assert not np.array_equal(expected[0], again.probabilities(["the unheard"])[0])


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    write_toy(tmp_path)
    with pytest.raises(UserError, match="already exists"):
        train_classifier(str(tmp_path / "train.csv"), tmp_path / "bilm", tmp_path / "bilm")


def test_a_time_between_checkpoints_cannot_be_negative(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checkpoint_minutes: cannot be negative, got -1"):
        train_classifier("none.csv", tmp_path, tmp_path / "out", checkpoint_minutes=-1)


def test_a_fine_tuned_bilm_cannot_be_a_reference(tmp_path: Path) -> None:
    config = toy_config()
    tuned = replace(config.learning, fine_tuning=FineTuningConfig(fine_tune_epochs=1))
    with pytest.raises(UserError, match="leave out --reference"):
        train_classifier(
            "none.csv", tmp_path, tmp_path / "out", replace(config, learning=tuned), reference=True
        )

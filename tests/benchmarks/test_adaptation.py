"""Adapting a tiny model to texts with words of their own, and the numbers that are made of it."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

import adaptation
import elmo
from adaptation import Domain, load, measure, perplexity, table


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two words, one after the other."""
    folder = tmp_path_factory.mktemp("adaptation") / "model"
    config = {
        "model": {"hidden": 16, "word_dim": 16, "softmax": {"samples": 4}},
        "training": {"epochs": 4},
        "batching": {"batch_tokens": 256},
        "vocabulary": {"min_count": 1},
    }
    elmo.pretrain(["a b a b"] * 200, folder, config, cache=folder.parent)
    return folder


def test_perplexity_of_the_words_of_a_set_alone(model: Path) -> None:
    language_model = elmo.LanguageModel.from_pretrained(model)
    found = perplexity(language_model, ["a b", "b zebra"], {"a", "b"})
    first, second = (language_model.score(text).words for text in ("a b", "b zebra"))
    losses = [-(one.forward + one.backward) / 2 for one in (*first, second[0])]
    assert found == {
        "perplexity": pytest.approx(math.exp(np.mean(losses))),
        "left_out": pytest.approx(0.25),
    }


def test_a_model_learns_the_text_that_it_is_adapted_to(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    draw = random.Random(0)
    texts = [" ".join(draw.choice(["a c a", "b b d"]) for _ in range(3)) for _ in range(300)]
    labels = [text[0] for text in texts]
    domain = Domain(texts[:250], labels[:250], texts[250:], labels[250:])
    result = measure("texts", domain, str(model), tmp_path)
    assert result["new_words"] == 2
    assert result["after"]["perplexity"] < result["before"]["perplexity"]
    # A third of the words are new: c and d.
    assert result["after"]["left_out"] == result["before"]["left_out"]
    assert result["before"]["left_out"] == pytest.approx(1 / 3, abs=0.01)
    assert result["after"]["accuracy"] > 0.9
    assert table([result]).splitlines()[2].startswith("| texts | 0.0 | ")


def test_texts_are_cut_to_the_megabytes_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "ag_news").mkdir()
    rows = [[str(1 + row % 4), "title", f"text  {row} " + "x" * 9_000] for row in range(200)]
    for name in ("train_partial.csv", "test.csv"):
        with (tmp_path / "ag_news" / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    train = tmp_path / "ag_news" / "train_partial.csv"
    train.with_suffix(".csv.gz").write_bytes(gzip.compress(train.read_bytes()))
    domain = load("ag_news-1", tmp_path)
    assert 1e6 < sum(len(text) + 1 for text in domain.train) < 1.01e6
    assert len(load("ag_news-20", tmp_path).train) == len(domain.test) == 200
    assert domain.train[0].startswith("text ")
    assert "  " not in domain.train[0]
    assert set(domain.test_labels) == set("1234")


def test_what_was_measured_is_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = {"perplexity": 9.0, "left_out": 0.1, "accuracy": None}
    known = {
        "set": "french", "megabytes": 0.3, "minutes": 1.0, "new_words": 5, "before": part,
        "after": {**part, "perplexity": 3.0},
    }  # fmt: skip
    (tmp_path / "results.jsonl").write_text(json.dumps(known) + "\n")
    adaptation.main(["--out", str(tmp_path), "--sets", "french", "--data", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[2] == (
        "| french | 0.3 | 9.0 | 3.0 | 10.0% | 5 |  |  | 1.0 |"
    )

"""Draws, samples and sweeps are made and gathered; words and senses follow the embeddings."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from tests.study.test_results import good
from tests.study.toys import TINY, toy_data

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.classify.features import build_task_vocabulary
from elmo.embed.embedder import Embedder
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.static.vectors import StaticVectors
from elmo.study import analyses
from elmo.study.analyses import (
    ambiguous_words,
    best_of,
    curve_rows,
    draw_cells,
    gather_draws,
    gather_samples,
    gather_sweeps,
    sample_cells,
    sense_accuracies,
    sweep_points,
)
from elmo.study.news import NewsItem, SenseMark
from elmo.study.rows import Row, chosen_rows
from elmo.text.tokenizer import TokenizerConfig

# Neighbours of ambiguous words point at the rows they were found in.


DATA = toy_data()
WORDS = ("bank", "loan", "water")
STATIC = StaticVectors(WORDS, torch.eye(3).numpy())


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(word_dim=8, hidden=8), build_task_vocabulary(DATA.words, 1))
    return Embedder(LanguageModel(model, TokenizerConfig()))


def neighbours(embedder: Embedder, *words: str, shows_texts: bool = True) -> list[Any]:
    row = Row("svd-2", "SVD, window 2", "static")
    return list(ambiguous_words(words, DATA, embedder, row, STATIC, shows_texts=shows_texts))


def test_texts_rows_and_words_belong_together(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(analyses, "SEARCHED", 30)
    (found,) = neighbours(embedder, "bank")
    assert found["static_row"] == "svd-2"
    assert [one["word"] for one in found["static"]] == ["loan", "water"]
    for context in found["contexts"]:
        words = DATA.words[DATA.train_count + context["row"]]
        assert context["text"] == " ".join(words)
        assert "bank" in words
        for one in context["neighbours"]:
            assert one["word"] in DATA.words[one["row"]]
            assert one["text"] == " ".join(DATA.words[one["row"]])
    assert not caplog.records


def test_texts_are_not_shown_where_they_may_not_be(embedder: Embedder) -> None:
    (found,) = neighbours(embedder, "bank", shows_texts=False)
    assert all(context["text"] is None for context in found["contexts"])
    assert all(one["text"] is None for c in found["contexts"] for one in c["neighbours"])


def test_a_word_that_is_hardly_there_is_left_out(embedder: Embedder) -> None:
    assert neighbours(embedder, "court", "boat") == [None, None]


ITEMS = [
    NewsItem(" ".join(words), "", tuple(
        SenseMark(idx, "bank", DATA.labels[DATA.classes[DATA.train_count + row]])
        for idx, word in enumerate(words) if word == "bank"
    ))
    for row, words in enumerate(DATA.words[DATA.train_count :])
]  # fmt: skip
"""Every bank of the test part, its sense by the class of its text."""


def test_static_vectors_give_chance_and_layers_what_they_know() -> None:
    torch.manual_seed(0)
    vocabulary = build_task_vocabulary(DATA.words, 1)
    model = BiLM(BiLMConfig(word_dim=8, hidden=8), vocabulary)
    embedder = Embedder(LanguageModel(model, TokenizerConfig()))
    static = StaticVectors(("bank", "loan"), np.eye(2, dtype=np.float32))
    found = sense_accuracies(DATA, ITEMS, embedder, {"SVD": static})
    layers = [f"ELMo layer {number}" for number in range(3)]
    assert [one["embedding"] for one in found] == ["SVD", *layers]
    first, word_alone, *above = found
    assert first["accuracy"] == pytest.approx(first["chance"])
    assert word_alone["accuracy"] == pytest.approx(word_alone["chance"])
    assert all(one["accuracy"] != pytest.approx(one["chance"]) for one in above)
    marks = [(row, mark.sense) for row, item in enumerate(ITEMS) for mark in item.senses]
    expected = []
    for row, sense in marks:
        others = [other for text, other in marks if text != row]
        expected.append(np.mean([other == sense for other in others]))
    assert first["chance"] == pytest.approx(np.mean(expected))
    assert first["occurrences"] == len(marks)


# Draws, fewer labels, sweeps.


def test_draws_differ_in_their_weights_alone() -> None:
    cells = draw_cells(replace(TINY, draws=3), {"learning_rate": 0.5, "dropout": 0.1})
    assert [cell.name for cell in cells] == ["draws-0", "draws-1", "draws-2", "draws-trainable"]
    mixes = [cell.classifier.network.mix for cell in cells if cell.classifier]
    assert [mix.mix_seed for mix in mixes[:3]] == [0, 1, 2]
    assert len({cell.seed for cell in cells}) == 1
    assert draw_cells(replace(TINY, draws=0)) == []
    outcomes = {cell.name: good(0.5, wrong=3, layer_weights=(0.2, 0.8)) for cell in cells}
    del outcomes["draws-1"]
    found = gather_draws(replace(TINY, draws=3), DATA, outcomes)
    assert found is not None
    assert [draw["seed"] for draw in found["draws"]] == [0, 2]
    assert found["trainable_test_accuracy"] == pytest.approx(0.9)
    assert found["train_rows"] == TINY.analysis_rows
    assert gather_draws(TINY, DATA, {}) is None


def test_the_best_of_several_draws_is_the_mean_over_all_choices() -> None:
    development, test = [0.3, 0.9, 0.5, 0.7], [0.31, 0.62, 0.55, 0.8]
    for size, expected in enumerate(best_of(development, test), start=1):
        choices = [max(some) for some in combinations(zip(development, test, strict=True), size)]
        assert expected == pytest.approx(np.mean([reached for _, reached in choices]))


def test_curves_have_the_best_skip_gram_and_end_with_all_labels() -> None:
    config = replace(TINY, windows=(2, 5), samples=(1, 4, 500), seeds=(3, 4))
    rows = chosen_rows(config, 1)
    names = ("tfidf", "skipgram-2", "skipgram-5", "svd-5", "trainable")
    outcomes = {name: [good(0.9 if name == "skipgram-5" else 0.8)] for name in names}
    curves = curve_rows(rows, outcomes)
    assert [row.name for row in curves.values()] == ["tfidf", "skipgram-5", "trainable"]
    assert [row.name for row in curve_rows(rows).values()] == ["tfidf", "skipgram-2", "trainable"]
    cells = sample_cells(config, DATA, curves, {})
    # One label is too few to choose the epoch, 500 are not there.
    assert [cell.name for cell in cells] == [
        f"samples-{role}-4-seed{seed}" for role in curves for seed in (3, 4)
    ]
    assert {cell.per_class for cell in cells} == {4}
    assert [cell.classifier and cell.classifier.learning.seed for cell in cells[2:4]] == [3, 4]
    found = {cells[0].name: good(0.5, wrong=3), cells[1].name: good(0.5, wrong=6)}
    full = [{"name": "tfidf", "alone": {"test_accuracy": {"mean": 1.0}}}]
    points = gather_samples(config, DATA, curves, found, full)
    assert [(point["per_class"], point["train_rows"]) for point in points] == [
        (4, 8), (None, len(DATA.split.train)),
    ]  # fmt: skip
    assert points[0]["test_accuracy"]["mean"] == pytest.approx(0.85)
    assert points[1]["test_accuracy"] == {"mean": 1.0}


def test_sweeps_vary_the_setting_alone() -> None:
    sweeps = (
        "window=1,3", "dim=50,300", "hidden=64", "layers=3", "bilm-epochs=2", "function-hidden=9",
        "min-count=1,3", "mix-pull=0,0.5", "learning-rate=0.01", "dropout=0",
    )  # fmt: skip
    config = replace(TINY, static_dim=300, sweeps=sweeps)
    points = sweep_points(config)
    embeddings = [(point.row, point.cell.embedding) for point in points]
    assert embeddings[:4] == [
        ("svd", "svd-1"), ("skipgram", "skipgram-1"), ("svd", "svd-3"), ("skipgram", "skipgram-3"),
    ]  # fmt: skip
    assert [name for _, name in embeddings[4:8:2]] == ["svd-2-dim-50", "svd-2"]
    assert [name for _, name in embeddings[8:11]] == [
        "elmo-hidden64", "elmo-layers3", "elmo-bilm-epochs2",
    ]  # fmt: skip
    rare = [embedding for row, embedding in embeddings[12:16] if row == "skipgram"]
    assert rare == ["skipgram-2-min_count-1", "skipgram-2"]
    function = points[11].cell.classifier
    zero, half, rate, dropout = (point.cell.classifier for point in points[-4:])
    assert function is not None
    assert zero is not None
    assert half is not None
    assert rate is not None
    assert dropout is not None
    assert (function.network.mix.mix, function.network.mix.function_hidden) == ("function", 9)
    assert (zero.network.mix.mix_pull, half.network.mix.mix_pull) == (0.0, 0.5)
    assert replace(half, network=replace(half.network, mix=zero.network.mix)) == zero
    assert rate.learning.learning_rate == 0.01
    assert dropout.network.dropout == 0
    assert {point.cell.steps for point in points} == {config.analysis_steps}
    outcomes = {point.cell.name: good(0.5) for point in points[:4] if point.row == "svd"}
    (found,) = gather_sweeps(config, DATA, points, outcomes, {"svd-1": "a note"})
    assert (found["setting"], found["row"]) == ("window", "svd")
    assert [(one["value"], one["note"]) for one in found["points"]] == [(1, "a note"), (3, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("windw=3", "did you mean 'window'"),
        ("window", "expected setting=value"),
        ("window=1.5", "whole numbers after window=, got '1.5'"),
        ("window=", "got ''"),
        ("dim=0", "dim cannot be 0"),
        ("dropout=1", "dropout cannot be 1"),
        ("learning-rate=-1", "cannot be -1"),
        ("learning-rate=nan", "cannot be nan"),
    ],
)
def test_mistakes_in_sweeps_are_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        sweep_points(replace(TINY, sweeps=(text,)))

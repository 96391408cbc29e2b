"""Which rows and cells there are, and how settings are chosen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.study.toys import TINY

from elmo.errors import UserError
from elmo.static.train import SkipGramConfig, SvdConfig
from elmo.study.rows import (
    CANDIDATES,
    Row,
    can_choose,
    choose,
    chosen_rows,
    contrasts,
    row_cells,
    tuning_cells,
    vectors_cell,
)

NETWORK = Row("average", "Average", "elmo")
DEVELOPMENT_ROWS = 4730
"""Of which a standard error at an accuracy of 0.9 is 0.0044."""


# Which rows and cells there are.


def test_rows_are_chosen_by_name_and_kind() -> None:
    every = [row.name for row in chosen_rows(TINY, 2)]
    assert every == [
        "majority", "tfidf", "task", "svd-2", "skipgram-2", "distilled", "layer-0", "layer-1",
        "layer-2", "average", "frozen", "trainable", "function", "fine-tuned",
    ]  # fmt: skip
    some = replace(TINY, rows=("mixes", "static", "tfidf"), word_vectors=("a/glove.txt",))
    assert [row.name for row in chosen_rows(some, 1)] == [
        "tfidf", "svd-2", "skipgram-2", "file-glove", "frozen", "trainable", "function",
    ]  # fmt: skip
    assert "task" not in [row.name for row in chosen_rows(replace(TINY, task_dim=0), 1)]
    with pytest.raises(UserError, match=r"got 'trainble' .did you mean 'trainable'"):
        chosen_rows(replace(TINY, rows=("trainble",)), 1)


def test_rows_are_asked_what_context_and_learning_add() -> None:
    every: dict[str, Any] = {row.name: [] for row in chosen_rows(TINY, 2)}
    assert contrasts(every) == [
        ("layer-1", "layer-0"), ("layer-2", "layer-0"), ("trainable", "average"),
        ("trainable", "frozen"), ("function", "trainable"), ("trainable", "tfidf"),
        ("function", "tfidf"),
    ]  # fmt: skip
    assert contrasts({"layer-2": [], "trainable": [], "tfidf": []}) == [("trainable", "tfidf")]


def test_every_row_is_tuned_and_trained_alike() -> None:
    config = replace(TINY, fine_tune_seeds=1, task_seeds=1)
    rows = {row.name: row for row in chosen_rows(config, 1)}
    controls = ("majority", "tfidf", "fine-tuned")
    alone = [cell.name for cell in tuning_cells(config, rows.values(), "alone")]
    assert len(alone) == 2 * (len(rows) - len(controls) - 1)  # nor task embeddings
    beside = [cell.name for cell in tuning_cells(config, rows.values(), "beside")]
    assert len(beside) == 2 * (len(rows) - len(controls))
    assert tuning_cells(replace(config, candidates=1), rows.values(), "alone") == []
    for cell in tuning_cells(config, [rows["svd-2"]], "alone"):
        budget = (cell.train_rows, cell.steps, cell.measures_train)
        assert budget == (config.analysis_rows, config.analysis_steps, False)
    seeds = {name: [cell.seed for cell in row_cells(config, row)] for name, row in rows.items()}
    assert seeds["layer-0"] == seeds["frozen"] == [0, 1]
    assert seeds["tfidf"] == seeds["majority"] == seeds["fine-tuned"] == [0]
    assert seeds["task"] == []
    assert [cell.seed for cell in row_cells(config, rows["task"], "beside")] == [0]
    assert row_cells(config, rows["tfidf"], "beside") == []
    frozen = [cell.classifier for cell in row_cells(config, rows["frozen"])]
    assert [one and one.network.mix.mix_seed for one in frozen] == [0, 1]
    settings = {"learning_rate": 0.5, "dropout": 0.25}
    (cell,) = row_cells(config, rows["fine-tuned"], "alone", settings)
    assert cell.classifier is not None
    assert cell.classifier.learning.fine_tuning.fine_tune_epochs == config.fine_tune_epochs
    assert cell.classifier.learning.learning_rate == 0.5
    assert cell.classifier.network.dropout == 0.25


def test_without_task_embeddings_there_is_one_column() -> None:
    config = replace(TINY, task_dim=0)
    rows = chosen_rows(config, 1)
    assert not tuning_cells(config, rows, "beside")
    assert not [cell for row in rows for cell in row_cells(config, row, "beside")]


def test_columns_differ_in_task_embeddings_alone() -> None:
    row = next(row for row in chosen_rows(TINY, 1) if row.name == "average")
    one, other = (row_cells(TINY, row, column)[0].classifier for column in ("alone", "beside"))
    assert one is not None
    assert other is not None
    assert (one.network.task_dim, other.network.task_dim) == (0, TINY.task_dim)
    assert replace(other, network=replace(other.network, task_dim=0)) == one


def test_epochs_follow_from_the_number_of_rows() -> None:
    rows = {row.name: row for row in chosen_rows(TINY, 1)}
    config = replace(TINY, epochs=None)
    (average, *_), (tuned, *_) = (
        row_cells(config, rows[name]) for name in ("average", "fine-tuned")
    )
    # 79 steps per epoch: 16 epochs make 1,200.
    assert [average.epochs(n) for n in (4_999, 5_000, 90_000)] == [None, 16, 4]
    assert (tuned.epochs(4_999), tuned.epochs(5_000)) == (None, 1)
    assert row_cells(replace(config, epochs=7), rows["average"])[0].epochs(50) == 7
    assert replace(average, steps=600).epochs(6400) == 6


def test_work_grows_with_what_is_read() -> None:
    rows = {row.name: row for row in chosen_rows(TINY, 1)}
    static, layer, function, tuned = (
        row_cells(TINY, rows[name])[0].work(1000, 2)
        for name in ("svd-2", "layer-1", "function", "fine-tuned")
    )
    assert static == 1000 * (TINY.epochs or 0)
    assert static < layer < function < tuned
    slow, fast = (vectors_cell(name, TINY).work(100, 2) for name in ("skipgram-5", "svd-5"))
    assert slow > fast
    dim = vectors_cell("svd-5-dim-50", TINY).static
    assert dim == SvdConfig(window=5, dim=50, shift=1.0)
    rare = vectors_cell("skipgram-8-min_count-1", TINY).static
    assert rare == SkipGramConfig(window=8, dim=TINY.static_dim, min_count=1)


# Settings are chosen by what development rows can tell.


def chosen(*accuracies: float | None) -> Any:
    outcomes: Any = {
        f"tuning-alone-average-{idx}": SimpleNamespace(development_accuracy=accuracy)
        for idx, accuracy in enumerate(accuracies)
        if accuracy is not None
    }
    return choose(NETWORK, "alone", outcomes, DEVELOPMENT_ROWS)


def test_a_lead_within_a_standard_error_is_none() -> None:
    assert chosen(0.896, 0.900, 0.899)[0] == CANDIDATES[0]
    assert chosen(0.895, 0.897, 0.900)[0] == CANDIDATES[1]
    assert chosen(0.880, 0.890, 0.900)[0] == CANDIDATES[2]


def test_settings_that_fail_are_passed_over() -> None:
    assert chosen(None, None, None) == (CANDIDATES[0], [])
    best, candidates = chosen(None, 0.9, 0.8)
    assert best == CANDIDATES[1]
    assert [one["development_accuracy"] for one in candidates] == [0.9, 0.8]


def test_few_development_rows_choose_nothing() -> None:
    assert can_choose(TINY, 300)
    assert not can_choose(TINY, 299)
    assert not can_choose(replace(TINY, candidates=1), 300)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_choice_is_never_far_below_the_best(accuracies: list[float]) -> None:
    best = chosen(*accuracies)[0]
    accuracy, highest = accuracies[CANDIDATES.index(best)], max(accuracies)
    assert (highest - accuracy) ** 2 <= highest * (1 - highest) / DEVELOPMENT_ROWS + 1e-12

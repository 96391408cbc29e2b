"""Sweeps are read strictly, and tried for the rows that have the setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.study.test_statistics import outcome
from tests.study.toys import toy_bench

from elmo.errors import UserError
from elmo.study.sweeps import (
    AskedSweep,
    parse_sweeps,
    static_name,
    static_settings,
    sweep_job,
    sweeps_found,
    tries_of,
)


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

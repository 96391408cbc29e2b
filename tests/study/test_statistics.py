"""Spreads and pairs against what SciPy and statistics make of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.study.toys import toy_data

from elmo.study.outcome import Outcome, measured
from elmo.study.statistics import paired, spread

DATA = toy_data()


def outcome(predictions: np.ndarray) -> Outcome:
    probabilities = np.eye(2)[predictions]
    metrics = measured(DATA, probabilities, DATA.test)
    return Outcome(
        development_accuracy=0.5, train=None, test=metrics, predictions=tuple(predictions.tolist()),
        training_seconds=1.0, texts_per_second=1.0, parameters=1,
    )  # fmt: skip


def test_mean_deviation_and_interval() -> None:
    found = spread([0.8, 0.9, 0.85], 1000)
    assert found.mean == pytest.approx(np.mean([0.8, 0.9, 0.85]))
    assert found.deviation == pytest.approx(np.std([0.8, 0.9, 0.85], ddof=1))
    interval = stats.binomtest(850, 1000).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert spread([0.5], 10).deviation == 0


def test_pairs_are_compared_on_the_test_rows() -> None:
    gold = DATA.classes[DATA.test]
    this, other = gold.copy(), gold.copy()
    this[:3] = 1 - this[:3]
    other[2:13] = 1 - other[2:13]
    found = paired(DATA, outcome(this), outcome(other), "svd-2")
    assert (found.against, found.only_this, found.only_other) == ("svd-2", 10, 2)
    assert found.p == pytest.approx(stats.binomtest(2, 12, 0.5).pvalue)

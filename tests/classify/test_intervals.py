"""Intervals agree with scipy, and with resampling row by row."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, f1_score

from elmo.classify import intervals
from elmo.classify.intervals import bootstrap_macro_f1, macro_f1, standard_error, wilson


def test_the_standard_error_is_that_of_the_mean_of_the_rows() -> None:
    right = [1.0] * 70 + [0.0] * 30
    error = statistics.pstdev(right) / len(right) ** 0.5
    assert abs(standard_error(0.7, 100) - error) < 1e-12


@given(count=st.integers(1, 10_000), data=st.data())
def test_wilson_is_scipys(count: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, count))
    expected = binomtest(right, count).proportion_ci(0.95, method="wilson")
    found = wilson(right, count)
    assert found.value == right / count
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def drawn_labels(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    gold = random.integers(0, classes, rows)
    predicted = np.where(random.random(rows) < 0.7, gold, random.integers(0, classes, rows))
    return gold, predicted


def test_bootstrap_is_that_of_rows() -> None:
    gold, predicted = drawn_labels(rows=400, classes=3)
    random = np.random.default_rng(1)
    scores: list[float] = []
    for _ in range(600):
        rows = random.integers(0, 400, 400)
        scores.append(f1_score(gold[rows], predicted[rows], average="macro"))
    found = bootstrap_macro_f1(confusion_matrix(gold, predicted), seed=2)
    assert found.value == pytest.approx(f1_score(gold, predicted, average="macro"), abs=1e-12)
    # The bounds of 600 and of 2000 resamples differ by chance, here by about 0.002.
    assert [found.low, found.high] == pytest.approx(np.percentile(scores, [2.5, 97.5]), abs=0.008)


def test_bootstrap_is_decided_by_its_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    confusion = confusion_matrix(*drawn_labels(rows=100, classes=4))
    first = bootstrap_macro_f1(confusion, seed=1)
    assert first != bootstrap_macro_f1(confusion, seed=2)
    monkeypatch.setattr(intervals, "_CELLS_AT_A_TIME", 16 * 300)
    assert first == bootstrap_macro_f1(confusion, seed=1)


def test_nothing_wrong_leaves_no_doubt() -> None:
    found = bootstrap_macro_f1(np.diag([3, 5]), seed=0)
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_a_class_that_neither_occurs_nor_is_predicted_does_not_count() -> None:
    confusions = np.array([[[2, 1, 0], [1, 1, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 4]]])
    expected = [(4 / 6 + 2 / 4) / 2, (0 + 0 + 1) / 3]
    assert macro_f1(confusions) == pytest.approx(expected)

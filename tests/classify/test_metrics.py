"""Metrics agree with scikit-learn, and with sums written as in the textbooks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
)

from elmo.classify.metrics import calibration_error, measure
from elmo.config import to_json
from elmo.errors import UserError

NAMES = ("World", "Sports", "Business", "Sci/Tech", "Arts")


def predictions(rows: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.full(classes, 0.4), rows)
    return probabilities, random.integers(0, classes, rows)


@given(rows=st.integers(1, 60), classes=st.integers(2, 5), seed=st.integers(0, 2**32))
def test_right_and_wrong_as_scikit_learn_counts_them(rows: int, classes: int, seed: int) -> None:
    probabilities, gold = predictions(rows, classes, seed)
    predicted = probabilities.argmax(1)
    found = measure(probabilities, gold, NAMES[:classes])
    assert found.count == rows
    assert found.accuracy.value == accuracy_score(gold, predicted)
    every = range(classes)
    assert np.array_equal(found.confusion, confusion_matrix(gold, predicted, labels=every))
    by_class = np.array([(c.precision, c.recall, c.f1, c.support) for c in found.classes]).T
    expected = precision_recall_fscore_support(gold, predicted, labels=every, zero_division=0)
    assert by_class == pytest.approx(np.array(expected), abs=1e-12)
    assert tuple(c.label for c in found.classes) == NAMES[:classes]
    for average in ("macro", "weighted"):
        mean = getattr(found, average)
        expected = precision_recall_fscore_support(
            gold, predicted, average=average, zero_division=0
        )
        assert (mean.precision, mean.recall, mean.f1) == pytest.approx(expected[:3], abs=1e-12)
    assert found.macro_f1.value == pytest.approx(found.macro.f1, abs=1e-12)


@given(rows=st.integers(1, 60), classes=st.integers(2, 5), seed=st.integers(0, 2**32))
def test_probabilities_as_scikit_learn_judges_them(rows: int, classes: int, seed: int) -> None:
    probabilities, gold = predictions(rows, classes, seed)
    found = measure(probabilities, gold, NAMES[:classes])
    assert found.log_loss == pytest.approx(log_loss(gold, probabilities, labels=range(classes)))
    truth = np.array([[float(one == label) for one in range(classes)] for label in gold])
    assert found.brier == pytest.approx(np.square(truth - probabilities).sum() / rows)


def test_brier_is_scikit_learns() -> None:
    probabilities, gold = predictions(50, 4, 0)
    expected = brier_score_loss(gold, probabilities, labels=range(4), scale_by_half=False)
    assert measure(probabilities, gold, NAMES[:4]).brier == pytest.approx(expected)


def test_calibration_error_bin_by_bin() -> None:
    random = np.random.default_rng(0)
    confidence = np.concatenate([random.random(500), np.arange(16) / 15])
    right = random.random(516) < confidence**2
    expected = 0.0
    for number in range(15):
        low, high = number / 15, (number + 1) / 15
        inside = (confidence > low) & (confidence <= high)
        if number == 0:
            inside |= confidence == 0
        gap = abs(right[inside].mean() - confidence[inside].mean())
        expected += gap * inside.sum() / len(confidence)
    assert calibration_error(confidence, right) == pytest.approx(expected)


def test_sure_and_right_is_perfect() -> None:
    found = measure(np.eye(3), np.arange(3), NAMES[:3])
    assert (found.calibration_error, found.brier, found.log_loss) == (0, 0, 0)


def test_a_probability_rounded_to_zero_stays_finite() -> None:
    sure = np.array([[1, 0], [1, 0]], np.float32)
    found = measure(sure, np.array([0, 1]), NAMES[:2])
    assert found.log_loss == pytest.approx(-np.log(np.finfo(np.float64).eps) / 2)
    assert found.brier == 1


def test_json_can_hold_it() -> None:
    probabilities, gold = predictions(9, 2, 0)
    found = measure(probabilities.astype(np.float32), gold, NAMES[:2], rows_per_second=3.5)
    data = json.loads(json.dumps(to_json(found), allow_nan=False))
    assert data["rows_per_second"] == 3.5
    assert data["classes"][1]["label"] == "Sports"
    assert data["accuracy"].keys() == {"value", "low", "high"}


@pytest.mark.parametrize(
    ("probabilities", "gold", "message"),
    [
        (np.zeros((0, 2)), [], "there are none"),
        ([[0.5, 0.5]], [0, 1], r"2 rows and 2 classes, got an array of shape \(1, 2\)"),
        ([[1.0]], [0], "2 classes"),
        ([[0.5, 0.5]], [2], "classes from 0 to 1, got 2 to 2"),
        ([[0.5, 0.5], [0.9, 0.9]], [0, 1], "sum to 1, but row 1 has"),
        ([[0.5, np.nan]], [0], "sum to 1, but row 0 has"),
        ([[1.5, -0.5]], [0], "row 0 has"),
    ],
)
def test_what_cannot_be_measured(probabilities: object, gold: list[int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        measure(np.array(probabilities), np.array(gold, np.int64), NAMES[:2])

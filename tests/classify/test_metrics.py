"""Metrics agree with scikit-learn, and with sums written as in the textbooks."""

from __future__ import annotations

import json
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    f1_score,
    log_loss,
    precision_recall_fscore_support,
)

from elmo.classify import metrics as intervals
from elmo.classify.metrics import (
    Mistake,
    PairedTest,
    bootstrap_macro_f1,
    calibration_error,
    macro_f1,
    mcnemar,
    measure,
    most_confident_mistakes,
    standard_error,
    wilson,
)
from elmo.config import to_json
from elmo.errors import UserError

# McNemar's test agrees with scipy, exact and approximate.


def compared(only_first: int, only_second: int, both: int = 3, neither: int = 2) -> PairedTest:
    counts = [only_first, only_second, both, neither]
    first = np.repeat([True, False, True, False], counts)
    second = np.repeat([False, True, True, False], counts)
    return mcnemar(first, second)


@given(first=st.integers(0, 500), second=st.integers(0, 500))
def test_few_disagreements_are_an_exact_binomial_test(first: int, second: int) -> None:
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    found = compared(first, second)
    assert (found.only_first, found.only_second) == (first, second)
    assert found.p == pytest.approx(expected, rel=1e-9)


@given(first=st.integers(1001, 3000), second=st.integers(0, 3000))
def test_many_are_a_corrected_chi_squared(first: int, second: int) -> None:
    statistic = max(0, abs(first - second) - 1) ** 2 / (first + second)
    assert compared(first, second).p == pytest.approx(chi2.sf(statistic, 1), rel=1e-9, abs=1e-300)


def test_both_ways_meet() -> None:
    assert compared(530, 470).p == pytest.approx(compared(530, 471).p, rel=0.1)


def test_order_does_not_matter_and_equals_are_equal() -> None:
    assert compared(30, 12).p == compared(12, 30, both=0, neither=9).p
    assert compared(0, 0).p == compared(7, 7).p == compared(700, 700).p == 1


def test_other_rows() -> None:
    with pytest.raises(UserError, match="same rows of both classifiers, got 2 and 3"):
        mcnemar(np.ones(2, np.bool_), np.ones(3, np.bool_))


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


# Intervals agree with scipy, and with resampling row by row.


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


# The surest mistakes come first, and right predictions never.


PROBABILITIES = np.array(
    [[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.2, 0.0, 0.8], [0.1, 0.9, 0.0], [0.0, 0.2, 0.8]]
)
GOLD = np.array([0, 1, 0, 2, 1])
TEXTS = ["t0", "t1", "t2", "t3", "t4"]


def test_the_surest_come_first() -> None:
    found = most_confident_mistakes(PROBABILITIES, GOLD, TEXTS, ["a", "b", "c"])
    assert [mistake.row for mistake in found] == [3, 2, 4, 1]
    assert found[0] == Mistake(3, None, "t3", "c", "b", 0.9, 0.0)


def test_as_many_as_asked_for_with_their_places() -> None:
    places = [f"row {number}" for number in range(5)]
    found = most_confident_mistakes(PROBABILITIES, GOLD, TEXTS, "abc", 2, locations=places)
    assert [mistake.place for mistake in found] == ["row 3", "row 2"]


def test_no_mistake_no_record() -> None:
    assert most_confident_mistakes(np.eye(3), np.arange(3), TEXTS, "abc") == []


# With many labels, confusions are counted cell by cell, with the same results.


@given(rows=st.integers(1, 60), seed=st.integers(0, 2**32))
def test_sparse_confusions_are_the_dense_ones(rows: int, seed: int) -> None:
    probabilities, gold = predictions(rows, 5, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "RESAMPLES", 20)
        dense = measure(probabilities, gold, NAMES)
        patch.setattr(intervals, "MAX_DENSE_LABELS", 4)
        sparse = measure(probabilities, gold, NAMES)
    table = np.zeros((5, 5), np.int64)
    for label, predicted, count in sparse.confusion:
        table[label, predicted] = count
    assert np.array_equal(table, dense.confusion)
    assert sparse.macro_f1.value == pytest.approx(dense.macro_f1.value, abs=1e-12)
    assert (sparse.classes, sparse.macro, sparse.accuracy) == (
        dense.classes, dense.macro, dense.accuracy,
    )  # fmt: skip


def test_the_bootstrap_of_cells_is_that_of_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, predicted = drawn_labels(rows=400, classes=3)
    dense = measure(np.eye(3)[predicted], gold, NAMES[:3]).macro_f1
    monkeypatch.setattr(intervals, "MAX_DENSE_LABELS", 2)
    sparse = measure(np.eye(3)[predicted], gold, NAMES[:3]).macro_f1
    assert [sparse.low, sparse.high] == pytest.approx([dense.low, dense.high], abs=0.005)

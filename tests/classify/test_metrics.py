"""Metrics agree with scikit-learn, and with sums written as in the textbooks."""

from __future__ import annotations

import json
import statistics
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
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
    Comparison,
    Estimate,
    Mistake,
    bootstrap_macro_f1,
    calibration_error,
    compare,
    detectable,
    holm,
    measure,
    most_confident_mistakes,
    sign_flip_p,
    standard_error,
    wilson,
)
from elmo.config import to_json
from elmo.errors import UserError

# The paired test against every permutation, scipy and simulation; Holm by hand.


def compared(only_first: int, only_second: int, both: int = 3, neither: int = 2) -> Comparison:
    counts = [only_first, only_second, both, neither]
    first = np.repeat([True, False, True, False], counts)
    second = np.repeat([False, True, True, False], counts)
    return compare(first, second)


@given(first=st.integers(0, 500), second=st.integers(0, 500))
def test_one_seed_each_is_mcnemars_exact_test(first: int, second: int) -> None:
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    found = compared(first, second)
    assert found.difference == pytest.approx((first - second) / (first + second + 5))
    assert found.p == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**32))
@settings(max_examples=40)
def test_several_seeds_are_every_swap_of_the_answers_to_a_row(
    first: int, second: int, rows: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    one, other = random.random((first, rows)) < 0.7, random.random((second, rows)) < 0.5
    by_row = one.mean(0) - other.mean(0)
    # Exchanging the classifiers on a row changes the sign of its difference.
    swaps = [np.dot(signs, by_row) for signs in product((1, -1), repeat=rows)]
    expected = np.mean(np.abs(swaps) >= abs(by_row.sum()) - 1e-9)
    assert compare(one, other).p == pytest.approx(expected, abs=1e-12)
    assert compare(other, one).p == pytest.approx(expected, abs=1e-12)


def test_many_disagreements_are_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = np.repeat([3, -3, 2, -1], [400, 330, 200, 180])
    exact = sign_flip_p(steps)
    monkeypatch.setattr("elmo.classify.metrics.EXACT_UP_TO", 10)
    assert sign_flip_p(steps) == pytest.approx(exact, rel=0.05)
    assert sign_flip_p(np.zeros(4, np.int64)) == 1.0


def test_the_interval_covers_the_true_difference_over_rows_and_seeds() -> None:
    """Rows of different difficulty and seeds of different luck, both drawn anew each time."""
    random = np.random.default_rng(0)
    covered, trials, gain = 0, 300, 0.03
    for _ in range(trials):
        easy = random.beta(6, 1, 400)
        luck = random.normal(0, 0.02, (2, 4, 1))
        chances = np.clip(easy + luck + np.array([gain, 0])[:, None, None], 0, 1)
        one, other = random.random((2, 4, 400)) < chances
        found = compare(one, other)
        covered += found.low <= 0.0270 <= found.high  # what clipping leaves of the gain
    assert 0.92 <= covered / trials <= 0.99


def test_seeds_widen_the_interval_and_few_rows_too() -> None:
    random = np.random.default_rng(1)
    steady = np.tile(random.random(500) < 0.9, (3, 1))
    other = np.tile(random.random(500) < 0.85, (3, 1))
    lucky = steady.copy()
    lucky[0, :60] = True
    assert compare(lucky, other).standard_error > compare(steady, other).standard_error
    rows = steady[0].astype(float) - other[0]
    expected = rows.std(ddof=1) / np.sqrt(500)
    assert compare(steady, other).standard_error == pytest.approx(expected)
    assert compare(steady, steady).low == compare(steady, steady).high == 0


def test_order_does_not_matter_and_equals_are_equal() -> None:
    assert compared(30, 12).p == compared(12, 30, both=0, neither=9).p
    assert [compared(n, n).p for n in (0, 7, 700)] == pytest.approx([1, 1, 1])


def test_other_rows() -> None:
    with pytest.raises(UserError, match="same rows of both classifiers, got 2 and 3"):
        compare(np.ones(2, np.bool_), np.ones(3, np.bool_))


def test_holm_as_computed_by_hand() -> None:
    # Sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, 0.04 * 1 (less than the one before: raised to it).
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_detectable_difference_is_found_four_times_in_five() -> None:
    random = np.random.default_rng(0)
    effect = detectable(0.01)
    found = np.abs(random.normal(effect, 0.01, 20_000)) > 1.959964 * 0.01
    assert found.mean() == pytest.approx(0.8, abs=0.01)
    assert detectable(0.01, 10) > effect


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


def test_without_rows_there_is_nothing_to_measure() -> None:
    with pytest.raises(UserError, match="there are none"):
        measure(np.zeros((0, 2)), np.zeros(0, np.int64), NAMES[:2])


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


def bootstrap(confusion: np.ndarray, seed: int) -> Estimate:
    cells = np.argwhere(confusion).T
    return bootstrap_macro_f1(cells, confusion[tuple(cells)], len(confusion), seed)


def test_bootstrap_is_that_of_rows() -> None:
    gold, predicted = drawn_labels(rows=400, classes=3)
    random = np.random.default_rng(1)
    scores: list[float] = []
    for _ in range(600):
        rows = random.integers(0, 400, 400)
        scores.append(f1_score(gold[rows], predicted[rows], average="macro"))
    found = bootstrap(confusion_matrix(gold, predicted), seed=2)
    assert found.value == pytest.approx(f1_score(gold, predicted, average="macro"), abs=1e-12)
    # The bounds of 600 and of 2000 resamples differ by chance, here by about 0.002.
    assert [found.low, found.high] == pytest.approx(np.percentile(scores, [2.5, 97.5]), abs=0.008)


def test_bootstrap_is_decided_by_its_seed_alone() -> None:
    confusion = confusion_matrix(*drawn_labels(rows=100, classes=4))
    first = bootstrap(confusion, seed=1)
    assert first != bootstrap(confusion, seed=2)
    assert first == bootstrap(confusion, seed=1)


def test_nothing_wrong_leaves_no_doubt() -> None:
    found = bootstrap(np.diag([3, 5]), seed=0)
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_a_class_that_neither_occurs_nor_is_predicted_does_not_count() -> None:
    found = bootstrap(np.array([[2, 1, 0], [1, 1, 0], [0, 0, 0]]), seed=0)
    assert found.value == pytest.approx((4 / 6 + 2 / 4) / 2)
    found = bootstrap(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 4]]), seed=0)
    assert found.value == pytest.approx((0 + 0 + 1) / 3)


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

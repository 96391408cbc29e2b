"""How good predictions are: right or wrong by class, and how far probabilities can be trusted.

Written out in numpy, since scikit-learn is not in the core; the tests compare with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, erfc, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.evaluate import Averages, averages

# How sure a figure is: 95 percent intervals of accuracy and of macro F1.


LEVEL = 0.95
RESAMPLES = 2000
_CELLS_AT_A_TIME = 1 << 22


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 percent interval."""

    value: float
    low: float
    high: float


def standard_error(share: float, count: int) -> float:
    """How far the share of right answers may be off by the chance of which rows were asked."""
    return sqrt(share * (1 - share) / count)


def wilson(right: int, count: int) -> Estimate:
    """The share of right answers with Wilson's interval, which stays within 0 and 1."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    share = right / count
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half))


def bootstrap_macro_f1(confusion: NDArray[np.int64], seed: int) -> Estimate:
    """Macro F1 with its percentile interval over tests drawn anew from this one.

    To draw rows with replacement is to draw the cells of the confusion matrix, far fewer.
    """
    tail = 100 * (1 - LEVEL) / 2
    scores = np.concatenate([macro_f1(drawn) for drawn in _resampled(confusion, seed)])
    low, high = np.percentile(scores, [tail, 100 - tail])
    return Estimate(float(macro_f1(confusion[None])[0]), float(low), float(high))


def macro_f1(confusions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean F1 of the classes that occur or are predicted, of each (classes, classes) matrix."""
    true_and_predicted = confusions.sum(1) + confusions.sum(2)  # (matrices, classes)
    right = confusions.diagonal(axis1=1, axis2=2)  # (matrices, classes)
    scores = 2 * right / np.maximum(1, true_and_predicted)
    return scores.sum(1) / np.maximum(1, (true_and_predicted > 0).sum(1))


def _resampled(confusion: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    shares = confusion.ravel() / confusion.sum()
    at_a_time = max(1, min(RESAMPLES, _CELLS_AT_A_TIME // confusion.size))
    for first in range(0, RESAMPLES, at_a_time):
        size = min(at_a_time, RESAMPLES - first)
        yield random.multinomial(confusion.sum(), shares, size).reshape(size, *confusion.shape)


BINS = 15
_SUM_TOLERANCE = 1e-3

Probabilities = NDArray[np.floating]


@dataclass(frozen=True)
class ClassMetrics:
    """How well one class is found; what would be divided by zero is zero."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    """How many rows have this label."""


@dataclass(frozen=True)
class Metrics:
    """What a classifier achieved on labelled rows."""

    count: int
    accuracy: Estimate
    """With Wilson's interval."""
    macro_f1: Estimate
    """With a bootstrap interval."""
    macro: Averages
    """Means over the classes that occur or are predicted."""
    weighted: Averages
    """Means over the classes, each as often as it occurs."""
    classes: tuple[ClassMetrics, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Rows by their label, then by what was predicted."""
    calibration_error: float
    """By how much confidence and accuracy differ, on average over 15 bins of confidence."""
    brier: float
    """Mean squared distance of the probabilities from the truth: 0 is perfect, 2 the worst."""
    log_loss: float
    """Mean negative log-probability of the right label, in nats."""
    rows_per_second: float | None = None


def measure(
    probabilities: Probabilities,
    gold: NDArray[np.int64],
    names: Sequence[str],
    *,
    seed: int = 0,
    rows_per_second: float | None = None,
) -> Metrics:
    """Compare probabilities, (rows, classes), with the right classes, (rows,)."""
    check_predictions(probabilities, gold, names)
    exact = probabilities.astype(np.float64)
    predicted = exact.argmax(1)
    confusion = confusion_matrix(gold, predicted, len(names))
    macro, weighted = averages(confusion.sum(1), confusion.sum(0), confusion.diagonal())
    return Metrics(
        count=len(gold),
        accuracy=wilson(int(confusion.trace()), len(gold)),
        macro_f1=bootstrap_macro_f1(confusion, seed),
        macro=macro,
        weighted=weighted,
        classes=_class_metrics(confusion, names),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        calibration_error=calibration_error(exact.max(1), predicted == gold),
        brier=float(((exact - np.eye(len(names))[gold]) ** 2).sum(1).mean()),
        log_loss=_log_loss(exact[np.arange(len(gold)), gold]),
        rows_per_second=rows_per_second,
    )


def confusion_matrix(
    gold: NDArray[np.int64], predicted: NDArray[np.int64], classes: int
) -> NDArray[np.int64]:
    """How often each class (row) was taken for each class (column)."""
    return np.bincount(gold * classes + predicted, minlength=classes**2).reshape(classes, classes)


def calibration_error(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """The expected calibration error over bins of equal width, each open below."""
    bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    # A bin's share times its mean difference is its summed difference by all rows.
    differences = np.bincount(bins, weights=right - confidence, minlength=BINS)
    return float(np.abs(differences).sum() / len(confidence))


def check_predictions(
    probabilities: Probabilities, gold: NDArray[np.int64], names: Sequence[str]
) -> None:
    """Make sure that there is something to measure, and that it fits together."""
    if not len(gold):
        raise UserError("expected labelled rows to measure predictions on, but there are none")
    if probabilities.shape != (len(gold), len(names)):
        raise UserError(
            f"expected probabilities of {len(gold)} rows and {len(names)} classes, "
            f"got an array of shape {probabilities.shape}"
        )
    if gold.min() < 0 or gold.max() >= len(names):
        raise UserError(
            f"expected classes from 0 to {len(names) - 1}, got {gold.min()} to {gold.max()}"
        )
    wrong = ~(np.abs(probabilities.sum(1, dtype=np.float64) - 1) <= _SUM_TOLERANCE)
    wrong |= (probabilities < 0).any(1)
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"expected probabilities that sum to 1, but row {row} has {probabilities[row]!s:.80}"
        )


def _class_metrics(confusion: NDArray[np.int64], names: Sequence[str]) -> tuple[ClassMetrics, ...]:
    true, predicted, right = confusion.sum(1), confusion.sum(0), confusion.diagonal()
    return tuple(
        ClassMetrics(
            label=name,
            precision=int(right[one]) / max(1, int(predicted[one])),
            recall=int(right[one]) / max(1, int(true[one])),
            f1=2 * int(right[one]) / max(1, int(true[one] + predicted[one])),
            support=int(true[one]),
        )
        for one, name in enumerate(names)
    )


def _log_loss(right: NDArray[np.float64]) -> float:
    # A probability that was rounded to zero must not make the whole figure infinite.
    return float(-np.log(np.maximum(right, np.finfo(np.float64).eps)).mean())


# Whether one classifier is better than another on the same rows, or was merely lucky.


EXACT_UP_TO = 1000


@dataclass(frozen=True)
class PairedTest:
    """McNemar's test: only the rows count on which one is right and the other wrong."""

    only_first: int
    """Rows that only the first classifier has right."""
    only_second: int
    p: float
    """How probable a difference at least as large is if both are equally good, two-sided."""


def mcnemar(first_right: NDArray[np.bool_], second_right: NDArray[np.bool_]) -> PairedTest:
    """Compare two classifiers by which of the same rows each has right."""
    if first_right.shape != second_right.shape:
        raise UserError(
            f"expected the same rows of both classifiers, got {len(first_right)} and "
            f"{len(second_right)}"
        )
    first = int((first_right & ~second_right).sum())
    second = int((second_right & ~first_right).sum())
    few = first + second <= EXACT_UP_TO
    return PairedTest(first, second, (_binomial if few else _chi_squared)(first, second))


def _binomial(first: int, second: int) -> float:
    """Exact: as heads and tails of a fair coin."""
    throws = first + second
    tail = sum(comb(throws, heads) for heads in range(min(first, second) + 1))
    return min(1.0, 2 * tail / 2**throws)


def _chi_squared(first: int, second: int) -> float:
    """With continuity correction; one degree of freedom is a squared normal variable."""
    statistic = max(0, abs(first - second) - 1) ** 2 / (first + second)
    return erfc(sqrt(statistic / 2))


# The mistakes a classifier was surest of: often a wrong label, always worth reading.


@dataclass(frozen=True)
class Mistake:
    """A text that was given another label than its own."""

    row: int
    """Counted from 0, over all files."""
    place: str | None
    text: str
    gold: str
    predicted: str
    probability: float
    """Of the label predicted."""
    gold_probability: float


def most_confident_mistakes(
    probabilities: Probabilities,
    gold: NDArray[np.int64],
    texts: Sequence[str],
    names: Sequence[str],
    count: int = 20,
    *,
    places: Sequence[str] | None = None,
) -> list[Mistake]:
    """The wrong predictions of highest probability, the surest first."""
    check_predictions(probabilities, gold, names)
    predicted = probabilities.argmax(1)
    wrong = np.flatnonzero(predicted != gold)
    order = np.argsort(-probabilities.max(1)[wrong], kind="stable")
    surest: list[int] = wrong[order[:count]].tolist()
    return [
        Mistake(
            row=row,
            place=None if places is None else places[row],
            text=texts[row],
            gold=names[int(gold[row])],
            predicted=names[int(predicted[row])],
            probability=float(probabilities[row, predicted[row]]),
            gold_probability=float(probabilities[row, gold[row]]),
        )
        for row in surest
    ]

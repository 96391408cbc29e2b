"""How good predictions are: right or wrong by class, and how far probabilities can be trusted.

Written out in numpy, since scikit-learn is not in the core; the tests compare with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.classify.intervals import Estimate, bootstrap_macro_f1, wilson
from elmo.errors import UserError
from elmo.language.evaluate import Averages, averages

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

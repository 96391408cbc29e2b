"""How good predictions are: right or wrong by class, and how far probabilities can be trusted.

From counts per class, as `elmo.evaluate` has them; the tests compare with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, lgamma, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.evaluate import Averages, averages
from elmo.runtime import require_extra

LEVEL = 0.95
"""Confidence level of all intervals."""
RESAMPLES = 2000
CALIBRATION_BINS = 15
MAX_DENSE_LABELS = 1000
"""With more labels, confusions are listed cell by cell: 10,000 labels would make 10^8 cells."""
EXACT_UP_TO = 50_000
"""Disagreements, in steps of one seed, up to which a permutation test is computed exactly."""
POWER = 0.8

Ints = NDArray[np.int64]
Probabilities = NDArray[np.floating]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 percent interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ClassMetrics:
    """Precision, recall and F1 of one class; 0 where they would divide by zero."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    """Rows with this label."""


@dataclass(frozen=True)
class Metrics:
    count: int
    accuracy: Estimate
    """With Wilson's interval."""
    macro_f1: Estimate
    """With a bootstrap interval."""
    macro: Averages
    """Means over the classes that occur or are predicted."""
    weighted: Averages
    """Means over the classes, weighted by how often each occurs."""
    classes: tuple[ClassMetrics, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Counts by label (row) and prediction (column); with more than 1,000 labels instead one
    (label, prediction, count) for each count that is not 0. Empty for several labels per text."""
    calibration_error: float
    """Mean difference of confidence and accuracy over 15 bins of confidence."""
    brier: float
    """Mean squared distance of the probabilities from the truth: 0 is perfect, 2 the worst."""
    log_loss: float
    """Mean negative log-probability of the right label, in nats."""
    rows_per_second: float | None = None
    micro: Averages | None = None
    """Averages over all decisions, with several labels per text; accuracy is then that of whole
    sets (exact match), and calibration error, Brier score and log loss are means over decisions."""


@dataclass(frozen=True)
class Mistake:
    """A text whose predicted label is wrong."""

    row: int
    """Index over all files, from 0."""
    place: str | None
    """Where the text was read."""
    text: str
    gold: str
    predicted: str
    probability: float
    """Probability of the predicted label."""
    gold_probability: float


@dataclass(frozen=True)
class Evaluation:
    metrics: Metrics
    mistakes: tuple[Mistake, ...]
    """The most confident ones, in descending order."""
    empty: tuple[int, ...]
    """Rows whose texts have no words, so that their prediction says nothing about them."""


@dataclass(frozen=True)
class Comparison:
    """By how much the accuracy of one classifier is above that of another."""

    difference: float
    low: float
    """Lower end of the 95 percent interval, over rows and seeds."""
    high: float
    p: float
    """Two-sided, of an exact permutation test over rows."""
    standard_error: float


def measure(
    probabilities: Probabilities,
    gold: Ints,
    names: Sequence[str],
    *,
    seed: int = 0,
    rows_per_second: float | None = None,
) -> Metrics:
    """Compare probabilities, (rows, classes), with the right classes, (rows,)."""
    if not len(gold):
        raise UserError("expected labelled rows to measure predictions on, but there are none")
    assert probabilities.shape == (len(gold), len(names))
    exact = probabilities.astype(np.float64)
    predicted = exact.argmax(1)
    classes, rows = len(names), np.arange(len(gold))
    true_count = np.bincount(gold, minlength=classes)
    predicted_count = np.bincount(predicted, minlength=classes)
    right_count = np.bincount(gold[gold == predicted], minlength=classes)
    macro, weighted = averages(true_count, predicted_count, right_count)
    indices, counts = np.unique(gold * classes + predicted, return_counts=True)
    cells = np.stack(np.divmod(indices, classes))  # (2, cells), in the order of the rows
    if classes <= MAX_DENSE_LABELS:
        confusion = np.zeros((classes, classes), np.int64)
        confusion[tuple(cells)] = counts
    else:
        confusion = np.vstack([cells, counts]).T
    truth = np.zeros_like(exact)
    truth[rows, gold] = 1
    # A probability that was rounded to 0 must not make the loss infinite.
    of_gold = np.maximum(exact[rows, gold], np.finfo(np.float64).eps)
    return Metrics(
        count=len(gold),
        accuracy=wilson(int(right_count.sum()), len(gold)),
        macro_f1=bootstrap_macro_f1(cells, counts, classes, seed),
        macro=macro,
        weighted=weighted,
        classes=by_class(names, true_count, predicted_count, right_count),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        calibration_error=calibration_error(exact.max(1), predicted == gold),
        brier=float(((exact - truth) ** 2).sum(1).mean()),
        log_loss=float(-np.log(of_gold).mean()),
        rows_per_second=rows_per_second,
    )


def by_class(names: Sequence[str], *counts: Ints) -> tuple[ClassMetrics, ...]:
    """Metrics of each class from its counts of true, predicted and right rows, each (classes,)."""
    return tuple(
        ClassMetrics(
            label=name,
            precision=right / max(1, guessed),
            recall=right / max(1, true),
            f1=2 * right / max(1, true + guessed),
            support=true,
        )
        for name, true, guessed, right in zip(names, *(c.tolist() for c in counts), strict=True)
    )


def calibration_error(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """The expected calibration error over bins of equal width, each open below."""
    bins = np.ceil(confidence * CALIBRATION_BINS).astype(np.int64) - 1
    bins = np.clip(bins, 0, CALIBRATION_BINS - 1)
    # A bin's fraction of the rows times its mean difference is its summed difference / rows.
    differences = np.bincount(bins, weights=right - confidence, minlength=CALIBRATION_BINS)
    return float(np.abs(differences).sum() / len(confidence))


def confidences(
    probabilities: Probabilities, gold: Ints, *, flat: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """How sure each decision is, and whether it is right: (texts,), or (texts, labels)."""
    exact = probabilities.astype(np.float64)
    if gold.ndim == 1:
        return exact.max(1), exact.argmax(1) == gold
    both = np.maximum(exact, 1 - exact), (exact > 0.5) == gold.astype(np.bool_)
    return (both[0].ravel(), both[1].ravel()) if flat else both


def evaluation_of(
    probabilities: Probabilities,
    gold: Ints,
    texts: Sequence[str],
    names: Sequence[str],
    separator: str | None,
    *,
    thresholds: Any = 0.5,
    locations: Sequence[str] | None = None,
    rows_per_second: float | None = None,
    empty: Sequence[int] = (),
) -> Evaluation:
    """Metrics and mistakes of texts with one label each or, with a separator, with several."""
    if separator is None:
        metrics = measure(probabilities, gold, names, rows_per_second=rows_per_second)
        mistakes = most_confident_mistakes(probabilities, gold, texts, names, locations=locations)
    else:
        from elmo.classify.label_sets import measure_label_sets, wrong_label_sets

        metrics = measure_label_sets(
            probabilities, gold, names, thresholds, rows_per_second=rows_per_second
        )
        mistakes = wrong_label_sets(
            probabilities, gold, texts, names, separator,
            thresholds=thresholds, locations=locations,
        )  # fmt: skip
    return Evaluation(metrics, tuple(mistakes), tuple(empty))


def most_confident_mistakes(
    probabilities: Probabilities,
    gold: Ints,
    texts: Sequence[str],
    names: Sequence[str],
    count: int = 20,
    *,
    locations: Sequence[str] | None = None,
) -> list[Mistake]:
    """The wrong predictions of highest probability: often a wrong label, always worth reading."""
    predicted = probabilities.argmax(1)
    wrong = np.flatnonzero(predicted != gold)
    order = np.argsort(-probabilities.max(1)[wrong], kind="stable")
    rows: list[int] = wrong[order[:count]].tolist()
    return [
        Mistake(
            row=row,
            place=None if locations is None else locations[row],
            text=texts[row],
            gold=names[int(gold[row])],
            predicted=names[int(predicted[row])],
            probability=float(probabilities[row, predicted[row]]),
            gold_probability=float(probabilities[row, gold[row]]),
        )
        for row in rows
    ]


# Intervals.


def standard_error(accuracy: float, count: int) -> float:
    # The correlation of scores may be negative; nothing was learned then.
    return sqrt(max(0.0, accuracy * (1 - accuracy)) / count)


def wilson(right: int, count: int) -> Estimate:
    """Accuracy with Wilson's interval, which stays within 0 and 1."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    rate = right / count
    centre = (rate + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * sqrt(rate * (1 - rate) / count + z**2 / (4 * count**2))
    return Estimate(rate, max(0.0, centre - half), min(1.0, centre + half))


def bootstrap_macro_f1(cells: Ints, counts: Ints, classes: int, seed: int) -> Estimate:
    """Mean F1 of the classes that occur or are predicted, with its percentile interval.

    The interval is over tests resampled from this one. Resampling rows with replacement is a
    multinomial draw of the confusion matrix's cells that are not 0, (2, cells), by their counts.
    """
    random = np.random.default_rng(seed)
    right = cells[0] == cells[1]

    def score(drawn: Ints) -> float:
        both = sum(np.bincount(side, weights=drawn, minlength=classes) for side in cells)
        of_right = np.bincount(cells[0][right], weights=drawn[right], minlength=classes)
        return float(mean_f1(of_right[None], np.asarray(both)[None])[0])

    rates = counts / counts.sum()
    scores = [score(random.multinomial(counts.sum(), rates)) for _ in range(RESAMPLES)]
    return percentiles(score(counts), np.array(scores))


def mean_f1(right: NDArray[np.number], both: NDArray[np.number]) -> NDArray[np.float64]:
    """Mean over classes from the counts of right rows, and of true plus predicted rows."""
    scores = 2 * right / np.maximum(1, both)  # (matrices, classes)
    return scores.sum(1) / np.maximum(1, (both > 0).sum(1))


def percentiles(value: float, scores: NDArray[np.float64]) -> Estimate:
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(scores, [tail, 100 - tail])
    return Estimate(value, float(low), float(high))


# Two classifiers on the same rows.


def compare(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Comparison:
    """Compare two classifiers, each trained with several seeds, by which rows they have right.

    The p-value is that of a permutation test over rows: if both were equally good, the two could
    swap all their answers to any row. The distribution is exact, and with one seed each it is
    McNemar's exact test. Rows are what the test permutes because they are the sample; the seeds of
    a row stay together, so that three seeds do not count as three times the rows. What seeds add
    to the uncertainty is in the interval: the variance of the difference is that over rows plus
    that over the seeds of either classifier (rows and seeds crossed), and Student's t has
    Satterthwaite's degrees of freedom.

    Args:
        first: whether each row is right, (seeds, rows) or (rows,).
        second: the same for the same rows; the number of seeds may differ.
    """
    stats: Any = require_extra("scipy.stats", "study")
    first, second = np.atleast_2d(first), np.atleast_2d(second)
    rows = first.shape[1]
    if rows != second.shape[1] or not rows:
        raise UserError(
            f"expected the same rows of both classifiers, got {rows} and {second.shape[1]}"
        )
    by_row = first.mean(0) - second.mean(0)
    difference = float(first.mean() - second.mean())
    # (variance of the mean, degrees of freedom) over rows, over the seeds of one, of the other.
    parts = [(by_row.var(ddof=1) / rows, rows - 1)] if rows > 1 else []
    parts += [
        (some.mean(1).var(ddof=1) / len(some), len(some) - 1)
        for some in (first, second)
        if len(some) > 1
    ]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / df for part, df in parts) if variance else 1.0
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * sqrt(variance)
    # Whole numbers: the differences by row times the seeds of both.
    steps = len(second) * first.sum(0) - len(first) * second.sum(0)
    return Comparison(
        difference=difference,
        low=max(-1.0, difference - half),
        high=min(1.0, difference + half),
        p=sign_flip_p(steps),
        standard_error=sqrt(variance),
    )


def sign_flip_p(steps: Ints) -> float:
    """How probable a sum at least as far from 0 is if the sign of each whole number is random."""
    sizes, counts = np.unique(np.abs(steps[steps != 0]), return_counts=True)
    if not len(sizes):
        return 1.0
    sizes = sizes // np.gcd.reduce(sizes)
    total = int(sizes @ counts)
    observed = abs(int(steps.sum())) // int(np.gcd.reduce(np.abs(steps)))
    if total > EXACT_UP_TO:
        return erfc(observed / sqrt(2 * float(sizes**2 @ counts)))
    # Twice the sum of the positive numbers less the total; of each size, a binomial number is
    # positive. No term is negative, so that even the smallest p has all its digits.
    chances = np.ones(1)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        binomial = np.zeros(size * count + 1)
        logs = [
            lgamma(count + 1) - lgamma(heads + 1) - lgamma(count - heads + 1) - count * log(2)
            for heads in range(count + 1)
        ]
        binomial[::size] = np.exp(logs)
        chances = np.convolve(chances, binomial)
    tails = np.abs(2 * np.arange(total + 1) - total) >= observed
    return min(1.0, float(chances[tails].sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: reject those below a level, and no more than that is wrong."""
    order = np.argsort(p_values, kind="stable")
    factors = len(order) - np.arange(len(order))
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(np.array(p_values)[order] * factors))
    return adjusted.tolist()


def detectable(error: float, comparisons: int = 1) -> float:
    """The difference that is found with a probability of 0.8 among this many comparisons."""
    normal = NormalDist()
    level = (1 - LEVEL) / (2 * max(1, comparisons))
    return (normal.inv_cdf(1 - level) + normal.inv_cdf(POWER)) * error

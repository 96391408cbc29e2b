"""How sure a figure is: 95 percent intervals of accuracy and of macro F1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

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

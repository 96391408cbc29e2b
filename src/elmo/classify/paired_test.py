"""Whether one classifier is better than another on the same rows, or was merely lucky."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, erfc, sqrt

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError

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

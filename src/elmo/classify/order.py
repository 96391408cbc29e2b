"""The order in which texts are learned from: random, but those of like length side by side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
BATCHES_SORTED = 50
"""Texts are sorted by length within so many batches: little padding, and still much chance."""


def shuffled_batches(rows: Rows, lengths: Rows, batch: int, seed: int, epoch: int) -> list[Rows]:
    """Each row once, in batches of texts of like length; a function of seed and epoch."""
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(rows)
    batches = [
        some
        for portion in _cut(order, BATCHES_SORTED * batch)
        for some in _cut(portion[np.argsort(lengths[portion], kind="stable")], batch)
    ]
    return [batches[place] for place in random.permutation(len(batches))]


def batches_by_length(rows: Rows, lengths: Rows, batch: int) -> list[Rows]:
    """Each row once, the shortest texts first."""
    return list(_cut(rows[np.argsort(lengths[rows], kind="stable")], batch))


def _cut(rows: Rows, size: int) -> Iterator[Rows]:
    return (rows[start : start + size] for start in range(0, len(rows), size))

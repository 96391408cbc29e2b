"""Rows drawn class by class: a development part, or the same few of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError

Rows = NDArray[np.int64]
_SHOWN = 5


class Split(NamedTuple):
    """Row numbers of the two parts, each in rising order."""

    train: Rows
    development: Rows


def development_split(
    labels: Rows, share: float, seed: int, names: Sequence[str] | None = None
) -> Split:
    """Set aside this share of every class, at least one row of it and never all."""
    if not 0 < share < 1:
        raise UserError(f"expected a development share between 0 and 1, got {share}")
    _require(labels, 2, "one for training and one for development", names)
    classes = _shuffled_classes(labels, seed)
    sizes = [min(max(1, round(share * len(rows))), len(rows) - 1) for rows in classes]
    development = [rows[:size] for rows, size in zip(classes, sizes, strict=True)]
    train = [rows[size:] for rows, size in zip(classes, sizes, strict=True)]
    return Split(np.sort(np.concatenate(train)), np.sort(np.concatenate(development)))


def few_labels(labels: Rows, per_class: int, seed: int, names: Sequence[str] | None = None) -> Rows:
    """Draw this many rows of every class; of the same seed, fewer are a part of more."""
    if per_class < 1:
        raise UserError(f"expected at least one row a class, got {per_class}")
    _require(labels, per_class, "as many as were asked for", names)
    return np.sort(np.concatenate([rows[:per_class] for rows in _shuffled_classes(labels, seed)]))


def _shuffled_classes(labels: Rows, seed: int) -> list[Rows]:
    """The rows of each class that occurs, in random order."""
    order = np.random.default_rng(seed).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    return np.split(by_class, np.flatnonzero(np.diff(labels[by_class])) + 1)


def _require(labels: Rows, least: int, why: str, names: Sequence[str] | None) -> None:
    if not len(labels):
        raise UserError("expected labelled rows, but there are none")
    classes, counts = np.unique(labels, return_counts=True)
    small = np.flatnonzero(counts < least)
    if len(small):
        found = [f"{_name(int(classes[one]), names)} has {counts[one]:,}" for one in small[:_SHOWN]]
        more = f" and {len(small) - _SHOWN:,} classes more" if len(small) > _SHOWN else ""
        raise UserError(
            f"every class needs at least {least:,} rows, {why}, but {', '.join(found)}{more}; "
            "add rows, leave these classes out, or check --label-column"
        )


def _name(one: int, names: Sequence[str] | None) -> str:
    return f"class {one}" if names is None else repr(names[one])

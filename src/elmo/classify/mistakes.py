"""The mistakes a classifier was surest of: often a wrong label, always worth reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.classify.metrics import Probabilities, check_predictions


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

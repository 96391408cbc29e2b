"""What one training or one control gave: everything that later steps and the report need of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.classify.metrics import Metrics, measure
from elmo.study.data import StudyData


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How good a classifier is, and what it took."""

    development_accuracy: float
    train: Metrics | None
    """None where only the test rows were asked."""
    test: Metrics
    predictions: tuple[int, ...]
    """The class given to each test row."""
    training_seconds: float
    texts_per_second: float
    """Predicting the test rows, from words to classes, without a biLM's reading of them."""
    parameters: int
    """Numbers that were learned."""
    layer_weights: tuple[float, ...] | None = None
    gamma: float | None = None


def measured(
    data: StudyData, probabilities: NDArray[np.floating], rows: NDArray[np.int64]
) -> Metrics:
    """Compare the probabilities of some rows with their classes."""
    return measure(probabilities, data.classes[rows], data.labels)

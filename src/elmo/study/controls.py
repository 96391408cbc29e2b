"""What every embedding must beat: the most frequent class, and TF-IDF with a linear machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import require_extra
from elmo.study.data import StudyData
from elmo.study.outcome import Outcome, measured

STRENGTHS = (0.1, 0.2, 0.5, 1.0)
Probabilities = NDArray[np.float64]


def majority(data: StudyData) -> Outcome:
    """Always the most frequent class of the training rows, sure of it as often as it occurs."""
    started = time.monotonic()
    shares = np.bincount(data.classes[data.train], minlength=len(data.labels)) / data.train_count
    seconds = time.monotonic() - started

    def guess(rows: NDArray[np.int64]) -> Probabilities:
        return np.tile(shares, (len(rows), 1))

    return _outcome(data, guess, float(shares.max()), seconds, parameters=len(shares))


def tfidf(data: StudyData, strength: float, per_class: int | None = None, seed: int = 0) -> Outcome:
    """TF-IDF of words and pairs with a linear SVM of this strength, fitted to all training rows.

    What it says of development rows is said by a machine that has not seen them.
    """
    split = data.part(None, per_class, seed)
    chooser = _fitted(data, split.train, strength)
    right = _predicted(data, chooser, split.development) == data.classes[split.development]
    every = data.train if per_class is None else np.concatenate(split)
    started = time.monotonic()
    machine = _fitted(data, every, strength)
    seconds = time.monotonic() - started

    def guess(rows: NDArray[np.int64]) -> Probabilities:
        return _shares(machine.decision_function(_texts(data, rows)))

    parameters = int(machine[-1].coef_.size + machine[-1].intercept_.size)
    return _outcome(data, guess, float(right.mean()), seconds, parameters)


def words_and_pairs(words: Sequence[str]) -> list[str]:
    """The words of a text and its pairs of neighbours, in lower case."""
    lower = [word.lower() for word in words]
    return [*lower, *(f"{one} {other}" for one, other in pairwise(lower))]


def _fitted(data: StudyData, rows: NDArray[np.int64], strength: float) -> Any:
    text, pipeline, svm = (
        require_extra(f"sklearn.{name}", "study")
        for name in ("feature_extraction.text", "pipeline", "svm")
    )
    # Of few texts a word seen once is all there is.
    least = 2 if len(rows) > 1000 else 1
    vectorizer = text.TfidfVectorizer(analyzer=words_and_pairs, sublinear_tf=True, min_df=least)
    machine = pipeline.make_pipeline(vectorizer, svm.LinearSVC(C=strength, random_state=0))
    return machine.fit(_texts(data, rows), data.classes[rows])


def _texts(data: StudyData, rows: NDArray[np.int64]) -> list[list[str]]:
    return [data.words[int(row)] for row in rows]


def _predicted(data: StudyData, machine: Any, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return machine.predict(_texts(data, rows))


def _shares(scores: NDArray[np.float64]) -> Probabilities:
    """Distances from the boundaries as shares: they rank, but are no probabilities of a model."""
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _outcome(
    data: StudyData, guess: Any, development: float, seconds: float, parameters: int
) -> Outcome:
    since = time.monotonic()
    test = guess(data.test)
    pace = len(data.test) / max(time.monotonic() - since, 1e-9)
    return Outcome(
        development_accuracy=development,
        train=measured(data, guess(data.train), data.train),
        test=measured(data, test, data.test),
        predictions=tuple(test.argmax(1).tolist()),
        training_seconds=seconds,
        texts_per_second=pace,
        parameters=parameters,
    )

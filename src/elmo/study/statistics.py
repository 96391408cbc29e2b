"""Figures over seeds, and pairs of rows compared on the same test rows."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from elmo.classify.intervals import wilson
from elmo.classify.paired_test import mcnemar
from elmo.study.data import StudyData
from elmo.study.outcome import Outcome
from elmo.study.results import Paired, Spread


def spread(values: Sequence[float], count: int) -> Spread:
    """Mean and deviation over seeds, and the interval of a share of `count` rows."""
    mean = statistics.fmean(values)
    interval = wilson(round(mean * count), count)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(mean=mean, deviation=deviation, low=interval.low, high=interval.high)


def paired(data: StudyData, this: Outcome, other: Outcome, name: str) -> Paired:
    """McNemar's test of two classifiers on the test rows."""
    gold = data.classes[data.test]
    found = mcnemar(np.array(this.predictions) == gold, np.array(other.predictions) == gold)
    return Paired(against=name, only_this=found.only_first, only_other=found.only_second, p=found.p)

"""One training of the classifier's network on one embedding: the step that all else is made of."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.checkpoint import LoadedModel
from elmo.classify.config import ClassifierConfig
from elmo.classify.loop import Task, learn, scores_of
from elmo.classify.network import ClassifierNetwork, seeded_network
from elmo.classify.own_words import begin_as_given
from elmo.classify.phases import Features, Phase, phases
from elmo.classify.reports import EpochReport, StepReport, kept_epoch
from elmo.classify.text_rows import TextRows
from elmo.study.data import StudyData
from elmo.study.outcome import Outcome, measured
from elmo.study.progress import OnShare


class Embedding(Features, Protocol):
    """Features that can be had for other words with own vectors."""

    def for_texts(self, texts: TextRows) -> Self:
        """The same features for the same texts."""
        ...


@dataclass(frozen=True)
class Reading:
    """An embedding, and the shape of what it gives for a word."""

    features: Embedding
    layers: int
    dim: int
    fine_tuned: LoadedModel | None = None
    """The biLM that learns too, if it does."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Which classifier to train on which rows."""

    config: ClassifierConfig
    rows: int | None = None
    """So many at random; none: all."""
    per_class: int | None = None
    """So many labels a class; none: all."""
    measures_train: bool = True
    least_steps: int = 1
    """Of few rows more epochs are read, so that there are so many steps."""


def train_network(
    data: StudyData, reading: Reading, training: Training, on_share: OnShare = lambda share: None
) -> Outcome:
    """Train, choose the epoch on development rows, and ask the test rows once."""
    started = time.monotonic()
    config = training.config
    seed = config.learning.seed
    split = data.part(training.rows, training.per_class, seed)
    texts = data.rows_for(split, config.network.own_min_count)
    network = seeded_network(
        config.network,
        seed,
        layers=reading.layers,
        dim=reading.dim,
        classes=len(data.labels),
        own_vocabulary=len(texts.own),
    )
    if data.word_vectors is not None and network.own_words is not None:
        begin_as_given(network.own_words.weight, texts.own, data.word_vectors)
    history: list[EpochReport] = []
    task = Task(texts, data.classes, split)
    phase = _learn(network, reading, task, training, on_share, history)
    seconds = time.monotonic() - started
    kept = kept_epoch(history)
    assert kept is not None
    return _outcome(data, network, phase, texts, training, kept, seconds)


def _learn(
    network: ClassifierNetwork,
    reading: Reading,
    task: Task,
    training: Training,
    on_share: OnShare,
    history: list[EpochReport],
) -> Phase:
    learning = training.config.learning
    texts = len(task.split.train)
    alone = learning.enough_epochs(texts, learning.epochs_for(texts), training.least_steps)
    tuned = learning.fine_tuning.fine_tune_epochs

    def report(one: StepReport | EpochReport) -> None:
        if isinstance(one, StepReport):
            first = one.phase == "network"
            behind, now = (0, alone) if first else (alone, tuned)
            on_share((behind + one.done * now) / (alone + tuned))

    features = reading.features.for_texts(task.texts)
    model = None if reading.fine_tuned is None else reading.fine_tuned.model
    phase: Phase | None = None
    for phase in phases(network, features, task.texts, model, learning, alone):
        learn(network, phase, task, learning, report, history)
    assert phase is not None
    return phase


def _outcome(
    data: StudyData,
    network: ClassifierNetwork,
    phase: Phase,
    texts: TextRows,
    training: Training,
    kept: EpochReport,
    seconds: float,
) -> Outcome:
    lengths = texts.lengths
    since = time.monotonic()
    test = _probabilities(network, phase, data.test, lengths)
    pace = len(data.test) / (time.monotonic() - since)
    train = None
    if training.measures_train:
        train = measured(data, _probabilities(network, phase, data.train, lengths), data.train)
    learned = [network, *(module for part in phase.parts for module in part.modules)]
    parameters = {id(one): one.numel() for module in learned for one in module.parameters()}
    return Outcome(
        development_accuracy=kept.development_accuracy,
        train=train,
        test=measured(data, test, data.test),
        predictions=tuple(test.argmax(1).tolist()),
        training_seconds=seconds,
        texts_per_second=pace,
        parameters=sum(parameters.values()),
        layer_weights=network.mix.weights,
        gamma=network.mix.gamma,
    )


def _probabilities(
    network: ClassifierNetwork, phase: Phase, rows: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.float32]:
    scores: torch.Tensor = scores_of(network, phase, rows, lengths)
    return scores.softmax(dim=1).numpy()

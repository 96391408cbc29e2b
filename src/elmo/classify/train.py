"""From labelled texts and a biLM to a classifier, all in memory."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.checkpoint import LoadedModel
from elmo.classify.checkpoints import Checkpoints
from elmo.classify.classifier import TextClassifier
from elmo.classify.config import ClassifierConfig, LearningConfig
from elmo.classify.features import FrozenFeatures
from elmo.classify.labelled import LabelledTexts
from elmo.classify.labels import Labels
from elmo.classify.loop import LossIsNoNumberError, Task, learn, scores_of
from elmo.classify.network import ClassifierNetwork, seeded_network
from elmo.classify.own_words import begin_as_given, check_given, own_vocabulary, with_given
from elmo.classify.phases import FINE_TUNING, Phase, phases
from elmo.classify.reports import EpochReport, Listener
from elmo.classify.split import Split, development_split
from elmo.classify.text_rows import TextRows, cut_into_words
from elmo.config import check
from elmo.contextual.progress import Listener as TextListener
from elmo.contextual.progress import Pace
from elmo.errors import UserError
from elmo.static.vectors import StaticVectors


@dataclass(frozen=True)
class Surroundings:
    """What a training needs of the machine, and who watches it; none of it changes the result."""

    scratch: Path = Path()
    """Folder for layers that do not fit into memory."""
    on_report: Listener = lambda report: None
    on_texts: TextListener = lambda progress: None
    """Told how far the biLM's one reading of all texts is."""
    features: FrozenFeatures | None = None
    """The layers of just these texts by just this biLM, if they were computed before."""
    checkpoints: Checkpoints | None = None
    """Where to go on from, and to keep how far the training is."""


@dataclass(frozen=True)
class Trained:
    """A classifier, and how it came about."""

    classifier: TextClassifier
    history: list[EpochReport]
    split: Split
    probabilities: NDArray[np.float32]
    """Of all texts given, those for development too."""
    classes: NDArray[np.int64]
    """The right class of each text."""
    seconds: float
    trouble: str | None
    """Why the training ended early, if it went astray after a good epoch."""


def train(
    loaded: LoadedModel,
    data: LabelledTexts,
    config: ClassifierConfig,
    surroundings: Surroundings | None = None,
    word_vectors: StaticVectors | None = None,
) -> Trained:
    """Train a classifier on texts and their labels; fine-tuning changes the biLM given.

    Own word vectors begin as the `word_vectors`, if there are any.
    """
    check(config)
    if word_vectors is not None:
        check_given(word_vectors, config.network.own_words)
        config = replace(config, network=replace(config.network, own_lower_case=True))
    started = time.monotonic()
    around = surroundings or Surroundings()
    labels, task = _task(loaded, data, config, word_vectors)
    bilm = loaded.model.config
    network = seeded_network(
        config.network,
        config.learning.seed,
        layers=1 + bilm.layers,
        dim=2 * bilm.width,
        classes=len(labels),
        own_vocabulary=len(task.texts.own),
    )
    if word_vectors is not None and network.own_words is not None:
        begin_as_given(network.own_words.weight, task.texts.own, word_vectors)
    network = network.to(loaded.model.device)
    checkpoints = around.checkpoints
    history = [] if checkpoints is None else checkpoints.history
    loaded.model.requires_grad_(False)
    phase, trouble = _learn(network, loaded, task, config, around, history)
    loaded.model.requires_grad_(False)
    every = np.arange(len(task.texts))
    scores = scores_of(network, phase, every, task.texts.lengths)
    return Trained(
        classifier=TextClassifier(loaded, network, task.texts.own, labels, config),
        history=history,
        split=task.split,
        probabilities=scores.softmax(dim=1).cpu().numpy(),
        classes=task.classes,
        seconds=time.monotonic() - started if checkpoints is None else checkpoints.seconds,
        trouble=trouble,
    )


def _task(
    loaded: LoadedModel,
    data: LabelledTexts,
    config: ClassifierConfig,
    word_vectors: StaticVectors | None,
) -> tuple[Labels, Task]:
    if data.labels is None:
        raise UserError("expected labelled texts to learn from, but these have no labels")
    labels = Labels.of(data.labels)
    classes = labels.encode(data.labels, data.places)
    learning = config.learning
    split = development_split(classes, learning.development_share, learning.seed, labels.names)
    words = cut_into_words(loaded, data.texts, config.network.max_words)
    # Texts for development must not say which words are known.
    own = own_vocabulary([words[int(row)] for row in split.train], config.network.own_min_count)
    if word_vectors is not None:
        own = with_given(own, word_vectors)
    weights = _class_weights(classes[split.train], len(labels), config)
    device = loaded.model.device
    weights = None if weights is None else weights.to(device)
    texts = TextRows(words, own, config.network.own_lower_case)
    return labels, Task(texts, classes, split, weights)


def _learn(
    network: ClassifierNetwork,
    loaded: LoadedModel,
    task: Task,
    config: ClassifierConfig,
    around: Surroundings,
    history: list[EpochReport],
) -> tuple[Phase, str | None]:
    """Go through the phases; gives the last one, and what went wrong in it, if anything did."""
    learning = config.learning
    checkpoints = around.checkpoints
    has_learned_alone = checkpoints is not None and checkpoints.phase == FINE_TUNING
    features = None if has_learned_alone else _features(loaded, task, learning, around)
    phase: Phase | None = None
    trouble: str | None = None
    try:
        epochs = learning.epochs_for(len(task.split.train))
        for phase in phases(network, features, task.texts, loaded.model, learning, epochs):
            with nullcontext() if checkpoints is None else checkpoints.watched():
                learn(network, phase, task, learning, around.on_report, history, checkpoints)
    except LossIsNoNumberError as error:
        if not history:
            raise
        trouble = str(error)
    assert phase is not None
    return phase, trouble


def _features(
    loaded: LoadedModel, task: Task, learning: LearningConfig, around: Surroundings
) -> FrozenFeatures:
    if around.features is not None:
        return around.features.for_texts(task.texts)
    return FrozenFeatures.compute(
        task.texts,
        loaded.model,
        memory=learning.feature_memory,
        folder=around.scratch,
        on_texts=Pace(around.on_texts, len(task.texts)).add,
    )


def _class_weights(
    classes: NDArray[np.int64], number: int, config: ClassifierConfig
) -> Tensor | None:
    """Weights of mean 1 over the texts, so that the loss stays comparable."""
    if config.learning.class_weights == "none":
        return None
    counts = np.bincount(classes, minlength=number)
    return torch.from_numpy(len(classes) / (number * counts)).float()

"""Training learns, keeps an epoch as good as the best, and stops at a loss that is no number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.classify.toy import WORDS, toy_config, toy_model, toy_texts

from elmo.classify.config import LearningConfig
from elmo.classify.features import FrozenFeatures
from elmo.classify.labels import Labels
from elmo.classify.loop import LossIsNoNumberError, Task, learn, scores_of
from elmo.classify.network import ClassifierNetwork
from elmo.classify.own_words import own_vocabulary
from elmo.classify.phases import Phase, Read, network_phase
from elmo.classify.reports import EpochReport, StepReport, best_epoch, kept_epoch
from elmo.classify.split import development_split
from elmo.classify.text_rows import TextRows, cut_into_words

LOADED = toy_model()


class Setting:
    """A network with its task, fresh but always the same."""

    def __init__(self, tmp_path: Path, learning: LearningConfig | None = None) -> None:
        data = toy_texts()
        labels = Labels.of(data.labels or ())
        classes = labels.encode(data.labels or (), data.places)
        words = cut_into_words(LOADED, data.texts, 100)
        texts = TextRows(words, own_vocabulary([WORDS], 1))
        self.config = toy_config(learning=learning)
        self.task = Task(texts, classes, development_split(classes, 0.2, 0))
        features = FrozenFeatures.compute(texts, LOADED.model, memory=1, folder=tmp_path)
        torch.manual_seed(0)
        self.network = ClassifierNetwork(self.config.network, 3, 12, 2, len(texts.own))
        learning = self.config.learning
        epochs = learning.epochs_for(len(self.task.split.train))
        self.phase = network_phase(self.network, features, learning, epochs)
        self.history: list[EpochReport] = []
        self.steps: list[StepReport] = []

    def note(self, report: StepReport | EpochReport) -> None:
        if isinstance(report, StepReport):
            self.steps.append(report)

    def learn(self, phase: Phase | None = None) -> None:
        learning = self.config.learning
        learn(self.network, phase or self.phase, self.task, learning, self.note, self.history)

    def accuracy(self) -> float:
        rows = self.task.split.development
        scores = scores_of(self.network, self.phase, rows, self.task.texts.lengths)
        return float((scores.argmax(1).numpy() == self.task.classes[rows]).mean())


def test_the_toy_task_is_learned_and_an_epoch_kept(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.learn()
    assert [report.epoch for report in setting.history] == [1, 2, 3, 4, 5, 6]
    kept = kept_epoch(setting.history)
    assert kept is not None
    assert kept.development_accuracy >= 0.9
    assert setting.accuracy() == kept.development_accuracy
    assert setting.steps[-1].done == 1
    assert all(report.mix_weights and sum(report.mix_weights) == pytest.approx(1, abs=1e-5)
               for report in setting.history)  # fmt: skip


def test_the_same_seed_gives_the_same_network(tmp_path: Path) -> None:
    one, other = Setting(tmp_path), Setting(tmp_path)
    one.learn()
    other.learn()
    states = one.network.state_dict(), other.network.state_dict()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_scores_come_in_the_order_of_the_rows(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    rows = np.array([7, 3, 50, 4])
    scores = scores_of(setting.network, setting.phase, rows, setting.task.texts.lengths)
    for place, row in enumerate(rows):
        with torch.no_grad():
            alone = setting.network(setting.phase.read([int(row)], None).layers)[0]
        torch.testing.assert_close(scores[place], alone, rtol=0, atol=1e-5)


def test_patience_ends_a_training_that_does_not_get_better(tmp_path: Path) -> None:
    learning = LearningConfig(epochs=9, batch_texts=8, learning_rate=1e-12, patience=2)
    setting = Setting(tmp_path, learning)
    setting.learn()
    assert len(setting.history) < 9
    best = best_epoch(setting.history)
    assert best is not None
    assert setting.history[-1].epoch - best.epoch == 2


def test_a_loss_that_is_no_number_stops_and_restores(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    per_epoch = -(-len(setting.task.split.train) // 8)
    calls = 0

    def spoiled(rows: object, random: object) -> Read:
        nonlocal calls
        calls += random is not None
        read = setting.phase.read(rows, random)  # pyright: ignore
        if calls == per_epoch + 2:
            read.layers.layers.values.fill_(torch.nan)  # pyright: ignore
        return read

    phase = Phase("network", 3, setting.phase.parts, spoiled)  # pyright: ignore
    with pytest.raises(LossIsNoNumberError, match=r"epoch 2 \(network\).*epoch 1 is kept"):
        setting.learn(phase)
    assert setting.accuracy() == setting.history[0].development_accuracy
    assert all(torch.isfinite(one).all() for one in setting.network.state_dict().values())

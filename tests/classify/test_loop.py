"""The loop learns, keeps an epoch as good as the best, and stops at a loss that is no number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.classify.toy import WORDS, toy_config, toy_model, toy_texts
from torch import nn
from torch.optim import AdamW

from elmo.bilm.model import Randomness
from elmo.classify.config import FineTuningConfig, LearningConfig, NetworkConfig
from elmo.classify.data import development_split, encode_labels, label_names
from elmo.classify.features import (
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
    cut_texts,
    tokenize_texts,
)
from elmo.classify.loop import (
    EpochReport,
    LossIsNaNError,
    Phase,
    PhaseState,
    StepReport,
    Task,
    best_epoch,
    build_optimizers,
    clip_gradients,
    fine_tuning_phase,
    kept_epoch,
    kept_report,
    learn,
    network_phase,
    scores_of,
    set_rates,
    stop_reason,
)
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.embed.config import MixConfig

LOADED = toy_model()


class Setting:
    """A network with its task, fresh but always the same."""

    def __init__(self, tmp_path: Path, learning: LearningConfig | None = None) -> None:
        data = toy_texts()
        classes = encode_labels(data.labels or (), label_names(data.labels or ()))
        words = cut_texts(tokenize_texts(LOADED, data.texts), 100)
        texts = TokenizedTexts(words, build_task_vocabulary([WORDS], 1))
        self.config = toy_config(learning=learning)
        self.task = Task(texts, classes, development_split(classes, 0.2, 0))
        features = FrozenFeatures.compute(texts, LOADED.model, memory=1, folder=tmp_path)
        torch.manual_seed(0)
        self.network = ClassifierNetwork(self.config.network, 3, 12, 2, len(texts.task_vocabulary))
        learning = self.config.learning
        self.phase = network_phase(self.network, features, learning)
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
            alone = setting.network(setting.phase.read([int(row)], None)[0])[0]
        torch.testing.assert_close(scores[place], alone, rtol=0, atol=1e-5)


def test_patience_ends_a_training_that_does_not_get_better(tmp_path: Path) -> None:
    learning = LearningConfig(epochs=9, batch_texts=8, learning_rate=1e-12, patience=2)
    setting = Setting(tmp_path, learning)
    setting.learn()
    assert len(setting.history) < 9
    best = best_epoch(setting.history)
    assert best is not None
    assert setting.history[-1].epoch - best.epoch == 2


def test_patience_counts_the_epochs_of_one_phase(tmp_path: Path) -> None:
    """The network was best at epoch 5 of 12: fine-tuning still has three epochs to be better."""
    accuracies = [0.5] * 4 + [0.9] + [0.5] * 7
    history = [report(epoch, value) for epoch, value in enumerate(accuracies, 1)]
    config = LearningConfig(epochs=12, patience=3)
    phase = Setting(tmp_path).phase._replace(name="fine-tuning", epochs=8)
    for epoch in (13, 14, 15):
        assert stop_reason(phase, history, 48, config) is None
        history.append(replace(report(epoch, 0.6), phase=phase.name))
    assert stop_reason(phase, history, 48, config) == "no better epoch for 3 epochs"


def test_a_loss_that_is_no_number_stops_and_restores(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    per_epoch = -(-len(setting.task.split.train) // 8)
    calls = 0

    def spoiled(rows: object, random: object) -> tuple[TextLayers, None]:
        nonlocal calls
        calls += random is not None
        read = setting.phase.read(rows, random)  # pyright: ignore
        if calls == per_epoch + 2:
            read[0].layers.values.fill_(torch.nan)  # pyright: ignore
        return read

    phase = Phase("network", 3, setting.phase.parts, spoiled)  # pyright: ignore
    with pytest.raises(LossIsNaNError, match=r"epoch 2 \(network\).*epoch 1 is kept"):
        setting.learn(phase)
    assert setting.accuracy() == setting.history[0].development_accuracy
    assert all(torch.isfinite(one).all() for one in setting.network.state_dict().values())


# Lower layers of the biLM start to learn later, and more slowly, than those above them.


def phase(**settings: float) -> Phase:
    own = build_task_vocabulary([WORDS], 1)
    network = ClassifierNetwork(toy_config().network, 3, 12, 2, len(own))
    learning = LearningConfig(text_rate=0.25, fine_tuning=FineTuningConfig(**settings))  # pyright: ignore
    return fine_tuning_phase(network, TokenizedTexts([["the", "cat"]], own), LOADED.model, learning)


def learning_parts(one: Phase) -> list[bool]:
    return [
        all(p.requires_grad for module in part.modules for p in module.parameters())
        for part in one.parts
    ]


def test_layers_wake_from_the_top() -> None:
    one = phase(unfreeze_epochs=0.5)
    optimizers = build_optimizers(one, LearningConfig(weight_decay=0.0))
    seen: list[list[bool]] = []
    for done in (0.0, 0.49, 0.5, 1.0):
        set_rates(one, optimizers, 0.1, done)
        seen.append(learning_parts(one))
    network_and_top = [True, True, True]
    assert seen == [
        [*network_and_top, False, False],
        [*network_and_top, False, False],
        [*network_and_top, True, False],
        [*network_and_top, True, True],
    ]
    top, token = one.parts[2].modules, one.parts[-1].modules
    assert top == tuple(stack.layers[1] for stack in LOADED.model.directions)
    assert token == (LOADED.model.token_layer,)


def test_rates_fall_with_depth_and_only_matrices_decay() -> None:
    one = phase(rate_decay=0.5, fine_tune_rate=LearningConfig().learning_rate / 2)
    dense, sparse = build_optimizers(one, LearningConfig(weight_decay=0.3))
    set_rates(one, [dense, sparse], 0.8, 0.0)
    rates = [group["lr"] for group in dense.param_groups]
    network, reader = [0.8, 0.8], [0.2, 0.2]
    assert rates == pytest.approx([*network, *reader, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1])
    assert [group["lr"] for group in sparse.param_groups] == [0.8]
    for group in dense.param_groups:
        for parameter in group["params"]:
            is_matrix = parameter.dim() > 1 and parameter.shape[0] not in (13, 3 + len(WORDS))
            assert (group["weight_decay"] > 0) == is_matrix


def test_the_language_model_loss_joins_in_training_only() -> None:
    random = Randomness.of(0, 0, torch.device("cpu"))
    assert phase(language_weight=0.0).read([0], random)[1] is None
    one = phase(language_weight=0.5)
    assert one.read([0], None)[1] is None
    loss = one.read([0], random)[1]
    assert loss is not None
    assert float(loss.detach()) > 0


def test_own_vectors_of_words_that_were_not_read_stand_still() -> None:
    network = ClassifierNetwork(NetworkConfig(task_dim=4), 3, 2, 2, task_words=9)
    own = network.task_embedding
    assert own is not None
    before = own.weight.detach().clone()
    learning = LearningConfig(learning_rate=0.1, weight_decay=0.01)
    one = network_phase(network, _NoFeatures(), learning)
    dense, sparse = build_optimizers(one, learning)
    loss = own(torch.tensor([3, 5, 3])).sum()
    loss.backward()
    sparse.step()
    changed = (own.weight.detach() != before).any(dim=1).nonzero().flatten()
    assert changed.tolist() == [3, 5]
    # The first step goes one rate along the sign of the gradient.
    torch.testing.assert_close(own.weight.detach()[[3, 5]], before[[3, 5]] - 0.1)
    assert id(own.weight) not in {
        id(one) for group in dense.param_groups for one in group["params"]
    }


@pytest.mark.parametrize("hidden", [0, 5])
def test_what_reads_a_text_and_a_learned_function_have_rates_of_their_own(hidden: int) -> None:
    config = NetworkConfig(mix=MixConfig(mix="function"), task_dim=4, hidden=hidden)
    network = ClassifierNetwork(config, 3, 2, 2, task_words=9)
    learning = LearningConfig(learning_rate=0.1, function_rate=0.5, text_rate=0.2)
    one = network_phase(network, _NoFeatures(), learning)
    optimizers = build_optimizers(one, learning)
    set_rates(one, optimizers, 0.1, 0.0)
    rates = {
        id(parameter): group["lr"]
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    reader = network.hidden if hidden else network.scores
    assert reader is not None
    expected = {id(parameter): 0.1 for parameter in network.parameters()}
    expected |= {id(parameter): 0.05 for parameter in network.mix.parameters()}
    expected |= {id(parameter): 0.02 for parameter in reader.parameters()}
    assert rates == pytest.approx(expected)


@given(st.floats(0.01, 10), st.integers(0, 100))
def test_gradients_are_clipped_as_torch_clips_dense_ones(longest: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 6, (8,), generator=random)
    weight, other = (torch.randn(6, 3, generator=random) for _ in range(2))
    tables: list[nn.Embedding] = []
    for sparse in (True, False):
        table = nn.Embedding(6, 3, _weight=weight.clone(), sparse=sparse)
        linear = nn.Parameter(other.clone())
        (table(ids).square().sum() + linear.pow(3).sum()).backward()
        if sparse:
            clip_gradients([table.weight, linear], longest)
        else:
            nn.utils.clip_grad_norm_([table.weight, linear], longest)
        tables.append(table)
        assert linear.grad is not None
    first, second = (table.weight.grad for table in tables)
    assert first is not None
    torch.testing.assert_close(first.to_dense(), second)


class _NoFeatures:
    def read(self, rows: Sequence[int]) -> TextLayers:
        raise AssertionError("nothing is read here")


# What is saved of a phase under way is all that it takes to go on.


def stand(seed: int, steps: int) -> PhaseState:
    """Two modules, one without weights, after so many steps."""
    torch.manual_seed(seed)
    layer = nn.Linear(3, 2)
    standing = PhaseState("network", [layer, nn.Dropout()], [AdamW(layer.parameters(), lr=0.1)], [])
    for _ in range(steps):
        go(standing)
    return standing


def go(standing: PhaseState) -> None:
    (optimizer,) = standing.optimizers
    optimizer.zero_grad()
    standing.modules[0](torch.ones(1, 3)).square().sum().backward()
    optimizer.step()


def test_a_restored_phase_goes_the_same_way_on_and_back() -> None:
    one, other = stand(seed=0, steps=3), stand(seed=1, steps=1)
    kept = [tensor.clone() for tensor in one.kept[0].values()]
    other.restore({name: tensor.clone() for name, tensor in one.tensors().items()})
    for standing in (one, other):
        go(standing)
    for mine, theirs in zip(*(two.modules[0].parameters() for two in (one, other)), strict=True):
        assert torch.equal(mine, theirs)
    other.restore_kept_weights()
    for mine, before in zip(other.modules[0].parameters(), kept, strict=True):
        assert torch.equal(mine, before)


def test_kept_weights_do_not_move_with_the_modules() -> None:
    standing = stand(seed=0, steps=1)
    standing.keep_weights()
    kept = standing.modules[0].weight.detach().clone()  # pyright: ignore
    go(standing)
    assert not torch.equal(standing.modules[0].weight, kept)  # pyright: ignore
    standing.restore_kept_weights()
    assert torch.equal(standing.modules[0].weight, kept)  # pyright: ignore


# The best epoch is the most accurate one; kept is the last that rows cannot tell from it.


def report(epoch: int, accuracy: float, loss: float = 1.0, rows: int = 1000) -> EpochReport:
    return EpochReport(
        phase="network", epoch=epoch, train_loss=1.0, development_loss=loss,
        development_accuracy=accuracy, development_rows=rows, mix_weights=None, gamma=None,
        seconds=1.0,
    )  # fmt: skip


def test_best() -> None:
    assert best_epoch([]) is None
    history = [report(1, 0.8, 0.5), report(2, 0.9, 0.7), report(3, 0.9, 0.6), report(4, 0.9, 0.6)]
    assert best_epoch(history) is history[2]


def test_kept_is_the_last_that_is_as_good_as_the_best() -> None:
    assert kept_epoch([]) is None
    history = [report(1, 0.891), report(2, 0.9), report(3, 0.891), report(4, 0.89)]
    assert kept_epoch(history) is history[2]  # one standard error is 0.0095
    sure = [report(one.epoch, one.development_accuracy, rows=100_000) for one in history]
    assert kept_epoch(sure) is sure[1]
    correlations = [report(1, -0.4), report(2, -0.1), report(3, -0.3)]
    assert kept_epoch(correlations) is correlations[1]


def test_each_phase_keeps_epochs_by_its_own_rule() -> None:
    network = [report(1, 0.90, 0.30), report(2, 0.95, 0.25), report(3, 0.96, 0.40)]
    tuned = [
        replace(report(4, 0.958, 0.5), phase="fine-tuning"),
        replace(report(5, 0.80, 0.1), phase="fine-tuning"),
    ]
    until_it_rises, given = LearningConfig(epochs=None), LearningConfig(epochs=3)
    assert kept_report([], given) is None
    assert kept_report(network, until_it_rises) is network[1]  # the lowest loss
    assert kept_report(network, given) is network[2]
    # No epoch of the fine-tuning is kept: that of the network is, by the network's rule.
    assert kept_report([*network, tuned[1]], until_it_rises) is network[1]
    assert kept_report([*network, *tuned], until_it_rises) is tuned[0]


def test_of_epochs_without_a_mistake_the_last_is_kept() -> None:
    history = [report(1, 1.0), report(2, 1.0), report(3, 0.999)]
    assert kept_epoch(history) is history[1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(1, 10_000))
def test_what_is_kept_changes_only_to_the_newest(accuracies: list[float], rows: int) -> None:
    """The loop has no other network than the newest to keep."""
    history = [report(number, one, rows=rows) for number, one in enumerate(accuracies)]
    for count in range(1, len(history) + 1):
        before, now = kept_epoch(history[: count - 1]), kept_epoch(history[:count])
        assert now is before or now is history[count - 1]


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        (
            [0.9, 0.7, 0.5],
            "all of its 3 epochs are done, but the development loss was still falling",
        ),
        ([0.9, 0.5, 0.499], "all of its 3 epochs are done"),
        ([0.5, 0.4, 0.45], "all of its 3 epochs are done"),
        ([0.9, 0.7], None),
    ],
)
def test_the_reason_to_stop_says_whether_more_epochs_might_help(
    tmp_path: Path, losses: list[float], reason: str | None
) -> None:
    phase = Setting(tmp_path).phase._replace(epochs=3)
    history = [
        EpochReport(
            phase=phase.name,
            epoch=epoch,
            train_loss=loss,
            development_loss=loss,
            development_accuracy=0.5,
            development_rows=50,
            mix_weights=None,
            gamma=None,
            seconds=1.0,
        )
        for epoch, loss in enumerate(losses, start=1)
    ]
    assert stop_reason(phase, history, 100, LearningConfig(epochs=3)) == reason

"""How a classifier learns: the training loop, in one function."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.model import Randomness
from elmo.classify.config import LearningConfig
from elmo.classify.network import ClassifierNetwork
from elmo.classify.order import batches_by_length, shuffled_batches
from elmo.classify.phases import Phase, build_optimizers, clip_gradients, set_rates
from elmo.classify.reports import EpochReport, Listener, StepReport, best_epoch, kept_epoch
from elmo.classify.split import Split
from elmo.classify.text_rows import TextRows
from elmo.errors import UserError
from elmo.pretrain.optimizer import learning_rate

Rows = NDArray[np.int64]
Kept = list[dict[str, Tensor]]


@dataclass(frozen=True)
class Task:
    """Texts to learn from, their classes, and which of them are for choosing."""

    texts: TextRows
    classes: Rows
    split: Split
    class_weights: Tensor | None = None


class LossIsNoNumberError(UserError):
    """The training went astray; the modules are as they were after the epoch kept before."""


def learn(
    network: ClassifierNetwork,
    phase: Phase,
    task: Task,
    config: LearningConfig,
    listener: Listener,
    history: list[EpochReport],
) -> None:
    """Train, append a report an epoch to `history`, and leave the modules as they were after the
    epoch that is kept of this phase and those before it."""
    modules = [module for part in phase.parts for module in part.modules]
    optimizers = build_optimizers(phase, config)
    kept = _copied(modules)
    train, lengths, started = task.split.train, task.texts.lengths, time.monotonic()
    total, done = phase.epochs * len(train), 0
    for _ in range(phase.epochs):
        epoch, since, summed = len(history), time.monotonic(), 0.0
        for rows in shuffled_batches(train, lengths, config.batch_texts, config.seed, epoch):
            set_rates(phase, optimizers, learning_rate(config, done / total), done / len(train))
            random = Randomness.of(
                config.seed, epoch * len(train) + done % len(train), _device(network)
            )
            loss = _loss(network, phase, task, config, rows, random)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            if config.clip:
                clip_gradients(_parameters(modules), config.clip)
            for optimizer in optimizers:
                optimizer.step()
            value = float(loss.detach())
            done, summed = done + len(rows), summed + value * len(rows)
            if not math.isfinite(value):
                _restore(modules, kept)
                raise _astray(phase, history, done)
            pace = done / (time.monotonic() - started)
            listener(
                StepReport(
                    phase=phase.name,
                    done=done / total,
                    loss=value,
                    texts_per_second=pace,
                    seconds_left=(total - done) / pace,
                )
            )
        report = _evaluated(network, phase, task, config, epoch + 1, summed / len(train), since)
        history.append(report)
        listener(report)
        if kept_epoch(history) is report:
            kept = _copied(modules)
        if _is_late(history, config.patience):
            break
    _restore(modules, kept)


def _loss(
    network: ClassifierNetwork,
    phase: Phase,
    task: Task,
    config: LearningConfig,
    rows: Rows,
    random: Randomness,
) -> Tensor:
    read = phase.read(rows.tolist(), random)
    loss = functional.cross_entropy(
        network(read.layers, random.forward),
        torch.from_numpy(task.classes[rows]).to(_device(network)),
        weight=task.class_weights,
        label_smoothing=config.label_smoothing,
    )
    loss = loss + network.penalty()
    return loss if read.language_loss is None else loss + read.language_loss


@torch.no_grad()
def scores_of(network: ClassifierNetwork, phase: Phase, rows: Rows, lengths: Rows) -> Tensor:
    """The scores of some texts, in the order of `rows`, (rows, classes)."""
    places = np.arange(len(rows))
    parts: list[Tensor] = []
    batches = batches_by_length(places, lengths[rows], 128)
    for batch in batches:
        parts.append(network(phase.read(rows[batch].tolist(), None).layers))
    scores = torch.cat(parts)
    return scores[torch.from_numpy(np.argsort(np.concatenate(batches))).to(scores.device)]


def _evaluated(
    network: ClassifierNetwork,
    phase: Phase,
    task: Task,
    config: LearningConfig,
    epoch: int,
    train_loss: float,
    since: float,
) -> EpochReport:
    rows = task.split.development
    scores = scores_of(network, phase, rows, task.texts.lengths)
    gold = torch.from_numpy(task.classes[rows]).to(scores.device)
    return EpochReport(
        phase=phase.name,
        epoch=epoch,
        train_loss=train_loss,
        development_loss=float(functional.cross_entropy(scores, gold)),
        development_accuracy=float((scores.argmax(1) == gold).double().mean()),
        development_rows=len(rows),
        mix_weights=network.mix.weights,
        gamma=network.mix.gamma,
        seconds=time.monotonic() - since,
    )


def _is_late(history: Sequence[EpochReport], patience: int | None) -> bool:
    best = best_epoch(history)
    return best is not None and patience is not None and history[-1].epoch - best.epoch >= patience


def _astray(phase: Phase, history: Sequence[EpochReport], done: int) -> LossIsNoNumberError:
    last = kept_epoch(history)
    kept = "no epoch was finished before" if last is None else f"epoch {last.epoch} is kept"
    return LossIsNoNumberError(
        f"the loss is no longer a number in epoch {len(history) + 1} ({phase.name}), after "
        f"{done:,} texts; {kept}. Use a smaller --learning-rate or --fine-tune-rate, or a smaller "
        "--clip"
    )


def _parameters(modules: Sequence[nn.Module]) -> list[nn.Parameter]:
    return [parameter for module in modules for parameter in module.parameters()]


def _copied(modules: Sequence[nn.Module]) -> Kept:
    return [
        {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        for module in modules
    ]


def _restore(modules: Sequence[nn.Module], kept: Kept) -> None:
    for module, tensors in zip(modules, kept, strict=True):
        module.load_state_dict(tensors)


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device

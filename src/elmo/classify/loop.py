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
from elmo.classify.checkpoints import Checkpoints
from elmo.classify.config import LearningConfig
from elmo.classify.network import ClassifierNetwork
from elmo.classify.order import batches_by_length, shuffled_batches
from elmo.classify.phases import Phase, build_optimizers, clip_gradients, set_rates
from elmo.classify.reports import EpochReport, Listener, StepReport, best_epoch, kept_epoch
from elmo.classify.split import Split
from elmo.classify.standing import EpochSoFar, Standing
from elmo.classify.text_rows import TextRows
from elmo.errors import UserError
from elmo.pretrain.optimizer import learning_rate

Rows = NDArray[np.int64]


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
    checkpoints: Checkpoints | None = None,
) -> None:
    """Train, append a report an epoch to `history`, and leave the modules as they were after the
    epoch that is kept of this phase and those before it.

    With checkpoints, a phase that was stopped goes on exactly as if it had not been.
    """
    modules = [module for part in phase.parts for module in part.modules]
    optimizers = build_optimizers(phase, config)
    standing = Standing(phase.name, modules, optimizers, history)
    if checkpoints is not None:
        checkpoints.restore(standing)
    train, lengths = task.split.train, task.texts.lengths
    total, read, started = phase.epochs * len(train), 0, time.monotonic()
    while not _is_over(phase, history, config.patience):
        epoch, since = len(history), time.monotonic() - standing.epoch.seconds
        batches = shuffled_batches(train, lengths, config.batch_texts, config.seed, epoch)
        behind = standing.epoch.batches
        done = _epochs(phase, history) * len(train) + sum(map(len, batches[:behind]))
        for rows in batches[behind:]:
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
            done, read = done + len(rows), read + len(rows)
            if not math.isfinite(value):
                standing.go_back()
                raise _astray(phase, history, done)
            seconds = time.monotonic() - since
            standing.epoch = standing.epoch.after_batch(value * len(rows), seconds)
            pace = read / (time.monotonic() - started)
            listener(
                StepReport(
                    phase=phase.name,
                    done=done / total,
                    loss=value,
                    texts_per_second=pace,
                    seconds_left=(total - done) / pace,
                )
            )
            if checkpoints is not None:
                checkpoints.look_after(standing)
        mean = standing.epoch.summed / len(train)
        report = _evaluated(network, phase, task, epoch + 1, mean, since)
        history.append(report)
        listener(report)
        standing.epoch = EpochSoFar()
        if kept_epoch(history) is report:
            standing.keep()
        if checkpoints is not None:
            checkpoints.look_after(standing)
    standing.go_back()


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


def _is_over(phase: Phase, history: Sequence[EpochReport], patience: int | None) -> bool:
    """Whether a phase has had all its epochs, or some without one that is better."""
    epochs, best = _epochs(phase, history), best_epoch(history)
    if not epochs or best is None or patience is None:
        return epochs >= phase.epochs
    return epochs >= phase.epochs or history[-1].epoch - best.epoch >= patience


def _epochs(phase: Phase, history: Sequence[EpochReport]) -> int:
    return sum(report.phase == phase.name for report in history)


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


def _device(network: nn.Module) -> torch.device:
    return next(network.parameters()).device

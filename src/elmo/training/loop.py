"""The training loop, in one function."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from elmo.bilm.lstm import LSTMLayer, LSTMState
from elmo.bilm.model import BatchLoss, BiLM, BiLMState, Randomness
from elmo.errors import UserError
from elmo.evaluate import Evaluation, evaluate
from elmo.text.batching import Batch, Rows, Share, Step, WordTable, count_batches, read_steps
from elmo.text.corpus import Corpus
from elmo.training.checkpoint import Checkpoint, Position, restore, save_checkpoint
from elmo.training.config import PretrainConfig, TrainingConfig
from elmo.training.distributed import World, make_whole, sum_gradients
from elmo.training.optim import build_optimizer, learning_rate, set_rate
from elmo.training.reports import EvaluationReport, Listener, StepReport

# Loss and speed between two reports.


SECONDS_BETWEEN_REPORTS = 1.0
MEMORY = 0.9
"""Weight of the past in the speed from which the time left is estimated."""


class _Sums(NamedTuple):
    """Losses and words of all processes."""

    forward: float
    backward: float
    forward_targets: float
    backward_targets: float


class Meter:
    """Sums losses on their device; they are looked at only when a report is due."""

    def __init__(self, total_targets: int, world: World | None = None) -> None:
        self._total = total_targets
        self._world = world or World()
        self._speed: float | None = None
        self.restart()

    def restart(self) -> None:
        """Start counting anew, as after a pause."""
        self._forward: Tensor | float = 0.0
        self._backward: Tensor | float = 0.0
        self._forward_targets = 0
        self._backward_targets = 0
        self._since = time.monotonic()

    def add(self, loss: BatchLoss) -> None:
        """Count a step."""
        self._forward = self._forward + loss.forward.detach()
        self._backward = self._backward + loss.backward.detach()
        self._forward_targets += loss.forward_targets
        self._backward_targets += loss.backward_targets

    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return time.monotonic() - self._since >= SECONDS_BETWEEN_REPORTS

    def check(self, position: Position) -> None:
        """Refuse to go on with a loss that is no number: its weights are worth nothing."""
        self._refuse_no_number(self._sums(), position)

    def _sums(self) -> _Sums:
        return _Sums(
            *self._world.sums(
                float(self._forward),
                float(self._backward),
                self._forward_targets,
                self._backward_targets,
            )
        )

    def _refuse_no_number(self, sums: _Sums, position: Position) -> None:
        if not math.isfinite(sums.forward + sums.backward):
            raise UserError(
                f"the loss is no longer a number at step {position.step} (epoch "
                f"{position.epoch + 1}); the last checkpoint is intact. Start anew with a smaller "
                "--learning-rate, or a smaller --clip"
            )

    def take(self, position: Position, rate: float) -> StepReport:
        """Report what was counted, and start anew."""
        sums = self._sums()
        self._refuse_no_number(sums, position)
        elapsed = max(1e-9, time.monotonic() - self._since)
        speed = sums.forward_targets / elapsed
        self._speed = speed if self._speed is None else MEMORY * self._speed + (1 - MEMORY) * speed
        report = StepReport(
            step=position.step,
            epoch=position.epoch,
            done=position.targets / self._total,
            targets=position.targets,
            loss_forward=sums.forward / max(1, sums.forward_targets),
            loss_backward=sums.backward / max(1, sums.backward_targets),
            learning_rate=rate,
            tokens_per_second=speed,
            seconds_left=(self._total - position.targets) / max(1e-9, self._speed),
        )
        self.restart()
        return report


# The state in which a batch is left, kept by those who read its parts, whole in a checkpoint.


class CarriedState:
    """Where the model stands in each part of a batch that is read here."""

    def __init__(self, share: Share, device: torch.device, whole: BiLMState | None = None) -> None:
        """Start from nothing, or from the state of a whole batch."""
        self.share = share
        self.rows = 0
        """How many rows the whole batch has."""
        self.parts: list[BiLMState | None] = [None] * share.parts
        if whole is not None:
            self.rows = len(whole.forward[0].cell)
            self.parts = [_part(whole, one, device) for one in share.rows(self.rows)]

    def whole(self, model: BiLM, world: World) -> BiLMState | None:
        """The state of all rows of the batch, from all processes."""
        if self.share.of == 1:
            return self.parts[0]
        whole = _zeros(model, self.rows)
        for part, rows in zip(self.parts, self.share.rows(self.rows), strict=True):
            if part is not None and len(rows):
                for mine, all_rows in zip(_layers(part), _layers(whole), strict=True):
                    all_rows.output[rows.places] = mine.output.float()
                    all_rows.cell[rows.places] = mine.cell
        world.sum(*(one for layer in _layers(whole) for one in (layer.output, layer.cell)))
        return whole


def _layers(state: BiLMState) -> Iterator[LSTMState]:
    return (layer for direction in state for layer in direction)


def _part(whole: BiLMState, rows: Rows, device: torch.device) -> BiLMState:
    def cut(layers: Iterable[LSTMState]) -> tuple[LSTMState, ...]:
        tensors = ((one.output[rows.places], one.cell[rows.places]) for one in layers)
        return tuple(LSTMState(output.to(device), cell.to(device)) for output, cell in tensors)

    return BiLMState(cut(whole.forward), cut(whole.backward))


def _zeros(model: BiLM, rows: int) -> BiLMState:
    like = torch.empty(0, device=model.device)
    directions = [
        tuple(cast("LSTMLayer", layer).zero_state(rows, like) for layer in stack.layers)
        for stack in model.directions
    ]
    return BiLMState(*directions)


# The first part of a run in which the biLM stays as it is and only the softmax learns.


class FrozenStart:
    """Freezes all but the softmax until so many words have been predicted a direction."""

    def __init__(self, model: BiLM, targets: float) -> None:
        self._targets = targets
        self._is_on = False
        self._parameters = [
            parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and not name.startswith("output.")
        ]

    def set_at(self, position: Position) -> None:
        """Freeze or thaw the biLM for the next step: the position alone decides, so runs resume."""
        self._is_on = position.targets < self._targets
        for parameter in self._parameters:
            parameter.requires_grad_(not self._is_on)

    def ended_at(self, position: Position) -> bool:
        """Whether the step that led here was the last one with the biLM frozen."""
        return self._is_on and position.targets >= self._targets

    def lift(self) -> None:
        """Leave the model as it was found."""
        for parameter in self._parameters:
            parameter.requires_grad_(True)


HELD_OUT_ORDER = (0,)
"""Seed of the order of the held-out texts: the first ones should not be special ones."""


def train(
    model: BiLM,
    corpus: Corpus,
    config: PretrainConfig,
    *,
    checkpoints: Path,
    checkpoint: Checkpoint | None,
    keep: Callable[[Position, Evaluation | None], None],
    report: Listener,
    stop: Callable[[], bool],
    world: World,
) -> Position:
    """Train until the end, until patience runs out, or until `stop` says so.

    `checkpoint` is where to go on from; `keep` is called with every model that is the best so far.
    All processes of the world run this at once: each reads its rows of every batch, and what they
    decide, they decide together.
    """
    settings = config.training
    optimizer = build_optimizer(model, settings)
    share = Share.of_process(world.rank, world.size, settings.accumulate)
    position, carried = Position(), CarriedState(share, model.device)
    if checkpoint is not None:
        restore(model, optimizer, checkpoint)
        position = checkpoint.position
        carried = CarriedState(share, model.device, checkpoint.state)
    table = WordTable.of(corpus.words, model.vocabulary, spelled=config.model.spelled)
    total = corpus.train.targets * settings.epochs
    freezing = FrozenStart(model, settings.frozen_share * total)
    meter = Meter(total, world)
    saved_at = time.monotonic()

    while not position.finished:
        seed = (settings.seed, position.epoch)
        due = _evaluation_points(corpus, config, seed)
        for step in read_steps(corpus.train, table, config.batching, seed, position.batch, share):
            rate = learning_rate(settings, position.targets / total)
            set_rate(optimizer, rate)
            freezing.set_at(position)
            optimizer.zero_grad(set_to_none=True)
            for loss in _backward(model, step, carried, settings, position):
                meter.add(loss)
            make_whole(model.word_parameters)
            sum_gradients(world, list(model.parameters()), model.word_parameters)
            if settings.clip:
                clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            position = position.after_batch(step.forward_targets)
            # The last model with the biLM frozen is what the trained one is compared with.
            is_due = position.batch in due or (bool(due) and freezing.ended_at(position))

            is_late = time.monotonic() - saved_at > 60 * settings.checkpoint_minutes
            reports, stops, saves = world.any(meter.is_due(), stop(), is_late)
            if reports or is_due:
                report(meter.take(position, rate))
            if is_due:
                held_out = held_out_batches(corpus, table, config, world)
                evaluation = evaluate(model, held_out, world.sum)
                thaws = freezing.ended_at(position)
                position = position.after_evaluation(evaluation.perplexity, ends_freeze=thaws)
                is_best = position.best_step == position.step
                if is_best:
                    keep(position, evaluation)
                report(
                    EvaluationReport(
                        position=position,
                        evaluation=evaluation,
                        is_best=is_best,
                        ends_freeze=thaws,
                    )
                )
                meter.restart()
            if position.has_lost_patience(settings.patience):
                break
            if stops or saves:
                meter.check(position)
                _save(checkpoints, model, optimizer, carried, position, world)
                saved_at = time.monotonic()
                if stops:
                    return position
        position = position.after_epoch(settings)
    freezing.lift()
    if position.best_perplexity is None:
        keep(position, None)
    _save(checkpoints, model, optimizer, carried, position, world)
    return position


def _backward(
    model: BiLM, step: Step, carried: CarriedState, settings: TrainingConfig, position: Position
) -> Iterator[BatchLoss]:
    """Add the gradients of the parts of a batch that are read here, as they are in the whole."""
    carried.rows = step.rows
    for number, batch in enumerate(step.parts):
        if batch is not None:
            # Each part draws what the whole batch would, and takes what belongs to its rows.
            random = Randomness.of(settings.seed, position.step, model.device)
            state = None if batch.starts else carried.parts[number]
            with _by_row(model):
                loss = model.loss(batch.to(model.device), state, random)
            loss.share(step.forward_targets, step.backward_targets).backward()
            carried.parts[number] = loss.state
            yield loss


def _by_row(model: BiLM) -> AbstractContextManager[None]:
    """On a processor; a graphics card would have to wait until the rows are counted."""
    return model.gradients_by_row() if model.device.type == "cpu" else nullcontext()


def _save(
    checkpoints: Path,
    model: BiLM,
    optimizer: Optimizer,
    carried: CarriedState,
    position: Position,
    world: World,
) -> None:
    """Write a checkpoint that any number of processes can go on from."""
    state = carried.whole(model, world)
    if world.is_first:
        save_checkpoint(checkpoints, model, optimizer, state, position)


def _evaluation_points(
    corpus: Corpus, config: PretrainConfig, seed: tuple[int, ...]
) -> frozenset[int]:
    """After which batches of an epoch to evaluate; the last one is always among them."""
    if not len(corpus.held_out):
        return frozenset()
    batches = count_batches(corpus.train, config.batching, seed)
    times = config.training.evaluations_per_epoch
    return frozenset(max(1, batches * number // times) for number in range(1, times + 1))


def held_out_batches(
    corpus: Corpus, table: WordTable, config: PretrainConfig, world: World
) -> Iterator[Batch]:
    """This process's rows of the held-out text, or of as much as an evaluation may take."""
    read_so_far = 0
    share = Share.of_process(world.rank, world.size, 1)
    for step in read_steps(corpus.held_out, table, config.batching, HELD_OUT_ORDER, share=share):
        if read_so_far > config.training.evaluation_tokens:
            return
        read_so_far += step.forward_targets
        yield from filter(None, step.parts)

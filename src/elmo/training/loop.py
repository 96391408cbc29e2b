"""The training loop of the language model, in one function: `train`.

Each step reads one batch, adds up the gradients of its micro-batches and of all processes, updates
the weights and moves the `Position`. Then it may report, evaluate on held-out text, and write a
checkpoint.

How a run resumes: a checkpoint holds weights, optimizer state, the LSTM states carried from one
window of text to the next, and the position (`save`, `load`). The order of the text, dropout and
negative samples are functions of seed, epoch and step, so no generator is saved: `read_steps` skips
the batches of the epoch that are done, and the next step is the one that would have come.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adagrad, AdamW, Optimizer

from elmo.bilm.model import BatchLoss, BiLM, BiLMState, Randomness
from elmo.config import from_json, to_json
from elmo.errors import UserError
from elmo.evaluate import Evaluation, evaluate
from elmo.model_folder import model_tensors
from elmo.text.batching import Batch, MicroBatches, WordTable, count_batches, read_steps
from elmo.text.corpus import Corpus
from elmo.training.checkpoint import (
    newest_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from elmo.training.config import PretrainConfig, TrainingConfig, learning_rate
from elmo.training.distributed import World, sum_gradients

SECONDS_BETWEEN_REPORTS = 1.0
SPEED_SMOOTHING = 0.9  # weight of past reports in the speed that gives the remaining time
CARRIED = "carried."  # prefix of the LSTM states among the tensors of a checkpoint
HELD_OUT_ORDER = (0,)  # seed that shuffles held-out texts: an evaluation of some is a fair one


@dataclass(frozen=True, kw_only=True)
class Position:
    """How far a run is. Random numbers need no state: they are functions of seed and step."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch that have been trained on
    targets: int = 0  # words that each direction has predicted
    evaluations: int = 0
    best_perplexity: float | None = None
    best_step: int = 0
    worse_evaluations: int = 0  # evaluations since the best one
    frozen_perplexity: float | None = None  # held-out, when only the softmax had learned
    finished: bool = False

    def is_over(self, settings: TrainingConfig) -> bool:
        return self.epoch >= settings.epochs or self.has_lost_patience(settings.patience)

    def has_lost_patience(self, patience: int | None) -> bool:
        """Whether this many evaluations in a row were worse than the best one."""
        return patience is not None and self.worse_evaluations >= patience

    def after_evaluation(self, perplexity: float, *, ends_freeze: bool = False) -> Position:
        """With one more evaluation, which may be the best so far, or end the frozen start."""
        frozen = perplexity if ends_freeze else self.frozen_perplexity
        later = replace(self, evaluations=self.evaluations + 1, frozen_perplexity=frozen)
        if not (self.best_perplexity is None or perplexity < self.best_perplexity):  # nor is NaN
            return replace(later, worse_evaluations=self.worse_evaluations + 1)
        return replace(later, best_perplexity=perplexity, best_step=self.step, worse_evaluations=0)


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Training progress, averaged over the steps since the last report."""

    step: int
    epoch: int
    done: float  # fraction of the training that is done
    targets: int
    loss_forward: float  # training loss in nats per word; with a sampled softmax it is an estimate
    loss_backward: float
    learning_rate: float
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class EvaluationReport:
    position: Position
    evaluation: Evaluation
    is_best: bool
    ends_freeze: bool = False  # only the softmax has learned so far, now the whole model does

    @property
    def step(self) -> int:
        return self.position.step


Report = StepReport | EvaluationReport
Listener = Callable[[Report], None]


class Checkpoint(NamedTuple):
    position: Position
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    state: BiLMState | None  # of all rows of a batch, where texts continue in the next one


def train(
    model: BiLM,  # on its device; changed in place
    corpus: Corpus,
    config: PretrainConfig,
    *,
    checkpoints: Path,  # folder for them
    checkpoint: Checkpoint | None,  # where to resume; None starts with the model as it is
    keep_best: Callable[[Position, Evaluation | None], None],  # called with each best model so far
    report: Listener,  # called about once per second, and after each evaluation
    stop: Callable[[], bool],  # whether to save a checkpoint and return after this step
    world: World,
) -> Position:
    """Train until all epochs are done, patience runs out, or `stop()` is true; how far the run is.

    All processes of the world run this function: each reads its rows of every batch, and they
    decide together when to report, save and stop. So the result does not depend on their number.
    """
    settings = config.training
    optimizer = build_optimizer(model, settings)
    mine = MicroBatches.of_process(world.rank, world.size, settings.accumulate)
    position = Position()
    states: list[BiLMState | None] = [None] * mine.count  # LSTM states of each micro-batch
    rows = 0  # of a whole batch, all micro-batches and processes together
    if checkpoint is not None:
        restore(model, optimizer, checkpoint)
        # A finished run is resumed if it now has more epochs.
        position = checkpoint.position
        position = replace(position, finished=position.finished and position.is_over(settings))
        if position.finished:
            return position
        if checkpoint.state is not None:
            rows = len(checkpoint.state.forward[0].cell)
            states = [checkpoint.state.select(part.indices) for part in mine.rows(rows)]
    table = WordTable.of(corpus.words, model.vocabulary, spelled=config.model.spelled)
    total_targets = corpus.train.targets * settings.epochs
    frozen_targets = settings.frozen_share * total_targets
    bilm_parameters = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and not name.startswith("output.")
    ]
    # On a CPU, gradients of word vectors are sparse until the step: a dense one per use would be
    # as large as the vocabulary. A GPU would have to wait until the rows are counted.
    sparse_gradients = model.gradients_by_row if model.device.type == "cpu" else nullcontext
    meter = Meter(total_targets, world)
    saved_at = time.monotonic()

    while not position.finished:  # one epoch per iteration
        seed = (settings.seed, position.epoch)
        evaluate_after: set[int] = set()  # batches of this epoch; the last one is among them
        if len(corpus.held_out):
            batches = count_batches(corpus.train, config.batching, seed)
            times = settings.evaluations_per_epoch
            evaluate_after = {max(1, batches * number // times) for number in range(1, times + 1)}
        for step in read_steps(corpus.train, table, config.batching, seed, position.batch, mine):
            # Settings of this step.
            rate = learning_rate(settings, position.targets / total_targets)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["rate"]
            is_frozen = position.targets < frozen_targets
            for parameter in bilm_parameters:
                parameter.requires_grad_(not is_frozen)

            # Gradients of the loss per target, micro-batch by micro-batch.
            optimizer.zero_grad(set_to_none=True)
            rows = step.rows
            for number, batch in enumerate(step.micro_batches):
                if batch is None:  # fewer rows than micro-batches: none is left for this one
                    continue
                # Each draws the random numbers of the whole batch, and uses those of its rows.
                random = Randomness.of(settings.seed, position.step, model.device)
                # The next window of the same texts starts from where the last one ended.
                state = None if batch.is_first_window else states[number]
                with sparse_gradients():
                    loss = model.loss(batch.to(model.device), state, random)
                loss.mean_over(step.forward_targets, step.backward_targets).backward()
                states[number] = loss.state
                meter.add(loss)
                del loss  # its graph holds gradients, which nobody needs during the update
            # The update.
            for parameter in model.word_parameters:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.to_dense()
            sum_gradients(world, list(model.parameters()))
            if settings.clip:
                clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            position = replace(
                position,
                step=position.step + 1,
                batch=position.batch + 1,
                targets=position.targets + step.forward_targets,
            )

            # The last frozen model is evaluated too: the trained one is compared with it.
            thaws = is_frozen and position.targets >= frozen_targets
            evaluates = position.batch in evaluate_after or (bool(evaluate_after) and thaws)
            is_late = time.monotonic() - saved_at > 60 * settings.checkpoint_minutes
            reports, stops, saves = world.any(meter.is_due(), stop(), is_late)
            if reports or evaluates:
                report(meter.take(position, rate))
            if evaluates:
                held_out = held_out_batches(corpus, table, config, world)
                evaluation = evaluate(model, held_out, world.all_reduce)
                position = position.after_evaluation(evaluation.perplexity, ends_freeze=thaws)
                is_best = position.best_step == position.step
                if is_best:
                    keep_best(position, evaluation)
                report(EvaluationReport(position, evaluation, is_best, thaws))
                meter.restart()
            if position.has_lost_patience(settings.patience):
                break
            if stops or saves:
                meter.check_finite(position)
                whole = join_states(states, mine, rows, model, world)
                if world.is_first:
                    save(checkpoints, model, optimizer, whole, position)
                saved_at = time.monotonic()
                if stops:
                    return position
        position = replace(position, epoch=position.epoch + 1, batch=0)
        position = replace(position, finished=position.is_over(settings))

    meter.check_finite(position)
    for parameter in bilm_parameters:
        parameter.requires_grad_(True)
    if position.best_perplexity is None:  # nothing was held out: the last model is the result
        keep_best(position, None)
    whole = join_states(states, mine, rows, model, world)
    if world.is_first:
        save(checkpoints, model, optimizer, whole, position)
    return position


def build_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """An optimizer over all trained parameters; weight decay for matrices between layers only."""
    decayed: list[nn.Parameter] = []
    words: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_word = name.startswith("token_layer.words")
            is_matrix = parameter.dim() > 1 and not name.startswith("output")
            (words if is_word else decayed if is_matrix else others).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay, "rate": 1.0},
        {"params": words, "weight_decay": 0.0, "rate": config.word_rate},
        {"params": others, "weight_decay": 0.0, "rate": 1.0},
    ]
    if config.optimizer == "adamw":
        return AdamW(groups, lr=config.peak_rate, betas=(0.9, 0.99), fused=True)
    if config.optimizer == "adagrad":
        return Adagrad(groups, lr=config.peak_rate, initial_accumulator_value=1.0)
    return SGD(groups, lr=config.peak_rate, momentum=0.9, nesterov=True)


def held_out_batches(
    corpus: Corpus, table: WordTable, config: PretrainConfig, world: World
) -> Iterator[Batch]:
    """This process's rows of the held-out text, about `evaluation_tokens` of it in all."""
    tokens = 0
    mine = MicroBatches.of_process(world.rank, world.size, 1)
    for step in read_steps(corpus.held_out, table, config.batching, HELD_OUT_ORDER, mine=mine):
        if tokens > config.training.evaluation_tokens:
            return
        tokens += step.forward_targets
        yield from filter(None, step.micro_batches)


class Meter:
    """Loss and speed between two reports. Losses are summed on their device, without waiting."""

    def __init__(self, total_targets: int, world: World | None = None) -> None:
        self._total = total_targets
        self._world = world or World()
        self._speed: float | None = None
        self.restart()

    def restart(self) -> None:
        """Start counting from zero, as after an evaluation."""
        self._losses: list[Tensor | float] = [0.0, 0.0]
        self._targets = [0, 0]
        self._since = time.monotonic()

    def add(self, loss: BatchLoss) -> None:
        for direction, summed in enumerate((loss.forward, loss.backward)):
            self._losses[direction] = self._losses[direction] + summed.detach()
        self._targets[0] += loss.forward_targets
        self._targets[1] += loss.backward_targets

    def is_due(self) -> bool:
        return time.monotonic() - self._since >= SECONDS_BETWEEN_REPORTS

    def check_finite(self, position: Position) -> tuple[float, ...]:
        """The sums over all processes; an error if the loss became NaN or infinite."""
        sums = self._world.sums(*map(float, self._losses), *self._targets)
        if not math.isfinite(sums[0] + sums[1]):
            raise UserError(
                f"the loss became NaN or infinite at step {position.step} (epoch "
                f"{position.epoch + 1}); the last checkpoint is intact. Start over (--fresh) with "
                "a smaller --learning-rate or a smaller --clip"
            )
        return sums

    def take(self, position: Position, rate: float) -> StepReport:
        """Report what was counted, and restart."""
        forward, backward, forward_targets, backward_targets = self.check_finite(position)
        speed = forward_targets / max(1e-9, time.monotonic() - self._since)
        past = speed if self._speed is None else self._speed
        self._speed = SPEED_SMOOTHING * past + (1 - SPEED_SMOOTHING) * speed
        report = StepReport(
            step=position.step,
            epoch=position.epoch,
            done=position.targets / self._total,
            targets=position.targets,
            loss_forward=forward / max(1, forward_targets),
            loss_backward=backward / max(1, backward_targets),
            learning_rate=rate,
            tokens_per_second=speed,
            seconds_left=(self._total - position.targets) / max(1e-9, self._speed),
        )
        self.restart()
        return report


# The state of a run in checkpoints, which do not depend on the number of processes.


def save(
    folder: Path, model: BiLM, optimizer: Optimizer, state: BiLMState | None, position: Position
) -> None:
    """Write a checkpoint from which any number of processes can resume."""
    training = optimizer_tensors(optimizer)
    if state is not None:
        training |= {CARRIED + name: tensor for name, tensor in state.tensors().items()}
    tensors = {"weights": model_tensors(model), "training": training}
    save_checkpoint(folder, position.step, {"position": to_json(position)}, tensors)


def load(folder: Path, device: str = "cpu") -> Checkpoint | None:
    """The newest sound checkpoint of a run; its LSTM states are put on the device."""
    newest = newest_checkpoint(
        folder, lambda progress: from_json(Position, progress.get("position"), "position")
    )
    if newest is None:
        return None
    position, tensors = newest
    optimizer = dict(tensors.get("training", {}))
    names = [name for name in optimizer if name.startswith(CARRIED)]
    carried = {name.removeprefix(CARRIED): optimizer.pop(name).to(device) for name in names}
    state = BiLMState.from_tensors(carried) if carried else None
    return Checkpoint(position, tensors.get("weights", {}), optimizer, state)


def restore(model: BiLM, optimizer: Optimizer, checkpoint: Checkpoint) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(checkpoint.weights[name])
    restore_optimizer(optimizer, checkpoint.optimizer)


def join_states(
    states: list[BiLMState | None], mine: MicroBatches, rows: int, model: BiLM, world: World
) -> BiLMState | None:
    """The states of all rows of a batch, from the micro-batches of all processes."""
    if mine.of == 1:
        return states[0]
    whole = model.zero_state(rows)
    # Each process fills in its rows and leaves zeros in the others: their sum is the whole.
    for state, part in zip(states, mine.rows(rows), strict=True):
        if state is not None and len(part):
            for some_rows, all_rows in zip(chain(*state), chain(*whole), strict=True):
                all_rows.output[part.indices] = some_rows.output.float()
                all_rows.cell[part.indices] = some_rows.cell
    for layer in chain(*whole):
        world.all_reduce(layer.output)
        world.all_reduce(layer.cell)
    return whole

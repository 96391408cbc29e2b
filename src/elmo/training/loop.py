"""The training loop, in one function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from elmo.bilm.model import BatchLoss, BiLM, Randomness
from elmo.distributed import World
from elmo.language.evaluate import Evaluation, evaluate
from elmo.pretrain.carried import CarriedState
from elmo.pretrain.checkpoints import Checkpoint, restore, save_checkpoint
from elmo.pretrain.config import PretrainConfig, TrainingConfig
from elmo.pretrain.freezing import FrozenStart
from elmo.pretrain.gradients import make_whole, sum_gradients
from elmo.pretrain.meter import Meter
from elmo.pretrain.optimizer import build_optimizer, learning_rate, set_rate
from elmo.pretrain.position import Position
from elmo.pretrain.reports import EvaluationReport, Listener
from elmo.text.batches import Batch, WordTable
from elmo.text.batching import count_batches
from elmo.text.corpus import Corpus
from elmo.text.steps import Share, Step, read_steps

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
                evaluation = evaluate(model, held_out, world)
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
                loss = model(batch.to(model.device), state, random)
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

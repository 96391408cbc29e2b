"""The training loop, in one function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from torch.nn.utils import clip_grad_norm_

from elmo.bilm.model import BiLM, Randomness
from elmo.language.evaluate import Evaluation, evaluate
from elmo.pretrain.checkpoints import Checkpoint, restore, save_checkpoint
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.freezing import FrozenStart
from elmo.pretrain.meter import Meter
from elmo.pretrain.optimizer import build_optimizer, learning_rate, set_rate
from elmo.pretrain.position import Position
from elmo.pretrain.reports import EvaluationReport, Listener
from elmo.text.batches import Batch, WordTable
from elmo.text.batching import count_batches, read
from elmo.text.corpus import Corpus

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
) -> Position:
    """Train until the end, until patience runs out, or until `stop` says so.

    `checkpoint` is where to go on from; `keep` is called with every model that is the best so far.
    """
    settings = config.training
    optimizer = build_optimizer(model, settings)
    position, state = Position(), None
    if checkpoint is not None:
        restore(model, optimizer, checkpoint)
        position, state = checkpoint.position, checkpoint.state
    table = WordTable.of(corpus.words, model.vocabulary, spelled=config.model.spelled)
    total = corpus.train.targets * settings.epochs
    freezing = FrozenStart(model, settings.frozen_share * total)
    meter = Meter(total)
    saved_at = time.monotonic()

    while not position.finished:
        seed = (settings.seed, position.epoch)
        due = _evaluation_points(corpus, config, seed)
        for batch in read(corpus.train, table, config.batching, seed, skip=position.batch):
            rate = learning_rate(settings, position.targets / total)
            set_rate(optimizer, rate)
            freezing.set_at(position)
            random = Randomness.of(settings.seed, position.step, model.device)
            loss = model(batch.to(model.device), None if batch.starts else state, random)
            optimizer.zero_grad(set_to_none=True)
            loss.mean.backward()
            if settings.clip:
                clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            state = loss.state
            position = position.after_batch(batch.targets)
            # The last model with the biLM frozen is what the trained one is compared with.
            is_due = position.batch in due or (bool(due) and freezing.ended_at(position))
            meter.add(loss)

            if meter.is_due() or is_due:
                report(meter.take(position, rate))
            if is_due:
                evaluation = evaluate(model, held_out_batches(corpus, table, config))
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
            if stop() or time.monotonic() - saved_at > 60 * settings.checkpoint_minutes:
                meter.check(position)
                save_checkpoint(checkpoints, model, optimizer, state, position)
                saved_at = time.monotonic()
                if stop():
                    return position
        position = position.after_epoch(settings)
    freezing.lift()
    if position.best_perplexity is None:
        keep(position, None)
    save_checkpoint(checkpoints, model, optimizer, state, position)
    return position


def _evaluation_points(
    corpus: Corpus, config: PretrainConfig, seed: tuple[int, ...]
) -> frozenset[int]:
    """After which batches of an epoch to evaluate; the last one is always among them."""
    if not len(corpus.held_out):
        return frozenset()
    batches = count_batches(corpus.train, config.batching, seed)
    times = config.training.evaluations_per_epoch
    return frozenset(max(1, batches * number // times) for number in range(1, times + 1))


def held_out_batches(corpus: Corpus, table: WordTable, config: PretrainConfig) -> Iterator[Batch]:
    """The held-out text, or as much of it as an evaluation may take."""
    read_so_far = 0
    for batch in read(corpus.held_out, table, config.batching, HELD_OUT_ORDER):
        if read_so_far > config.training.evaluation_tokens:
            return
        read_so_far += batch.targets
        yield batch

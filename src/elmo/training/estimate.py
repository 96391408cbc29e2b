"""How long a training will take and how much memory, before it starts.

Speed is measured on this machine, with real training steps on random text of the same shape.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from elmo.bilm.model import BiLM, Randomness
from elmo.pretrain.config import PretrainConfig
from elmo.pretrain.model_size import (
    RUNTIME_BYTES,
    activations_bytes,
    count_parameters,
    weights_bytes,
)
from elmo.pretrain.optimizer import build_optimizer, compute_precision
from elmo.pretrain.start import fresh_model
from elmo.text.batches import Batch, WordTable, make_batch
from elmo.text.vocabulary import BEGIN, END, SPECIAL_WORDS, Vocabulary

SMALL_SHARE = 1 / 4
"""Part of a batch that is timed first, and alone where a whole one takes too long."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a training will need."""

    parameters: int
    weights_bytes: int
    """Weights, their gradients and what the optimizer remembers of them."""
    activations_bytes: int
    """What the largest batch needs besides."""
    runtime_bytes: int
    """What Python and PyTorch take themselves."""
    targets: int
    """Words to predict in all epochs, in each direction."""
    tokens_per_second: float
    measured: bool
    """Whether the speed was measured here, rather than given."""
    seconds: float
    """Training alone; evaluations on held-out text come on top."""

    @property
    def memory_bytes(self) -> int:
        """All memory of the process."""
        return self.weights_bytes + self.activations_bytes + self.runtime_bytes


def estimate(
    config: PretrainConfig, *, vocabulary: int, targets: int, length: int, speed: float | None
) -> Estimate:
    """Estimate a training on `targets` words an epoch in texts of this typical length.

    `speed` is in words a second; if it is not given, it is measured in a few seconds.
    """
    parameters = count_parameters(config.model, vocabulary)
    measured = measure_speed(config, vocabulary, length) if speed is None else speed
    total = targets * config.training.epochs
    return Estimate(
        parameters=parameters,
        weights_bytes=weights_bytes(config, vocabulary),
        activations_bytes=activations_bytes(config),
        runtime_bytes=RUNTIME_BYTES,
        targets=total,
        tokens_per_second=measured,
        measured=speed is None,
        seconds=total / measured,
    )


def measure_speed(
    config: PretrainConfig, vocabulary: int, length: int, *, seconds: float = 4.0
) -> float:
    """Words a second that training steps predict on this machine, in each direction."""
    words = _zipf_vocabulary(vocabulary)
    model = fresh_model(config.model, words, config.training.seed)
    model.compute_dtype = compute_precision(config.training.precision, model.device)
    optimizer = build_optimizer(model, config.training)
    end = time.perf_counter() + seconds
    batch = _random_batch(config, words, length, SMALL_SHARE)
    _step_speed(model, optimizer, config, batch)  # the first one pays for what is made only once
    whole = config.batching.batch_tokens / _step_speed(model, optimizer, config, batch)
    if whole < seconds:
        batch = _random_batch(config, words, length)
    speeds = [_step_speed(model, optimizer, config, batch)]
    while time.perf_counter() < end:
        speeds.append(_step_speed(model, optimizer, config, batch))
    return statistics.median(speeds)


def _step_speed(model: BiLM, optimizer: Optimizer, config: PretrainConfig, batch: Batch) -> float:
    """The words a second of one step, which is what `elmo.pretrain.loop` does with a batch."""
    start = time.perf_counter()
    loss = model(batch, None, Randomness.of(config.training.seed, 0, model.device))
    optimizer.zero_grad(set_to_none=True)
    loss.mean.backward()
    if config.training.clip:
        clip_grad_norm_(model.parameters(), config.training.clip)
    optimizer.step()
    return batch.targets / (time.perf_counter() - start)


def _zipf_vocabulary(size: int) -> Vocabulary:
    words = (*SPECIAL_WORDS, *(f"word{rank}" for rank in range(size - len(SPECIAL_WORDS))))
    return Vocabulary(words, tuple(size // (rank + 1) + 1 for rank in range(size)))


def _random_batch(
    config: PretrainConfig, vocabulary: Vocabulary, length: int, share: float = 1.0
) -> Batch:
    """A batch, or a share of it, of equally long texts; words drawn as often as real ones are."""
    batching = config.batching
    steps = batching.window if batching.batching == "stream" else min(length + 1, batching.window)
    texts = max(1, int(share * batching.batch_tokens) // steps)
    chances = np.array(vocabulary.counts, np.float64)
    chances[[BEGIN, END]] = 0
    random = np.random.default_rng(config.training.seed)
    rows = random.choice(len(vocabulary), (texts, steps + 1), p=chances / chances.sum())
    rows[:, 0], rows[:, -1] = BEGIN, END
    table = WordTable.of(vocabulary.words, vocabulary, spelled=config.model.spelled)
    return make_batch(list(rows), list(rows[:, ::-1]), table, starts=True)

"""How long a training will take and how much memory, before it starts.

Speed is measured on this machine, with real training steps on random text of the same shape.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from elmo.bilm.config import BiLMConfig, CharacterConfig
from elmo.bilm.model import BiLM, Randomness
from elmo.text.batching import Batch, Group, MemoryShard, WordTable, pack_window
from elmo.text.vocabulary import BEGIN, CHARACTER_IDS, END, ROW_LENGTH, SPECIAL_WORDS, Vocabulary
from elmo.training.config import OptimizerName, PretrainConfig
from elmo.training.optim import build_optimizer, compute_precision
from elmo.training.pretrain import fresh_model

# How large a model and its training are: parameters counted exactly, memory estimated.
#
# Counted from the settings alone, so that a model too large for the machine need not be built.


BYTES = 4
MOMENTS: dict[OptimizerName, int] = {"adamw": 2, "adagrad": 1, "sgd": 1}
DISTINCT_SHARE = 0.4
"""Distinct words among the tokens of a batch, as a rule of thumb."""
DIRECTIONS = 2
RUNTIME_BYTES = 400 << 20
"""What Python and PyTorch take before there is a model."""


def count_parameters(config: BiLMConfig, vocabulary: int) -> int:
    """How many numbers a model learns or is given, tied ones counted once."""
    return (
        _word_parameters(config, vocabulary)
        + _character_parameters(config)
        + DIRECTIONS * config.layers * _layer_parameters(config)
        + _output_parameters(config, vocabulary)
    )


def weights_bytes(config: PretrainConfig, vocabulary: int) -> int:
    """Memory of weights, gradients and what the optimizer remembers."""
    parameters = count_parameters(config.model, vocabulary)
    is_frozen = config.model.freeze_words and config.model.input != "characters"
    frozen = vocabulary * config.model.word_dim if is_frozen else 0
    copies = 1 + MOMENTS[config.training.optimizer]
    # Each direction forms its own gradient of the shared output, which is scaled before the two
    # are added: for a moment there are four besides their sum.
    shared = _output_parameters(config.model, vocabulary)
    if config.model.softmax.tied:
        shared += vocabulary * config.model.width
    return BYTES * (parameters + copies * (parameters - frozen) + 2 * DIRECTIONS * shared)


def activations_bytes(config: PretrainConfig) -> int:
    """Memory that the largest batch needs besides."""
    model, tokens = config.model, config.batching.batch_tokens
    # Of each step a layer keeps its input, gates, cells, squashed cells and output, and forms the
    # gradients of input and gates; the softmax keeps states, true words and the gradients of both.
    layer = 3 * model.width + 2 * 4 * model.hidden + 2 * model.hidden
    directions = DIRECTIONS * tokens * (model.layers * layer + 4 * model.width)
    words = int(DISTINCT_SHARE * tokens) * _word_activations(model)
    return BYTES * (directions + words)


def _word_activations(config: BiLMConfig) -> int:
    """Numbers kept and formed for each distinct word of a batch."""
    if not config.spelled:
        return 2 * config.width
    characters = config.characters
    maps = sum(number * (ROW_LENGTH - width + 1) for width, number in characters.filters)
    highways = 8 * characters.highways * characters.features
    return 2 * (maps + characters.char_dim * ROW_LENGTH + config.width) + highways


def _word_parameters(config: BiLMConfig, vocabulary: int) -> int:
    return 0 if config.input == "characters" else vocabulary * config.word_dim


def _character_parameters(config: BiLMConfig) -> int:
    """The character CNN, and the projection behind words and characters."""
    parts = 0 if config.input == "characters" else config.word_dim
    total = 0
    if config.spelled:
        parts += config.characters.features
        total = _cnn_parameters(config.characters)
    is_projected = config.spelled or parts != config.width
    return total + (_linear(parts, config.width) if is_projected else 0)


def _cnn_parameters(config: CharacterConfig) -> int:
    filters = sum(_linear(config.char_dim * width, number) for width, number in config.filters)
    highways = 2 * config.highways * _linear(config.features, config.features)
    return CHARACTER_IDS * config.char_dim + filters + highways


def _layer_parameters(config: BiLMConfig) -> int:
    projection = 0 if config.projection is None else config.hidden * config.projection
    return _linear(2 * config.width, 4 * config.hidden) + projection


def _output_parameters(config: BiLMConfig, vocabulary: int) -> int:
    """The softmax without the weights it borrows from the words."""
    if config.softmax.loss == "none":
        return 0
    if config.softmax.loss == "adaptive":
        return _adaptive_parameters(config, vocabulary)
    return vocabulary + (0 if config.softmax.tied else vocabulary * config.width)


def _adaptive_parameters(config: BiLMConfig, vocabulary: int) -> int:
    edges = [cut for cut in config.softmax.cutoffs if cut < vocabulary]
    edges.append(vocabulary)
    total = _linear(config.width, edges[0] + len(edges) - 1)
    for number, (first, last) in enumerate(pairwise(edges), start=1):
        size = max(8, config.width // 4**number)
        total += size * config.width + _linear(size, last - first)
    return total


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


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
    """The words a second of one step, which is what `elmo.training.loop` does with a batch."""
    start = time.perf_counter()
    loss = model.loss(batch, None, Randomness.of(config.training.seed, 0, model.device))
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
    ends = np.arange(1, texts + 1) * (steps + 1)
    shard = MemoryShard(rows.ravel().astype(np.uint32), ends)
    batch = pack_window(shard, Group(0, ends - steps - 1, ends), table, steps, 0)
    assert batch is not None
    return batch

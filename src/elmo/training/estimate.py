"""How long a training takes and how much memory it needs, before it starts.

Parameters are counted on a model without memory (the meta device). Speed is measured on this
machine, with real training steps on random text of the same shape.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np
from torch.nn.utils import clip_grad_norm_

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM, Randomness, seeded
from elmo.model_folder import parameter_count, without_weights
from elmo.runtime import compute_precision
from elmo.text.batching import Batch, Group, WordTable, pack_window
from elmo.text.vocabulary import END, ROW_LENGTH, SPECIAL_WORDS, START, Shard, Vocabulary
from elmo.training.config import OptimizerName, PretrainConfig
from elmo.training.loop import build_optimizer

BYTES = 4
MOMENTS: dict[OptimizerName, int] = {"adamw": 2, "adagrad": 1, "sgd": 1}
DISTINCT_FRACTION = 0.4  # distinct words among the tokens of a batch, as a rule of thumb
RUNTIME_BYTES = 400 << 20  # memory of Python and PyTorch before there is a model
SMALL_FRACTION = 1 / 4  # of a batch is timed first, and alone if a whole one takes too long


@dataclass(frozen=True, kw_only=True)
class Estimate:
    parameters: int
    weights_bytes: int  # weights, their gradients and the optimizer's moments
    activations_bytes: int  # what the largest batch needs besides
    runtime_bytes: int  # what Python and PyTorch take themselves
    targets: int  # words to predict in all epochs, in each direction
    tokens_per_second: float
    seconds: float  # training alone, without evaluations on held-out text

    @property
    def memory_bytes(self) -> int:
        return self.weights_bytes + self.activations_bytes + self.runtime_bytes


def estimate(config: PretrainConfig, *, vocabulary: int, targets: int, length: int) -> Estimate:
    """Estimate a training on `targets` words per epoch, in texts of about `length` words."""
    tokens_per_second = measure_speed(config, vocabulary, length)
    total = targets * config.training.epochs
    model = model_on_paper(config.model, vocabulary)
    return Estimate(
        parameters=parameter_count(model),
        weights_bytes=weights_bytes(config, model),
        activations_bytes=activations_bytes(config),
        runtime_bytes=RUNTIME_BYTES,
        targets=total,
        tokens_per_second=tokens_per_second,
        seconds=total / tokens_per_second,
    )


def model_on_paper(config: BiLMConfig, vocabulary: int) -> BiLM:
    """A model of this size that takes no memory."""
    with without_weights():
        return BiLM(config, zipf_vocabulary(vocabulary))


def weights_bytes(config: PretrainConfig, model: BiLM) -> int:
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    copies = 1 + MOMENTS[config.training.optimizer]
    # Each direction computes its own gradient of the shared softmax, which is scaled before the
    # two are added: for a moment there are four copies besides their sum.
    softmax = sum(parameter.numel() for parameter in model.output.parameters())
    return BYTES * (parameter_count(model) + copies * trained + 4 * softmax)


def activations_bytes(config: PretrainConfig) -> int:
    model, tokens = config.model, config.batching.batch_tokens
    # For each step a layer keeps input, gates, cells, tanh of the cells and output, and computes
    # the gradients of input and gates; the softmax keeps states, targets and their gradients.
    layer = 3 * model.width + 2 * 4 * model.hidden + 2 * model.hidden
    directions = 2 * tokens * (model.layers * layer + 4 * model.width)
    per_word = 2 * model.width
    if model.spelled:
        characters = model.characters
        maps = sum(number * (ROW_LENGTH - width + 1) for width, number in characters.filters)
        per_word += 2 * (maps + characters.char_dim * ROW_LENGTH)
        per_word += 8 * characters.highways * characters.features
    return BYTES * (directions + int(DISTINCT_FRACTION * tokens) * per_word)


def measure_speed(
    config: PretrainConfig, vocabulary: int, length: int, *, seconds: float = 4.0
) -> float:
    """Words per second that training predicts on this machine, in each direction."""
    words = zipf_vocabulary(vocabulary)
    with seeded(config.training.seed):
        model = BiLM(config.model, words)
    model.compute_dtype = compute_precision(config.training.precision, model.device)
    optimizer = build_optimizer(model, config.training)

    def step_speed(batch: Batch) -> float:
        start = time.perf_counter()
        loss = model.loss(batch, None, Randomness.of(config.training.seed, 0, model.device))
        optimizer.zero_grad(set_to_none=True)
        loss.mean.backward()
        if config.training.clip:
            clip_grad_norm_(model.parameters(), config.training.clip)
        optimizer.step()
        return batch.targets / (time.perf_counter() - start)

    end = time.perf_counter() + seconds
    batch = _random_batch(config, words, length, SMALL_FRACTION)
    step_speed(batch)  # the first step is slower: memory is allocated, kernels are chosen
    if config.batching.batch_tokens / step_speed(batch) < seconds:
        batch = _random_batch(config, words, length)
    speeds = [step_speed(batch)]
    while time.perf_counter() < end:
        speeds.append(step_speed(batch))
    return statistics.median(speeds)


def zipf_vocabulary(size: int) -> Vocabulary:
    """A vocabulary of made-up words that are as frequent as Zipf's law says."""
    words = (*SPECIAL_WORDS, *(f"word{rank}" for rank in range(size - len(SPECIAL_WORDS))))
    return Vocabulary(words, tuple(size // (rank + 1) + 1 for rank in range(size)))


def _random_batch(
    config: PretrainConfig, vocabulary: Vocabulary, length: int, fraction: float = 1.0
) -> Batch:
    """A batch, or a fraction of one, of equally long texts of words drawn by their frequency."""
    batching = config.batching
    steps = batching.window if batching.batching == "stream" else min(length + 1, batching.window)
    texts = max(1, int(fraction * batching.batch_tokens) // steps)
    chances = np.array(vocabulary.counts, np.float64)
    chances[[START, END]] = 0
    random = np.random.default_rng(config.training.seed)
    rows = random.choice(len(vocabulary), (texts, steps + 1), p=chances / chances.sum())
    rows[:, 0], rows[:, -1] = START, END
    table = WordTable.of(vocabulary.words, vocabulary, spelled=config.model.spelled)
    ends = np.arange(1, texts + 1) * (steps + 1)
    shard = Shard(rows.ravel().astype(np.uint32), ends)
    batch = pack_window(shard, Group(0, ends - steps - 1, ends), table, steps, 0)
    assert batch is not None
    return batch

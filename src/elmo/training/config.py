"""All settings of a pre-training run, presets, and the learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Protocol

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.config import Count, Fraction, NotNegative, Positive, Range, Seed
from elmo.text.config import Batching, ReadOptions
from elmo.text.tokenizer import TokenizerConfig

OptimizerName = Literal["adamw", "adagrad", "sgd"]
Schedule = Literal["plateau", "one_cycle", "cosine", "constant"]
DEFAULT_RATES: dict[OptimizerName, float] = {"adamw": 4e-3, "adagrad": 0.2, "sgd": 1.0}
PLATEAU_RATE = 8e-3
"""Rate of adamw on a plateau; for other schedules, whole runs were measured at the lower rate."""
COOL_DOWN = 0.4  # the last fraction of the training, in which the learning rate of a plateau falls


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Which words the model can predict."""

    min_count: Count = 3
    """Words seen less often are unknown."""
    max_vocabulary: Annotated[int, Range(4)] | None = 100_000
    """At most this many words, the most frequent ones; three of them are special."""
    held_out_share: Annotated[float, Range(0, 1, "[)")] = 0.02
    """Fraction of the texts kept apart for validation; near copies of a text stay together."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the model learns."""

    epochs: Count = 4
    """Passes over the text."""
    optimizer: OptimizerName = "adamw"
    """adamw, adagrad (the paper's) or sgd."""
    learning_rate: Positive | None = None
    """Peak learning rate; default: 0.008 for adamw on a plateau, 0.004 with other schedules, 0.2
    for adagrad, 1.0 for sgd."""
    schedule: Schedule = "plateau"
    """plateau: linear warm-up, constant, linear decay over the last 40%; one_cycle: warm-up from
    4% of the peak, then half a cosine; cosine: the same from zero; or constant."""
    warmup: Fraction = 0.05
    """Fraction of the training in which the learning rate rises."""
    word_rate: Positive = 1.0
    """Learning rate of the word vectors, relative to the rest. Adam moves a rare word as far as a
    frequent one each time it is seen: a low rate keeps what given vectors know."""
    weight_decay: NotNegative = 0.0
    """Weight decay of the matrices between layers (adamw, sgd)."""
    accumulate: Count = 1
    """Compute each batch in this many slices, one after the other: less memory, the same result."""
    clip: NotNegative = 1.0
    """Maximum gradient norm; 0: no clipping."""
    frozen_share: Fraction = 0.0
    """Fraction of the training, from its start, in which only the softmax learns. Default for a
    model that comes without a softmax: 0.2."""
    evaluations_per_epoch: Count = 1
    """How often the held-out text is evaluated in each epoch."""
    evaluation_tokens: Count = 200_000
    """How much of the held-out text is read each time, at most."""
    patience: Count | None = None
    """Stop after this many evaluations without a better one; default: train to the end."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 where the processor has units for it."""
    saved_precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the weights in the model folder."""
    seed: Seed = 0
    """Decides initial weights, order, dropout and samples."""
    checkpoint_minutes: NotNegative = 1.0
    """Minutes between checkpoints: so much work is lost if the machine dies."""

    @property
    def peak_rate(self) -> float:
        """The learning rate given, or the optimizer's own."""
        if self.learning_rate:
            return self.learning_rate
        if self.optimizer == "adamw" and self.schedule == "plateau":
            return PLATEAU_RATE
        return DEFAULT_RATES[self.optimizer]


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Everything that decides what a run computes."""

    read: ReadOptions = field(default_factory=ReadOptions)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    model: BiLMConfig = field(default_factory=BiLMConfig)
    batching: Batching = field(default_factory=Batching)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def problems(self) -> Iterable[str]:
        yield from self.model.problems()
        if self.batching.batch_tokens < self.batching.window:
            yield (
                f"batch_tokens ({self.batching.batch_tokens}) must be at least window "
                f"({self.batching.window}): a batch holds at least one text"
            )
        if self.training.optimizer == "adagrad" and self.training.weight_decay:
            yield "weight_decay: adagrad is used without; set it to 0"
        if self.model.softmax.loss == "none":
            yield "loss: a model without a softmax predicts nothing, so it cannot be trained"
        if self.training.frozen_share and self.model.softmax.tied:
            yield (
                "frozen_share: a tied softmax is part of the model and would be frozen too; "
                "use --no-tied"
            )
        if self.training.patience is not None and self.vocabulary.held_out_share == 0:
            yield "patience: nothing is held out, so there is nothing to be patient about"


# Settings that work, by name.


DEFAULT = PretrainConfig()
SLOWER = TrainingConfig(schedule="one_cycle", warmup=0.1)
"""For models that the rate and the schedule of the default one were not tried with."""

QUICK = PretrainConfig(
    model=BiLMConfig(word_dim=128, hidden=128, softmax=SoftmaxConfig(samples=1024)),
    batching=Batching(batch_tokens=2048),
    training=replace(SLOWER, epochs=2),
)

CHARACTERS = PretrainConfig(
    model=BiLMConfig(input="characters", hidden=512, projection=256, skip=True, cell_clip=3.0,
                     projection_clip=3.0, softmax=SoftmaxConfig(tied=False)),
    batching=Batching(batch_tokens=2048),
    training=SLOWER,
)  # fmt: skip

STREAM = PretrainConfig(
    batching=Batching(batching="stream", batch_tokens=2048, window=32),
    training=replace(SLOWER, epochs=10),
)

PAPER = PretrainConfig(
    vocabulary=VocabularyConfig(min_count=3, max_vocabulary=800_000),
    model=BiLMConfig(
        input="characters",
        characters=CharacterConfig(
            filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)), highways=2
        ),
        hidden=4096,
        projection=512,
        skip=True,
        cell_clip=3.0,
        projection_clip=3.0,
        softmax=SoftmaxConfig(samples=8192, sampler="log_uniform", tied=False),
    ),
    batching=Batching(batching="stream", batch_tokens=2560, window=20),
    training=TrainingConfig(epochs=10, optimizer="adagrad", schedule="constant", warmup=0.0),
)

PRESETS = {
    "default": DEFAULT,
    "quick": QUICK,
    "characters": CHARACTERS,
    "stream": STREAM,
    "paper": PAPER,
}


# The learning rate over a training.


class RateSettings(Protocol):
    """The settings that decide the learning rate; classifiers have them, too."""

    @property
    def schedule(self) -> Schedule: ...
    @property
    def warmup(self) -> float: ...
    @property
    def peak_rate(self) -> float: ...


def learning_rate(config: RateSettings, done: float) -> float:
    """The learning rate after a fraction `done` of the training, from 0 to 1."""
    if config.warmup and done < config.warmup:
        start = 0.04 if config.schedule in ("plateau", "one_cycle") else 0.0
        return config.peak_rate * max(1e-4, start + (1 - start) * done / config.warmup)
    if config.schedule == "constant":
        return config.peak_rate
    if config.schedule == "plateau":
        return config.peak_rate * min(1.0, max(1e-3, (1 - done) / COOL_DOWN))
    rest = min(1.0, (done - config.warmup) / max(1e-9, 1 - config.warmup))
    floor = 1e-3 if config.schedule == "one_cycle" else 0.0
    return config.peak_rate * (floor + (1 - floor) * (1 + math.cos(math.pi * rest)) / 2)

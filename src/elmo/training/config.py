"""All settings of a pre-training run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.text.config import Batching, ReadOptions
from elmo.text.tokenizer import TokenizerConfig

OptimizerName = Literal["adamw", "adagrad", "sgd"]
Schedule = Literal["plateau", "one_cycle", "cosine", "constant"]
DEFAULT_RATES: dict[OptimizerName, float] = {"adamw": 4e-3, "adagrad": 0.2, "sgd": 1.0}
PLATEAU_RATE = 8e-3
"""Of adamw on a plateau; with other schedules whole runs were measured at the lower rate."""


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Which words the model can predict."""

    min_count: int = 3
    """Words seen less often are unknown."""
    max_vocabulary: int | None = 100_000
    """At most so many words, the most frequent ones."""
    held_out_share: float = 0.02
    """Share of the texts kept apart for validation; near copies of a text stay together."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.min_count < 1:
            yield f"min_count: must be positive, got {self.min_count}"
        if self.max_vocabulary is not None and self.max_vocabulary < 4:
            yield f"max_vocabulary: at least 4 (three are special), got {self.max_vocabulary}"
        if not 0 <= self.held_out_share < 1:
            yield f"held_out_share: expected a share from 0 to below 1, got {self.held_out_share}"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How the model learns."""

    epochs: int = 4
    """How often the text is read."""
    optimizer: OptimizerName = "adamw"
    """adamw, adagrad (the paper's) or sgd."""
    learning_rate: float | None = None
    """Peak learning rate; none: 0.008 for adamw on a plateau, 0.004 otherwise, 0.2 for adagrad,
    1.0 for sgd."""
    schedule: Schedule = "plateau"
    """plateau: up, level, then straight down over the last 40%; one_cycle: up, then in a half wave
    down to nothing; cosine: the same from a lower start; or constant."""
    warmup: float = 0.05
    """Share of the training in which the rate rises."""
    weight_decay: float = 0.0
    """Pull of the matrices towards zero (adamw, sgd)."""
    accumulate: int = 1
    """Read each batch in so many parts, one after the other: less memory, the same result."""
    clip: float = 1.0
    """Longest gradient allowed; 0 for no bound."""
    frozen_share: float = 0.0
    """Share of the training, from its begin, in which only the softmax learns and the rest of the
    model stays as it is. For a model that comes without a softmax: 0.2 by default."""
    evaluations_per_epoch: int = 1
    """How often the held-out text is evaluated in each epoch."""
    evaluation_tokens: int = 200_000
    """At most about so much of the held-out text is read each time."""
    patience: int | None = None
    """Stop after so many evaluations without a better one; none: train to the end."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 where the processor has units for it."""
    saved_precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the weights in the model folder."""
    seed: int = 0
    """Decides initial weights, order, dropout and samples."""
    checkpoint_minutes: float = 1.0
    """At most so much work is lost if the machine dies."""

    @property
    def peak_rate(self) -> float:
        """The learning rate given, or the optimizer's own."""
        if self.learning_rate:
            return self.learning_rate
        if self.optimizer == "adamw" and self.schedule == "plateau":
            return PLATEAU_RATE
        return DEFAULT_RATES[self.optimizer]

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        for name in ("epochs", "accumulate", "evaluations_per_epoch", "evaluation_tokens"):
            if getattr(self, name) < 1:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        for name in ("weight_decay", "clip", "seed", "checkpoint_minutes"):
            if getattr(self, name) < 0:
                yield f"{name}: cannot be negative, got {getattr(self, name)}"
        if self.learning_rate is not None and self.learning_rate <= 0:
            yield f"learning_rate: must be positive, got {self.learning_rate}"
        if not 0 <= self.warmup <= 1:
            yield f"warmup: expected a share from 0 to 1, got {self.warmup}"
        if not 0 <= self.frozen_share <= 1:
            yield f"frozen_share: expected a share from 0 to 1, got {self.frozen_share}"
        if self.patience is not None and self.patience < 1:
            yield f"patience: must be positive, got {self.patience}"
        if self.optimizer == "adagrad" and self.weight_decay:
            yield "weight_decay: adagrad is used without; set it to 0"


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
        """Yield what is wrong with these settings, stage by stage."""
        yield from self.vocabulary.problems()
        yield from self.model.problems()
        yield from self.batching.problems()
        yield from self.training.problems()
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

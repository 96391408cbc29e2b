"""Settings of a classifier. The names of the fields are the keys of saved files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from elmo.embed.config import MixConfig
from elmo.training.config import Schedule

POOLINGS = ("mean", "max", "first", "last", "attention")
EPOCHS, LEAST_STEPS = 3, 200
"""Default number of epochs, and of steps, which more epochs make up for with few texts."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The network between the layers of a biLM and the classes."""

    mix: MixConfig = field(default_factory=MixConfig)
    max_words: int = 400
    """Longer texts are cut to this many words."""
    own_words: int = 128
    """Size of the task embeddings: word vectors trained with the classifier and concatenated with
    ELMo's, the paper's [x; ELMo]; 0: ELMo's alone."""
    own_min_count: int = 3
    """Words that occur this often in the training texts get a task embedding."""
    own_lower_case: bool = False
    """A word without a task embedding takes that of its lower-case form."""
    encoder: Literal["none", "lstm", "attention"] = "none"
    """What reads the word vectors before they are pooled: nothing, a bidirectional LSTM, or
    self-attention."""
    encoder_dim: int = 128
    """Units of the encoder; of an LSTM, per direction."""
    pooling: str = "mean+max+first+last+attention"
    """How words become one vector: mean, max, first, last, attention, or several joined by '+'. At
    the last word the forward direction has read the whole text, at the first the backward one."""
    elmo_at_output: bool = False
    """Concatenate a second mix of the biLM's layers with the encoder's output, as in the paper."""
    hidden: int = 256
    """Units of the hidden layer between text and classes; 0: none, the classifier is linear."""
    dropout: float = 0.2
    """Fraction of the units dropped in training."""
    word_dropout: float = 0.0
    """Fraction of the words dropped in training."""

    @property
    def poolings(self) -> tuple[str, ...]:
        """The names of the poolings, in the order in which their results are concatenated."""
        return tuple(self.pooling.split("+"))

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from self.mix.problems()
        for name in ("own_words", "hidden"):
            if getattr(self, name) < 0:
                yield f"{name}: cannot be negative, got {getattr(self, name)}"
        for name in ("max_words", "own_min_count", "encoder_dim"):
            if getattr(self, name) < 1:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        for name in self.poolings:
            if name not in POOLINGS:
                known = ", ".join(POOLINGS)
                yield f"pooling: expected {known}, or several joined by '+'; got {name!r}"
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                yield f"{name}: expected a fraction from 0 to below 1, got {getattr(self, name)}"
        if self.elmo_at_output and self.encoder == "none":
            yield "elmo_at_output: needs an encoder, whose output it joins; encoder is none"


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
    """Training of the biLM itself, after that of the network on top of it."""

    fine_tune_epochs: int = 0
    """Epochs in which the biLM learns too; 0: it stays frozen."""
    fine_tune_rate: float = 1e-3
    """Peak learning rate of the biLM's top layer; the network keeps its own rate."""
    rate_decay: float = 0.7
    """Learning rate of each layer relative to that of the layer above it."""
    unfreeze_epochs: float = 0.25
    """Epochs after which the next lower layer starts to learn (gradual unfreezing)."""
    language_weight: float = 0.0
    """Weight of the language-model loss on the same texts, an auxiliary objective."""
    bilm_dropout: float = 0.2
    """Dropout in the biLM while it learns."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        for name in ("fine_tune_epochs", "unfreeze_epochs", "language_weight"):
            if getattr(self, name) < 0:
                yield f"{name}: cannot be negative, got {getattr(self, name)}"
        if self.fine_tune_rate <= 0:
            yield f"fine_tune_rate: must be positive, got {self.fine_tune_rate}"
        if not 0 < self.rate_decay <= 1:
            yield f"rate_decay: expected more than 0 and at most 1, got {self.rate_decay}"
        if not 0 <= self.bilm_dropout < 1:
            yield f"bilm_dropout: expected a fraction from 0 to below 1, got {self.bilm_dropout}"


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """Training of the network."""

    epochs: int | None = None
    """Epochs with a frozen biLM. Default: 3, and with few texts as many as make 200 steps."""
    batch_texts: int = 64
    """Texts per step."""
    learning_rate: float = 3e-3
    """Peak learning rate."""
    function_rate: float = 0.3
    """Learning rate of a learned function of the layers, relative to the rest."""
    text_rate: float = 0.1
    """The same for the layer that reads a text's vector: each of its units sums thousands of
    numbers, so that small steps of all weights add up to a large step of the unit."""
    schedule: Schedule = "one_cycle"
    """plateau: warm up, stay level, fall linearly over the last 40%; one_cycle: warm up, fall to 0
    as a half cosine; cosine: the same from a lower start; or constant."""
    warmup: float = 0.1
    """Fraction of the training in which the learning rate rises."""
    weight_decay: float = 0.01
    """Weight decay of the matrices."""
    label_smoothing: float = 0.1
    """Fraction of the target probability spread evenly over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: weight each class inversely to its frequency."""
    clip: float = 1.0
    """Maximum gradient norm; 0: no clipping."""
    development_share: float = 0.05
    """Fraction of each class held out to choose the epoch: the last one within a standard error of
    the best."""
    patience: int | None = None
    """Stop after this many epochs without a better one. Default: never."""
    seed: int = 0
    """Determines initial weights, development rows, order and dropout."""
    feature_memory: float | None = None
    """Gigabytes of memory for the biLM's layers of all texts; beyond that they are kept on disk.
    Default: half of the machine's memory."""
    fine_tuning: FineTuningConfig = field(default_factory=FineTuningConfig)

    @property
    def peak_rate(self) -> float:
        """The highest learning rate, as schedules ask for it."""
        return self.learning_rate

    def epochs_for(self, texts: int) -> int:
        """How many epochs a training on this many texts has."""
        if self.epochs is not None:
            return self.epochs
        return self.enough_epochs(texts, EPOCHS, LEAST_STEPS)

    def enough_epochs(self, texts: int, usual: int, least_steps: int) -> int:
        """The usual number of epochs, or with few texts as many as make this many steps."""
        steps_per_epoch = -(-texts // self.batch_texts)
        return max(usual, -(-least_steps // steps_per_epoch))

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from self.fine_tuning.problems()
        for name in ("epochs", "batch_texts", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"{name}: must be positive, got {value}"
        for name in ("weight_decay", "clip", "seed", "feature_memory"):
            if (getattr(self, name) or 0) < 0:
                yield f"{name}: cannot be negative, got {getattr(self, name)}"
        for name in ("learning_rate", "function_rate", "text_rate"):
            if getattr(self, name) <= 0:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        for name in ("warmup", "label_smoothing"):
            if not 0 <= getattr(self, name) <= 1:
                yield f"{name}: expected a fraction from 0 to 1, got {getattr(self, name)}"
        if not 0 < self.development_share < 1:
            fraction = self.development_share
            yield f"development_share: expected a fraction between 0 and 1, got {fraction}"


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """All settings of a classifier."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from self.network.problems()
        yield from self.learning.problems()

"""What a classifier is made of, and how it learns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from elmo.embed.config import MixConfig
from elmo.training.config import Schedule

POOLINGS = ("mean", "max", "first", "last", "attention")
EPOCHS, LEAST_STEPS = 3, 200
"""Of a training whose user does not say how many."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The network between the layers of a biLM and the classes."""

    mix: MixConfig = field(default_factory=MixConfig)
    max_words: int = 400
    """Longer texts are cut to so many words."""
    own_words: int = 128
    """Size of word vectors that the task learns for itself, put beside the biLM's as the paper's
    [x; ELMo]; 0: the biLM's alone."""
    own_min_count: int = 3
    """A word gets a vector of its own if the training texts hold it so often."""
    own_lower_case: bool = False
    """A word without a vector of its own takes that of its lower-case form."""
    encoder: Literal["none", "lstm", "attention"] = "none"
    """What reads the vectors of the words before they are pooled: nothing, an LSTM in both
    directions, or words that attend to each other."""
    encoder_dim: int = 128
    """Units of the encoder; of an LSTM, in each direction."""
    pooling: str = "mean+max+first+last+attention"
    """How words become a text: mean, max, first, last, attention, or several joined by '+'. At the
    last word the forward direction has read all of a text, at the first the backward one."""
    elmo_at_output: bool = False
    """Put a second mix of the biLM's layers beside the encoder's output, as the paper does."""
    hidden: int = 256
    """Units of the layer between text and classes; 0: none, the classifier is linear."""
    dropout: float = 0.2
    """Share of the units dropped in training."""
    word_dropout: float = 0.0
    """Share of the words dropped whole in training."""

    @property
    def poolings(self) -> tuple[str, ...]:
        """The names of the poolings, in the order in which their results are joined."""
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
                yield f"pooling: expected {known}, or some of them joined by '+'; got {name!r}"
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                yield f"{name}: expected a share from 0 to below 1, got {getattr(self, name)}"
        if self.elmo_at_output and self.encoder == "none":
            yield "elmo_at_output: there is no encoder whose output it could join"


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
    """How the biLM itself learns, after the network on top of it."""

    fine_tune_epochs: int = 0
    """How often the texts are read with the biLM learning too; 0: it stays as it is."""
    fine_tune_rate: float = 1e-3
    """Peak learning rate of the biLM's top layer; the network keeps its own."""
    rate_decay: float = 0.7
    """Each lower layer learns at so many times the rate of the one above it."""
    unfreeze_epochs: float = 0.25
    """The next lower layer starts to learn so many epochs after the one above it."""
    language_weight: float = 0.0
    """Weight of the language-model loss on the same texts, which keeps the biLM a biLM."""
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
            yield f"bilm_dropout: expected a share from 0 to below 1, got {self.bilm_dropout}"


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """How the network learns."""

    epochs: int | None = None
    """How often the texts are read while the biLM stays as it is; none: three times, and few texts
    as often as it takes for 200 steps."""
    batch_texts: int = 64
    """Texts in a step."""
    learning_rate: float = 3e-3
    """Peak learning rate."""
    function_rate: float = 0.3
    """A learned function of the layers learns at so many times the rate of the rest."""
    text_rate: float = 0.1
    """The same for the layer that reads a text's vector: each of its units sums thousands of
    numbers, so that small steps of all the weights are a large step of the unit."""
    schedule: Schedule = "one_cycle"
    """plateau: up, level, then straight down over the last 40%; one_cycle: up, then in a half wave
    down to nothing; cosine: the same from a lower start; or constant."""
    warmup: float = 0.1
    """Share of the training in which the rate rises."""
    weight_decay: float = 0.01
    """Pull of the matrices towards zero."""
    label_smoothing: float = 0.1
    """Share of the probability that is asked to go to all classes alike."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: a mistake counts the more, the rarer its class is."""
    clip: float = 1.0
    """Longest gradient allowed; 0 for no bound."""
    development_share: float = 0.05
    """Share of each class set aside; the last epoch counts that is no more than a standard error
    below the best on them."""
    patience: int | None = None
    """Stop after so many epochs without a better one; none: go on to the end."""
    seed: int = 0
    """Decides first weights, development rows, order and dropout."""
    feature_memory: float | None = None
    """Gigabytes that the biLM's layers of all texts may take, beyond which they are kept on disk;
    none: half of the machine's."""
    fine_tuning: FineTuningConfig = field(default_factory=FineTuningConfig)

    @property
    def peak_rate(self) -> float:
        """The learning rate at its highest."""
        return self.learning_rate

    def epochs_for(self, texts: int) -> int:
        """How often so many texts are read."""
        if self.epochs is not None:
            return self.epochs
        return self.enough_epochs(texts, EPOCHS, LEAST_STEPS)

    def enough_epochs(self, texts: int, usual: int, least_steps: int) -> int:
        """As many epochs as usual; of few texts as many as it takes for so many steps."""
        steps_an_epoch = -(-texts // self.batch_texts)
        return max(usual, -(-least_steps // steps_an_epoch))

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from self.fine_tuning.problems()
        for name in ("epochs", "batch_texts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"{name}: must be positive, got {value}"
        for name in ("weight_decay", "clip", "seed", "feature_memory"):
            if (getattr(self, name) or 0) < 0:
                yield f"{name}: cannot be negative, got {getattr(self, name)}"
        for name in ("learning_rate", "function_rate", "text_rate"):
            if getattr(self, name) <= 0:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        if self.patience is not None and self.patience < 1:
            yield f"patience: must be positive, got {self.patience}"
        for name, top in (("warmup", 1.0), ("label_smoothing", 1.0)):
            if not 0 <= getattr(self, name) <= top:
                yield f"{name}: expected a share from 0 to 1, got {getattr(self, name)}"
        if not 0 < self.development_share < 1:
            share = self.development_share
            yield f"development_share: expected a share between 0 and 1, got {share}"


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """Everything that decides what a classifier is and how it comes about."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings, part by part."""
        yield from self.network.problems()
        yield from self.learning.problems()

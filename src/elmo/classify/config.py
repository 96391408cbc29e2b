"""Settings of a classifier. The names of the fields are the keys of saved files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from elmo.config import Count, DropoutRate, Fraction, NotNegative, Positive, Range, Seed
from elmo.embed.config import MixConfig
from elmo.training.config import Schedule

POOLINGS = ("mean", "max", "first", "last", "attention")
PARTS = ("ngrams", "characters", "words", "elmo", "network")
MOST_EPOCHS, MOST_STEPS = 50, 3000
"""The most epochs or, with few texts, steps: by then the development loss rose long ago."""
Size = Annotated[int, Range(0, 1 << 16)]
"""Units of a layer; more are a typing error, they would not fit into memory."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The network between the layers of a biLM and the classes."""

    mix: MixConfig = field(default_factory=MixConfig)
    max_words: Count = 400
    """The network reads this many words of a text; the other parts read all of them."""
    task_dim: Size = 128
    """Size of the task embeddings: word vectors trained with the classifier and concatenated with
    ELMo's, the paper's [x; ELMo]; 0: ELMo's alone."""
    task_min_count: Count = 3
    """Words that occur this often in the training texts get a task embedding."""
    task_lower_case: bool = False
    """A word without a task embedding takes that of its lower-case form."""
    encoder: Literal["none", "lstm", "attention"] = "none"
    """What reads the word vectors before they are pooled: nothing, a bidirectional LSTM, or
    self-attention."""
    encoder_dim: Annotated[int, Range(1, 1 << 16)] = 128
    """Units of the encoder; of an LSTM, per direction."""
    pooling: str = "mean+max+first+last+attention"
    """How words become one vector: mean, max, first, last, attention, or several joined by '+'. At
    the last word the forward direction has read the whole text, at the first the backward one."""
    elmo_at_output: bool = False
    """Concatenate a second mix of the biLM's layers with the encoder's output, as in the paper."""
    hidden: Size = 256
    """Units of the hidden layer between text and classes; 0: none, the classifier is linear."""
    dropout: DropoutRate = 0.2
    """Fraction of the units dropped in training."""
    word_dropout: DropoutRate = 0.0
    """Fraction of the words dropped in training."""

    @property
    def poolings(self) -> tuple[str, ...]:
        """The names of the poolings, in the order in which their results are concatenated."""
        return tuple(self.pooling.split("+"))

    def problems(self) -> Iterable[str]:
        yield from self.mix.problems()
        for name in self.poolings:
            if name not in POOLINGS:
                known = ", ".join(POOLINGS)
                yield f"pooling: expected {known}, or several joined by '+'; got {name!r}"
        if self.elmo_at_output and self.encoder == "none":
            yield "elmo_at_output: needs an encoder, whose output it joins; encoder is none"


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
    """Training of the biLM itself, after that of the network on top of it."""

    fine_tune_epochs: Annotated[int, Range(0)] = 0
    """Epochs in which the biLM learns too; 0: it stays frozen."""
    fine_tune_rate: Positive = 1e-3
    """Peak learning rate of the biLM's top layer; the network keeps its own rate."""
    rate_decay: Annotated[float, Range(0, 1, "(]")] = 0.7
    """Learning rate of each layer relative to that of the layer above it."""
    unfreeze_epochs: NotNegative = 0.25
    """Epochs after which the next lower layer starts to learn (gradual unfreezing)."""
    language_weight: NotNegative = 0.0
    """Weight of the language-model loss on the same texts, an auxiliary objective."""
    bilm_dropout: DropoutRate = 0.2
    """Dropout in the biLM while it learns."""


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """Training of the network."""

    epochs: Count | None = None
    """Epochs with a frozen biLM. Default: until the development loss stops falling, see
    `patience`."""
    batch_texts: Count = 64
    """Texts per step."""
    learning_rate: Positive = 3e-3
    """Peak learning rate."""
    function_rate: Positive = 0.3
    """Learning rate of a learned function of the layers, relative to the rest."""
    text_rate: Positive = 0.1
    """The same for the layer that reads a text's vector: each of its units sums thousands of
    numbers, so that small steps of all weights add up to a large step of the unit."""
    schedule: Schedule = "one_cycle"
    """With a given number of epochs. plateau: warm up, stay level, fall linearly over the last 40%;
    one_cycle: warm up, fall to 0.1% as a half cosine; cosine: the same from 0 and to 0; or
    constant. Without, the rate stays level and falls to a third where the loss stops falling."""
    warmup: Fraction = 0.1
    """Fraction of the training in which the learning rate rises."""
    weight_decay: NotNegative = 0.01
    """Weight decay of the matrices."""
    label_smoothing: Fraction = 0.1
    """Fraction of the target probability spread evenly over all classes."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: weight each class inversely to its frequency."""
    clip: NotNegative = 1.0
    """Maximum gradient norm; 0: no clipping."""
    development_share: Annotated[float, Range(0.0001, 1, "[)")] = 0.05
    """Fraction of each class held out from the network, to choose the epoch by and to weight the
    parts of the classifier by."""
    patience: Count | None = None
    """Epochs without a lower development loss, after which the learning rate falls to a third; the
    third time, training stops. Default: 3. With a given number of epochs: stop after so many epochs
    without a better one; default: never."""
    seed: Seed = 0
    """Determines initial weights, development rows, order and dropout."""
    feature_memory: NotNegative | None = None
    """Gigabytes of memory for the biLM's layers of all texts; beyond that they are kept on disk.
    Default: half of the machine's memory."""
    fine_tuning: FineTuningConfig = field(default_factory=FineTuningConfig)

    @property
    def peak_rate(self) -> float:
        """The highest learning rate, as schedules ask for it."""
        return self.learning_rate

    def epochs_for(self, texts: int) -> int:
        """The number of epochs or, where none is given, the most that a training may take."""
        if self.epochs is not None:
            return self.epochs
        return self.enough_epochs(texts, MOST_EPOCHS, MOST_STEPS)

    def enough_epochs(self, texts: int, usual: int, least_steps: int) -> int:
        """The usual number of epochs, or with few texts as many as make this many steps."""
        steps_per_epoch = -(-texts // self.batch_texts)
        return max(usual, -(-least_steps // steps_per_epoch))


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """All settings of a classifier."""

    parts: str | None = None
    """What scores the classes, joined by '+'. ngrams: a linear SVM on the TF-IDF of word 1- and
    2-grams; characters: the same on 2 to 5 characters of a word; words: a logistic regression on
    the average of the static word vectors that come with the biLM, if any do; elmo: the same on the
    biLM's layers, pooled over all words; network: the neural network. Their weights are fitted to
    texts that they have not learned from. Default: ngrams+characters+words+elmo, and the network as
    soon as one of its settings is given; a biLM that is fine-tuned has no elmo part."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)

    def resolved_parts(
        self, *, word_vectors: bool = False, companions: bool = False
    ) -> tuple[str, ...]:
        """The parts that are asked for, or the default.

        Args:
            word_vectors: Whether there are word vectors for the network.
            companions: Whether static word vectors come with the biLM.
        """
        if self.parts is not None:
            return tuple(self.parts.split("+"))
        common = ("seed", "class_weights", "development_share", "feature_memory")
        shared = {name: getattr(self.learning, name) for name in common}
        plain = ClassifierConfig(learning=LearningConfig(**shared))
        left_out = set[str]() if companions else {"words"}
        if self == plain and not word_vectors:
            left_out.add("network")
        if self.learning.fine_tuning.fine_tune_epochs:
            left_out.add("elmo")
        return tuple(part for part in PARTS if part not in left_out)

    def problems(self) -> Iterable[str]:
        yield from self.network.problems()
        parts = self.resolved_parts()
        if len(set(parts)) < len(parts) or not set(parts) <= set(PARTS):
            known = ", ".join(PARTS)
            yield f"parts: expected {known}, or several joined by '+'; got {self.parts!r}"
        if self.learning.fine_tuning.fine_tune_epochs and "network" not in parts:
            yield f"fine_tune_epochs: the biLM learns with the network; parts is {self.parts!r}"
        if self.learning.fine_tuning.fine_tune_epochs and "elmo" in parts:
            yield f"parts: elmo reads a biLM that does not change; got {self.parts!r}"


def upgraded(config: object) -> object:
    """The JSON of a `ClassifierConfig` with the keys that version 0.1 wrote renamed."""
    if not isinstance(config, Mapping):
        return config
    config = cast("Mapping[str, Any]", config)
    network = config.get("network")
    if not isinstance(network, Mapping) or "own_words" not in network:
        return config
    old = cast("Mapping[str, Any]", network)
    names = {key: key.replace("own_words", "task_dim").replace("own_", "task_") for key in old}
    return {"parts": "network", **config, "network": {names[key]: old[key] for key in old}}

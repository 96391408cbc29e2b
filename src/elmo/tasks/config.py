"""Settings of taggers, pair classifiers and probes. Field names are the keys of saved files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from elmo.classify.config import LearningConfig, Size
from elmo.config import Count, DropoutRate, NotNegative, Range, Seed
from elmo.embed.config import MixConfig

Where = Literal["input", "output", "both", "none"]
Scheme = Literal["iob1", "iob2", "bioes"]
Units = Annotated[int, Range(1, 1 << 16)]


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """The vectors of words that a task network reads: [x; ELMo] in the paper."""

    elmo: Where = "input"
    """Where ELMo joins: input, [x; ELMo]; output, [h; ELMo] after the encoder; both; or none, task
    embeddings alone (the baseline)."""
    mix: MixConfig = field(default_factory=MixConfig)
    task_dim: Size = 100
    """Size of the task embeddings x, trained with the network; 0: ELMo alone."""
    task_min_count: Count = 2
    """Words that occur this often in the training texts get a task embedding."""
    task_lower_case: bool = True
    """A word without a task embedding takes that of its lower-case form."""

    @property
    def at_input(self) -> bool:
        """Whether ELMo is part of what the encoder reads."""
        return self.elmo in ("input", "both")

    @property
    def at_output(self) -> bool:
        """Whether ELMo joins the encoder's output."""
        return self.elmo in ("output", "both")

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from self.mix.problems()
        if not self.task_dim and not self.at_input:
            yield f"task_dim: the encoder would read nothing, since elmo is {self.elmo!r}; got 0"


def _tagger_learning() -> LearningConfig:
    return LearningConfig(
        batch_texts=32, learning_rate=2e-3, text_rate=1.0, label_smoothing=0.0,
        development_share=0.1, patience=1,
    )  # fmt: skip


def _pair_learning() -> LearningConfig:
    return LearningConfig(
        batch_texts=32, learning_rate=1e-3, text_rate=1.0, label_smoothing=0.0,
        development_share=0.1, patience=1,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """All settings of a tagger."""

    words: WordsConfig = field(default_factory=WordsConfig)
    encoder: Literal["lstm", "none"] = "lstm"
    """What reads the words in order: a bidirectional LSTM, or nothing."""
    encoder_dim: Units = 128
    """Units of the LSTM per direction."""
    decoder: Literal["auto", "softmax", "crf"] = "auto"
    """softmax: each tag for itself; crf: the best sequence of tags; auto: crf for tags of spans."""
    span_scheme: Scheme = "iob2"
    """How spans are written as tags inside the tagger; files may have any of the three."""
    dropout: DropoutRate = 0.3
    """Fraction of the units dropped in training, before and after the encoder."""
    learning: LearningConfig = field(default_factory=_tagger_learning)

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from (f"words.{problem}" for problem in self.words.problems())
        if self.encoder == "none" and self.words.elmo in ("output", "both"):
            yield f"words.elmo: {self.words.elmo!r} needs an encoder, whose output it joins"
        if self.decoder == "crf" and self.learning.label_smoothing:
            yield "learning.label_smoothing: only a softmax has it, but the decoder is crf"
        yield from _learning_problems(self.words, self.learning)


@dataclass(frozen=True, kw_only=True)
class PairConfig:
    """All settings of a pair classifier."""

    words: WordsConfig = field(default_factory=WordsConfig)
    target: Literal["auto", "label", "score"] = "auto"
    """label: one of several classes; score: a number; auto: score if the column is named so."""
    model: Literal["attention", "esim"] = "esim"
    """attention: decomposable attention over the words (Parikh et al. 2016); esim: the same between
    two bidirectional LSTMs (Chen et al. 2017), slower and better."""
    encoder_dim: Units = 100
    """Units of each LSTM per direction; of the attention's layers."""
    hidden: Units = 200
    """Units of the last hidden layer."""
    max_words: Count = 100
    """Longer texts are cut."""
    dropout: DropoutRate = 0.3
    """Fraction of the units dropped in training."""
    learning: LearningConfig = field(default_factory=_pair_learning)

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        yield from (f"words.{problem}" for problem in self.words.problems())
        yield from _learning_problems(self.words, self.learning)


def _learning_problems(words: WordsConfig, learning: LearningConfig) -> Iterable[str]:
    if learning.class_weights != "none":
        yield "learning.class_weights: only text classifiers have them; got 'balanced'"
    if words.elmo == "none" and learning.fine_tuning.fine_tune_epochs:
        yield "learning.fine_tune_epochs: there is no biLM to fine-tune, since elmo is none"


@dataclass(frozen=True, kw_only=True)
class ReadTags:
    """Where files hold words and tags."""

    word_column: Annotated[int, Range(0)] = 0
    """Column of the word in CoNLL column files, counted from 0."""
    tag_column: str | None = None
    """Column of the tag: in column files a number counted from 0, or last; in CoNLL-U upos, xpos or
    deprel. Default: last, or upos."""


@dataclass(frozen=True, kw_only=True)
class ReadPairs:
    """Where tables hold the two texts and the label or score of a pair."""

    first_column: str | None = None
    """Column of the first text. Default: sentence1, premise, text1, question1 or first."""
    second_column: str | None = None
    """Column of the second text. Default: the name that belongs to that of the first."""
    target_column: str | None = None
    """Column of the label or score. Default: label or score."""


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """What probes measure, and how."""

    epochs: Count = 5
    """Epochs of the linear probe for parts of speech."""
    learning_rate: float = 0.01
    """Its learning rate."""
    train_words: Count | None = None
    """Words of the training text that are used. Default: all."""
    seed: Seed = 0
    """Seed of the linear probe and of the random biLM."""


@dataclass(frozen=True, kw_only=True)
class PaperConfig:
    """What `elmo study paper` computes."""

    tasks: tuple[str, ...] = ("pos", "ner", "sst5", "snli", "ag_news", "stsb")
    """Tasks of the first table: baseline against ELMo."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Each arm of the first table is trained once per seed; the other tables use the first."""
    mix_tasks: tuple[str, ...] = ("pos", "ner", "snli")
    """Tasks on which mixes of layers are compared: last layer, λ = 1, λ = 0.001."""
    place_tasks: tuple[str, ...] = ("pos", "ner", "snli")
    """Tasks on which ELMo at the input, at the output and at both are compared."""
    fraction_tasks: tuple[str, ...] = ("pos", "snli")
    """Tasks that are learned from fractions of their data."""
    fractions: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)
    """Fractions of the training rows for these tasks."""
    probes: tuple[str, ...] = ("pos", "senses", "wic", "scws", "similarity")
    """Probes by layer."""
    words: tuple[str, ...] = ("play", "bank", "court", "light")
    """Ambiguous words whose neighbours are shown."""
    train_rows: Count | None = None
    """The most training rows of a task. Default: all."""
    test_rows: Count | None = None
    """The most test rows of a task. Default: all."""
    epochs: Count | None = None
    """Epochs of each training. Default: until the development loss stops falling."""
    probe_words: Count | None = None
    """Words that the linear probe of parts of speech learns from. Default: all."""
    feature_memory: NotNegative | None = None
    """Gigabytes of memory for the biLM's layers of a task. Default: half of the machine's."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        known = PaperConfig()
        for name in ("tasks", "mix_tasks", "place_tasks", "fraction_tasks", "probes"):
            every = known.probes if name == "probes" else known.tasks
            for one in getattr(self, name):
                if one not in every:
                    yield f"{name}: expected some of {', '.join(every)}; got {one!r}"
        for name in ("place_tasks", "mix_tasks"):
            for one in set(getattr(self, name)) & {"sst5", "ag_news"}:
                yield f"{name}: only taggers and pairs have it; got {one!r}"
        if not self.seeds or len(set(self.seeds)) != len(self.seeds) or min(self.seeds) < 0:
            yield f"seeds: expected one or more, each once; got {list(self.seeds)}"
        if any(not 0 < one <= 1 for one in self.fractions):
            yield f"fractions: expected numbers above 0, up to 1; got {list(self.fractions)}"


PAPER_PRESETS = {
    "quick": PaperConfig(
        tasks=("pos", "ner", "snli"),
        seeds=(0,),
        mix_tasks=("pos",),
        place_tasks=("pos",),
        fraction_tasks=("pos",),
        fractions=(0.1, 1.0),
        probes=("pos", "wic"),
        words=("play",),
        train_rows=1000,
        test_rows=500,
        epochs=4,
        probe_words=20_000,
    ),
    "standard": PaperConfig(),
}
"""quick shows what the report looks like, in minutes; standard is the whole study."""

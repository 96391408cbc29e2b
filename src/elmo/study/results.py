"""What a study found: everything that its report shows, and that results.json holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elmo.classify.metrics import Metrics

Group = Literal["control", "static", "elmo"]
Setting = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Named:
    """A setting or a fact, by name."""

    name: str
    value: Setting


@dataclass(frozen=True, kw_only=True)
class About:
    """What was studied, with what, where and when."""

    command: str
    data: str
    """Name of the data, such as "ag_news", or "generated" for the corpus that elmo makes itself."""
    train_rows: int
    development_rows: int
    """Of the training rows, those that settings and epochs are chosen by."""
    test_rows: int
    labels: tuple[str, ...]
    preset: str
    seeds: tuple[int, ...]
    settings: tuple[Named, ...]
    fingerprints: tuple[Named, ...]
    """SHA-256 of the data as read, and of the biLM's weights."""
    versions: tuple[Named, ...]
    machine: str
    finished: str
    """Date and time in UTC, as 2026-01-31 12:00."""
    seconds: float
    """Work done in all, over all interruptions."""
    shows_texts: bool
    """Whether texts may be shown; if not, only their row numbers are."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Settings that were tried on the development rows."""

    settings: tuple[Named, ...]
    development_accuracy: float


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """What one seed gave."""

    seed: int
    development_accuracy: float
    train: Metrics
    test: Metrics
    training_seconds: float
    layer_weights: tuple[float, ...] | None = None
    """Normalised, layer 0 first, of a mix that sums layers."""
    gamma: float | None = None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Figures over seeds."""

    mean: float
    deviation: float
    """Standard deviation of the sample; 0 for one seed."""
    low: float
    """The 95 percent interval: Wilson's, of the mean over as many rows as there are."""
    high: float


@dataclass(frozen=True, kw_only=True)
class Paired:
    """McNemar's test of seed by seed predictions on the same test rows; the first seed's counts."""

    against: str
    """Name of the other row: the static row that was best on the development rows."""
    only_this: int
    """Test rows that only this row has right."""
    only_other: int
    p: float


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Two classes that a row mixes up, and texts of the one it took for the other."""

    label: str
    predicted: str
    count: int
    """Over the first seed's test predictions."""
    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A test row."""

    row: int
    """Counted from 0."""
    text: str | None
    """None where texts are not shown."""


@dataclass(frozen=True, kw_only=True)
class RowResult:
    """One row of the comparison."""

    name: str
    """Such as "majority", "tfidf", "own", "svd-5", "skipgram-5", "layer-1", "average", "frozen",
    "trainable", "function", "fine-tuned"."""
    title: str
    """Such as "SVD, window 5"."""
    group: Group
    chosen: tuple[Named, ...]
    """The settings that were best on the development rows."""
    candidates: tuple[Candidate, ...]
    seeds: tuple[SeedResult, ...]
    train_accuracy: Spread
    test_accuracy: Spread
    test_macro_f1: Spread
    development_accuracy: Spread
    paired: Paired | None
    """None for the row that the others are compared with."""
    parameters: int
    """Numbers that the classifier learned."""
    embedding_parameters: int
    """Numbers of the embedding below it."""
    embedding_seconds: float | None
    """To make the embedding, or none if it was given or there is none."""
    texts_per_second: float
    """Predicting the test rows, from words to classes."""
    confusions: tuple[Confusion, ...]
    """The most frequent first."""


@dataclass(frozen=True, kw_only=True)
class FailedRow:
    """A row that could not be computed."""

    name: str
    title: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw of frozen weights, trained on a part of the rows."""

    seed: int
    layer_weights: tuple[float, ...]
    development_accuracy: float
    test_accuracy: float


@dataclass(frozen=True, kw_only=True)
class Draws:
    """How much depends on what frozen weights are drawn."""

    train_rows: int
    """Of how many rows each was trained."""
    draws: tuple[Draw, ...]
    trainable_test_accuracy: float
    """Of learned weights on the same rows."""


@dataclass(frozen=True, kw_only=True)
class SamplePoint:
    """Accuracy with so many labels a class."""

    row: str
    """Name of the row."""
    per_class: int | None
    """None: all rows."""
    train_rows: int
    test_accuracy: Spread


@dataclass(frozen=True, kw_only=True)
class SweepPoint:
    """What one value of a setting gave."""

    value: float
    development_accuracy: float
    test_accuracy: float
    note: str | None = None
    """Such as the perplexity of a biLM of that size."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A setting, varied while all others stay."""

    setting: str
    """Such as "window", "dim", "hidden", "mix-pull" or "learning-rate"."""
    row: str
    """Name of the row it was varied for."""
    train_rows: int
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True, kw_only=True)
class ContextNeighbour:
    """A word in a text whose vector is near."""

    word: str
    similarity: float
    text: str | None
    """The words around it, or none where texts are not shown."""
    row: int


@dataclass(frozen=True, kw_only=True)
class InContext:
    """An ambiguous word in one text, and the words nearest to it there."""

    text: str | None
    row: int
    neighbours: tuple[ContextNeighbour, ...]


@dataclass(frozen=True, kw_only=True)
class StaticNeighbour:
    """A word whose static vector is near."""

    word: str
    similarity: float


@dataclass(frozen=True, kw_only=True)
class AmbiguousWord:
    """A word with several senses: one static list against lists in context."""

    word: str
    static_row: str
    static: tuple[StaticNeighbour, ...]
    contexts: tuple[InContext, ...]


@dataclass(frozen=True, kw_only=True)
class SenseAccuracy:
    """How often the nearest occurrence of an ambiguous word has the same sense."""

    embedding: str
    """Such as "SVD, window 5" or "ELMo layer 1"."""
    accuracy: float
    chance: float
    """What a random occurrence of the same word would give."""
    occurrences: int


@dataclass(frozen=True, kw_only=True)
class PretrainingEpoch:
    """What the biLM had reached after an epoch."""

    epoch: float
    perplexity: float
    forward_perplexity: float
    backward_perplexity: float


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """The biLM under the ELMo rows."""

    source: str
    """"trained by this study", or where it was taken from."""
    vocabulary: int
    parameters: int
    layers: int
    width: int
    """Of one direction."""
    perplexity: float | None
    """On held-out text, both directions; none where it was not measured."""
    accuracy: float | None
    """Share of held-out words that were predicted first."""
    seconds: float | None
    history: tuple[PretrainingEpoch, ...]


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """Everything that a study found."""

    about: About
    language_model: LanguageModel | None
    rows: tuple[RowResult, ...]
    """In the order of the comparison."""
    failed: tuple[FailedRow, ...]
    draws: Draws | None
    samples: tuple[SamplePoint, ...]
    sweeps: tuple[Sweep, ...]
    words: tuple[AmbiguousWord, ...]
    senses: tuple[SenseAccuracy, ...]

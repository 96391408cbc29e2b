"""What a study found: everything that its report shows, and that results.json holds."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.classify.metrics import Metrics, mcnemar, measure, wilson
from elmo.config import from_json, nearest, to_json
from elmo.embed.config import MixConfig
from elmo.errors import ConfigError, UserError
from elmo.files import read_json, write_json
from elmo.runtime import cpu_cores, machine_memory
from elmo.study.config import StudyConfig
from elmo.study.data import StudyData

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


# The rows of the comparison: what each one's classifier reads.


Kind = Literal["majority", "tfidf", "network", "fine-tuned"]
NOTHING, ELMO = "nothing", "elmo"
"""Names of embeddings; a static one is named by its method and window."""
METHODS = {"svd": "SVD", "skipgram": "Skip-gram"}


@dataclass(frozen=True)
class Row:
    """One row of the comparison."""

    name: str
    title: str
    group: Group
    kind: Kind = "network"
    embedding: str = NOTHING
    mix: MixConfig = field(default_factory=MixConfig)

    @property
    def is_static(self) -> bool:
        """Whether its vectors are the same in every sentence."""
        return self.group == "static"


def all_rows(config: StudyConfig, layers: int) -> tuple[Row, ...]:
    """Every row there can be, over a biLM of so many layers above the words."""
    return (
        Row("majority", "Majority class", "control", "majority"),
        Row("tfidf", "TF-IDF, linear SVM", "control", "tfidf"),
        Row("own", "Own word vectors alone", "control"),
        *(_static(method, window) for method in METHODS for window in config.windows),
        *(_layer(number) for number in range(layers + 1)),
        _elmo("average", "average", "ELMo, average"),
        _elmo("frozen", "frozen", "ELMo, frozen λs"),
        _elmo("trainable", "trainable", "ELMo, trainable λs"),
        _elmo("function", "function", "ELMo, learned function"),
        Row("fine-tuned", "ELMo, fine-tuned", "elmo", "fine-tuned", ELMO),
    )


def chosen_rows(config: StudyConfig, layers: int) -> tuple[Row, ...]:
    """The rows asked for by name or kind, in the order of the comparison."""
    rows = all_rows(config, layers)
    if not config.rows:
        return rows
    kinds = _kinds(rows)
    wanted: set[str] = set()
    for name in config.rows:
        if name not in kinds:
            raise UserError(
                f"no row is named {name!r}{nearest(name, kinds)}; there are: {', '.join(kinds)}; "
                "windows other than these are named with --windows"
            )
        wanted |= kinds[name]
    return tuple(row for row in rows if row.name in wanted)


def _kinds(rows: Sequence[Row]) -> dict[str, set[str]]:
    """The rows that a name stands for."""
    kinds = {row.name: {row.name} for row in rows}
    for row in rows:
        kinds.setdefault(row.group, set()).add(row.name)
        if row.is_static:
            kinds.setdefault(row.name.split("-")[0], set()).add(row.name)
    return kinds | {"mixes": {"frozen", "trainable", "function"}}


def _static(method: str, window: int) -> Row:
    name = f"{method}-{window}"
    return Row(name, f"{METHODS[method]}, window {window}", "static", embedding=name)


def _layer(number: int) -> Row:
    what = " (the word alone)" if number == 0 else ""
    mix = MixConfig(mix="layer", mix_layer=number)
    return Row(f"layer-{number}", f"ELMo, layer {number}{what}", "elmo", embedding=ELMO, mix=mix)


def _elmo(name: str, mix: Literal["average", "frozen", "trainable", "function"], title: str) -> Row:
    return Row(name, title, "elmo", embedding=ELMO, mix=MixConfig(mix=mix))


# What one training or one control gave: everything that later steps and the report need of it.


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How good a classifier is, and what it took."""

    development_accuracy: float
    train: Metrics | None
    """None where only the test rows were asked."""
    test: Metrics
    predictions: tuple[int, ...]
    """The class given to each test row."""
    training_seconds: float
    texts_per_second: float
    """Predicting the test rows, from words to classes, without a biLM's reading of them."""
    parameters: int
    """Numbers that were learned."""
    layer_weights: tuple[float, ...] | None = None
    gamma: float | None = None


def measured(
    data: StudyData, probabilities: NDArray[np.floating], rows: NDArray[np.int64]
) -> Metrics:
    """Compare the probabilities of some rows with their classes."""
    return measure(probabilities, data.classes[rows], data.labels)


# Figures over seeds, and pairs of rows compared on the same test rows.


def spread(values: Sequence[float], count: int) -> Spread:
    """Mean and deviation over seeds, and the interval of a share of `count` rows."""
    mean = statistics.fmean(values)
    interval = wilson(round(mean * count), count)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(mean=mean, deviation=deviation, low=interval.low, high=interval.high)


def paired(data: StudyData, this: Outcome, other: Outcome, name: str) -> Paired:
    """McNemar's test of two classifiers on the test rows."""
    gold = data.classes[data.test]
    found = mcnemar(np.array(this.predictions) == gold, np.array(other.predictions) == gold)
    return Paired(against=name, only_this=found.only_first, only_other=found.only_second, p=found.p)


# What a report must tell of where its figures were made: versions, machine, time.


PACKAGES = ("elmo", "torch", "numpy", "scikit-learn", "gensim")


def versions() -> tuple[Named, ...]:
    """Python's, and those of the packages that compute something."""
    found = [Named(name="Python", value=platform.python_version())]
    for package in PACKAGES:
        try:
            found.append(Named(name=package, value=version(package)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def machine() -> str:
    """Processor, cores and memory."""
    cores = cpu_cores()
    memory = machine_memory() / 2**30
    unit = "core" if cores == 1 else "cores"
    return f"{processor()}, {cores} {unit}, {memory:.0f} GB, {platform.system()}"


def processor() -> str:
    """The model of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# results.json: every figure of a study, written whole and read back strictly.


NAME = "results.json"
_PROBLEMS_SHOWN = 3


def write_results(results: StudyResults, folder: Path) -> None:
    """Write results.json into a folder."""
    write_json(folder / NAME, to_json(results))


def read_results(path: Path) -> StudyResults:
    """Read results.json, by its own path or by that of the folder of a study."""
    file = path / NAME if path.is_dir() else path
    data = read_json(file)
    try:
        results = from_json(StudyResults, data, "results")
    except ConfigError as error:
        raise _refused(file, error.problems) from None
    problems = list(_contradictions(results))
    if problems:
        raise _refused(file, problems)
    return results


def _refused(file: Path, problems: Iterable[str]) -> UserError:
    every = list(problems)
    shown = "\n".join(f"  - {problem}" for problem in every[:_PROBLEMS_SHOWN])
    more = len(every) - _PROBLEMS_SHOWN
    rest = f"\n  - and {more} more" if more > 0 else ""
    return UserError(
        f"{file}: expected the results of a study, as this version of elmo writes them:\n"
        f"{shown}{rest}\nrun the study again, or use the version that wrote the file"
    )


def _contradictions(results: StudyResults) -> Iterable[str]:
    """What no study writes, but an edited file may hold."""
    names = [row.name for row in results.rows]
    if len(set(names)) != len(names):
        yield "results.rows: expected each name once"
    for place, row in enumerate(results.rows):
        for problem in _row_problems(row, results.about.labels):
            yield f"results.rows[{place}] ({row.name}): {problem}"
    if results.draws and len({len(draw.layer_weights) for draw in results.draws.draws}) > 1:
        yield "results.draws: expected as many weights in every draw"


def _row_problems(row: RowResult, labels: tuple[str, ...]) -> Iterable[str]:
    if not row.seeds:
        yield "expected one seed or more"
    if len({len(seed.layer_weights or ()) for seed in row.seeds}) > 1:
        yield "expected as many layer weights for every seed"
    for seed in row.seeds:
        for split, metrics in (("train", seed.train), ("test", seed.test)):
            sides = {len(metrics.classes), len(metrics.confusion), *map(len, metrics.confusion)}
            if sides != {len(labels)}:
                yield f"seed {seed.seed}, {split}: expected figures of {len(labels)} labels"

"""The rows of the comparison, and the cells they are made of.

A `Cell` describes one training (or one set of static vectors) completely and as plain data: its
result is cached under a hash of that description. `elmo.study.cells` computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.metrics import Metrics, standard_error
from elmo.config import Json, nearest
from elmo.embed.config import MixConfig
from elmo.errors import UserError
from elmo.static.contextual import ContextualConfig
from elmo.static.train import SkipGramConfig, StaticConfig, SvdConfig
from elmo.study.config import (
    FEW_DEVELOPMENT_ROWS,
    LARGE,
    LARGE_EPOCHS,
    LEAST_STEPS,
    MAX_WORDS,
    StudyConfig,
)
from elmo.study.results import named

NOTHING, ELMO, DISTILLED = "nothing", "elmo", "distilled"
"""Names of embeddings; a static one is named by its method and window, as svd-5."""
METHODS = {"svd": "SVD", "skipgram": "Skip-gram"}
ONE_LAYER = MixConfig(mix="average")
"""Mix of static vectors: nothing to learn, so no gradient is as large as all words of a batch."""

Group = Literal["control", "static", "elmo"]
Kind = Literal["majority", "tfidf", "network", "fine-tuned", "vectors", "bilm", "reading", "words"]
Column = Literal["alone", "beside"]
"""The embedding alone, or beside task embeddings."""
COLUMNS: tuple[Column, ...] = ("alone", "beside")
Settings = Mapping[str, float]

# Near each other: what is best on some of the rows must not be far off on all of them.
CANDIDATES: tuple[Settings, ...] = (
    {"learning_rate": 3e-3, "dropout": 0.2},
    {"learning_rate": 1e-3, "dropout": 0.2},
    {"learning_rate": 3e-3, "dropout": 0.4},
)


@dataclass(frozen=True)
class Row:
    """One row of the comparison: what its classifier reads."""

    name: str
    title: str
    group: Group
    kind: Kind = "network"
    embedding: str = NOTHING
    mix: MixConfig = field(default_factory=MixConfig)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Controls stand alone, task embeddings have nothing beside them; to fine-tune the biLM a
        second time would take longer than all the rest."""
        if self.kind == "network":
            return COLUMNS[1:] if self.embedding == NOTHING else COLUMNS
        return COLUMNS[:1]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training, or one set of static vectors: everything that decides its result."""

    name: str
    """Name of its file."""
    row: str
    """Title of the row or analysis it belongs to."""
    kind: Kind
    embedding: str = NOTHING
    classifier: ClassifierConfig | None = None
    static: StaticConfig | ContextualConfig | None = None
    seed: int = 0
    train_rows: int | None = None
    """This many at random; default: all."""
    per_class: int | None = None
    """This many labels per class; default: all."""
    measures_train: bool = True
    steps: int | None = None
    """Steps of the training, in whole epochs; default: the epochs of the settings."""

    @property
    def bilm(self) -> str | None:
        """The biLM whose layers of all texts it reads."""
        if self.embedding == DISTILLED:
            return ELMO
        return self.embedding if self.embedding.startswith(ELMO) else None

    def epochs(self, rows: int) -> int | None:
        """Epochs over this many rows; None: until the development loss stops falling."""
        assert self.classifier is not None
        learning = self.classifier.learning
        if self.steps is not None:
            return max(1, round(self.steps * learning.batch_texts / rows))
        if learning.epochs is None and rows >= LARGE:
            # Before the biLM learns, one is enough for a network that does not spoil it.
            tuned = self.kind == "fine-tuned"
            return 1 if tuned else learning.enough_epochs(rows, LARGE_EPOCHS, LEAST_STEPS)
        return learning.epochs

    def work(self, train_rows: int, classes: int) -> float:
        """About how long it takes, in texts read once by a training on static vectors.

        The factors were measured on two cores; the estimate of a study's end rests on them.
        """
        rows = min(self.train_rows or train_rows, train_rows)
        if self.per_class is not None:
            rows = self.per_class * classes
        if self.kind in ("bilm", "reading", "words"):
            factor = {"bilm": 40.0 * (self.steps or 1), "reading": 11.0, "words": 1.0}[self.kind]
            return train_rows * factor
        if self.kind == "tfidf":
            return 0.5 * rows
        if self.static is not None:
            if isinstance(self.static, SkipGramConfig):
                return train_rows * (3 + 1.3 * self.static.window)
            return 0.6 * train_rows
        if self.classifier is None:
            return 1.0
        learning = self.classifier.learning
        if self.kind == "fine-tuned":
            return 36.0 * rows * learning.fine_tuning.fine_tune_epochs
        # Without a number of epochs, the loss stops falling after about 15, and 600 steps.
        epochs = self.epochs(rows) or learning.enough_epochs(rows, 15, 600)
        if self.bilm is None:
            return rows * epochs
        return rows * epochs * (3.7 if self.classifier.network.mix.mix == "function" else 1.6)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    development_accuracy: float
    train: Metrics | None
    """None where only test rows were asked."""
    test: Metrics
    predictions: tuple[int, ...]
    """The class given to each test row."""
    training_seconds: float
    texts_per_second: float
    """Predicting the test rows, from words to classes, without a biLM's reading of them."""
    parameters: int
    """Trainable ones."""
    train_rows: int
    """Rows that it learned from."""
    epochs: int | None = None
    layer_weights: tuple[float, ...] | None = None
    gamma: float | None = None


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """An embedding that is ready: a fingerprint, its size and what it took."""

    key: str
    parameters: int = 0
    seconds: float | None = None
    texts_per_second: float | None = None
    """How fast a biLM reads; None: reading is part of the classifier's own speed."""


def chosen_rows(config: StudyConfig, layers: int) -> tuple[Row, ...]:
    """The rows asked for by name or kind, in order, over a biLM of `layers` LSTM layers."""
    mixes = {f"layer-{n}": MixConfig(mix="layer", mix_layer=n) for n in range(layers + 1)}
    mixes |= {name: MixConfig(mix=name) for name in ("average", "frozen", "trainable", "function")}
    titles = {"layer-0": "layer 0 (the word alone)", "frozen": "frozen λs"}
    titles |= {"trainable": "trainable λs", "function": "learned function"}
    rows = [
        Row("majority", "Majority class", "control", "majority"),
        Row("tfidf", "TF-IDF, linear SVM", "control", "tfidf"),
        *([Row("task", "Task embeddings", "control")] if config.task_dim else []),
        *(
            Row(f"{method}-{n}", f"{title}, window {n}", "static", embedding=f"{method}-{n}",
                mix=ONE_LAYER)
            for method, title in METHODS.items()
            for n in config.windows
        ),
        *(
            Row(f"file-{name}", f"{name} (given)", "static", embedding=f"file-{name}",
                mix=ONE_LAYER)
            for name in vector_files(config)
        ),
        Row(DISTILLED, "ELMo, distilled (static)", "elmo", embedding=DISTILLED,
            mix=ONE_LAYER),
        *(
            Row(name, f"ELMo, {titles.get(name, name.replace('-', ' '))}", "elmo", embedding=ELMO,
                mix=mix)
            for name, mix in mixes.items()
        ),
        Row("fine-tuned", "ELMo, fine-tuned", "elmo", "fine-tuned", ELMO),
    ]  # fmt: skip
    names = {row.name: {row.name} for row in rows}
    for row in rows:
        names.setdefault(row.group, set()).add(row.name)
        if row.group == "static":
            names.setdefault(row.name.split("-")[0], set()).add(row.name)
    names["mixes"] = {"frozen", "trainable", "function"}
    for name in config.rows:
        if name not in names:
            raise UserError(
                f"--rows: expected names out of {', '.join(names)}; got {name!r}"
                f"{nearest(name, names)}; other windows are named with --windows"
            )
    wanted = set[str]().union(*(names[name] for name in config.rows or names))
    return tuple(row for row in rows if row.name in wanted)


def vector_files(config: StudyConfig) -> dict[str, Path]:
    files = {Path(path).stem: Path(path) for path in config.word_vectors}
    if len(files) < len(config.word_vectors):
        raise UserError(
            "--word-vectors: expected files of different names, got "
            + ", ".join(config.word_vectors)
        )
    return files


def classifier_config(
    config: StudyConfig, mix: MixConfig, seed: int, settings: Settings, column: Column = "alone"
) -> ClassifierConfig:
    """The classifier that all rows share, but for its mix and its chosen settings."""
    return ClassifierConfig(
        network=NetworkConfig(
            mix=mix,
            max_words=MAX_WORDS,
            task_dim=config.task_dim if column == "beside" else 0,
            dropout=settings["dropout"],
        ),
        learning=LearningConfig(
            epochs=config.epochs,
            seed=seed,
            development_share=config.development_share,
            learning_rate=settings["learning_rate"],
        ),
    )


def analysis_cell(
    name: str,
    title: str,
    config: StudyConfig,
    mix: MixConfig | None = None,
    settings: Settings = CANDIDATES[0],
    *,
    embedding: str = ELMO,
    column: Column = "alone",
) -> Cell:
    """A training with the first seed, on some of the rows and with the budget of analyses."""
    classifier = classifier_config(config, mix or MixConfig(), config.seeds[0], settings, column)
    return Cell(
        name=name,
        row=title,
        kind="network",
        embedding=embedding,
        classifier=classifier,
        seed=config.seeds[0],
        train_rows=config.analysis_rows,
        measures_train=False,
        steps=config.analysis_steps,
    )


def tuning_cells(config: StudyConfig, rows: Iterable[Row], column: Column) -> list[Cell]:
    """One cell per row and candidate; none if there is nothing to choose from."""
    if column == "beside" and not config.task_dim:
        return []
    return [
        analysis_cell(
            f"tuning-{column}-{row.name}-{idx}",
            row.title,
            config,
            replace(row.mix, mix_seed=config.seeds[0]),
            settings,
            embedding=row.embedding,
            column=column,
        )
        for row in rows
        if row.kind == "network" and column in row.columns and config.candidates > 1
        for idx, settings in enumerate(CANDIDATES[: config.candidates])
    ]


def row_cells(
    config: StudyConfig, row: Row, column: Column = "alone", settings: Settings = CANDIDATES[0]
) -> list[Cell]:
    """The trainings of a row, one per seed; what does not depend on chance is done once."""
    if column not in row.columns or (column == "beside" and not config.task_dim):
        return []
    if row.kind in ("majority", "tfidf"):
        name = f"{column}-{row.name}"
        return [Cell(name=name, row=row.title, kind=row.kind, seed=config.seeds[0])]
    seeds, cells = config.seeds, list[Cell]()
    if row.kind == "fine-tuned":
        seeds = seeds[: config.fine_tune_seeds]
    if column == "beside":
        seeds = seeds[: config.task_seeds]
    for seed in seeds:
        # Frozen weights are drawn anew by every seed.
        mix = replace(row.mix, mix_seed=seed)
        classifier = classifier_config(config, mix, seed, settings, column)
        if row.kind == "fine-tuned":
            learning = classifier.learning
            tuning = replace(learning.fine_tuning, fine_tune_epochs=config.fine_tune_epochs)
            learning = replace(learning, fine_tuning=tuning)
            classifier = replace(classifier, learning=learning)
        cells.append(
            Cell(
                name=f"{column}-{row.name}-seed{seed}",
                row=row.title,
                kind=row.kind,
                embedding=row.embedding,
                classifier=classifier,
                seed=seed,
            )
        )
    return cells


def vectors_cell(name: str, config: StudyConfig, row: str = "Static vectors") -> Cell:
    """The cell that makes static vectors: svd-5, svd-5-dim-100, svd-5-min_count-1 or distilled."""
    static: StaticConfig | ContextualConfig | None = None
    if name == DISTILLED:
        static = ContextualConfig()
    elif not name.startswith("file-"):
        method, window, *rest = name.split("-")
        # Unshifted, as Levy, Goldberg & Dagan (2015) found best for SVD: here worth a point, too.
        static = SvdConfig(shift=1.0) if method == "svd" else SkipGramConfig()
        varied = {rest[0]: int(rest[1])} if rest else {}
        static = replace(static, **{"window": int(window), "dim": config.static_dim} | varied)
    return Cell(name=f"vectors-{name}", row=row, kind="vectors", embedding=name, static=static)


def can_choose(config: StudyConfig, development_rows: int) -> bool:
    """Whether settings are tried at all: few development rows cannot tell them apart."""
    return config.candidates > 1 and development_rows >= FEW_DEVELOPMENT_ROWS


def choose(
    row: Row, column: Column, outcomes: Mapping[str, Outcome], development_rows: int
) -> tuple[Settings, list[Json]]:
    """The best settings of a row, and all that were tried.

    The first candidate stays unless another one is better by more than a standard error: it was
    tried on some of the rows, and smaller leads were measured to vanish on all rows.
    """
    tried = [
        (settings, outcome.development_accuracy)
        for idx, settings in enumerate(CANDIDATES)
        if (outcome := outcomes.get(f"tuning-{column}-{row.name}-{idx}"))
    ]
    if not tried:
        return CANDIDATES[0], []
    highest = max(accuracy for _, accuracy in tried)
    margin = standard_error(highest, development_rows)
    best = next(settings for settings, accuracy in tried if accuracy >= highest - margin)
    return best, [
        {"settings": named(settings), "development_accuracy": accuracy}
        for settings, accuracy in tried
    ]


def best_static(rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]]) -> Row | None:
    """The static row of the best mean development accuracy: the others are compared with it."""

    def accuracy(row: Row) -> float:
        values = [outcome.development_accuracy for outcome in outcomes[row.name]]
        return sum(values) / len(values)

    static = [row for row in rows if row.group == "static" and outcomes.get(row.name)]
    return max(static, key=accuracy, default=None)


def contrasts(outcomes: Mapping[str, Sequence[Outcome]]) -> list[tuple[str, str]]:
    """Questions that the reference does not answer: a row, and the one it is compared with."""
    pairs = [(name, "layer-0") for name in outcomes if name.startswith("layer-")]
    pairs += [("trainable", "average"), ("trainable", "frozen"), ("function", "trainable")]
    pairs += [(name, "tfidf") for name in ("trainable", "function")]
    return [pair for pair in pairs if pair[0] != pair[1] and outcomes.keys() >= set(pair)]

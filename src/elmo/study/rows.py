"""The rows of the comparison, and the cells they are made of.

A `Cell` describes one training (or one set of static vectors) completely and as plain data: its
result is cached under a hash of that description. A `Study` holds what cells share, texts and
embeddings, and computes them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.features import (
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
    init_from_word_vectors,
)
from elmo.classify.metrics import Metrics, measure, standard_error
from elmo.classify.network import seeded_network
from elmo.classify.training import (
    EpochReport,
    Features,
    Phase,
    StepReport,
    Task,
    kept_epoch,
    learn,
    phases,
    scores_of,
)
from elmo.config import Json, from_json, nearest, to_json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Pace, Progress
from elmo.errors import UserError, require_extra
from elmo.files import read_json, sha256, write_json
from elmo.language_model import LanguageModel as LoadedModel
from elmo.language_model import open_model
from elmo.model_folder import parameter_count
from elmo.static.train import SkipGramConfig, StaticConfig, SvdConfig, encode_texts, static_vectors
from elmo.static.vectors import StaticVectors
from elmo.study.config import StudyConfig
from elmo.study.data import MAX_WORDS, NoFeatures, StaticFeatures, StudyData
from elmo.text.corpus import is_held_out
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

VERSION = 6
"""Of what cells compute: results of another version are not used."""
NOTHING, ELMO = "nothing", "elmo"
"""Names of embeddings; a static one is named by its method and window, as svd-5."""
METHODS = {"svd": "SVD", "skipgram": "Skip-gram"}

Group = Literal["control", "static", "elmo"]
Kind = Literal["majority", "tfidf", "network", "fine-tuned", "vectors"]
Settings = Mapping[str, float]
OnFraction = Callable[[float], None]
"""Told what fraction of a cell is done."""

# Near each other: what is best on some of the rows must not be far off on all of them.
NETWORK_CANDIDATES: tuple[Settings, ...] = (
    {"learning_rate": 3e-3, "dropout": 0.2},
    {"learning_rate": 2e-3, "dropout": 0.2},
    {"learning_rate": 3e-3, "dropout": 0.3},
)
SVM_CANDIDATES: tuple[Settings, ...] = tuple({"strength": c} for c in (0.1, 0.2, 0.5, 1.0))


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
    def candidates(self) -> tuple[Settings, ...]:
        """The settings that development rows choose from."""
        return {"network": NETWORK_CANDIDATES, "tfidf": SVM_CANDIDATES}.get(self.kind, ())


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
    static: StaticConfig | None = None
    strength: float | None = None
    """C of the linear SVM."""
    seed: int = 0
    train_rows: int | None = None
    """This many at random; default: all."""
    per_class: int | None = None
    """This many labels per class; default: all."""
    measures_train: bool = True
    least_steps: int = 1
    """Of few rows more epochs are read, until there are this many steps."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How good a classifier is, and what it took."""

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
    layer_weights: tuple[float, ...] | None = None
    gamma: float | None = None


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """An embedding that is ready: a fingerprint, its size and what it took."""

    key: str
    parameters: int = 0
    seconds: float | None = None
    texts_per_second: float | None = None
    """How fast a biLM reads; none: reading is part of the classifier's own speed."""


@dataclass(frozen=True)
class StudyBiLM:
    """A biLM and what is known of its making."""

    loaded: LoadedModel
    folder: Path
    source: str
    seconds: float | None
    """Training time; none where the model was given."""


# Rows and cells, made of the settings alone.


def chosen_rows(config: StudyConfig, layers: int) -> tuple[Row, ...]:
    """The rows asked for by name or kind, in order, over a biLM of `layers` LSTM layers."""
    rows = (
        Row("majority", "Majority class", "control", "majority"),
        Row("tfidf", "TF-IDF, linear SVM", "control", "tfidf"),
        Row("own", "Own word vectors alone", "control"),
        *(
            Row(f"{method}-{n}", f"{title}, window {n}", "static", embedding=f"{method}-{n}")
            for method, title in METHODS.items()
            for n in config.windows
        ),
        *(
            Row(
                f"layer-{layer}",
                f"ELMo, layer {layer}{'' if layer else ' (the word alone)'}",
                "elmo",
                embedding=ELMO,
                mix=MixConfig(mix="layer", mix_layer=layer),
            )
            for layer in range(layers + 1)
        ),
        Row("average", "ELMo, average", "elmo", embedding=ELMO, mix=MixConfig(mix="average")),
        Row("frozen", "ELMo, frozen λs", "elmo", embedding=ELMO, mix=MixConfig(mix="frozen")),
        Row("trainable", "ELMo, trainable λs", "elmo", embedding=ELMO),
        Row("function", "ELMo, learned function", "elmo", embedding=ELMO,
            mix=MixConfig(mix="function")),
        Row("fine-tuned", "ELMo, fine-tuned", "elmo", "fine-tuned", ELMO),
    )  # fmt: skip
    if not config.rows:
        return rows
    named = {row.name: {row.name} for row in rows}
    for row in rows:
        named.setdefault(row.group, set()).add(row.name)
        if row.group == "static":
            named.setdefault(row.name.split("-")[0], set()).add(row.name)
    named["mixes"] = {"frozen", "trainable", "function"}
    for name in config.rows:
        if name not in named:
            raise UserError(
                f"--rows: expected names out of {', '.join(named)}; got {name!r}"
                f"{nearest(name, named)}; other windows are named with --windows"
            )
    wanted = set[str]().union(*(named[name] for name in config.rows))
    return tuple(row for row in rows if row.name in wanted)


def classifier_config(
    config: StudyConfig, mix: MixConfig, seed: int, settings: Settings = NETWORK_CANDIDATES[0]
) -> ClassifierConfig:
    """The classifier that all rows share, but for its mix and its chosen settings."""
    return ClassifierConfig(
        network=NetworkConfig(
            mix=mix,
            max_words=MAX_WORDS,
            own_words=config.own_words,
            own_lower_case=config.word_vectors is not None,
            dropout=settings["dropout"],
        ),
        learning=LearningConfig(
            epochs=config.epochs,
            seed=seed,
            development_share=config.development_share,
            learning_rate=settings["learning_rate"],
        ),
    )


def tuning_cells(config: StudyConfig, rows: Iterable[Row]) -> list[Cell]:
    """One cell per row and candidate; networks are tried on some of the rows."""
    cells: list[Cell] = []
    for row in rows:
        for idx, settings in enumerate(row.candidates):
            cell = row_cells(config, row, settings)[0]
            if cell.classifier is not None:
                learning = replace(cell.classifier.learning, epochs=config.tuning_epochs)
                classifier = replace(cell.classifier, learning=learning)
                cell = replace(cell, classifier=classifier, train_rows=config.tuning_rows)
                cell = replace(cell, measures_train=False)
            cells.append(replace(cell, name=f"tuning-{row.name}-{idx}"))
    return cells


def row_cells(config: StudyConfig, row: Row, settings: Settings | None = None) -> list[Cell]:
    """The trainings of a row, one per seed; what does not depend on chance is done once."""
    if row.kind == "majority":
        return [Cell(name="row-majority", row=row.title, kind="majority")]
    if row.kind == "tfidf":
        strength = (settings or {"strength": 0.2})["strength"]
        return [Cell(name="row-tfidf", row=row.title, kind="tfidf", strength=strength)]
    seeds = config.seeds
    if row.kind == "fine-tuned":
        seeds = seeds[: config.fine_tune_seeds]
    cells: list[Cell] = []
    for seed in seeds:
        # Frozen weights are drawn anew by every seed.
        mix = replace(row.mix, mix_seed=seed)
        classifier = classifier_config(config, mix, seed, settings or NETWORK_CANDIDATES[0])
        if row.kind == "fine-tuned":
            # One epoch of the network alone first, so that its first steps do not spoil the biLM.
            learning = classifier.learning
            tuning = replace(learning.fine_tuning, fine_tune_epochs=config.fine_tune_epochs)
            learning = replace(learning, epochs=1, fine_tuning=tuning)
            classifier = replace(classifier, learning=learning)
        cells.append(
            Cell(
                name=f"row-{row.name}-seed{seed}",
                row=row.title,
                kind=row.kind,
                embedding=row.embedding,
                classifier=classifier,
                seed=seed,
                least_steps=config.least_steps,
            )
        )
    return cells


def vectors_cell(name: str, config: StudyConfig, row: str = "Static vectors") -> Cell:
    """The cell that makes the static vectors of a name such as svd-5 or svd-5-dim100."""
    method, window, *rest = name.split("-")
    dim = int(rest[0].removeprefix("dim")) if rest else config.static_dim
    kind = SvdConfig if method == "svd" else SkipGramConfig
    static = kind(window=int(window), dim=dim)
    return Cell(name=f"vectors-{name}", row=row, kind="vectors", embedding=name, static=static)


def choose(
    row: Row, outcomes: Mapping[str, Outcome], development_rows: int
) -> tuple[Settings, list[Json]] | None:
    """The best settings of a row, and all that were tried; none if all failed.

    A network is tried on some of the rows: the first candidate stays unless another one is better
    by more than a standard error, since smaller leads were measured to vanish on all rows.
    """
    tried = [
        (settings, outcome.development_accuracy)
        for idx, settings in enumerate(row.candidates)
        if (outcome := outcomes.get(f"tuning-{row.name}-{idx}"))
    ]
    if not tried:
        return None
    highest = max(accuracy for _, accuracy in tried)
    margin = standard_error(highest, development_rows) if row.kind == "network" else 0.0
    best = next(settings for settings, accuracy in tried if accuracy >= highest - margin)
    return best, [
        {"settings": named(settings), "development_accuracy": accuracy}
        for settings, accuracy in tried
    ]


def named(values: Mapping[str, Any]) -> list[Json]:
    """Settings or facts as a list, which keeps its order everywhere."""
    return [{"name": name, "value": value} for name, value in values.items()]


def work(cell: Cell, train_rows: int, classes: int) -> float:
    """About how long a cell takes, in texts read once by a training on static vectors.

    The factors were measured on two cores; the estimate of a study's end rests on them.
    """
    rows = min(cell.train_rows or train_rows, train_rows)
    if cell.per_class is not None:
        rows = cell.per_class * classes
    if cell.kind == "tfidf":
        return 0.5 * rows
    if cell.static is not None:
        slow = isinstance(cell.static, SkipGramConfig)
        return train_rows * (3 + 1.3 * cell.static.window if slow else 0.6)
    if cell.classifier is None:
        return 1.0
    learning = cell.classifier.learning
    if cell.kind == "fine-tuned":
        return 36.0 * rows * learning.fine_tuning.fine_tune_epochs
    texts = max(rows * learning.epochs_for(rows), cell.least_steps * learning.batch_texts)
    if not cell.embedding.startswith(ELMO):
        return texts
    return texts * (3.7 if cell.classifier.network.mix.mix == "function" else 1.6)


# What cells share, and how they are computed.


@dataclass
class Study:
    """Texts, embeddings and the cache; complete before cells are computed side by side."""

    config: StudyConfig
    data: StudyData
    folder: Path
    feature_memory: float | None = None
    bilms: dict[str, StudyBiLM] = field(default_factory=dict[str, StudyBiLM])
    embeddings: dict[str, Embedding] = field(
        default_factory=lambda: {NOTHING: Embedding(key=NOTHING)}
    )
    """Those that are ready."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """Messages of cells that failed, by name."""
    layers: dict[str, FrozenFeatures] = field(default_factory=dict[str, FrozenFeatures])
    """Layers of all texts, of one biLM at a time: they may take half of the memory."""

    def vectors_path(self, embedding: str) -> Path:
        """The file of static vectors."""
        return self.folder / "vectors" / f"{embedding}.bin"

    @property
    def held_out_fraction(self) -> float:
        """Fraction of the texts that the biLM has not learned from, and static vectors must not."""
        settings = [bilm.loaded.config.get("vocabulary", {}) for bilm in self.bilms.values()]
        return max((float(one.get("held_out_share", 0.0)) for one in settings), default=0.02)

    def key(self, cell: Cell) -> str:
        """A hash of everything that a cell's result depends on."""
        inputs = to_json(cell) | {
            "version": VERSION,
            "data": self.data.fingerprint,
            # What vectors are made from, or the fingerprint of what is read.
            "embedding": self.held_out_fraction
            if cell.kind == "vectors"
            else self.embeddings[cell.embedding].key,
        }
        del inputs["name"], inputs["row"]
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()

    def cached(self, cell: Cell) -> Any:
        """The Outcome or Embedding of a finished cell; none if it must be computed."""
        path = self.folder / "cells" / f"{cell.name}.json"
        if not path.is_file() or (
            cell.kind == "vectors" and not self.vectors_path(cell.embedding).is_file()
        ):
            return None
        try:
            found = read_json(path)
            if found["key"] != self.key(cell):
                return None
            kind = Embedding if cell.kind == "vectors" else Outcome
            return from_json(kind, found["result"], path.name)
        except (UserError, KeyError, TypeError):
            return None  # of another version, or damaged

    def store(self, cell: Cell, result: Outcome | Embedding) -> None:
        """Keep the result of a cell."""
        content = {"name": cell.name, "key": self.key(cell), "result": to_json(result)}
        write_json(self.folder / "cells" / f"{cell.name}.json", content)

    def add_bilm(self, name: str, bilm: StudyBiLM, key: str) -> None:
        """Make a biLM an embedding of this name; `key` is a fingerprint of its weights."""
        self.bilms[name] = bilm
        path = self.folder / "cells" / f"reading-{name}.json"
        speed = None
        if path.is_file() and (found := read_json(path))["key"] == [key, self.data.fingerprint]:
            speed = found["texts_per_second"]
        self.embeddings[name] = Embedding(
            key=key,
            parameters=parameter_count(bilm.loaded.model),
            seconds=bilm.seconds,
            texts_per_second=speed,
        )

    def read_layers(self, name: str, on_progress: Callable[[Progress], None]) -> None:
        """Compute a biLM's layers of all texts; those of another biLM are dropped."""
        started = time.monotonic()
        self.layers.clear()
        texts = self._texts()
        self.layers[name] = FrozenFeatures.compute(
            texts,
            self.bilms[name].loaded.model,
            memory=self.feature_memory,
            folder=self.folder,
            on_texts=Pace(on_progress, len(texts)).add,
        )
        speed = len(texts) / (time.monotonic() - started)
        ready = self.embeddings[name] = replace(self.embeddings[name], texts_per_second=speed)
        content = {"key": [ready.key, self.data.fingerprint], "texts_per_second": speed}
        write_json(self.folder / "cells" / f"reading-{name}.json", content)

    def compute(self, cell: Cell, on_fraction: OnFraction = lambda done: None) -> Any:
        """Compute the Outcome of a cell, or the Embedding that it makes."""
        if cell.kind == "vectors":
            path = self.vectors_path(cell.embedding)
            assert cell.static is not None
            return make_vectors(self.data, cell.static, self.held_out_fraction, path, on_fraction)
        if cell.kind == "majority":
            return majority(self.data)
        if cell.kind == "tfidf":
            assert cell.strength is not None
            return tfidf(self.data, cell.strength, cell.per_class, cell.seed)
        if cell.embedding == NOTHING:
            return train(self.data, NoFeatures(self._texts()), (1, 0), cell, on_fraction)
        if cell.embedding not in self.bilms:
            vectors = StaticVectors.load(self.vectors_path(cell.embedding))
            features = StaticFeatures(self._texts(), vectors)
            return train(self.data, features, (1, vectors.dim), cell, on_fraction)
        bilm = self.bilms[cell.embedding]
        shape = (1 + bilm.loaded.model.config.layers, 2 * bilm.loaded.model.config.width)
        # A copy where the biLM learns: other cells read the same one.
        own = open_model(bilm.folder) if cell.kind == "fine-tuned" else None
        return train(self.data, self.layers[cell.embedding], shape, cell, on_fraction, own)

    def _texts(self) -> TokenizedTexts:
        return TokenizedTexts(self.data.words, Vocabulary(SPECIAL_WORDS, (0,) * len(SPECIAL_WORDS)))


def train(
    data: StudyData,
    features: Any,
    shape: tuple[int, int],
    cell: Cell,
    on_fraction: OnFraction = lambda done: None,
    fine_tuned: LoadedModel | None = None,
) -> Outcome:
    """Train the classifier of `elmo classify`, and ask the test rows once.

    Args:
        features: what the classifier reads of each word; development rows choose the epoch.
        shape: how many layers the features have, and how many numbers per word and layer.
        fine_tuned: the biLM, if it learns too.
    """
    assert cell.classifier is not None
    started = time.monotonic()
    learning = cell.classifier.learning
    split = data.part(cell.train_rows, cell.per_class, learning.seed)
    texts = data.rows_for(split, cell.classifier.network.own_min_count)
    network = seeded_network(
        cell.classifier.network,
        learning.seed,
        layers=shape[0],
        dim=shape[1],
        classes=len(data.labels),
        task_words=len(texts.task_vocabulary),
    )
    if data.word_vectors is not None and network.task_embedding is not None:
        init_from_word_vectors(
            network.task_embedding.weight, texts.task_vocabulary, data.word_vectors
        )
    rows = len(split.train)
    alone = learning.enough_epochs(rows, learning.epochs_for(rows), cell.least_steps)
    tuned = learning.fine_tuning.fine_tune_epochs

    def report(one: StepReport | EpochReport) -> None:
        if isinstance(one, StepReport):
            before, now = (0, alone) if one.phase == "network" else (alone, tuned)
            on_fraction((before + one.done * now) / (alone + tuned))

    task, history = Task(texts, data.classes, split), list[EpochReport]()
    model = None if fine_tuned is None else fine_tuned.model
    ready: Features = features.for_texts(texts)
    last: Phase | None = None
    for phase in phases(network, ready, texts, model, learning, alone):
        learn(network, phase, task, learning, report, history)
        last = phase
    assert last is not None
    phase = last
    seconds = time.monotonic() - started
    best = kept_epoch(history)
    assert best is not None

    def predict(rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return scores_of(network, phase, rows, texts.lengths).softmax(dim=1).numpy()

    modules = [network, *(module for part in phase.parts for module in part.modules)]
    parameters = {id(one): one.numel() for module in modules for one in module.parameters()}
    return replace(
        _outcome(data, predict, seconds, measures_train=cell.measures_train),
        development_accuracy=best.development_accuracy,
        parameters=sum(parameters.values()),
        layer_weights=network.mix.weights,
        gamma=network.mix.gamma,
    )


def majority(data: StudyData) -> Outcome:
    """Always the most frequent class, with the class frequencies as probabilities."""
    started = time.monotonic()
    rates = np.bincount(data.classes[data.train], minlength=len(data.labels)) / data.train_count
    seconds = time.monotonic() - started
    outcome = _outcome(data, lambda rows: np.tile(rates, (len(rows), 1)), seconds)
    return replace(outcome, development_accuracy=float(rates.max()), parameters=len(rates))


def tfidf(data: StudyData, strength: float, per_class: int | None = None, seed: int = 0) -> Outcome:
    """TF-IDF of words and word pairs with a linear SVM, fitted to all training rows.

    Its development accuracy is that of an SVM which has not seen the development rows.
    """
    text, pipeline, svm = (
        require_extra(f"sklearn.{name}", "study")
        for name in ("feature_extraction.text", "pipeline", "svm")
    )

    def words(rows: NDArray[np.int64]) -> list[list[str]]:
        return [data.words[int(row)] for row in rows]

    def fitted(rows: NDArray[np.int64]) -> Any:
        # Of few texts a word seen once is all there is.
        least = 2 if len(rows) > 1000 else 1
        vectorizer = text.TfidfVectorizer(analyzer=words_and_pairs, sublinear_tf=True, min_df=least)
        machine = pipeline.make_pipeline(vectorizer, svm.LinearSVC(C=strength, random_state=0))
        return machine.fit(words(rows), data.classes[rows])

    split = data.part(None, per_class, seed)
    chooser = fitted(split.train)
    right = chooser.predict(words(split.development)) == data.classes[split.development]
    started = time.monotonic()
    machine = fitted(data.train if per_class is None else np.concatenate(split))
    seconds = time.monotonic() - started

    def predict(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Softmax of the distances: it ranks the classes, but is no model's probability."""
        scores = machine.decision_function(words(rows))
        if scores.ndim == 1:
            scores = np.stack([-scores, scores], axis=1)
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    return replace(
        _outcome(data, predict, seconds),
        development_accuracy=float(right.mean()),
        parameters=int(machine[-1].coef_.size + machine[-1].intercept_.size),
    )


def words_and_pairs(words: Sequence[str]) -> list[str]:
    """The words of a text and its pairs of neighbours, in lower case."""
    lower = [word.lower() for word in words]
    return [*lower, *(f"{one} {other}" for one, other in pairwise(lower))]


def _outcome(
    data: StudyData, predict: Callable[[Any], Any], seconds: float, *, measures_train: bool = True
) -> Outcome:
    """Ask a classifier; development accuracy and parameters are filled in by the caller."""
    since = time.monotonic()
    test = predict(data.test)
    pace = len(data.test) / max(time.monotonic() - since, 1e-9)
    train = None
    if measures_train:
        train = measure(predict(data.train), data.classes[data.train], data.labels)
    return Outcome(
        development_accuracy=0.0,
        train=train,
        test=measure(test, data.classes[data.test], data.labels),
        predictions=tuple(test.argmax(1).tolist()),
        training_seconds=seconds,
        texts_per_second=pace,
        parameters=0,
    )


def make_vectors(
    data: StudyData,
    config: StaticConfig,
    held_out: float,
    path: Path,
    on_fraction: OnFraction = lambda done: None,
) -> Embedding:
    """Make vectors of the training texts without those that the biLM holds out, labels unseen."""
    started = time.monotonic()
    texts = [data.words[int(row)] for row in data.train]
    texts = [words for words in texts if words and not is_held_out(words, held_out)]
    vocabulary = build_task_vocabulary(texts, config.min_count)
    if len(vocabulary) == len(SPECIAL_WORDS):
        raise UserError(f"no word is seen {config.min_count} times; give more text")
    vectors = static_vectors(
        encode_texts(texts, vocabulary),
        vocabulary,
        config,
        lambda progress: on_fraction(progress.done / progress.total) if progress.total else None,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    vectors.save(path)
    return Embedding(
        key=sha256(path), parameters=len(vectors) * vectors.dim, seconds=time.monotonic() - started
    )

"""Each row's settings, chosen on development rows: the same number of tries for every row."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.data import LabelledTexts
from elmo.classify.features import (
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
    init_from_word_vectors,
)
from elmo.classify.metrics import standard_error
from elmo.classify.network import ClassifierNetwork, seeded_network
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
from elmo.config import Json, nearest, to_json
from elmo.embed.config import MixConfig
from elmo.embed.embedder import Pace, Progress
from elmo.errors import UserError, require_extra
from elmo.files import read_json, sha256, write_json, write_json_lines
from elmo.language_model import describe, is_official, official_files, open_model
from elmo.model_folder import CONFIG, WEIGHTS, LoadedModel, parameter_count
from elmo.static.train import Progress as Progress_of_train
from elmo.static.train import SkipGramConfig, StaticConfig, SvdConfig, encode_texts, static_vectors
from elmo.static.vectors import StaticVectors
from elmo.study.config import StudyConfig
from elmo.study.data import MAX_WORDS, NoFeatures, StaticFeatures, StudyData
from elmo.study.jobs import (
    Failure,
    Job,
    OnShare,
    Results,
    StepProgress,
    Steps,
    StudyRequest,
    Watcher,
    run_jobs,
)
from elmo.study.results import (
    ELMO,
    METHODS,
    NOTHING,
    Candidate,
    Confusion,
    Example,
    FailedRow,
    LanguageModel,
    Named,
    Outcome,
    Paired,
    PretrainingEpoch,
    Row,
    RowResult,
    SeedResult,
    Sweep,
    SweepPoint,
    chosen_rows,
    measured,
    paired,
    spread,
)
from elmo.text.corpus import is_held_out
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training.config import PretrainConfig
from elmo.training.pretrain import Surroundings, pretrain, read_run, resume
from elmo.training.reports import StepReport as StepReport_of_reports

# One training of the classifier's network on one embedding: the step that all else is made of.


class Embedding(Features, Protocol):
    """Features that can be had for other words with own vectors."""

    def for_texts(self, texts: TokenizedTexts) -> Self:
        """The same features for the same texts."""
        ...


@dataclass(frozen=True)
class Reading:
    """An embedding, and the shape of what it gives for a word."""

    features: Embedding
    layers: int
    dim: int
    fine_tuned: LoadedModel | None = None
    """The biLM that learns too, if it does."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Which classifier to train on which rows."""

    config: ClassifierConfig
    rows: int | None = None
    """So many at random; none: all."""
    per_class: int | None = None
    """So many labels a class; none: all."""
    measures_train: bool = True
    least_steps: int = 1
    """Of few rows more epochs are read, so that there are so many steps."""


def train_network(
    data: StudyData, reading: Reading, training: Training, on_share: OnShare = lambda share: None
) -> Outcome:
    """Train, choose the epoch on development rows, and ask the test rows once."""
    started = time.monotonic()
    config = training.config
    seed = config.learning.seed
    split = data.part(training.rows, training.per_class, seed)
    texts = data.rows_for(split, config.network.own_min_count)
    network = seeded_network(
        config.network,
        seed,
        layers=reading.layers,
        dim=reading.dim,
        classes=len(data.labels),
        task_words=len(texts.task_vocabulary),
    )
    if data.word_vectors is not None and network.task_embedding is not None:
        init_from_word_vectors(
            network.task_embedding.weight, texts.task_vocabulary, data.word_vectors
        )
    history: list[EpochReport] = []
    task = Task(texts, data.classes, split)
    phase = _learn(network, reading, task, training, on_share, history)
    seconds = time.monotonic() - started
    kept = kept_epoch(history)
    assert kept is not None
    return _outcome(data, network, phase, texts, training, kept, seconds)


def _learn(
    network: ClassifierNetwork,
    reading: Reading,
    task: Task,
    training: Training,
    on_share: OnShare,
    history: list[EpochReport],
) -> Phase:
    learning = training.config.learning
    texts = len(task.split.train)
    alone = learning.enough_epochs(texts, learning.epochs_for(texts), training.least_steps)
    tuned = learning.fine_tuning.fine_tune_epochs

    def report(one: StepReport | EpochReport) -> None:
        if isinstance(one, StepReport):
            first = one.phase == "network"
            behind, now = (0, alone) if first else (alone, tuned)
            on_share((behind + one.done * now) / (alone + tuned))

    features = reading.features.for_texts(task.texts)
    model = None if reading.fine_tuned is None else reading.fine_tuned.model
    phase: Phase | None = None
    for phase in phases(network, features, task.texts, model, learning, alone):
        learn(network, phase, task, learning, report, history)
    assert phase is not None
    return phase


def _outcome(
    data: StudyData,
    network: ClassifierNetwork,
    phase: Phase,
    texts: TokenizedTexts,
    training: Training,
    kept: EpochReport,
    seconds: float,
) -> Outcome:
    lengths = texts.lengths
    since = time.monotonic()
    test = _probabilities(network, phase, data.test, lengths)
    pace = len(data.test) / (time.monotonic() - since)
    train = None
    if training.measures_train:
        train = measured(data, _probabilities(network, phase, data.train, lengths), data.train)
    learned = [network, *(module for part in phase.parts for module in part.modules)]
    parameters = {id(one): one.numel() for module in learned for one in module.parameters()}
    return Outcome(
        development_accuracy=kept.development_accuracy,
        train=train,
        test=measured(data, test, data.test),
        predictions=tuple(test.argmax(1).tolist()),
        training_seconds=seconds,
        texts_per_second=pace,
        parameters=sum(parameters.values()),
        layer_weights=network.mix.weights,
        gamma=network.mix.gamma,
    )


def _probabilities(
    network: ClassifierNetwork, phase: Phase, rows: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.float32]:
    scores: torch.Tensor = scores_of(network, phase, rows, lengths)
    return scores.softmax(dim=1).numpy()


# The biLM of a study: one that was given, or one trained on the study's training texts.


TEXT, FINISHED = "training_text.jsonl", "finished.json"


@dataclass(frozen=True)
class StudyBiLM:
    """A biLM, where it lies, and what is known of its making."""

    loaded: LoadedModel
    folder: Path
    source: str
    seconds: float | None
    """That its training took; none where it was given."""

    @property
    def weights_sha256(self) -> str:
        """A fingerprint of the weights."""
        if is_official(self.folder):
            return sha256(official_files(self.folder).weights)
        return sha256(self.folder / WEIGHTS)

    @property
    def held_out_share(self) -> float:
        """Of the texts, the share that it has not learned from."""
        settings = self.loaded.config.get("vocabulary", {})
        return float(settings.get("held_out_share", 0.0))


def given_bilm(folder: Path) -> StudyBiLM:
    """A biLM that was trained before."""
    return StudyBiLM(open_model(folder), folder, f"given: {folder}", None)


def is_trained(folder: Path) -> bool:
    """Whether an earlier session has trained the biLM of this folder to its end."""
    return (folder / FINISHED).is_file()


def trained_bilm(
    texts: LabelledTexts, folder: Path, config: PretrainConfig, on_share: OnShare
) -> StudyBiLM:
    """Train on the texts, labels unseen, or go on with a training that was stopped."""
    started = time.monotonic()
    around = Surroundings(
        cache=folder.parent / "cache",
        listener=lambda report: (
            on_share(report.done) if isinstance(report, StepReport_of_reports) else None
        ),
    )
    done = folder / FINISHED
    if not is_trained(folder):
        before = _seconds_before(folder)
        result = _trained(texts, folder, config, around)
        if not result:
            raise KeyboardInterrupt
        write_json(done, {"seconds": before + time.monotonic() - started})
    elif read_run(folder)[1] != config:
        raise UserError(
            f"{folder} holds a biLM with other settings; use another --out for this study, "
            f"or go on with that biLM: --model {folder}"
        )
    return StudyBiLM(
        open_model(folder), folder, "trained by this study", read_json(done)["seconds"]
    )


def described(bilm: StudyBiLM) -> LanguageModel:
    """What the report says of the biLM."""
    config = bilm.loaded.model.config
    evaluations = _evaluations(bilm.folder)
    best = min(evaluations, key=lambda one: one["perplexity"], default=None)
    return LanguageModel(
        source=bilm.source,
        vocabulary=len(bilm.loaded.model.vocabulary),
        parameters=parameter_count(bilm.loaded.model),
        layers=config.layers,
        width=config.width,
        perplexity=None if best is None else best["perplexity"],
        accuracy=None if best is None else _accuracy(best),
        seconds=bilm.seconds,
        history=tuple(_epoch(one, _evaluations_per_epoch(bilm)) for one in evaluations),
    )


def _trained(
    texts: LabelledTexts, folder: Path, config: PretrainConfig, around: Surroundings
) -> bool:
    if (folder / CONFIG).exists():
        if read_run(folder)[1] != config:
            raise UserError(
                f"{folder} holds a training with other settings; use another --out for this study"
            )
        return resume(folder, around).finished
    source = folder.parent / TEXT
    write_json_lines(source, ({"text": text} for text in texts.texts))
    return pretrain(str(source), folder, config, surroundings=around).finished


def _seconds_before(folder: Path) -> float:
    """What earlier sessions of the training took, by its log."""
    times = [entry["time"] for entry in _log(folder) if "time" in entry]
    return times[-1] - times[0] if times else 0.0


def _evaluations(folder: Path) -> list[Json]:
    return [entry["evaluation"] | {"position": entry["position"]}
            for entry in _log(folder) if entry.get("kind") == "evaluation"]  # fmt: skip


def _log(folder: Path) -> list[Json]:
    path = folder / "log.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _evaluations_per_epoch(bilm: StudyBiLM) -> int:
    return int(bilm.loaded.config.get("training", {}).get("evaluations_per_epoch", 1))


def _epoch(evaluation: Json, per_epoch: int) -> PretrainingEpoch:
    return PretrainingEpoch(
        epoch=evaluation["position"]["evaluations"] / per_epoch,
        perplexity=evaluation["perplexity"],
        forward_perplexity=evaluation["forward"]["perplexity"],
        backward_perplexity=evaluation["backward"]["perplexity"],
    )


def _accuracy(evaluation: Json) -> float:
    return (evaluation["forward"]["accuracy"] + evaluation["backward"]["accuracy"]) / 2


# What the steps of a study share: texts, embeddings, and where results are kept.


VERSION = 5
"""Of the steps: a change of what they compute makes older ones unknown."""
ELMO_WORK, FUNCTION_WORK, SVM_WORK = 1.6, 3.7, 0.5
"""A text of a training on a biLM's layers, on a learned function of them, or of a linear machine,
takes about so many times as long as one of a training on static vectors."""


@dataclass(frozen=True)
class ReadingPace:
    """How fast the biLM read all texts of the study."""

    texts_per_second: float


@dataclass
class Workbench:
    """Everything that jobs need; computed before they are started side by side."""

    config: StudyConfig
    data: StudyData
    folder: Path
    steps: Steps
    bilms: dict[str, StudyBiLM] = field(default_factory=dict[str, StudyBiLM])
    """By their names as embeddings."""
    feature_memory: float | None = None
    embedding_keys: dict[str, str] = field(default_factory=lambda: {NOTHING: NOTHING})
    """A fingerprint of each embedding that is ready, by name."""
    _layers: dict[str, FrozenFeatures] = field(default_factory=dict[str, FrozenFeatures])

    def vectors_path(self, name: str) -> Path:
        """Where static vectors lie."""
        return self.folder / "vectors" / f"{name}.bin"

    def add_bilm(self, name: str, bilm: StudyBiLM) -> None:
        """Take a biLM in, as an embedding of this name."""
        self.bilms[name] = bilm
        self.embedding_keys[name] = bilm.weights_sha256

    def has_layers(self, name: str) -> bool:
        """Whether the biLM has read all texts in this session."""
        return name in self._layers

    def read_layers(self, name: str, on_progress: Callable[[Progress], None]) -> ReadingPace:
        """Have a biLM read all texts, once; what another one read is forgotten."""
        started = time.monotonic()
        self._layers.clear()
        texts = self._texts()
        self._layers[name] = FrozenFeatures.compute(
            texts,
            self.bilms[name].loaded.model,
            memory=self.feature_memory,
            folder=self.folder,
            on_texts=Pace(on_progress, len(texts)).add,
        )
        return ReadingPace(len(texts) / (time.monotonic() - started))

    def reading(self, embedding: str) -> Reading:
        """An embedding, ready to be read by a network."""
        if embedding == NOTHING:
            return Reading(NoFeatures(self._texts()), 1, 0)
        if embedding in self.bilms:
            bilm = self.bilms[embedding].loaded.model.config
            return Reading(self._layers[embedding], 1 + bilm.layers, 2 * bilm.width)
        vectors = StaticVectors.load(self.vectors_path(embedding))
        return Reading(StaticFeatures(self._texts(), vectors), 1, vectors.dim)

    def job(self, name: str, row: str, embedding: str, training: Training, *, work: float) -> Job:
        """One training, as a step; `work` is how many texts are read, all epochs together."""
        heavy = elmo_work(training.config.network.mix) if embedding in self.bilms else 1.0

        def run(on_share: OnShare) -> Outcome:
            return train_network(self.data, self.reading(embedding), training, on_share)

        return Job(
            name=name,
            row=row,
            inputs=self.inputs(embedding, training),
            kind=Outcome,
            run=run,
            weight=heavy * work,
            needs_bilm=embedding if embedding in self.bilms else None,
        )

    def training(
        self, config: ClassifierConfig, *, rows: int | None = None, measures_train: bool = True
    ) -> Training:
        """One training with the study's least number of steps."""
        least = self.config.least_steps
        return Training(config=config, rows=rows, measures_train=measures_train, least_steps=least)

    def inputs(self, embedding: str, training: Training) -> Json:
        """What a training's outcome depends on."""
        return {
            "version": VERSION,
            "data": self.data.fingerprint,
            "embedding": self.embedding_keys[embedding],
            "training": to_json(training),
        }

    def classifier(self, mix: MixConfig, seed: int) -> ClassifierConfig:
        """The classifier that all rows share, but for what it reads."""
        return shared_classifier(self.config, mix, seed)

    def _texts(self) -> TokenizedTexts:
        return TokenizedTexts(self.data.words, Vocabulary(SPECIAL_WORDS, (0,) * len(SPECIAL_WORDS)))


def elmo_work(mix: MixConfig) -> float:
    """How long a text of a training on a biLM's layers takes, mixed in this way."""
    return FUNCTION_WORK if mix.mix == "function" else ELMO_WORK


def sample_work(config: StudyConfig, texts: int) -> int:
    """How many texts a training on so few reads, all epochs together."""
    return max(config.least_steps * LearningConfig().batch_texts, texts * config.epochs)


def shared_classifier(config: StudyConfig, mix: MixConfig, seed: int) -> ClassifierConfig:
    """The classifier of every row."""
    return ClassifierConfig(
        network=NetworkConfig(
            mix=mix,
            max_words=MAX_WORDS,
            own_words=config.own_words,
            own_lower_case=config.word_vectors is not None,
        ),
        learning=LearningConfig(
            epochs=config.epochs, seed=seed, development_share=config.development_share
        ),
    )


# Static vectors of a study's training texts, without the texts that a biLM holds out.


@dataclass(frozen=True, kw_only=True)
class VectorsMade:
    """Vectors that were written to a file."""

    words: int
    dim: int
    seconds: float
    sha256: str


def static_config(method: str, window: int, dim: int) -> StaticConfig:
    """The settings of a method, the same for every window."""
    kind = SvdConfig if method == "svd" else SkipGramConfig
    return kind(window=window, dim=dim)


def vectors_work(config: StaticConfig) -> float:
    """How long a text takes, against one in one epoch of a training on the vectors: about."""
    return 0.6 if isinstance(config, SvdConfig) else 3 + 1.3 * config.window


def make_vectors(
    data: StudyData,
    config: StaticConfig,
    held_out_share: float,
    path: Path,
    on_share: OnShare = lambda share: None,
) -> VectorsMade:
    """Make vectors of the training texts, labels unseen, and write them."""
    started = time.monotonic()
    texts = [data.words[int(row)] for row in data.train]
    texts = [words for words in texts if words and not is_held_out(words, held_out_share)]
    vocabulary = build_task_vocabulary(texts, config.min_count)
    if len(vocabulary) == len(SPECIAL_WORDS):
        raise UserError(f"no word is seen {config.min_count} times; give more text")

    def tell(progress: Progress_of_train) -> None:
        if progress.total:
            on_share(progress.done / progress.total)

    vectors = static_vectors(encode_texts(texts, vocabulary), vocabulary, config, tell)
    path.parent.mkdir(parents=True, exist_ok=True)
    vectors.save(path)
    return VectorsMade(
        words=len(vectors),
        dim=vectors.dim,
        seconds=time.monotonic() - started,
        sha256=sha256(path),
    )


# What every embedding must beat: the most frequent class, and TF-IDF with a linear machine.


STRENGTHS = (0.1, 0.2, 0.5, 1.0)
Probabilities = NDArray[np.float64]


def majority(data: StudyData) -> Outcome:
    """Always the most frequent class of the training rows, sure of it as often as it occurs."""
    started = time.monotonic()
    shares = np.bincount(data.classes[data.train], minlength=len(data.labels)) / data.train_count
    seconds = time.monotonic() - started

    def guess(rows: NDArray[np.int64]) -> Probabilities:
        return np.tile(shares, (len(rows), 1))

    return _controls_outcome(data, guess, float(shares.max()), seconds, parameters=len(shares))


def tfidf(data: StudyData, strength: float, per_class: int | None = None, seed: int = 0) -> Outcome:
    """TF-IDF of words and pairs with a linear SVM of this strength, fitted to all training rows.

    What it says of development rows is said by a machine that has not seen them.
    """
    split = data.part(None, per_class, seed)
    chooser = _fitted(data, split.train, strength)
    right = _predicted(data, chooser, split.development) == data.classes[split.development]
    every = data.train if per_class is None else np.concatenate(split)
    started = time.monotonic()
    machine = _fitted(data, every, strength)
    seconds = time.monotonic() - started

    def guess(rows: NDArray[np.int64]) -> Probabilities:
        return _shares(machine.decision_function(_texts(data, rows)))

    parameters = int(machine[-1].coef_.size + machine[-1].intercept_.size)
    return _controls_outcome(data, guess, float(right.mean()), seconds, parameters)


def words_and_pairs(words: Sequence[str]) -> list[str]:
    """The words of a text and its pairs of neighbours, in lower case."""
    lower = [word.lower() for word in words]
    return [*lower, *(f"{one} {other}" for one, other in pairwise(lower))]


def _fitted(data: StudyData, rows: NDArray[np.int64], strength: float) -> Any:
    text, pipeline, svm = (
        require_extra(f"sklearn.{name}", "study")
        for name in ("feature_extraction.text", "pipeline", "svm")
    )
    # Of few texts a word seen once is all there is.
    least = 2 if len(rows) > 1000 else 1
    vectorizer = text.TfidfVectorizer(analyzer=words_and_pairs, sublinear_tf=True, min_df=least)
    machine = pipeline.make_pipeline(vectorizer, svm.LinearSVC(C=strength, random_state=0))
    return machine.fit(_texts(data, rows), data.classes[rows])


def _texts(data: StudyData, rows: NDArray[np.int64]) -> list[list[str]]:
    return [data.words[int(row)] for row in rows]


def _predicted(data: StudyData, machine: Any, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return machine.predict(_texts(data, rows))


def _shares(scores: NDArray[np.float64]) -> Probabilities:
    """Distances from the boundaries as shares: they rank, but are no probabilities of a model."""
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _controls_outcome(
    data: StudyData, guess: Any, development: float, seconds: float, parameters: int
) -> Outcome:
    since = time.monotonic()
    test = guess(data.test)
    pace = len(data.test) / max(time.monotonic() - since, 1e-9)
    return Outcome(
        development_accuracy=development,
        train=measured(data, guess(data.train), data.train),
        test=measured(data, test, data.test),
        predictions=tuple(test.argmax(1).tolist()),
        training_seconds=seconds,
        texts_per_second=pace,
        parameters=parameters,
    )


@dataclass(frozen=True)
class NetworkSettings:
    """What is tried of the classifier's settings."""

    learning_rate: float = 3e-3
    dropout: float = 0.2

    def on(self, config: ClassifierConfig) -> ClassifierConfig:
        """A classifier with these settings."""
        return replace(
            config,
            network=replace(config.network, dropout=self.dropout),
            learning=replace(config.learning, learning_rate=self.learning_rate),
        )


@dataclass(frozen=True)
class SvmSettings:
    """What is tried of the linear machine's settings."""

    strength: float = 0.2


Settings = NetworkSettings | SvmSettings
NETWORKS = (NetworkSettings(), NetworkSettings(2e-3), NetworkSettings(3e-3, 0.3))
"""Near each other: what a part of the rows likes best must not be far off for all of them."""
SVMS = tuple(SvmSettings(strength) for strength in STRENGTHS)


@dataclass(frozen=True)
class Choice:
    """The best settings of a row, and all that were tried."""

    best: Settings
    candidates: tuple[Candidate, ...]


def tries(row: Row) -> tuple[Settings, ...]:
    """What is tried for a row."""
    if row.kind == "tfidf":
        return SVMS
    return NETWORKS if row.kind == "network" else ()


def tuning_jobs(bench: Workbench, rows: Sequence[Row]) -> list[Job]:
    """A training on a part of the rows for each try."""
    return [
        _tuning_job(bench, row, number, settings)
        for row in rows
        for number, settings in enumerate(tries(row))
    ]


def choose(row: Row, outcomes: Mapping[str, Any], development_rows: int) -> Choice | None:
    """The settings with the best development accuracy, of equals the first; none if all failed.

    A network's are tried on a part of the rows, and the first ones stay unless others are better by
    more than a standard error: what has less of a lead there has been worse on all rows.
    """
    tried = [
        (settings, outcomes[_tuning_name(row, number)])
        for number, settings in enumerate(tries(row))
    ]
    good = [(settings, one) for settings, one in tried if not isinstance(one, Failure)]
    if not good:
        return None
    highest = max(one.development_accuracy for _, one in good)
    margin = standard_error(highest, development_rows) if row.kind == "network" else 0.0
    best = next(settings for settings, one in good if one.development_accuracy >= highest - margin)
    candidates = tuple(
        Candidate(settings=named(settings), development_accuracy=one.development_accuracy)
        for settings, one in good
    )
    return Choice(best, candidates)


def row_jobs(bench: Workbench, row: Row, choice: Choice | None) -> list[Job]:
    """The trainings of a row, one a seed; what has no chance in it is done once."""
    if row.kind == "network":
        return [_network_job(bench, row, choice, seed) for seed in bench.config.seeds]
    return [_control_job(bench, row, choice)]


def row_training(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Training:
    """How a row is trained with a seed; frozen weights are drawn anew by each."""
    config = bench.classifier(replace(row.mix, mix_seed=seed), seed)
    if choice is not None and isinstance(choice.best, NetworkSettings):
        config = choice.best.on(config)
    return bench.training(config)


def svm_job(
    bench: Workbench,
    name: str,
    row: str,
    settings: SvmSettings,
    per_class: int | None = None,
    seed: int = 0,
) -> Job:
    """The linear machine on all rows, or on so few labels a class."""
    data = bench.data
    texts = data.train_count if per_class is None else per_class * len(data.labels)
    return Job(
        name=name,
        row=row,
        inputs={
            "version": VERSION,
            "data": data.fingerprint,
            "strength": settings.strength,
            "per_class": per_class,
            "seed": seed,
        },
        kind=Outcome,
        run=lambda on_share: tfidf(data, settings.strength, per_class, seed),
        weight=SVM_WORK * texts,
    )


def named(settings: object) -> tuple[Named, ...]:
    """Settings by name."""
    return tuple(Named(name=name, value=value) for name, value in vars(settings).items())


def _tuning_name(row: Row, number: int) -> str:
    return f"tuning-{row.name}-{number}"


def _tuning_job(bench: Workbench, row: Row, number: int, settings: Settings) -> Job:
    name = _tuning_name(row, number)
    if isinstance(settings, SvmSettings):
        return svm_job(bench, name, row.name, settings)
    first = bench.config.seeds[0]
    epochs = bench.config.tuning_epochs
    config = settings.on(bench.classifier(replace(row.mix, mix_seed=first), first))
    config = replace(config, learning=replace(config.learning, epochs=epochs))
    training = bench.training(config, rows=bench.config.tuning_rows, measures_train=False)
    work = min(bench.config.tuning_rows, bench.data.train_count) * epochs
    return bench.job(name, row.name, row.embedding, training, work=work)


def _network_job(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Job:
    training = row_training(bench, row, choice, seed)
    work = bench.data.train_count * bench.config.epochs
    return bench.job(f"row-{row.name}-seed{seed}", row.name, row.embedding, training, work=work)


def _control_job(bench: Workbench, row: Row, choice: Choice | None) -> Job:
    if row.kind == "majority":
        return Job(
            name="row-majority",
            row=row.name,
            inputs={"version": VERSION, "data": bench.data.fingerprint},
            kind=Outcome,
            run=lambda on_share: majority(bench.data),
            weight=1.0,
        )
    best = SvmSettings() if choice is None else choice.best
    assert isinstance(best, SvmSettings)
    return svm_job(bench, "row-tfidf", row.name, best)


# The row whose biLM learns with the classifier.


WORK = 36.0
"""A text in fine-tuning takes about so many times as long as in a training on static vectors."""


def fine_tuned_jobs(bench: Workbench, row: Row, choice: Choice | None) -> list[Job]:
    """One job a seed; the classifier's settings are those chosen for trainable λs."""
    seeds = bench.config.seeds[: bench.config.fine_tune_seeds]
    return [_job(bench, row, choice, seed) for seed in seeds]


def _job(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Job:
    training = _training(bench, row, choice, seed)

    def run(on_share: OnShare) -> Outcome:
        # A biLM of its own, since it is changed.
        model = open_model(bench.bilms[ELMO].folder)
        reading = replace(bench.reading(ELMO), fine_tuned=model)
        return train_network(bench.data, reading, training, on_share)

    return Job(
        name=f"row-{row.name}-seed{seed}",
        row=row.name,
        inputs=bench.inputs(ELMO, training),
        kind=Outcome,
        run=run,
        weight=WORK * bench.data.train_count * bench.config.fine_tune_epochs,
        needs_bilm=ELMO,
    )


def _training(bench: Workbench, row: Row, choice: Choice | None, seed: int) -> Training:
    training = row_training(bench, row, choice, seed)
    learning = training.config.learning
    tuning = replace(learning.fine_tuning, fine_tune_epochs=bench.config.fine_tune_epochs)
    # The network learns for one epoch alone, so that it does not spoil the biLM at first.
    learning = replace(learning, epochs=1, fine_tuning=tuning)
    return replace(training, config=replace(training.config, learning=learning))


# Sweeps: one setting varied while all others stay, on a part of the rows.


Setting = Literal["window", "dim", "hidden", "mix-pull", "learning-rate"]
WHOLE = ("window", "dim", "hidden")
SETTINGS = (*WHOLE, "mix-pull", "learning-rate")
DEFAULT_WINDOW = 5


@dataclass(frozen=True)
class AskedSweep:
    """A setting, and the values to try."""

    setting: Setting
    values: tuple[float, ...]


@dataclass(frozen=True)
class Try:
    """One value of one setting for one row."""

    setting: Setting
    row: str
    value: float
    embedding: str

    @property
    def name(self) -> str:
        """The step's name."""
        return f"sweep-{self.setting}-{self.row}-{self.value:g}"


def parse_sweeps(given: tuple[str, ...]) -> tuple[AskedSweep, ...]:
    """Read setting=value,value,…; every mistake is named."""
    return tuple(_parse(one) for one in given)


def tries_of(sweep: AskedSweep, static_dim: int) -> list[Try]:
    """Which rows a sweep is tried for: the static ones, or ELMo with trainable λs."""
    return list(_tries(sweep, static_dim))


def sweep_job(bench: Workbench, one: Try) -> Job:
    """A training with one value."""
    mix = MixConfig(mix_pull=one.value if one.setting == "mix-pull" else 0.0)
    settings = NetworkSettings()
    if one.setting == "learning-rate":
        settings = NetworkSettings(learning_rate=one.value)
    training = bench.training(
        settings.on(bench.classifier(mix, bench.config.seeds[0])),
        rows=bench.config.sweep_rows,
        measures_train=False,
    )
    work = min(bench.config.sweep_rows, bench.data.train_count) * bench.config.epochs
    return bench.job(one.name, "sweeps", one.embedding, training, work=work)


def sweeps_found(
    bench: Workbench,
    tries: Mapping[AskedSweep, list[Try]],
    results: Mapping[str, Any],
    notes: Mapping[str, str],
) -> tuple[Sweep, ...]:
    """What each sweep gave, a curve a row; `notes` say more of an embedding."""
    found: list[Sweep] = []
    rows = min(bench.config.sweep_rows, len(bench.data.split.train))
    for sweep, all_tries in tries.items():
        for row in dict.fromkeys(one.row for one in all_tries):
            points = tuple(
                SweepPoint(
                    value=one.value,
                    development_accuracy=outcome.development_accuracy,
                    test_accuracy=outcome.test.accuracy.value,
                    note=notes.get(one.embedding),
                )
                for one in all_tries
                if one.row == row and isinstance(outcome := results.get(one.name), Outcome)
            )
            if points:
                found.append(Sweep(setting=sweep.setting, row=row, train_rows=rows, points=points))
    return tuple(found)


def static_name(method: str, window: int, dim: int, usual_dim: int) -> str:
    """The name of static vectors; those of the usual size are named as their row is."""
    return f"{method}-{window}" if dim == usual_dim else f"{method}-{window}-dim{dim}"


def static_settings(name: str, usual_dim: int) -> tuple[str, int, int]:
    """Method, window and size of static vectors, by their name."""
    method, window, *rest = name.split("-")
    return method, int(window), int(rest[0].removeprefix("dim")) if rest else usual_dim


def bilm_name(hidden: int) -> str:
    """The name of a biLM of another size, as an embedding."""
    return f"{ELMO}-hidden{hidden}"


def _tries(sweep: AskedSweep, usual_dim: int) -> Iterator[Try]:
    setting = sweep.setting
    for value in sweep.values:
        if setting == "window":
            for method in METHODS:
                name = static_name(method, int(value), usual_dim, usual_dim)
                yield Try(setting, method, value, name)
        elif setting == "dim":
            for method in METHODS:
                name = static_name(method, DEFAULT_WINDOW, int(value), usual_dim)
                yield Try(setting, method, value, name)
        elif setting == "hidden":
            yield Try(setting, "trainable", value, bilm_name(int(value)))
        else:
            yield Try(setting, "trainable", value, ELMO)


def _parse(given: str) -> AskedSweep:
    setting, equals, values = given.partition("=")
    if not equals or setting not in SETTINGS:
        raise UserError(
            f"--sweeps: expected setting=value,value,… with a setting out of "
            f"{', '.join(SETTINGS)}; got {given!r}{nearest(setting, SETTINGS)}"
        )
    numbers = tuple(_number(setting, value, given) for value in values.split(","))
    return AskedSweep(setting, numbers)


def _number(setting: str, value: str, given: str) -> float:
    try:
        number = int(value) if setting in WHOLE else float(value)
    except ValueError:
        kind = "whole numbers" if setting in WHOLE else "numbers"
        raise UserError(
            f"--sweeps: expected {kind} behind {setting}=, got {value!r} in {given!r}"
        ) from None
    least = 0 if setting == "mix-pull" else None
    if number < 0 or (least is None and number == 0) or number != number or number > 1e9:
        raise UserError(f"--sweeps: {setting} cannot be {value} (in {given!r})")
    return number


# How much work a study is, row by row, before it begins: what an estimate of its end rests on.


PRETRAINING_WORK, READING_WORK = 40.0, 11.0
"""A text in one epoch of pre-training, or read by a biLM, against one text of one epoch of a
training on static vectors, of which there are two at a time."""


@dataclass(frozen=True)
class PlannedRow:
    """A row or analysis, and its work in texts read by a training on static vectors."""

    name: str
    title: str
    work: float


def bilm_layers(request: StudyRequest) -> int:
    """How many layers the biLM has above the words."""
    if request.model is None:
        return request.pretraining.model.layers
    return describe(request.model).model.layers


def planned(request: StudyRequest) -> list[PlannedRow]:
    """What is to be done, in the order of the comparison; sweeps are not foreseen."""
    rows = chosen_rows(request.config, bilm_layers(request))
    texts = len(request.parts.train.texts)
    plan: list[PlannedRow] = []
    if any(row.embedding == ELMO for row in rows):
        if request.model is None:
            work = PRETRAINING_WORK * texts * request.pretraining.training.epochs
            plan.append(PlannedRow("biLM", "Pre-training of the biLM", work))
        plan.append(PlannedRow("reading", "Texts read by the biLM", READING_WORK * texts))
    plan += [PlannedRow(row.name, row.title, _row_work(request, row, texts)) for row in rows]
    return [*plan, *_analyses(request, rows, texts)]


def _row_work(request: StudyRequest, row: Row, texts: int) -> float:
    config = request.config
    if row.kind == "majority":
        return 1.0
    if row.kind == "tfidf":
        return SVM_WORK * texts * (1 + len(tries(row)))
    if row.kind == "fine-tuned":
        return WORK * texts * config.fine_tune_epochs * config.fine_tune_seeds
    heavy = elmo_work(row.mix) if row.embedding == ELMO else 1.0
    tuning = min(config.tuning_rows, texts) * len(tries(row)) * config.tuning_epochs
    trainings = heavy * (texts * len(config.seeds) * config.epochs + tuning)
    return trainings + (_vectors_work(config, row) * texts if row.is_static else 0.0)


def _analyses(request: StudyRequest, rows: Sequence[Row], texts: int) -> Iterator[PlannedRow]:
    """Draws and fewer labels; a class too small for a number of labels is not foreseen."""
    config, classes = request.config, len(set(request.parts.train.labels or ()))
    if config.draws and any(row.embedding == ELMO for row in rows):
        draw = ELMO_WORK * min(config.draw_rows, texts) * config.epochs
        yield PlannedRow("draws", "Draws of frozen λs", (1 + config.draws) * draw)
    names = {row.name for row in rows}
    sizes = [classes * number for number in config.samples]
    networks = ELMO_WORK * ("trainable" in names) + any(one.startswith("skipgram") for one in names)
    work = networks * sum(sample_work(config, size) for size in sizes)
    work += SVM_WORK * sum(sizes) * ("tfidf" in names)
    if work:
        yield PlannedRow("samples", "Fewer labels", len(config.seeds) * work)


def _vectors_work(config: StudyConfig, row: Row) -> float:
    return vectors_work(static_config(*static_settings(row.embedding, config.static_dim)))


# From outcomes to the rows of the table.


CONFUSIONS, EXAMPLES = 3, 3


@dataclass(frozen=True)
class EmbeddingFacts:
    """What an embedding took, and how large it is."""

    parameters: int = 0
    seconds: float | None = None
    texts_per_second: float | None = None
    """How fast it is read, where that is not part of a classifier's own speed."""


def best_static(rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]]) -> Row | None:
    """The static row with the best development accuracy: what the others are compared with."""
    static = [row for row in rows if row.is_static and outcomes.get(row.name)]
    return max(static, key=lambda row: _development(outcomes[row.name]), default=None)


def row_result(
    row: Row,
    outcomes: Sequence[Outcome],
    choice: Choice | None,
    facts: EmbeddingFacts,
    data: StudyData,
    seeds: Sequence[int],
    other: Paired | None,
    *,
    shows_texts: bool,
) -> RowResult:
    """One row, all its seeds."""
    tests = [one.test for one in outcomes]
    trains = [one.train for one in outcomes if one.train is not None]
    count, learned = len(data.test), data.train_count
    return RowResult(
        name=row.name,
        title=row.title,
        group=row.group,
        chosen=() if choice is None else named(choice.best),
        candidates=() if choice is None else choice.candidates,
        seeds=tuple(_seed(one, seed) for one, seed in zip(outcomes, seeds, strict=False)),
        train_accuracy=spread([one.accuracy.value for one in trains], learned),
        test_accuracy=spread([one.accuracy.value for one in tests], count),
        test_macro_f1=spread([one.macro.f1 for one in tests], count),
        development_accuracy=spread(
            [one.development_accuracy for one in outcomes], len(data.split.development)
        ),
        paired=other,
        parameters=outcomes[0].parameters,
        embedding_parameters=facts.parameters,
        embedding_seconds=facts.seconds,
        texts_per_second=_pace([one.texts_per_second for one in outcomes], facts),
        confusions=_confusions(outcomes[0], data, shows_texts),
    )


def compared(
    row: Row, outcomes: Mapping[str, Sequence[Outcome]], other: Row | None, data: StudyData
) -> Paired | None:
    """The paired test of a row, by its first seed, against another row."""
    if other is None or row.name == other.name:
        return None
    return paired(data, outcomes[row.name][0], outcomes[other.name][0], other.name)


def _development(outcomes: Sequence[Outcome]) -> float:
    return sum(one.development_accuracy for one in outcomes) / len(outcomes)


def _seed(outcome: Outcome, seed: int) -> SeedResult:
    assert outcome.train is not None
    return SeedResult(
        seed=seed,
        development_accuracy=outcome.development_accuracy,
        train=outcome.train,
        test=outcome.test,
        training_seconds=outcome.training_seconds,
        layer_weights=outcome.layer_weights,
        gamma=outcome.gamma,
    )


def _pace(paces: Sequence[float], facts: EmbeddingFacts) -> float:
    """Texts a second from words to classes: first the embedding, then the classifier."""
    classifier = sum(paces) / len(paces)
    if facts.texts_per_second is None:
        return classifier
    return 1 / (1 / classifier + 1 / facts.texts_per_second)


def _confusions(outcome: Outcome, data: StudyData, shows_texts: bool) -> tuple[Confusion, ...]:
    """What is most often taken for what, with the first test rows where it is."""
    gold, predicted = data.classes[data.test], np.array(outcome.predictions)
    matrix = np.array(outcome.test.confusion)
    np.fill_diagonal(matrix, 0)
    most: list[int] = np.argsort(-matrix.ravel(), kind="stable")[:CONFUSIONS].tolist()
    found: list[Confusion] = []
    for cell in most:
        label, taken = divmod(cell, len(data.labels))
        if not matrix[label, taken]:
            continue
        rows: list[int] = np.flatnonzero((gold == label) & (predicted == taken)).tolist()
        examples = tuple(_example(data, row, shows_texts) for row in rows[:EXAMPLES])
        found.append(
            Confusion(
                label=data.labels[label],
                predicted=data.labels[taken],
                count=int(matrix[label, taken]),
                examples=examples,
            )
        )
    return tuple(found)


def _example(data: StudyData, row: int, shows_texts: bool) -> Example:
    text = data.texts[data.train_count + row]
    return Example(row=row, text=text if shows_texts else None)


# The embeddings of a study made ready: static vectors beside each other, layers when needed.


def make_static(bench: Workbench, names: Iterable[str], watcher: Watcher) -> dict[str, str]:
    """Make the static vectors of these names; gives the messages of those that failed."""
    jobs = [_vectors_job(bench, name) for name in dict.fromkeys(names)]
    for job in jobs:
        if not bench.vectors_path(job.row).is_file():
            # Without its file the step counts for nothing.
            bench.steps.path(job.name).unlink(missing_ok=True)
    results = run_jobs(jobs, bench.steps, watcher)
    failed: dict[str, str] = {}
    for job in jobs:
        made = results[job.name]
        if isinstance(made, Failure):
            failed[job.row] = made.message
        else:
            bench.embedding_keys[job.row] = made.sha256
    return failed


def do(bench: Workbench, jobs: Sequence[Job], watcher: Watcher) -> Results:
    """Run jobs side by side; before, a biLM reads the texts if one of them needs its layers.

    Layers of one biLM at a time are in memory. Jobs that need none run beside those of the first:
    the more jobs there are to choose from, the less a core waits for another at the end.
    """
    results: Results = {}
    waiting = [job for job in jobs if job.needs_bilm is None]
    for name in dict.fromkeys(job.needs_bilm for job in jobs if job.needs_bilm is not None):
        some = [job for job in jobs if job.needs_bilm == name]
        if not bench.has_layers(name) and _has_work(bench, some):
            _read_texts(bench, name, watcher)
        results |= run_jobs([*waiting, *some], bench.steps, watcher)
        waiting = []
    return results | run_jobs(waiting, bench.steps, watcher)


def _read_texts(bench: Workbench, name: str, watcher: Watcher) -> None:
    """Have a biLM read all texts, and keep how fast it was."""
    total, step = len(bench.data.texts), f"reading-{name}"

    def tell(progress: Progress) -> None:
        watcher(_reading(step, "running", progress.texts / total, total))

    pace = bench.read_layers(name, tell)
    bench.steps.keep(step, _reading_inputs(bench, name), pace)
    watcher(_reading(step, "done", 1.0, total))


def embedding_facts(bench: Workbench, embedding: str) -> EmbeddingFacts:
    """How large an embedding is, and what it took."""
    if embedding == NOTHING:
        return EmbeddingFacts()
    if embedding in bench.bilms:
        bilm = bench.bilms[embedding]
        inputs = _reading_inputs(bench, embedding)
        pace = bench.steps.known(f"reading-{embedding}", inputs, ReadingPace)
        return EmbeddingFacts(
            parameter_count(bilm.loaded.model),
            bilm.seconds,
            None if pace is None else pace.texts_per_second,
        )
    job = _vectors_job(bench, embedding)
    made = bench.steps.known(job.name, job.inputs, VectorsMade)
    assert made is not None
    return EmbeddingFacts(made.words * made.dim, made.seconds)


def _vectors_job(bench: Workbench, name: str) -> Job:
    method, window, dim = static_settings(name, bench.config.static_dim)
    config = static_config(method, window, dim)
    share = max((bilm.held_out_share for bilm in bench.bilms.values()), default=0.02)
    path = bench.vectors_path(name)

    def run(on_share: OnShare) -> VectorsMade:
        return make_vectors(bench.data, config, share, path, on_share)

    return Job(
        name=f"vectors-{name}",
        row=name,
        inputs={
            "version": VERSION,
            "data": bench.data.fingerprint,
            "config": to_json(config),
            "held_out_share": share,
        },
        kind=VectorsMade,
        run=run,
        weight=vectors_work(config) * bench.data.train_count,
    )


def _has_work(bench: Workbench, jobs: Sequence[Job]) -> bool:
    return any(bench.steps.known(job.name, job.inputs, job.kind) is None for job in jobs)


def _reading_inputs(bench: Workbench, name: str) -> dict[str, object]:
    return {"data": bench.data.fingerprint, "embedding": bench.embedding_keys[name]}


def _reading(step: str, state: str, share: float, texts: int) -> StepProgress:
    return StepProgress(
        name=step,
        row="reading",
        state="done" if state == "done" else "running",
        share=share,
        weight=READING_WORK * texts,
    )


# The comparison itself: settings chosen row by row, then every row trained with every seed.


@dataclass(frozen=True)
class Comparison:
    """What every row gave."""

    rows: tuple[Row, ...]
    choices: dict[str, Choice]
    outcomes: dict[str, list[Outcome]]
    """One a seed, of the rows that gave any."""
    failed: dict[str, str]
    """Messages of the rows that failed, with all seeds or with some."""

    def has(self, embedding: str) -> bool:
        """Whether some row reads this embedding."""
        return any(row.embedding == embedding for row in self.rows if row.name in self.outcomes)

    def best_static(self) -> Row | None:
        """The static row that was best on development rows."""
        return best_static(self.rows, self.outcomes)

    def table(self, bench: Workbench, *, shows_texts: bool) -> tuple[RowResult, ...]:
        """The rows with all their figures."""
        other = self.best_static()
        return tuple(
            row_result(
                row,
                self.outcomes[row.name],
                self.choices.get(row.name),
                embedding_facts(bench, row.embedding),
                bench.data,
                bench.config.seeds,
                compared(row, self.outcomes, other, bench.data),
                shows_texts=shows_texts,
            )
            for row in self.rows
            if row.name in self.outcomes
        )

    def failures(self) -> tuple[FailedRow, ...]:
        """The rows that failed, in the order of the table."""
        return tuple(
            FailedRow(name=row.name, title=row.title, message=self.failed[row.name])
            for row in self.rows
            if row.name in self.failed
        )


def compare(
    bench: Workbench, rows: Sequence[Row], no_vectors: Mapping[str, str], watcher: Watcher
) -> Comparison:
    """Train every row; one that fails stops no other."""
    failed = {row.name: no_vectors[row.embedding] for row in rows if row.embedding in no_vectors}
    able = [row for row in rows if row.name not in failed]
    choices = _choices(bench, able, failed, watcher)
    able = [row for row in able if row.name not in failed]
    jobs = {row.name: _row_jobs(bench, row, choices) for row in able}
    results = do(bench, [job for some in jobs.values() for job in some], watcher)
    outcomes = {name: _good(some, results) for name, some in jobs.items()}
    for name, some in jobs.items():
        messages = [results[job.name].message for job in some if _has_failed(job, results)]
        if messages:
            failed[name] = messages[0]
    good = {name: some for name, some in outcomes.items() if some}
    return Comparison(tuple(rows), choices, good, failed)


def _choices(
    bench: Workbench, rows: Sequence[Row], failed: dict[str, str], watcher: Watcher
) -> dict[str, Choice]:
    jobs = tuning_jobs(bench, rows)
    results = do(bench, jobs, watcher)
    choices: dict[str, Choice] = {}
    for row in rows:
        if not tries(row):
            continue
        choice = choose(row, results, len(bench.data.split.development))
        if choice is None:
            own = [results[job.name] for job in jobs if job.row == row.name]
            failed[row.name] = own[0].message
        else:
            choices[row.name] = choice
    return choices


def _row_jobs(bench: Workbench, row: Row, choices: Mapping[str, Choice]) -> list[Job]:
    if row.kind == "fine-tuned":
        return fine_tuned_jobs(bench, row, choices.get("trainable"))
    return row_jobs(bench, row, choices.get(row.name))


def _has_failed(job: Job, results: Mapping[str, Any]) -> bool:
    return isinstance(results[job.name], Failure)


def _good(jobs: Sequence[Job], results: Mapping[str, Any]) -> list[Outcome]:
    return [results[job.name] for job in jobs if not _has_failed(job, results)]

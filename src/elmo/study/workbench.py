"""What the steps of a study share: texts, embeddings, and where results are kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from elmo.classify.config import ClassifierConfig, LearningConfig, NetworkConfig
from elmo.classify.features import FrozenFeatures
from elmo.classify.text_rows import TextRows
from elmo.config import Json, to_json
from elmo.contextual.mix_config import MixConfig
from elmo.contextual.progress import Pace, Progress
from elmo.static.vectors import StaticVectors
from elmo.study.bilm import StudyBiLM
from elmo.study.comparison import NOTHING
from elmo.study.config import StudyConfig
from elmo.study.data import MAX_WORDS, StudyData
from elmo.study.jobs import Job
from elmo.study.outcome import Outcome
from elmo.study.progress import OnShare
from elmo.study.static_features import NoFeatures, StaticFeatures
from elmo.study.steps import Steps
from elmo.study.training import Reading, Training, train_network
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

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

    def _texts(self) -> TextRows:
        return TextRows(self.data.words, Vocabulary(SPECIAL_WORDS, (0,) * len(SPECIAL_WORDS)))


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

"""How the cells of a study are computed: the texts and embeddings they share, and the trainings."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.classify.data import Split
from elmo.classify.features import (
    MAX_WORD_VECTORS,
    FrozenFeatures,
    TokenizedTexts,
    build_task_vocabulary,
)
from elmo.classify.linear import fit_ngrams
from elmo.classify.loop import EpochReport, Features, StepReport, kept_report
from elmo.classify.metrics import measure
from elmo.classify.training import fit_network
from elmo.config import from_json, to_json
from elmo.embed.embedder import Pace
from elmo.embed.mix import PackedLayers
from elmo.errors import UserError
from elmo.files import read_json, sha256, write_json
from elmo.language_model import LanguageModel, open_model
from elmo.model_folder import parameter_count
from elmo.runtime import compute_precision
from elmo.static.contextual import ContextualConfig, mean_vectors
from elmo.static.train import static_vectors
from elmo.static.vectors import StaticVectors
from elmo.study.config import StudyConfig
from elmo.study.data import StaticFeatures, StudyData, WithoutTaskIds, without_task_vocabulary
from elmo.study.rows import ELMO, NOTHING, Cell, Embedding, Outcome, vector_files
from elmo.text.corpus import is_held_out
from elmo.text.vocabulary import SPECIAL_WORDS

VERSION = 9
"""Version of what cells compute: results of another version are not used."""
FINE_TUNING_STEPS = 100
OnFraction = Callable[[float], None]
"""Told what fraction of a cell is done."""


@dataclass(frozen=True)
class StudyBiLM:
    loaded: LanguageModel
    folder: Path
    source: str
    seconds: float | None
    """Training time; None where the model was given."""


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
    """Embeddings that are ready."""
    given: dict[str, StaticVectors] = field(default_factory=dict[str, StaticVectors])
    """Vectors of the user's files, read once: a training took 4 s to read 400,000 words."""
    failures: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Titles and messages of cells that failed, and the name of the first one with that message."""
    layers: dict[str, FrozenFeatures] = field(default_factory=dict[str, FrozenFeatures])
    """Layers of all texts, of one biLM at a time: they may take half of the memory."""

    def vectors_path(self, embedding: str) -> Path:
        """The file of static vectors: one of the user's, or one that the study makes."""
        users = vector_files(self.config).get(embedding.removeprefix("file-"))
        return users or self.folder / "vectors" / f"{embedding}.bin"

    @property
    def held_out_fraction(self) -> float:
        """Fraction of the texts that a biLM trained here has not learned from, nor may vectors."""
        own = [bilm.loaded.config for bilm in self.bilms.values() if bilm.seconds is not None]
        settings = [config.get("vocabulary", {}) for config in own]
        return max((float(some.get("held_out_share", 0.0)) for some in settings), default=0.02)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the products of classifiers."""
        return compute_precision(self.config.precision, torch.device("cpu"))

    def key(self, cell: Cell) -> str:
        """A hash of everything that a cell's result depends on."""
        inputs = to_json(cell) | {"version": VERSION, "data": self.data.fingerprint}
        if cell.kind == "vectors":
            inputs["held out"] = self.held_out_fraction
            if cell.bilm is not None:
                inputs["bilm"] = self.embeddings[cell.bilm].key
            if cell.static is None:
                inputs["file"] = sha256(self.vectors_path(cell.embedding))
        else:
            inputs["embedding"] = self.embeddings[cell.embedding].key
            inputs["precision"] = str(self.dtype)
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
            stored = read_json(path)
            if stored["key"] != self.key(cell):
                return None
            kind = Embedding if cell.kind == "vectors" else Outcome
            return from_json(kind, stored["result"], path.name)
        except (UserError, KeyError, TypeError):
            return None  # of another version, or damaged

    def store(self, cell: Cell, result: Outcome | Embedding) -> None:
        content = {"name": cell.name, "key": self.key(cell), "result": to_json(result)}
        write_json(self.folder / "cells" / f"{cell.name}.json", content)

    def add_bilm(self, name: str, bilm: StudyBiLM, key: str) -> None:
        """Make a biLM an embedding of this name; `key` is a fingerprint of its weights."""
        self.bilms[name] = bilm
        path = self.folder / "cells" / f"reading-{name}.json"
        speed = None
        if path.is_file() and (stored := read_json(path))["key"] == [key, self.data.fingerprint]:
            speed = stored["texts_per_second"]
        self.embeddings[name] = Embedding(
            key=key,
            parameters=parameter_count(bilm.loaded.model),
            seconds=bilm.seconds,
            texts_per_second=speed,
        )

    def read_layers(self, name: str, on_fraction: OnFraction) -> None:
        """Compute a biLM's layers of all texts; those of another biLM are dropped.

        A biLM that only a sweep needs reads only the rows of analyses.
        """
        started = time.monotonic()
        self.layers.clear()
        data = self.data
        if name != ELMO:
            split = data.part(self.config.analysis_rows, None, self.config.seeds[0])
            data = data.only(np.concatenate([*split, data.test]))
        texts = without_task_vocabulary(data.words)
        self.layers[name] = FrozenFeatures.compute(
            texts, self.bilms[name].loaded.model, memory=self.feature_memory, folder=self.folder,
            on_texts=Pace(lambda read: on_fraction(read.texts / len(texts)), len(texts)).add,
        )  # fmt: skip
        speed = int((texts.lengths > 0).sum()) / (time.monotonic() - started)
        ready = self.embeddings[name] = replace(self.embeddings[name], texts_per_second=speed)
        content = {"key": [ready.key, self.data.fingerprint], "texts_per_second": speed}
        write_json(self.folder / "cells" / f"reading-{name}.json", content)

    def compute(self, cell: Cell, on_fraction: OnFraction = lambda done: None) -> Any:
        """Compute the Outcome of a cell, or the Embedding that it makes."""
        if cell.kind == "vectors":
            return self._make_vectors(cell, on_fraction)
        if cell.kind == "majority":
            return majority(self.data)
        if cell.kind == "tfidf":
            return tfidf(self.data, cell.per_class, cell.seed)
        if cell.embedding not in self.bilms:
            vectors = None
            if cell.embedding != NOTHING:
                vectors = self.given.get(cell.embedding) or self.load_vectors(cell.embedding)
            features = StaticFeatures(
                without_task_vocabulary(self.data.words), vectors, self.data.packed
            )
            shape = (1, vectors.dim if vectors else 0)
            return train(self.data, features, shape, cell, on_fraction, dtype=self.dtype)
        bilm = self.bilms[cell.embedding]
        shape = (1 + bilm.loaded.model.config.layers, 2 * bilm.loaded.model.config.width)
        features = self.layers[cell.embedding]
        data = replace(self.data, words=features.texts.words)
        # A copy where the biLM learns: other cells read the same one.
        learner = open_model(bilm.folder) if cell.kind == "fine-tuned" else None
        if learner is not None:
            learner.model.compute_dtype = self.dtype
        return train(data, features, shape, cell, on_fraction, learner, self.dtype)

    def load_vectors(self, embedding: str) -> StaticVectors:
        """The vectors of the words that occur in the texts."""
        vectors = StaticVectors.load(self.vectors_path(embedding), MAX_WORD_VECTORS)
        words = self.data.packed.different
        used = {form for word in words for form in (word, word.lower()) if form in vectors.ids}
        kept = sorted(used, key=lambda word: vectors.ids[word]) or list(vectors.words[:1])
        return StaticVectors(tuple(kept), vectors.vectors[[vectors.ids[word] for word in kept]])

    def _make_vectors(self, cell: Cell, on_fraction: OnFraction) -> Embedding:
        """Vectors of the training texts without those that the biLM holds out, labels unseen."""
        started, path = time.monotonic(), self.vectors_path(cell.embedding)
        if cell.static is None:  # a file of the user's
            vectors = StaticVectors.load(path, MAX_WORD_VECTORS)
            return Embedding(key=sha256(path), parameters=len(vectors) * vectors.dim)
        words, held_out = self.data.words, self.held_out_fraction
        rows = [
            row
            for row in range(self.data.train_count)
            if words[row] and not is_held_out(words[row], held_out)
        ]
        texts = [words[row] for row in rows]
        vocabulary = build_task_vocabulary(texts, cell.static.min_count)
        if len(vocabulary) == len(SPECIAL_WORDS):
            raise UserError(f"no word is seen {cell.static.min_count} times; give more text")
        if isinstance(cell.static, ContextualConfig):
            # From the layers that were read for the other rows: to read all texts takes longest.
            layers, dim = self.layers[ELMO], 2 * self.bilms[ELMO].loaded.model.config.width
            chunks = [rows[first : first + 256] for first in range(0, len(rows), 256)]
            vectors = mean_vectors(
                (([words[row] for row in chunk], _averaged(layers, chunk)) for chunk in chunks),
                vocabulary,
                dim,
            )
        else:
            vectors = static_vectors(
                [vocabulary.encode(text) for text in texts],
                vocabulary,
                cell.static,
                lambda _, done, total: on_fraction(done / total) if total else None,
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        vectors.save(path)
        seconds = time.monotonic() - started
        parameters = len(vectors) * vectors.dim
        return Embedding(key=sha256(path), parameters=parameters, seconds=seconds)


def _averaged(features: FrozenFeatures, rows: Sequence[int]) -> NDArray[np.float32]:
    """The average of the layers of each word, the texts end to end, (words, dim)."""
    texts = features.read(rows)
    assert isinstance(texts.layers, PackedLayers)
    average = texts.layers.unpacked().mean(0)  # (texts, words, dim)
    inside = torch.arange(average.shape[1]) < texts.lengths[:, None]
    return average[inside].numpy()


def train(
    data: StudyData,
    features: Any,
    shape: tuple[int, int],
    cell: Cell,
    on_fraction: OnFraction = lambda done: None,
    fine_tuned: LanguageModel | None = None,
    dtype: torch.dtype = torch.float32,
) -> Outcome:
    """Train the classifier of `elmo classify`, and ask the test rows once.

    Args:
        features: what the classifier reads of each word; development rows choose the epoch.
        shape: how many layers the features have, and how many numbers per word and layer.
        fine_tuned: the biLM, if it learns too.
        dtype: of the classifier's large products.
    """
    assert cell.classifier is not None
    started = time.monotonic()
    learning = cell.classifier.learning
    split = data.part(cell.train_rows, cell.per_class, learning.seed)
    rows, tuning = len(split.train), learning.fine_tuning
    if tuning.fine_tune_epochs:
        # More epochs over few rows: a biLM that has made no steps is not fine-tuned.
        tuned = learning.enough_epochs(rows, tuning.fine_tune_epochs, FINE_TUNING_STEPS)
        tuning = replace(tuning, fine_tune_epochs=tuned)
    learning = replace(learning, epochs=cell.epochs(rows), fine_tuning=tuning)
    alone, tuned = learning.epochs_for(rows), tuning.fine_tune_epochs

    def report(progress: StepReport | EpochReport) -> None:
        if isinstance(progress, StepReport):
            before, now = (0, alone) if progress.phase == "network" else (alone, tuned)
            on_fraction((before + progress.done * now) / (alone + tuned))

    def read(texts: TokenizedTexts) -> Features:
        assert cell.classifier is not None
        if not cell.classifier.network.task_dim:
            texts = WithoutTaskIds(texts.words, texts.task_vocabulary)
        return features.for_texts(texts)

    fitted = fit_network(
        data.words, data.classes, split, len(data.labels),
        replace(cell.classifier, learning=learning), shape, read,
        model=None if fine_tuned is None else fine_tuned.model, on_report=report,
        dtype=None if dtype == torch.float32 else dtype,
    )  # fmt: skip
    seconds = time.monotonic() - started
    best = kept_report(fitted.training.history, learning)
    assert best is not None
    learned = [fitted.network, *([fine_tuned.model] if fine_tuned else [])]
    return replace(
        _outcome(
            data,
            lambda some: fitted.scores(some).softmax(dim=1).numpy(),
            seconds,
            measures_train=cell.measures_train,
        ),
        development_accuracy=best.development_accuracy,
        parameters=sum(tensor.numel() for module in learned for tensor in module.parameters()),
        train_rows=rows,
        epochs=len(fitted.training.history),
        layer_weights=fitted.network.mix.weights,
        gamma=fitted.network.mix.gamma,
    )


def majority(data: StudyData) -> Outcome:
    """Always the most frequent class, with the class frequencies as probabilities."""
    started = time.monotonic()
    rates = np.bincount(data.classes[data.train], minlength=len(data.labels)) / data.train_count
    seconds = time.monotonic() - started
    outcome = _outcome(data, lambda rows: np.tile(rates, (len(rows), 1)), seconds)
    return replace(outcome, development_accuracy=float(rates.max()), parameters=len(rates))


def tfidf(data: StudyData, per_class: int | None = None, seed: int = 0) -> Outcome:
    """TF-IDF of words and word pairs with a linear SVM: the n-gram part of `elmo classify`.

    Its strength is chosen on development rows; then it is fitted to them too, since it has no epoch
    to choose. Its development accuracy is that of an SVM which has not seen them.
    """
    started = time.monotonic()
    split = data.part(None, per_class, seed)
    rows = np.sort(np.concatenate(split))
    fold = Split(*(np.searchsorted(rows, some) for some in split))
    words, classes = [data.words[int(row)] for row in rows], data.classes[rows]
    svm, held_out = fit_ngrams(words, classes, len(data.labels), [fold], balanced=False)
    right = held_out[fold.development].argmax(1).numpy() == classes[fold.development]

    def predict(some: NDArray[np.int64]) -> NDArray[np.float32]:
        """Softmax of the distances: it ranks the classes, but is no model's probability."""
        return svm.scores([data.words[int(row)] for row in some]).softmax(1).numpy()

    return replace(
        _outcome(data, predict, time.monotonic() - started),
        development_accuracy=float(right.mean()),
        parameters=int(svm.weight.size + svm.bias.size),
        train_rows=len(rows),
    )


def _outcome(
    data: StudyData, predict: Callable[[Any], Any], seconds: float, *, measures_train: bool = True
) -> Outcome:
    since = time.monotonic()
    test = predict(data.test)
    pace = len(data.test) / max(time.monotonic() - since, 1e-9)
    on_train = None
    if measures_train:
        on_train = measure(predict(data.train), data.classes[data.train], data.labels)
    return Outcome(
        development_accuracy=0.0,
        train=on_train,
        test=measure(test, data.classes[data.test], data.labels),
        predictions=tuple(test.argmax(1).tolist()),
        training_seconds=seconds,
        texts_per_second=pace,
        parameters=0,
        train_rows=data.train_count,
    )

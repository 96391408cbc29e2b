"""The texts of a study, cut into words once, in the same parts for every row."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from elmo.classify.data import (
    LabelledTexts,
    Split,
    check_test_rows,
    development_split,
    encode_labels,
    few_labels,
    label_names,
    read_labelled,
)
from elmo.classify.features import (
    MAX_WORD_VECTORS,
    TokenizedTexts,
    build_task_vocabulary,
    check_vector_size,
    tokenize_texts,
    with_pretrained_words,
)
from elmo.classify.network import TextLayers
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.static.vectors import StaticVectors
from elmo.study.config import StudyConfig
from elmo.study.news import write_news
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer

Rows = NDArray[np.int64]
MAX_WORDS = 400
GENERATED, GENERATED_ITEMS = "generated", (6_000, 1_500)
"""Name of the generated corpus, and its training and test items."""
FEW_DEVELOPMENT_SHARE = 0.2
"""Of few labels, this share chooses the epoch: less would be no row at all."""


@dataclass(frozen=True)
class LabelledParts:
    """Labelled texts as they were read, the training part and the test part."""

    name: str
    train: LabelledTexts
    test: LabelledTexts
    senses: Path | None = None
    """Where the senses of ambiguous words in the test part are known."""


@dataclass(frozen=True)
class StudyData:
    """All texts, those to learn from first, then those to test on."""

    name: str
    texts: tuple[str, ...]
    words: list[list[str]]
    classes: Rows
    labels: tuple[str, ...]
    train_count: int
    split: Split
    """Of the training rows: those learned from, and those that choose."""
    word_vectors: StaticVectors | None = None
    """What own word vectors begin as."""

    @property
    def train(self) -> Rows:
        """All training rows, those for development too."""
        return np.arange(self.train_count)

    @property
    def test(self) -> Rows:
        """The rows that are asked once, at the end."""
        return np.arange(self.train_count, len(self.texts))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of words, classes and parts."""
        digest = hashlib.sha256(repr((self.labels, self.train_count)).encode())
        digest.update(self.classes.tobytes())
        digest.update(self.split.development.tobytes())
        for words in self.words:
            digest.update(_joined(words))
        if self.word_vectors is not None:
            digest.update(_joined(self.word_vectors.words))
            digest.update(self.word_vectors.vectors.tobytes())
        return digest.hexdigest()

    def part(self, rows: int | None, per_class: int | None, seed: int) -> Split:
        """Fewer rows to learn from: so many at random, or so many a class, or all.

        With so few labels a class, those that choose the epoch are among them.
        """
        train, development = self.split
        if per_class is not None:
            few = train[few_labels(self.classes[train], per_class, seed, self.labels)]
            inner = development_split(self.classes[few], FEW_DEVELOPMENT_SHARE, seed, self.labels)
            return Split(few[inner.train], few[inner.development])
        if rows is not None and rows < len(train):
            drawn = np.random.default_rng(seed).permutation(len(train))[:rows]
            train = train[np.sort(drawn)]
        return Split(train, development)

    def rows_for(self, split: Split, own_min_count: int) -> TokenizedTexts:
        """The texts, with own vectors for the words that the rows learned from hold often."""
        own = build_task_vocabulary([self.words[int(row)] for row in split.train], own_min_count)
        if self.word_vectors is None:
            return TokenizedTexts(self.words, own)
        return TokenizedTexts(
            self.words, with_pretrained_words(own, self.word_vectors), lower_case=True
        )


def read_parts(
    sources: Sequence[str],
    test: Sequence[str],
    config: StudyConfig,
    read: ReadOptions | None = None,
    label_column: str | None = None,
    *,
    folder: Path | None = None,
) -> LabelledParts:
    """Read labelled texts; without a test part, one is split off, class by class.

    Without any sources, news is generated and written to `folder`.
    """
    if not sources:
        if test or folder is None:
            raise UserError("--test came without texts to train on; name those first")
        files = write_news(folder, *GENERATED_ITEMS, seed=0)
        parts = read_parts([str(files.train)], [str(files.test)], config)
        return replace(parts, name=GENERATED, senses=files.senses)
    name = ", ".join(sources)
    if not test and tuple(sources) in (("ag_news",), ("ag_news:train",)):
        test = ("ag_news:test",)
    data = read_labelled(sources, read, label_column)
    if test:
        held = read_labelled(test, read, label_column)
        check_test_rows(data, held)
        return LabelledParts(name, data, held)
    labels = label_names(data.labels or ())
    classes = encode_labels(data.labels or (), labels, data.locations)
    split = development_split(classes, config.test_share, 0, labels)
    train, held_out = (data.select(rows.tolist()) for rows in split)
    return LabelledParts(name, train, held_out)


def study_data(parts: LabelledParts, config: StudyConfig) -> StudyData:
    """Labels as classes, and development rows set aside; words are cut later, by `tokenize`."""
    labels = label_names(parts.train.labels or ())
    classes = [
        encode_labels(part.labels or (), labels, part.locations)
        for part in (parts.train, parts.test)
    ]
    vectors = None
    if config.word_vectors is not None:
        vectors = StaticVectors.load(config.word_vectors, MAX_WORD_VECTORS)
        check_vector_size(vectors, config.own_words)
    return StudyData(
        name=parts.name,
        texts=(*parts.train.texts, *parts.test.texts),
        words=[],
        classes=np.concatenate(classes),
        labels=labels,
        train_count=len(parts.train.texts),
        split=development_split(classes[0], config.development_share, 0, labels),
        word_vectors=vectors,
    )


def tokenize(texts: Sequence[str], loaded: LanguageModel | None) -> list[list[str]]:
    """Cut texts as the biLM's training text was cut; without a biLM, as one of ours would be."""
    if loaded is not None:
        return tokenize_texts(loaded, texts, MAX_WORDS)
    cut = build_tokenizer(TokenizerConfig(), None)
    return [cut(text)[:MAX_WORDS] for text in texts]


def _joined(words: Sequence[str]) -> bytes:
    return "\0".join([*words, "\n"]).encode("utf-8", "surrogatepass")


# Static vectors as a classifier reads them: one layer, the same vector in every sentence.


class StaticFeatures:
    """Looks up the words of texts."""

    def __init__(self, texts: TokenizedTexts, vectors: StaticVectors) -> None:
        self.texts = texts
        # As loud as what a network expects, whatever the method gave; zeros for unknown words.
        scale = max(float(np.sqrt(np.square(vectors.vectors).mean())), 1e-12)
        table = np.vstack([vectors.vectors / scale, np.zeros((1, vectors.dim), np.float32)])
        self._table = torch.from_numpy(table.astype(np.float32))
        self._ids = [
            np.array([vectors.ids.get(word, len(vectors)) for word in words], np.int64)
            for words in texts.words
        ]

    def for_texts(self, texts: TokenizedTexts) -> StaticFeatures:
        """The same vectors for the same texts, which may have other words with own vectors."""
        same = copy.copy(self)
        same.texts = texts
        return same

    def read(self, rows: Sequence[int]) -> TextLayers:
        """The vectors of some texts side by side, (1, texts, words, dim)."""
        lengths = self.texts.lengths[rows]
        ids = np.full((len(rows), int(lengths.max())), len(self._table) - 1, np.int64)
        for place, row in enumerate(rows):
            ids[place, : lengths[place]] = self._ids[row]
        layers = functional.embedding(torch.from_numpy(ids), self._table)[None]
        return TextLayers(layers, torch.from_numpy(lengths), self.texts.task_ids(rows))


class NoFeatures:
    """Nothing but how many words there are: what a classifier has that learns its own vectors."""

    def __init__(self, texts: TokenizedTexts) -> None:
        self.texts = texts

    def for_texts(self, texts: TokenizedTexts) -> NoFeatures:
        """The same for texts with other words with own vectors."""
        return NoFeatures(texts)

    def read(self, rows: Sequence[int]) -> TextLayers:
        """Vectors without numbers, (1, texts, words, 0)."""
        lengths = self.texts.lengths[rows]
        layers = torch.zeros(1, len(rows), int(lengths.max()), 0)
        return TextLayers(layers, torch.from_numpy(lengths), self.texts.task_ids(rows))

"""The texts of a study, tokenized once and split once, the same for every row."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from elmo.classify.data import (
    LabelledTexts,
    Split,
    check_test_rows,
    development_split,
    few_labels,
    read_labelled,
)
from elmo.classify.features import TokenizedTexts, cut_texts, tokenize_texts
from elmo.classify.network import TextLayers
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.static.vectors import StaticVectors
from elmo.study.config import MAX_WORDS, StudyConfig
from elmo.study.news import NewsItem, read_news
from elmo.text.config import ReadOptions
from elmo.text.tokenizer import TokenizerConfig, build_tokenizer
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

Rows = NDArray[np.int64]
GENERATED, GENERATED_ITEMS = "generated", (6_000, 1_500)
"""Name of the generated corpus, and its training and test items."""
FEW_DEVELOPMENT_SHARE = 0.2
"""Fraction of few labels that chooses the epoch: less would be no row at all."""


@dataclass(frozen=True)
class LabelledParts:
    """Labelled texts as they were read, the training part and the test part."""

    name: str
    train: LabelledTexts
    test: LabelledTexts
    senses: tuple[NewsItem, ...] = ()
    """The items of the test part, where the senses of ambiguous words are known."""
    copies: tuple[int, int] = (0, 0)  # test texts that are training texts, and that nearly are


class PackedWords(NamedTuple):
    """Looking up millions of words took every training on static vectors several seconds."""

    different: tuple[str, ...]
    indices: NDArray[np.int32]
    """Indices of the words of all texts, end to end."""
    starts: Rows
    """Where each text starts."""

    @classmethod
    def of(cls, words: Sequence[list[str]]) -> PackedWords:
        known: dict[str, int] = {}
        indices = [known.setdefault(word, len(known)) for text in words for word in text]
        starts = np.cumsum([0, *map(len, words)])
        return cls(tuple(known), np.array(indices, np.int32), starts)


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
    """The training rows, as those learned from and development rows."""

    @property
    def train(self) -> Rows:
        """All training rows, those for development too."""
        return np.arange(self.train_count)

    @property
    def test(self) -> Rows:
        """The test rows, which choose nothing."""
        return np.arange(self.train_count, len(self.texts))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of words, classes and parts."""
        digest = hashlib.sha256(repr((self.labels, self.train_count)).encode())
        digest.update(self.classes.tobytes())
        digest.update(self.split.development.tobytes())
        for words in self.words:
            digest.update("\0".join([*words, "\n"]).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @cached_property
    def packed(self) -> PackedWords:
        """The words as static vectors are looked up, computed once for all of them."""
        return PackedWords.of(self.words)

    def part(self, rows: int | None, per_class: int | None, seed: int) -> Split:
        """Fewer rows to learn from: `rows` at random, or `per_class` of each class, or all.

        The rows that choose the epoch are among those drawn per class.
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

    def only(self, rows: Rows) -> StudyData:
        """The same rows, of which only these have words: what is not read costs nothing."""
        wanted = set(rows.tolist())
        words = [text if row in wanted else [] for row, text in enumerate(self.words)]
        return replace(self, words=words)


def read_parts(
    sources: Sequence[str],
    test: Sequence[str],
    config: StudyConfig,
    read: ReadOptions | None = None,
    label_column: str | None = None,
) -> LabelledParts:
    """Read labelled texts; without any sources, generated news."""
    if not sources:
        if test:
            raise UserError("--test came without texts to train on; name those first")
        train_items, test_items = (
            read_news(part)[:count]
            for count, part in zip(GENERATED_ITEMS, ("train", "test"), strict=True)
        )
        train, tested = (
            LabelledTexts(
                [item.text for item in items],
                [item.label for item in items],
                [f"item {idx}" for idx in range(len(items))],
            )
            for items in (train_items, test_items)
        )
        return LabelledParts(GENERATED, train, tested, tuple(test_items))
    name = ", ".join(Path(source).name for source in sources)  # their folders are in the command
    if read is not None and read.ag_news_text != "description" and name.startswith("ag_news"):
        name += f", {read.ag_news_text}"
    if not test and tuple(sources) in (("ag_news",), ("ag_news:train",)):
        test = ("ag_news:test",)
    data = read_labelled(sources, read, label_column)
    return parts_of(name, data, read_labelled(test, read, label_column) if test else None, config)


def parts_of(
    name: str, data: LabelledTexts, test: LabelledTexts | None, config: StudyConfig
) -> LabelledParts:
    """Training and test part; without a test part, one is split off, class by class."""
    if test is not None:
        return LabelledParts(name, data, test, copies=check_test_rows(data, test))
    classes = data.encoded(data.label_names)
    split = development_split(classes, config.test_share, 0, data.label_names)
    train, held_out = (data.select(rows.tolist()) for rows in split)
    return LabelledParts(name, train, held_out)


def study_data(parts: LabelledParts, config: StudyConfig) -> StudyData:
    """Labels as classes, and development rows set aside; `tokenize` gives the words later."""
    labels = parts.train.label_names
    classes = [part.encoded(labels) for part in (parts.train, parts.test)]
    return StudyData(
        name=parts.name,
        texts=(*parts.train.texts, *parts.test.texts),
        words=[],
        classes=np.concatenate(classes),
        labels=labels,
        train_count=len(parts.train.texts),
        split=development_split(classes[0], config.development_share, 0, labels),
    )


def tokenize(texts: Sequence[str], loaded: LanguageModel | None) -> list[list[str]]:
    """Tokenize as the biLM's training text was; without a biLM, as one of ours would be."""
    if loaded is not None:
        words = tokenize_texts(loaded, texts)
    else:
        words = map(build_tokenizer(TokenizerConfig(), None), texts)
    # One string per different word: processes that go over millions of them copy their memory.
    known: dict[str, str] = {}
    same = ([known.setdefault(word, word) for word in text] for text in words)
    return cut_texts(list(same), MAX_WORDS)


class WithoutTaskIds(TokenizedTexts):
    """Texts for a classifier without task embeddings. Looking up words took 1 ms per step."""

    def task_ids(self, rows: Sequence[int]) -> Tensor:
        return torch.zeros(len(rows), int(self.lengths[rows].max()), dtype=torch.int64)


# Static vectors as a classifier reads them: one layer, the same vector in every sentence.


class StaticFeatures:
    """Looks up the words of texts; without vectors, every word has 0 numbers."""

    def __init__(
        self, texts: TokenizedTexts, vectors: StaticVectors | None, words: PackedWords | None = None
    ) -> None:
        self.texts = texts
        self._words = words or PackedWords.of(texts.words)
        different = self._words.different
        vectors = vectors or StaticVectors(("",), np.zeros((1, 0), np.float32))
        # Files such as GloVe's hold words in lower case.
        found = [vectors.ids.get(word, vectors.ids.get(word.lower(), -1)) for word in different]
        ids = np.array(found, np.int64)
        table = np.zeros((len(different) + 1, vectors.dim), np.float32)  # the last one: padding
        table[:-1][ids >= 0] = vectors.vectors[ids[ids >= 0]]
        # Each word's root mean square is 1: for SVD a point better than one scale for all words.
        squares = np.square(table).sum(1, keepdims=True) / max(1, vectors.dim)
        self._table = torch.from_numpy(table / np.maximum(np.sqrt(squares), 1e-12))

    def for_texts(self, texts: TokenizedTexts) -> StaticFeatures:
        """The same vectors for the same texts, which may have another task vocabulary."""
        same = copy.copy(self)
        same.texts = texts
        return same

    def read(self, rows: Sequence[int]) -> TextLayers:
        """The vectors of some texts side by side, (1, texts, words, dim)."""
        lengths = self.texts.lengths[rows]
        ids = np.full((len(rows), int(lengths.max())), len(self._table) - 1, np.int32)
        for idx, (start, length) in enumerate(zip(self._words.starts[rows], lengths, strict=True)):
            ids[idx, :length] = self._words.indices[start : start + length]
        layers = functional.embedding(torch.from_numpy(ids), self._table)[None]
        return TextLayers(layers, torch.from_numpy(lengths), self.texts.task_ids(rows))


def without_task_vocabulary(words: list[list[str]]) -> TokenizedTexts:
    return TokenizedTexts(words, Vocabulary(SPECIAL_WORDS, (0,) * len(SPECIAL_WORDS)))

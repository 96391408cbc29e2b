"""The layers of a biLM that does not learn, computed once and kept: in memory, or on disk.

Kept in half precision: the values of a layer are small, and rounding them changes no decision.
Layer 0 is the same for both directions and is kept once.
"""

from __future__ import annotations

import copy
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, LayerActivations, Randomness, read_layers
from elmo.classify.network import TextLayers
from elmo.embed.embedder import read_alike, tokenised, usual_batch_tokens
from elmo.embed.mix import PackedLayers
from elmo.errors import UserError
from elmo.files import explained, reserve_space
from elmo.model_folder import LoadedModel, Text
from elmo.runtime import machine_memory
from elmo.static.vectors import StaticVectors
from elmo.text.batching import Batch, sentence_batch
from elmo.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary, build_vocabulary

# The words a classifier has vectors of its own for: frequent ones, and those given with one.


MOST_GIVEN = 400_000
"""Of a file of vectors so many are taken; the most frequent words come first in it."""


def own_vocabulary(texts: Iterable[Sequence[str]], min_count: int) -> Vocabulary:
    """The words that occur often enough, most frequent first, then by alphabet."""
    counts: Counter[str] = Counter()
    number = 0
    for words in texts:
        counts.update(words)
        number += 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return build_vocabulary(
        [word for word, _ in ranked],
        [count for _, count in ranked],
        boundaries=number,
        min_count=min_count,
        max_size=None,
    )


def own_numbers(own: Vocabulary, words: Sequence[str], lower_case: bool) -> NDArray[np.int32]:
    """The row of each word, if need be and wanted that of its lower-case form."""
    numbers = own.encode(words).astype(np.int32)
    if lower_case:
        for place in np.flatnonzero(numbers == UNKNOWN).tolist():
            numbers[place] = own.id(words[place].lower())
    return numbers


def with_given(own: Vocabulary, given: StaticVectors) -> Vocabulary:
    """Behind these words all others that vectors are given for: texts to come may hold them."""
    words = [word for word in given.words if word.split() == [word]]
    return own.grown(words, [0] * len(words))


def check_given(given: StaticVectors, size: int) -> None:
    """Refuse vectors that own ones of so many numbers cannot begin with."""
    if given.dim > size:
        raise UserError(
            f"word_vectors: they have {given.dim} numbers, but own_words is {size}; "
            f"use --own-words {given.dim} or more"
        )


@torch.no_grad()
def begin_as_given(table: Tensor, own: Vocabulary, given: StaticVectors) -> None:
    """Let words begin with the vectors that are given for them or for their lower-case forms.

    Shorter ones are the first numbers of a row. The others stay as they are drawn for words that
    the training texts hold often, which learn them; for words that they do not they are zero.
    """
    places = np.array([given.ids.get(word, given.ids.get(word.lower(), -1)) for word in own.words])
    places[: len(SPECIAL_WORDS)] = -1
    has_vector, is_learned = places >= 0, np.array(own.counts) > 0
    if not (has_vector & is_learned).any():
        raise UserError("word_vectors: none of the words of the texts has one")
    table[torch.from_numpy(has_vector & ~is_learned)] = 0
    begun = torch.from_numpy(given.vectors[places[has_vector]])
    table[torch.from_numpy(has_vector), : given.dim] = begun


# Texts cut into words once, and read by the biLM as often as need be.


log = logging.getLogger(__name__)

Rows = NDArray[np.int64]
OnTexts = Callable[[int, int], None]
"""Told how many more texts, and words of them, are done."""
TOKENS_AT_ONCE = 1 << 17
"""Of many texts, so many words are sorted by length and read together."""


@dataclass(frozen=True)
class TextRows:
    """The words of each text."""

    words: list[list[str]]
    own: Vocabulary
    """The words that have vectors of their own."""
    lower_case: bool = False
    """Whether words without one take that of their lower-case form."""
    _numbers: dict[int, NDArray[np.int32]] = field(
        default_factory=dict[int, NDArray[np.int32]], init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.words)

    @property
    def lengths(self) -> Rows:
        """How many words each text has."""
        return self.lengths_of(range(len(self.words)))

    def lengths_of(self, rows: Sequence[int]) -> Rows:
        """How many words some of the texts have."""
        return np.array([len(self.words[row]) for row in rows], np.int64)

    def own_numbers(self, rows: Sequence[int]) -> torch.Tensor:
        """The numbers of the words of some texts, (texts, words), unknown behind each end."""
        texts = [self._numbers_of(row) for row in rows]
        numbers = np.full((len(rows), max(map(len, texts))), UNKNOWN, np.int64)
        for place, text in enumerate(texts):
            numbers[place, : len(text)] = text
        return torch.from_numpy(numbers)

    def _numbers_of(self, row: int) -> NDArray[np.int32]:
        """Looked up when a text is read for the first time, not in every epoch."""
        found = self._numbers.get(row)
        if found is None:
            found = own_numbers(self.own, self.words[row], self.lower_case)
            self._numbers[row] = found
        return found

    def batch(self, rows: Sequence[int], model: BiLM) -> Batch:
        """Some texts side by side, as the biLM reads them."""
        texts = [self.words[row] for row in rows]
        return sentence_batch(texts, model.vocabulary, spelled=model.config.spelled)

    def read(
        self, rows: Sequence[int], model: BiLM, random: Randomness | None = None
    ) -> TextLayers:
        """Read some texts side by side; gradients flow to the biLM if they are on."""
        lengths: list[int] = self.lengths_of(rows).tolist()
        batch = self.batch(rows, model)
        read = read_layers(model, [batch], lengths, window=max(lengths) + 2, random=random)
        return TextLayers(read.layers, read.lengths, self.own_numbers(rows).to(model.device))

    @torch.no_grad()
    def read_all(self, model: BiLM) -> Iterator[tuple[list[int], LayerActivations]]:
        """Read every text once, those of like length side by side; gives the rows read as well."""
        for first, some in _portions(self.words):
            for group in read_alike(model, some, usual_batch_tokens(model)):
                yield [first + number for number in group.texts], group.activations


def cut_into_words(loaded: LoadedModel, texts: Iterable[Text], max_words: int) -> list[list[str]]:
    """Cut texts as the biLM's training text was cut, and no longer than so many words."""
    cut = [text.words for text in tokenised(loaded, texts)]
    long = sum(len(words) > max_words for words in cut)
    if long:
        log.warning("texts cut to their first %d words: %d of %d", max_words, long, len(cut))
    return [words[:max_words] for words in cut]


def _portions(texts: Sequence[list[str]]) -> Iterator[tuple[int, Sequence[list[str]]]]:
    """Texts of about so many words at a time, with the number of the first."""
    ends = np.cumsum([1 + len(words) for words in texts])
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, before + TOKENS_AT_ONCE)) + 1
        yield first, texts[first:last]
        first = last


Half = NDArray[np.float16]
LARGEST = float(np.finfo(np.float16).max)


class _Storage(Protocol):
    """Where words' layers lie, (words, size)."""

    def put(self, start: int, words: Half) -> None: ...
    def get(self, start: int, into: Half) -> None: ...


class FrozenFeatures:
    """The layers of texts, each to be had again as often as need be."""

    def __init__(self, texts: TextRows, model: BiLM, storage: _Storage) -> None:
        self.texts = texts
        self._device = model.device
        self._width = model.config.width
        self._size = word_size(model)
        self._ends = np.cumsum(texts.lengths)
        self._storage = storage

    @classmethod
    def compute(
        cls,
        texts: TextRows,
        model: BiLM,
        *,
        memory: float | None,
        folder: Path,
        on_texts: OnTexts | None = None,
    ) -> FrozenFeatures:
        """Read all texts once; what takes more than `memory` gigabytes, by default half of the
        machine's, goes into a file that is gone with the process."""
        shape = (int(texts.lengths.sum()), word_size(model))
        room = machine_memory() / 2 if memory is None else memory * 1e9
        fits = 2 * shape[0] * shape[1] <= room
        storage = _Memory(shape) if fits else _Disk(folder, shape)
        features = cls(texts, model, storage)
        for rows, read in texts.read_all(model):
            features._keep(rows, read.layers)
            if on_texts is not None:
                on_texts(len(rows), int(read.lengths.sum()))
        return features

    def for_texts(self, texts: TextRows) -> FrozenFeatures:
        """The same layers for the same texts, which may have other words with own vectors."""
        if texts.words != self.texts.words:
            raise UserError("the layers given were computed of other texts")
        same = copy.copy(self)
        same.texts = texts
        return same

    def read(self, rows: Sequence[int]) -> TextLayers:
        """The layers of some texts side by side."""
        lengths = self.texts.lengths_of(rows)
        kept = np.empty((len(rows), int(lengths.max()), self._size), np.float16)
        for place, row in enumerate(rows):
            self._storage.get(self._start(row), kept[place, : lengths[place]])
            kept[place, lengths[place] :] = 0
        layers = PackedLayers(torch.from_numpy(kept).to(self._device), self._width)
        own = self.texts.own_numbers(rows).to(self._device)
        return TextLayers(layers, torch.from_numpy(lengths).to(self._device), own)

    def _start(self, row: int) -> int:
        return int(self._ends[row]) - len(self.texts.words[row])

    def _keep(self, rows: Sequence[int], layers: Tensor) -> None:
        lowest, highest = layers.aminmax()
        if not -LARGEST <= float(lowest) <= float(highest) <= LARGEST:
            raise UserError("the biLM gives values that half precision cannot hold")
        halves = PackedLayers.of(layers, torch.float16).values.cpu().numpy()
        for row, words in zip(rows, halves, strict=True):
            self._storage.put(self._start(row), words[: len(self.texts.words[row])])


def word_size(model: BiLM) -> int:
    """How many numbers are kept of a word."""
    return model.config.width * (1 + 2 * model.config.layers)


class _Memory:
    def __init__(self, shape: tuple[int, int]) -> None:
        self._words: Half = np.empty(shape, np.float16)

    def put(self, start: int, words: Half) -> None:
        self._words[start : start + len(words)] = words

    def get(self, start: int, into: Half) -> None:
        into[:] = self._words[start : start + len(into)]


class _Disk:
    """A file without a name; read in pieces, not mapped, so that memory does not grow with it."""

    def __init__(self, folder: Path, shape: tuple[int, int]) -> None:
        self._bytes_a_word = 2 * shape[1]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            # All at once, so that a full disk is told of before the long work.
            reserve_space(self._file, max(1, shape[0] * self._bytes_a_word))
        except OSError as error:
            raise explained(error, folder) from error

    def put(self, start: int, words: Half) -> None:
        self._file.seek(start * self._bytes_a_word)
        self._file.write(words.tobytes())

    def get(self, start: int, into: Half) -> None:
        self._file.seek(start * self._bytes_a_word)
        self._file.readinto(into.data)

    def __del__(self) -> None:
        with suppress(AttributeError):
            self._file.close()


# The order in which texts are learned from: random, but those of like length side by side.

BATCHES_SORTED = 50
"""Texts are sorted by length within so many batches: little padding, and still much chance."""


def shuffled_batches(rows: Rows, lengths: Rows, batch: int, seed: int, epoch: int) -> list[Rows]:
    """Each row once, in batches of texts of like length; a function of seed and epoch."""
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(rows)
    batches = [
        some
        for portion in _cut(order, BATCHES_SORTED * batch)
        for some in _cut(portion[np.argsort(lengths[portion], kind="stable")], batch)
    ]
    return [batches[place] for place in random.permutation(len(batches))]


def batches_by_length(rows: Rows, lengths: Rows, batch: int) -> list[Rows]:
    """Each row once, the shortest texts first."""
    return list(_cut(rows[np.argsort(lengths[rows], kind="stable")], batch))


def _cut(rows: Rows, size: int) -> Iterator[Rows]:
    return (rows[start : start + size] for start in range(0, len(rows), size))

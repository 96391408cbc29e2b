"""What the model reads: the distinct words of a batch, and each direction's path through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.text.characters import spell_all
from elmo.text.vocabulary import BEGIN, END, Vocabulary

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """Each distinct word of a batch once: its vocabulary id and, if wanted, its spelling."""

    ids: Tensor  # (words,)
    spellings: Tensor | None  # (words, 50)

    def to(self, device: torch.device) -> Words:
        """The same words on another device."""
        spellings = None if self.spellings is None else self.spellings.to(device)
        return Words(self.ids.to(device), spellings)


@dataclass(frozen=True)
class Rows:
    """Which rows of a larger batch these are: every `step`-th from `first` on."""

    first: int
    step: int
    total: int
    """How many rows the larger batch has."""

    @property
    def places(self) -> slice:
        """The rows themselves."""
        return slice(self.first, self.total, self.step)

    def __len__(self) -> int:
        return len(range(self.total)[self.places])


@dataclass(frozen=True)
class Reading:
    """What one direction reads, in its own reading order, and what it must predict on the way.

    A backward reading is simply the text from its end: the model itself reverses nothing.
    """

    inputs: Tensor  # (time, batch), places in Words
    lengths: Tensor  # (batch,), steps before the padding
    asked: Tensor  # (targets,), the steps, counted through (time, batch), that have a target
    targets: Tensor  # (targets,), the vocabulary ids to be predicted there
    rows: Rows | None = None
    """Where its rows stand, if they are a part of a larger batch."""

    def to(self, device: torch.device) -> Reading:
        """The same reading on another device."""
        return Reading(
            self.inputs.to(device),
            self.lengths.to(device),
            self.asked.to(device),
            self.targets.to(device),
            self.rows,
        )


@dataclass(frozen=True)
class Batch:
    """Two readings of the same texts. `starts` is false where they go on from the last batch."""

    words: Words
    forward: Reading
    backward: Reading
    starts: bool = True

    @property
    def readings(self) -> tuple[Reading, Reading]:
        """The forward and the backward reading."""
        return self.forward, self.backward

    @property
    def targets(self) -> int:
        """How many words the forward direction is asked for."""
        return len(self.forward.targets)

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        readings = (self.forward.to(device), self.backward.to(device))
        return Batch(self.words.to(device), *readings, self.starts)


@dataclass(frozen=True)
class WordTable:
    """How the words of a corpus appear to a model: by vocabulary id and by spelling."""

    words: Sequence[str]
    ids: Ids  # (lexicon,), the vocabulary id of each word of the corpus
    spelled: bool

    @classmethod
    def of(cls, words: Sequence[str], vocabulary: Vocabulary, *, spelled: bool) -> WordTable:
        """See the words of a corpus through a vocabulary."""
        return cls(words, vocabulary.encode(words), spelled)

    def select(self, places: Ids) -> Words:
        """The distinct words at these places."""
        spellings = None
        if self.spelled:
            chosen: list[int] = places.tolist()
            spellings = torch.from_numpy(spell_all([self.words[place] for place in chosen]))
        return Words(torch.from_numpy(self.ids[places]), spellings)


def make_batch(
    forward: Sequence[Ids],
    backward: Sequence[Ids],
    table: WordTable,
    *,
    starts: bool,
    rows: Rows | None = None,
) -> Batch:
    """Put the two readings of some texts side by side.

    Each item holds what a direction reads and, last, the one word it must still predict. `rows`
    tells where they stand, if they are a part of a larger batch.
    """
    forward_ids, forward_lengths = _padded(forward)
    backward_ids, backward_lengths = _padded(backward)
    places, inverse = np.unique(
        np.concatenate([forward_ids.ravel(), backward_ids.ravel()]), return_inverse=True
    )
    split = forward_ids.size
    words = table.select(places)
    ahead, behind = inverse[:split], inverse[split:]
    return Batch(
        words,
        _reading(ahead.reshape(forward_ids.shape), forward_lengths, words.ids, BEGIN, rows),
        _reading(behind.reshape(backward_ids.shape), backward_lengths, words.ids, END, rows),
        starts,
    )


def sentence_batch(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> Batch:
    """Make a batch of tokenised sentences, boundaries added."""
    rows, table = number_words(sentences, vocabulary, spelled=spelled)
    return make_batch(rows, [row[::-1] for row in rows], table, starts=True)


def whole_batch(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> Batch:
    """The same, but each direction reads on through the boundary at its end.

    For embedding: nothing is left to be predicted then, so what is asked for has no meaning.
    """
    rows, table = number_words(sentences, vocabulary, spelled=spelled)
    forward = [np.append(row, END) for row in rows]
    backward = [np.append(row[::-1], BEGIN) for row in rows]
    return make_batch(forward, backward, table, starts=True)


def number_words(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, *, spelled: bool
) -> tuple[list[Ids], WordTable]:
    """Turn tokenised sentences into rows of places in a table of their words, boundaries added."""
    places = {"<S>": BEGIN, "</S>": END}
    rows = [
        np.array(
            [BEGIN, *(places.setdefault(word, len(places)) for word in sentence), END], np.int64
        )
        for sentence in sentences
    ]
    return rows, WordTable.of(list(places), vocabulary, spelled=spelled)


def _padded(rows: Sequence[Ids]) -> tuple[Ids, Ids]:
    """Stack rows time-major, (time, batch), padded by a word that no target asks for."""
    lengths = np.array([len(row) for row in rows], np.int64)
    stacked = np.full((int(lengths.max()), len(rows)), BEGIN, np.int64)
    for column, row in enumerate(rows):
        stacked[: len(row), column] = row
    return stacked, lengths


def _reading(places: Ids, lengths: Ids, ids: Tensor, never: int, rows: Rows | None) -> Reading:
    """Inputs are all but the last word; targets the same, one step later.

    The boundary a direction starts from (`never`) is not predicted: in running text it would
    follow the other boundary with certainty, and flatter the perplexity.
    """
    index = torch.from_numpy(np.ascontiguousarray(places))
    steps = torch.from_numpy(lengths) - 1
    following = ids[index[1:]]
    wanted = (torch.arange(len(following))[:, None] < steps) & (following != never)
    asked = wanted.flatten().nonzero()[:, 0]
    return Reading(index[:-1], steps, asked, following.flatten()[asked], rows)

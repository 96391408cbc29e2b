"""A biLM as a good course project writes it: what our training is measured against.

Nothing in it is slow on purpose, and nothing is clever: PyTorch's own embedding, LSTM, softmax
over all words and Adam; documents in random order, sixteen a batch, padded to the longest; one
loop. Each direction is a stack of its own that predicts the word it will read next, so neither sees
what it must predict; both share embedding and softmax, as in the paper. There is no dropout, which
would only make the first epoch slower.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from elmo.text.corpus import Corpus, Shards
from elmo.text.vocabulary import Vocabulary

WORDS = 78_717
DOCUMENTS_A_BATCH = 16
RATE = 1e-3
PADDING = -1
"""Stands behind the end of a document: never a word, never asked for."""


class Padded(NamedTuple):
    """The same documents from the left and from the right, boundaries included."""

    forward: Tensor  # (documents, longest)
    backward: Tensor  # (documents, longest)

    @property
    def targets(self) -> int:
        """How many words each direction must predict."""
        return int((self.forward[:, 1:] != PADDING).sum())


@dataclass(frozen=True)
class HeldOut:
    """How well held-out text is predicted."""

    perplexity: float
    """Of both directions together: the exponential of their mean loss."""
    predicted: int
    """Words that each direction was asked for."""


class PlainBiLM(nn.Module):
    """Two LSTM stacks over one embedding and one softmax."""

    def __init__(self, words: int = WORDS, vector: int = 100, hidden: int = 256, layers: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(words, vector)
        self.project = nn.Linear(vector, hidden)
        self.forward_lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.backward_lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.softmax = nn.Linear(hidden, words)

    def forward(self, batch: Padded, reduction: str = "mean") -> Tensor:
        """The loss a word, or summed, averaged over the directions."""
        forward = self._loss(self.forward_lstm, batch.forward, reduction)
        backward = self._loss(self.backward_lstm, batch.backward, reduction)
        return (forward + backward) / 2

    def scores(self, lstm: nn.LSTM, ids: Tensor) -> Tensor:
        """What stands behind each word, (documents, steps, words), for one direction."""
        vectors = self.project(self.embedding(ids.clamp(min=0)))
        states, _ = lstm(vectors)
        return self.softmax(states)

    def _loss(self, lstm: nn.LSTM, ids: Tensor, reduction: str) -> Tensor:
        scores = self.scores(lstm, ids[:, :-1])
        targets = ids[:, 1:].flatten()
        return cross_entropy(
            scores.flatten(0, 1), targets, ignore_index=PADDING, reduction=reduction
        )


def train(
    model: PlainBiLM, documents: Sequence[Tensor], *, seed: int = 0, rate: float = RATE
) -> Iterator[int]:
    """Train epoch after epoch; yield after each step how many words a direction has predicted."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    order = torch.Generator().manual_seed(seed)
    batches = DataLoader(
        documents,  # type: ignore[arg-type]  # it is indexed and has a length: that is all it takes
        batch_size=DOCUMENTS_A_BATCH,
        shuffle=True,
        collate_fn=padded,
        generator=order,
    )
    while True:
        for batch in batches:
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            optimizer.step()
            yield batch.targets


@torch.no_grad()
def held_out(model: PlainBiLM, documents: Sequence[Tensor]) -> HeldOut:
    """Predict every word of some documents, and the boundary at the end of each."""
    loss, predicted = 0.0, 0
    batches = DataLoader(
        documents,  # type: ignore[arg-type]
        batch_size=DOCUMENTS_A_BATCH,
        collate_fn=padded,
    )
    for batch in batches:
        loss += float(model(batch, reduction="sum"))
        predicted += batch.targets
    return HeldOut(math.exp(loss / predicted), predicted)


def padded(documents: Sequence[Tensor]) -> Padded:
    """Make a batch of documents."""
    backward = [document.flip(0) for document in documents]
    return Padded(
        *(
            pad_sequence(list(rows), batch_first=True, padding_value=PADDING)
            for rows in (documents, backward)
        )
    )


def documents_of(corpus: Corpus, shards: Shards, vocabulary: Vocabulary) -> list[Tensor]:
    """The documents of a part of a corpus as the ids of a vocabulary, boundaries included."""
    ids = vocabulary.encode(corpus.words)
    return [
        torch.from_numpy(ids[np.asarray(shard.ids[start:end])])
        for shard in shards
        for start, end in zip(shard.starts.tolist(), shard.ends.tolist(), strict=True)
    ]

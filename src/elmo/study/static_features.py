"""Static vectors as a classifier reads them: one layer, the same vector in every sentence."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from elmo.classify.network import TextLayers
from elmo.classify.text_rows import TextRows
from elmo.static.vectors import StaticVectors


class StaticFeatures:
    """Looks up the words of texts."""

    def __init__(self, texts: TextRows, vectors: StaticVectors) -> None:
        self.texts = texts
        # As loud as what a network expects, whatever the method gave; zeros for unknown words.
        scale = max(float(np.sqrt(np.square(vectors.vectors).mean())), 1e-12)
        table = np.vstack([vectors.vectors / scale, np.zeros((1, vectors.dim), np.float32)])
        self._table = torch.from_numpy(table.astype(np.float32))
        self._ids = [
            np.array([vectors.ids.get(word, len(vectors)) for word in words], np.int64)
            for words in texts.words
        ]

    def for_texts(self, texts: TextRows) -> StaticFeatures:
        """The same vectors for the same texts, which may have other words with own vectors."""
        same = copy.copy(self)
        same.texts = texts
        return same

    def read(self, rows: Sequence[int]) -> TextLayers:
        """The vectors of some texts side by side, (1, texts, words, dim)."""
        lengths = self.texts.lengths_of(rows)
        ids = np.full((len(rows), int(lengths.max())), len(self._table) - 1, np.int64)
        for place, row in enumerate(rows):
            ids[place, : lengths[place]] = self._ids[row]
        layers = functional.embedding(torch.from_numpy(ids), self._table)[None]
        return TextLayers(layers, torch.from_numpy(lengths), self.texts.own_numbers(rows))


class NoFeatures:
    """Nothing but how many words there are: what a classifier has that learns its own vectors."""

    def __init__(self, texts: TextRows) -> None:
        self.texts = texts

    def for_texts(self, texts: TextRows) -> NoFeatures:
        """The same for texts with other words with own vectors."""
        return NoFeatures(texts)

    def read(self, rows: Sequence[int]) -> TextLayers:
        """Vectors without numbers, (1, texts, words, 0)."""
        lengths = self.texts.lengths_of(rows)
        layers = torch.zeros(1, len(rows), int(lengths.max()), 0)
        return TextLayers(layers, torch.from_numpy(lengths), self.texts.own_numbers(rows))

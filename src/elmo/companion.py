"""Static word vectors that come with a biLM: the x of the paper's [x; ELMo].

A small biLM has read far less than GloVe has, and with few labels the topics that GloVe knows are
worth more than context (docs/experiments.md). A model folder may therefore hold a table of word
vectors: eight bits per number, which changed no accuracy by more than 0.001, and the words in order
of frequency, which is all that is needed to weight them by rareness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import read_text, require_regular, write_text
from elmo.model_folder import COMPANIONS, load_tensors, require_inside, save_tensors

LARGEST_TABLE, LARGEST_WORDS = 1 << 30, 1 << 28
"""Bytes of the two files: a hostile folder must not fill the memory."""
MIDDLE = 128
"""The byte that means 0."""
RARE = 1e-3
"""A word of this relative frequency has half the weight of a rare one (SIF: Arora et al., 2017)."""
ZIPF = 0.1
"""The frequency of the word of rank r is about ZIPF / (r + 1)."""


class CompanionVectors:
    """One static vector per word, in lower case, the most frequent word first."""

    def __init__(self, words: Sequence[str], table: NDArray[np.uint8], scales: NDArray[np.float32]):
        self.words = tuple(words)
        self._table, self._scales = table, scales
        self._rows = {word: row for row, word in enumerate(self.words)}

    @classmethod
    def of(cls, words: Sequence[str], vectors: NDArray[np.float32]) -> CompanionVectors:
        """Round vectors, (words, dim), to eight bits per number."""
        scales = np.maximum(np.abs(vectors).max(1), 1e-12).astype(np.float32) / (MIDDLE - 1)
        table = np.rint(vectors / scales[:, None]) + MIDDLE
        return cls(words, table.astype(np.uint8), scales)

    @property
    def dim(self) -> int:
        """Numbers per vector."""
        return self._table.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of words, (words, dim), whatever their case; zeros for unknown ones."""
        rows = np.array([self._rows.get(word.lower(), -1) for word in words], np.int64)
        values = (self._table[rows].astype(np.float32) - MIDDLE) * self._scales[rows, None]
        return np.where(rows[:, None] >= 0, values, 0)

    def averages(self, texts: Iterable[Sequence[str]]) -> NDArray[np.float32]:
        """The mean of each text's known words, weighted by rareness, (texts, dim)."""
        averages: list[NDArray[np.float32]] = [np.zeros((0, self.dim), np.float32)]
        for text in texts:
            rows = [row for word in text if (row := self._rows.get(word.lower(), -1)) >= 0]
            if not rows:
                averages.append(np.zeros((1, self.dim), np.float32))
                continue
            weights = RARE / (RARE + ZIPF / (np.array(rows, np.float32) + 1))
            values = self._table[rows].astype(np.float32) - MIDDLE
            weighted = (weights / weights.sum() * self._scales[rows]) @ values
            averages.append(weighted[None].astype(np.float32))
        return np.concatenate(averages)

    def save(self, folder: Path) -> None:
        """Write the two files into a model folder."""
        tensors = {"table": self._table, "scales": self._scales}
        path, names = (folder / name for name in COMPANIONS)
        save_tensors(path, {name: torch.from_numpy(array) for name, array in tensors.items()})
        write_text(names, "".join(f"{word}\n" for word in self.words))

    @classmethod
    def load(cls, folder: Path) -> CompanionVectors:
        """What `save` wrote into a model folder."""
        path, names = (folder / name for name in COMPANIONS)
        for file in (path, names):
            require_inside(folder, file)
        words = read_text(names, LARGEST_WORDS).split("\n")[:-1]
        if (size := require_regular(path).st_size) > LARGEST_TABLE:
            raise UserError(f"{path}: {size:,} bytes, expected at most {LARGEST_TABLE:,}")
        arrays = {name: tensor.numpy() for name, tensor in load_tensors(path).items()}
        shapes = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
        dim = shapes.get("table", ("", (0, 0)))[1][-1:]
        count = (len(words),)
        expected = {"table": ("uint8", count + dim), "scales": ("float32", count)}
        if shapes != expected or len(set(words)) != len(words):
            raise UserError(
                f"{path}: expected one row of bytes and one scale for each of the {len(words):,} "
                f"different words in {names.name}; got {shapes}"
            )
        return cls(words, arrays["table"], arrays["scales"])

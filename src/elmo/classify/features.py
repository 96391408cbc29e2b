"""The layers of a biLM that does not learn, computed once and kept: in memory, or on disk.

Kept in half precision: the values of a layer are small, and rounding them changes no decision.
Layer 0 is the same for both directions and is kept once.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM
from elmo.classify.network import TextLayers
from elmo.classify.text_rows import OnTexts, TextRows
from elmo.contextual.packed import PackedLayers
from elmo.errors import UserError
from elmo.files import explained
from elmo.memory import machine_memory

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
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            # All at once, so that a full disk is told of before the long work.
            os.posix_fallocate(self._file.fileno(), 0, max(1, shape[0] * self._bytes_a_word))
        except OSError as error:
            raise explained(error, folder) from error

    def put(self, start: int, words: Half) -> None:
        os.pwrite(self._file.fileno(), words.tobytes(), start * self._bytes_a_word)

    def get(self, start: int, into: Half) -> None:
        os.preadv(self._file.fileno(), [into.data], start * self._bytes_a_word)

    def __del__(self) -> None:
        with suppress(AttributeError):
            self._file.close()

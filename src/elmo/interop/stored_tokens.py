"""Token vectors stored for a fixed vocabulary: looked up where a word is in it, spelled if not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM
from elmo.bilm.tokens import TokenLayer
from elmo.checkpoint import without_weights
from elmo.errors import UserError
from elmo.interop.hdf5 import opened, read_numbers, require_readable, shape_and_type
from elmo.interop.official_vocabulary import read_words
from elmo.text.batches import Words
from elmo.text.vocabulary import UNKNOWN

DATASET = "embedding"


class StoredTokens(TokenLayer):
    """A token layer with the vectors of some words at hand; for embedding, not for training.

    The table is neither a parameter nor saved: the layer it was made from can make it again.
    """

    def __init__(self, model: BiLM, vectors: Tensor, stored: Tensor) -> None:
        with without_weights():
            super().__init__(model.config, len(model.vocabulary))
        self.characters = model.token_layer.characters
        self.projection = model.token_layer.projection
        self.register_buffer("vectors", vectors, persistent=False)  # (vocabulary, width)
        self.register_buffer("stored", stored, persistent=False)  # (vocabulary,), true or false

    def forward(self, words: Words) -> Tensor:
        """Return (words, width)."""
        vectors = self.get_buffer("vectors")[words.ids]
        others = (~self.get_buffer("stored")[words.ids]).nonzero()[:, 0]
        if len(others):
            spellings = None if words.spellings is None else words.spellings[others]
            vectors[others] = super().forward(Words(words.ids[others], spellings))
        return vectors


def store_tokens(model: BiLM, vocabulary: Path, file: Path) -> None:
    """Let a character model take the vectors of its vocabulary's words from an HDF5 file."""
    if model.config.input != "characters":
        raise UserError(f"{file}: stored token vectors are for models that read characters")
    words = read_words(vocabulary)
    vectors = read_token_vectors(file, len(words), model.config.width)
    places = torch.from_numpy(model.vocabulary.encode(words))
    table = torch.zeros(len(model.vocabulary), model.config.width)
    stored = torch.zeros(len(model.vocabulary), dtype=torch.bool)
    table[places], stored[places] = torch.from_numpy(vectors), True
    stored[UNKNOWN] = False  # the id of every word that is not in the file
    model.token_layer = StoredTokens(model, table, stored)


def read_token_vectors(path: Path, words: int, width: int) -> NDArray[np.float32]:
    """The vectors of a file that holds one dataset, `embedding`, a row a word."""
    with opened(path) as datasets:
        if list(datasets) != [DATASET]:
            raise UserError(
                f"{path}: expected the one dataset {DATASET!r} of token vectors, found "
                f"{', '.join(sorted(datasets)[:5]) or 'none'}"
            )
        shape, kind = shape_and_type(datasets[DATASET])
        if shape != (words, width) or kind != "float32":
            raise UserError(
                f"{path}: {DATASET} is {shape} of {kind}, expected {(words, width)} of float32: "
                "a row a word of the vocabulary, as wide as the model's layers"
            )
        require_readable(path, datasets)
        return read_numbers(datasets[DATASET])

"""Texts of different lengths as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.contextual.encoder import Vectors


class Padded(NamedTuple):
    """Texts side by side, (texts, longest, dim), or (texts, layers, longest, dim) of all layers."""

    vectors: Vectors
    mask: NDArray[np.bool_]
    """True where there is a word, (texts, longest)."""


def padded(found: Sequence[Vectors], row_shape: tuple[int, ...]) -> Padded:
    """Put arrays of (words, dim) or (layers, words, dim) side by side."""
    longest = max((one.shape[-2] for one in found), default=0)
    vectors = np.zeros((len(found), *row_shape[:-1], longest, row_shape[-1]), np.float32)
    mask = np.zeros((len(found), longest), np.bool_)
    for row, one in enumerate(found):
        vectors[row, ..., : one.shape[-2], :] = one
        mask[row, : one.shape[-2]] = True
    return Padded(vectors, mask)

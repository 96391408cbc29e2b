"""How often the nearest occurrence of an ambiguous word, in another text, has the same sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_TIE = 1e-6
"""Cosines this near to the largest are equal to it: what rounding does to equal vectors is less."""
_CELLS_AT_A_TIME = 1 << 22


@dataclass(frozen=True)
class SenseScore:
    """How often the nearest occurrence of the same word in another text has the same sense."""

    accuracy: float
    chance: float
    """What a random occurrence in another text would give."""
    occurrences: int
    """How many occurrences have another one to be compared with."""


def sense_accuracy(
    vectors: NDArray[np.floating], words: Sequence[str], senses: Sequence[str], rows: Sequence[int]
) -> SenseScore:
    """Compare occurrences by their vectors, (n, dim); several that are equally near share the vote.

    So a vector that is the same in every text, as a static embedding's, scores chance exactly.
    """
    _check(vectors, words, senses, rows)
    _, forms = np.unique(words, return_inverse=True)
    _, meanings = np.unique(senses, return_inverse=True)
    texts = np.asarray(rows)
    totals = np.zeros(3)
    for form in range(forms.max(initial=-1) + 1):
        of_form = np.flatnonzero(forms == form)
        totals += _word_totals(_directions(vectors[of_form]), meanings[of_form], texts[of_form])
    accuracy, chance, occurrences = totals.tolist()
    if not occurrences:
        raise UserError("expected a word that occurs in two texts at least, but there is none")
    return SenseScore(accuracy / occurrences, chance / occurrences, int(occurrences))


def _word_totals(
    directions: Floats, meanings: NDArray[np.int64], texts: NDArray[np.int64]
) -> Floats:
    """Of one word: votes for the right sense, those of chance, and occurrences compared."""
    totals = np.zeros(3)
    step = max(1, _CELLS_AT_A_TIME // len(texts))
    for start in range(0, len(texts), step):
        part = slice(start, start + step)
        others = texts[part, None] != texts
        compared = others.any(1)
        same = (meanings[part, None] == meanings)[compared]
        others = others[compared]
        cosines = np.where(others, (directions[part] @ directions.T)[compared], -np.inf)
        nearest = cosines >= cosines.max(1, keepdims=True) - _TIE
        totals += _share(same, nearest), _share(same, others), compared.sum()
    return totals


def _share(same: Flags, candidates: Flags) -> float:
    """The share of each row's candidates that have the same sense, added up."""
    return float(((same & candidates).sum(1) / candidates.sum(1)).sum())


def _directions(vectors: NDArray[np.floating]) -> Floats:
    """Vectors of length 1, so that products are cosines; zeros stay zeros."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)


def _check(
    vectors: NDArray[np.floating], words: Sequence[str], senses: Sequence[str], rows: Sequence[int]
) -> None:
    lengths = (len(vectors), len(words), len(senses), len(rows))
    if vectors.ndim != 2 or len(set(lengths)) > 1:
        raise UserError(
            "expected a vector, a word, a sense and a row for each occurrence, got vectors of "
            f"shape {vectors.shape}, {lengths[1]} words, {lengths[2]} senses and {lengths[3]} rows"
        )
    if not np.isfinite(vectors).all():
        row = int((~np.isfinite(vectors).all(1)).argmax())
        raise UserError(f"expected finite vectors, but vector {row} holds infinity or NaN")

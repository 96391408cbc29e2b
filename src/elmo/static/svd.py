"""Word vectors by factorising the mutual information of words and their contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.config import check
from elmo.errors import UserError, require_extra
from elmo.static.config import SvdConfig
from elmo.static.cooccurrence import count_pairs
from elmo.static.documents import Documents
from elmo.static.ppmi import ppmi
from elmo.static.progress import Listener, Progress, ignore
from elmo.static.vectors import Floats, StaticVectors
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def svd_vectors(
    documents: Documents,
    vocabulary: Vocabulary,
    config: SvdConfig | None = None,
    progress: Listener = ignore,
) -> StaticVectors:
    """Count pairs, turn counts into information, factorise it."""
    config = config or SvdConfig()
    check(config)
    _check_size(vocabulary, config)
    progress(Progress("counting pairs of words", 0, len(documents)))
    counts = count_pairs(
        documents,
        len(vocabulary),
        window=config.window,
        distance_weighting=config.distance_weighting,
    )
    information = ppmi(counts, shift=config.shift, context_smoothing=config.context_smoothing)
    if not information.nnz:
        raise UserError(
            "no two words stand together more often than by chance; give more text, or lower "
            "--shift or --min-count"
        )
    progress(Progress(f"factorising {information.nnz:,} pairs"))
    special = len(SPECIAL_WORDS)
    return StaticVectors(vocabulary.words[special:], factorise(information, config)[special:])


def factorise(matrix: csr_array, config: SvdConfig) -> Floats:
    """U S^p of the largest singular values: (rows, dim)."""
    extmath: Any = require_extra("sklearn.utils.extmath", "study")
    left, values, _ = extmath.randomized_svd(
        matrix,
        config.dim,
        n_iter=config.iterations,
        random_state=config.seed,
        flip_sign=True,
    )
    return np.asarray(left * values**config.eigenvalue_power, np.float32)


def _check_size(vocabulary: Vocabulary, config: SvdConfig) -> None:
    words = len(vocabulary) - len(SPECIAL_WORDS)
    if config.dim > words:
        raise UserError(
            f"dim: vectors of {config.dim} numbers need as many words, but there are {words}; "
            f"use --dim {words} or less, or give more text"
        )

"""Counts of pairs become positive pointwise mutual information: what is more often than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.errors import require_extra

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def ppmi(counts: csr_array, *, shift: float = 1.0, context_smoothing: float = 0.75) -> csr_array:
    """max(0, log P(w, c) / (P(w) P'(c)) - log shift), with P'(c) ~ #(c)^smoothing; sparse."""
    sparse: Any = require_extra("scipy.sparse", "study")
    pairs: Any = counts.tocoo()
    words, contexts = pairs.coords
    of_word = pairs.sum(axis=1)
    of_context = pairs.sum(axis=0) ** context_smoothing
    chance = of_word[words] * (of_context[contexts] / of_context.sum())
    information = np.log(pairs.data / chance) - np.log(shift)
    kept = information > 0
    return sparse.csr_array(
        (information[kept].astype(np.float32), (words[kept], contexts[kept])), shape=pairs.shape
    )

"""The vectors of words alone, as the token layer makes them, a portion at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm.model import BiLM
from elmo.text.batches import WordTable

WORDS_AT_ONCE = 1024


@torch.no_grad()
def token_vectors(model: BiLM, words: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    """Yield (portion, width) until all words have had their turn."""
    table = WordTable.of(words, model.vocabulary, spelled=model.config.spelled)
    for first in range(0, len(words), WORDS_AT_ONCE):
        portion = table.select(np.arange(first, min(first + WORDS_AT_ONCE, len(words))))
        yield model.token_layer(portion.to(model.device)).float().cpu().numpy()

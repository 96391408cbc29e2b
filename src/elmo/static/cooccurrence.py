"""How often any two words stand near each other, counted without a loop over words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo.errors import require_extra
from elmo.static.documents import Ids
from elmo.text.vocabulary import SPECIAL_WORDS

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TOKENS_AT_ONCE = 1 << 20
"""Longer texts than this are still counted at once."""


def count_pairs(
    documents: Iterable[Ids], words: int, *, window: int, distance_weighting: bool = False
) -> csr_array:
    """Symmetric counts (words, words) of two words of a text at most `window` places apart.

    Boundaries and unknown words take up a place, but are never counted.
    """
    sparse: Any = require_extra("scipy.sparse", "study")
    following = sparse.csr_array((words, words), dtype=np.float64)
    for portion in _portions(documents):
        nearby = sparse.csr_array(following.shape, dtype=np.float64)
        for distance in range(1, window + 1):
            first, second = portion.pairs(distance)
            weights = np.full(len(first), 1 / distance if distance_weighting else 1.0)
            pairs = sparse.coo_array((weights, (first, second)), shape=following.shape)
            nearby = nearby + pairs.tocsr()
        following = following + nearby
    return (following + following.T).tocsr()


@dataclass(frozen=True)
class _Portion:
    """Some texts end to end."""

    ids: Ids
    texts: Ids
    """Which text each word is of."""

    def pairs(self, distance: int) -> tuple[Ids, Ids]:
        """All two known words of a text that are so far apart, the earlier ones first."""
        first, second = self.ids[:-distance], self.ids[distance:]
        special = len(SPECIAL_WORDS)
        kept = self.texts[:-distance] == self.texts[distance:]
        kept &= (first >= special) & (second >= special)
        return first[kept], second[kept]


def _portions(documents: Iterable[Ids]) -> Iterator[_Portion]:
    held: list[Ids] = []
    tokens = 0
    for document in documents:
        held.append(document)
        tokens += len(document)
        if tokens >= TOKENS_AT_ONCE:
            yield _end_to_end(held)
            held, tokens = [], 0
    if held:
        yield _end_to_end(held)


def _end_to_end(documents: list[Ids]) -> _Portion:
    lengths = [len(document) for document in documents]
    return _Portion(np.concatenate(documents), np.repeat(np.arange(len(documents)), lengths))

"""How much of a text each choice of vocabulary covers, and how fast new words keep coming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.text.corpus import LARGEST_LEXICON
from elmo.text.corpus_report import GrowthPoint, VocabularyPoint, Words
from elmo.text.vocabulary import SPECIAL_WORDS

MIN_COUNTS = (1, 2, 3, 5, 10)
MAX_SIZES = (5_000, 10_000, 20_000, 50_000, 100_000)
FIRST_GROWTH_POINT = 1_000
POINTS_FOR_A_LAW = 4


class WordCounts:
    """Counts of all words in the order in which they appear, and of the held-out ones."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._held_out: Counter[str] = Counter()
        self._growth: list[GrowthPoint] = []
        self._tokens = 0
        self._held_out_tokens = 0

    def add(self, tokens: Sequence[str], *, held_out: bool) -> None:
        """Count the words of one document."""
        if len(self._all) >= LARGEST_LEXICON:
            kept = [token for token in tokens if token in self._all]
        else:
            kept = tokens
        self._all.update(kept)
        self._tokens += len(tokens)
        if held_out:
            self._held_out.update(kept)
            self._held_out_tokens += len(tokens)
        if self._tokens >= FIRST_GROWTH_POINT << len(self._growth):
            self._growth.append(GrowthPoint(tokens=self._tokens, types=len(self._all)))

    def describe(self, min_count: int, max_size: int | None) -> Words:
        """What these words make of the vocabulary asked for, and of others."""
        counts, held_out = self._ranked()
        largest = int((counts > 0).sum()) + len(SPECIAL_WORDS)
        points = [
            self._point(counts, held_out, least, most)
            for least, most in (
                (min_count, max_size),
                *((least, None) for least in MIN_COUNTS),
                *((1, most) for most in MAX_SIZES if most < largest),
            )
        ]
        return Words(
            types=len(self._all),
            capped=len(self._all) >= LARGEST_LEXICON,
            special=tuple(word for word in SPECIAL_WORDS if word in self._all),
            chosen=points[0],
            by_min_count=tuple(points[1 : 1 + len(MIN_COUNTS)]),
            by_max_size=tuple(points[1 + len(MIN_COUNTS) :]),
            growth=tuple(self._growth),
            heaps_exponent=_heaps_exponent(self._growth),
        )

    def _ranked(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How often each word is seen in training, most frequent first, and how often held out."""
        words = [word for word in self._all if word not in SPECIAL_WORDS]
        held_out = np.fromiter((self._held_out[word] for word in words), np.int64)
        counts = np.fromiter((self._all[word] for word in words), np.int64) - held_out
        order = np.argsort(-counts, kind="stable")
        return counts[order], held_out[order]

    def _point(
        self,
        counts: NDArray[np.int64],
        held_out: NDArray[np.int64],
        min_count: int,
        max_size: int | None,
    ) -> VocabularyPoint:
        special = len(SPECIAL_WORDS)
        kept = int((counts >= max(1, min_count)).sum())
        if max_size is not None:
            kept = min(kept, max(0, max_size - special))
        total = self._held_out_tokens
        unknown = total - int(held_out[:kept].sum())
        return VocabularyPoint(
            min_count=min_count,
            max_size=max_size,
            size=kept + special,
            unknown_rate=unknown / total if total else None,
        )


def _heaps_exponent(growth: Sequence[GrowthPoint]) -> float | None:
    """The slope of types against tokens, both as logarithms."""
    if len(growth) < POINTS_FOR_A_LAW:
        return None
    tokens = np.log([point.tokens for point in growth])
    types = np.log([point.types for point in growth])
    return float(np.polyfit(tokens, types, 1)[0])

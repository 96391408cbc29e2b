"""The words a classifier has vectors of its own for: those that its training texts hold often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from elmo.text.vocabulary import Vocabulary, build_vocabulary


def own_vocabulary(texts: Iterable[Sequence[str]], min_count: int) -> Vocabulary:
    """The words that occur often enough, most frequent first, then by alphabet."""
    counts: Counter[str] = Counter()
    number = 0
    for words in texts:
        counts.update(words)
        number += 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return build_vocabulary(
        [word for word, _ in ranked],
        [count for _, count in ranked],
        boundaries=number,
        min_count=min_count,
        max_size=None,
    )

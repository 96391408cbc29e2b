"""Which texts are held out: a stable property of a text, shared by its near copies.

News and web text is full of stories that differ by a few words. Drawn one by one, copies of a
training text would be held out, and perplexity would measure memory. So a text is represented by
one of its phrases, the one whose hash is smallest (a one-value MinHash): two texts fall on the
same side with a probability at least equal to the share of phrases they have in common.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

PHRASE = 5
Hashes = NDArray[np.uint64]
_ODD = np.uint64(0x9E3779B97F4A7C15)


def is_held_out(tokens: Sequence[str], share: float) -> bool:
    """Whether a tokenised text belongs to the held-out part."""
    return share > 0 and _representative(tokens) < share * 2**64


def _representative(tokens: Sequence[str]) -> int:
    """A hash of the phrase that stands for the text, uniform over 64 bits."""
    words = np.array([_word_hash(token) for token in tokens], np.uint64)
    phrases = words[: max(1, len(words) - PHRASE + 1)].copy()
    for offset in range(1, min(PHRASE, len(words))):
        phrases = phrases * _ODD + words[offset : offset + len(phrases)]
    # Two different mixtures: the smallest of one set of hashes is anything but uniform.
    chosen = phrases[np.argmin(_mixed(phrases))]
    return int(_mixed(np.array([chosen]) + _ODD)[0])


@lru_cache(maxsize=1 << 20)
def _word_hash(word: str) -> int:
    return zlib.crc32(word.lower().encode("utf-8", "surrogatepass"))


def _mixed(values: Hashes) -> Hashes:
    """Spread 64-bit values evenly (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))

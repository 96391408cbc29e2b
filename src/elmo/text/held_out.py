"""Which texts are held out: a stable property of a text, shared by its near copies.

News and web text is full of stories that differ by a few words. Drawn one by one, copies of a
training text would be held out, and perplexity would measure memory. So a text is represented by
one of its phrases, the one whose hash is smallest (a one-value MinHash): two texts fall on the
same side with a probability at least equal to the share of phrases they have in common.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PHRASE = 5
Hashes = NDArray[np.uint64]

_ODD = 0x9E3779B97F4A7C15
_WRAP = 2**64 - 1
_POWERS = np.array([_ODD**place & _WRAP for place in reversed(range(PHRASE))], np.uint64)
# The constants of SplitMix64's finaliser, in its order; as arrays they cost less than as scalars.
_SHIFTS = tuple(np.array(shift, np.uint64) for shift in (30, 27, 31))
_FACTORS = tuple(np.array(factor, np.uint64) for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def is_held_out(tokens: Sequence[str], share: float) -> bool:
    """Whether a tokenised text belongs to the held-out part."""
    return share > 0 and is_phrase_held_out(representative_phrase(tokens), share)


def is_phrase_held_out(phrase: int, share: float) -> bool:
    """Whether the texts that this phrase stands for belong to the held-out part."""
    return phrase < share * 2**64


def representative_phrase(tokens: Sequence[str]) -> int:
    """A hash of the phrase that stands for the text, uniform over 64 bits."""
    words = _word_hashes(tokens)
    # A phrase w v … z is the number w ODD^4 + v ODD^3 + … + z, of all phrases at once.
    phrases = np.correlate(words, _POWERS[-len(words) :], "valid")
    # Two different mixtures: the smallest of one set of hashes is anything but uniform.
    chosen = int(phrases[_mixed(phrases).argmin()])
    return int(_mixed(np.array([chosen + _ODD & _WRAP], np.uint64))[0])


def _word_hashes(words: Sequence[str]) -> Hashes:
    """A hash of each word, whatever its case."""
    # All words at once, which no line break is part of: faster than even to remember their hashes.
    lines = "\n".join(words).lower().encode("utf-8", "surrogatepass").split(b"\n")
    return np.fromiter(map(zlib.crc32, lines), np.uint64, len(lines))


def _mixed(values: Hashes) -> Hashes:
    """Spread 64-bit values evenly (the finaliser of SplitMix64)."""
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])

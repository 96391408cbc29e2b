"""A word as a row of byte ids, exactly as the official ELMo models spell it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROW_LENGTH = 50
LONGEST_WORD = ROW_LENGTH - 2
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260
SHIFT = 1
"""Added to every id, so that 0 is left for positions that hold no word at all."""
CHARACTER_IDS = PADDING + SHIFT + 1

_BOUNDARIES = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


def spell(word: str) -> NDArray[np.int64]:
    """The row of a word: begin, its UTF-8 bytes cut to 48, end, padding."""
    row = np.full(ROW_LENGTH, PADDING, dtype=np.int64)
    boundary = _BOUNDARIES.get(word)
    content = [boundary] if boundary is not None else _bytes(word)
    row[0] = BEGIN_WORD
    row[1 : 1 + len(content)] = content
    row[1 + len(content)] = END_WORD
    return row + SHIFT


def spell_all(words: Sequence[str]) -> NDArray[np.int64]:
    """The rows of many words, (words, 50)."""
    return np.stack([spell(word) for word in words]) if words else _no_rows()


def _bytes(word: str) -> list[int]:
    return list(word.encode("utf-8", errors="surrogatepass")[:LONGEST_WORD])


def _no_rows() -> NDArray[np.int64]:
    return np.zeros((0, ROW_LENGTH), dtype=np.int64)

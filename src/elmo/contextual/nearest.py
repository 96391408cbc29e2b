"""The nearest words so far: a list that stays short, however many words are compared."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.contextual.encoder import Vectors
from elmo.contextual.neighbour_config import Distinct, NeighbourConfig
from elmo.contextual.portions import TokenisedText
from elmo.contextual.word_in_text import WordInText

DECIMALS = 6
"""To which similarities are told and compared. What vectors owe to the texts read beside them, a
matter of rounding, is smaller, so that equal words stay equal and in the order of the corpus."""
WORDS_AROUND = 2
"""On either side, in a phrase that is shown only once."""


@dataclass(frozen=True)
class Neighbour:
    """A word of the corpus in its text."""

    similarity: float
    """The cosine of the angle between its vector and that of the word asked for."""
    word: str
    position: int
    """Which word of the text it is, counted from 0."""
    text_number: int
    """Which text of the corpus it is in, counted from 0."""
    words: tuple[str, ...]
    """The whole text."""


class Nearest:
    """Keeps the nearest words of the texts it is given, in the order of the corpus."""

    def __init__(self, query: WordInText, vector: Vectors, config: NeighbourConfig) -> None:
        self._query = query
        self._vector = vector
        self._config = config
        self._kept: dict[Hashable, Neighbour] = {}
        self._floor = -np.inf

    def take(self, text: TokenisedText, vectors: Vectors) -> None:
        """Compare the words of a text, by their (words, dim); the text asked about is left out."""
        if tuple(text.words) == self._query.words:
            return
        similarities = cosines(vectors, self._vector).round(DECIMALS)
        # A tie with the last one kept does not count: that one came first.
        for place in np.flatnonzero(similarities > self._floor).tolist():
            word = text.words[place]
            if word == self._query.word or not self._config.same_word:
                words = tuple(text.words)
                self._offer(Neighbour(similarities[place].item(), word, place, text.number, words))

    def ranked(self) -> list[Neighbour]:
        """The nearest first; of equals, the first of the corpus."""
        return sorted(self._kept.values(), key=_rank)

    def _offer(self, found: Neighbour) -> None:
        key = _identity(found, self._config.distinct)
        if key in self._kept and self._kept[key].similarity >= found.similarity:
            return
        self._kept[key] = found
        if len(self._kept) > self._config.count:
            del self._kept[max(self._kept, key=lambda one: _rank(self._kept[one]))]
        if len(self._kept) == self._config.count:
            self._floor = min(one.similarity for one in self._kept.values())


def cosines(vectors: Vectors, vector: Vectors) -> NDArray[np.float64]:
    """The cosine of the angle between each of (words, dim) and one vector; 0 for a vector of 0s."""
    rows, one = vectors.astype(np.float64), vector.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=-1) * np.linalg.norm(one)
    return (rows @ one) / np.where(lengths > 0, lengths, 1)


def _rank(found: Neighbour) -> tuple[float, int, int]:
    return -found.similarity, found.text_number, found.position


def _identity(found: Neighbour, distinct: Distinct) -> Hashable:
    """What two neighbours must not have in common."""
    if distinct == "none":
        return found.text_number, found.position
    around = WORDS_AROUND if distinct == "phrase" else 0
    return _phrase(found.words, found.position, around)


def _phrase(words: Sequence[str], position: int, around: int) -> tuple[str, ...]:
    """The word between its neighbours, none where the text ends."""
    places = range(position - around, position + around + 1)
    return tuple(words[place].lower() if 0 <= place < len(words) else "" for place in places)

"""Static word vectors: one vector per word, whatever stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.config import nearest
from elmo.errors import UserError
from elmo.text.word_vectors import all_word_vectors, write_word_vectors

Floats = NDArray[np.float32]


class Neighbour(NamedTuple):
    """A word and how near it is."""

    word: str
    similarity: float  # cosine, from -1 to 1


@dataclass(frozen=True)
class StaticVectors:
    """One vector per word.

    Example:
        >>> vectors = StaticVectors.load("glove.6B.100d.txt")
        >>> vectors.nearest("frog", 1)[0].word
        'toad'
    """

    words: tuple[str, ...]
    vectors: Floats  # (words, dim)

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or not 0 < len(self.words) == len(self.vectors):
            raise UserError(
                f"expected one vector per word; got {len(self.words):,} words and vectors of shape "
                f"{self.vectors.shape}"
            )
        if len(self.ids) != len(self.words):
            raise UserError("expected each word once, but some word is there twice")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        """Numbers per vector."""
        return self.vectors.shape[1]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def vector(self, word: str) -> Floats:
        """The vector of a word, (dim,); an unknown word is an error that suggests another."""
        row = self.ids.get(word)
        if row is None:
            raise UserError(
                f"no vector for the word {word!r}{nearest(word, self.words)}; "
                "words must be spelled, and cut, as in the training text"
            )
        return self.vectors[row]

    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """The words of highest cosine similarity, in descending order, without the word itself."""
        wanted = self.vector(word)
        norms = np.linalg.norm(self.vectors, axis=1) * np.linalg.norm(wanted)
        similarities = self.vectors @ wanted / np.where(norms > 0, norms, 1)
        similarities[self.ids[word]] = -np.inf
        count = max(0, min(count, len(self) - 1))
        rows: list[int] = np.argsort(-similarities, kind="stable")[:count].tolist()
        return [Neighbour(self.words[row], float(similarities[row])) for row in rows]

    def embed(self, words: Sequence[str]) -> Floats:
        """The vectors of words, (words, dim); zeros for unknown ones."""
        rows = np.array([self.ids.get(word, -1) for word in words], np.int64)
        return np.where(rows[:, None] >= 0, self.vectors[rows], 0)

    def save(self, path: Path | str) -> None:
        """Write word2vec's binary format to a file named .bin, its text format to .txt or .vec."""
        write_word_vectors(Path(path), self.words, self.vectors)

    @classmethod
    def load(cls, path: Path | str, limit: int | None = None) -> StaticVectors:
        """Read a file in word2vec's formats or GloVe's: all of it, or its first `limit` vectors.

        Of a word that the file holds twice, the first vector counts.
        """
        vectors = dict[str, Floats]()
        for word, vector in islice(all_word_vectors(Path(path)), limit):
            vectors.setdefault(word, vector)
        if not vectors:
            raise UserError(f"{path}: expected vectors, but the file holds none")
        return cls(tuple(vectors), np.stack(list(vectors.values())))

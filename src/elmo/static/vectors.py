"""Static word vectors: looked up, compared, pooled, saved and loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.config import nearest
from elmo.errors import UserError
from elmo.text.word_vectors import all_word_vectors, write_word_vectors

Floats = NDArray[np.float32]
Pooling = Literal["mean", "max", "mean+max"]
WORDS_AT_ONCE = 1 << 16
"""Of many texts, the vectors of so many words are in memory at a time."""


@dataclass(frozen=True)
class Neighbour:
    """A word, and how near it is."""

    word: str
    similarity: float
    """Cosine, from -1 to 1."""


@dataclass(frozen=True)
class StaticVectors:
    """A vector a word."""

    words: tuple[str, ...]
    vectors: Floats
    """(words, dim)"""

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or not 0 < len(self.words) == len(self.vectors):
            raise UserError(
                f"expected words and a row of numbers for each; got {len(self.words):,} words and "
                f"vectors of shape {self.vectors.shape}"
            )
        if len(self.ids) != len(self.words):
            raise UserError("expected each word once, but some word is there twice")

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        """Numbers a vector."""
        return self.vectors.shape[1]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The row of each word."""
        return {word: place for place, word in enumerate(self.words)}

    def vector(self, word: str) -> Floats:
        """The vector of a word, or an error that suggests another word."""
        place = self.ids.get(word)
        if place is None:
            raise UserError(
                f"no vector for the word {word!r}{nearest(word, self.words)}; "
                "words must be spelled, and cut, as in the training text"
            )
        return self.vectors[place]

    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """The words whose vectors point most nearly the same way, the nearest first."""
        wanted = self.vector(word)
        lengths = np.linalg.norm(self.vectors, axis=1) * np.linalg.norm(wanted)
        similarities = self.vectors @ wanted / np.where(lengths > 0, lengths, 1)
        similarities[self.ids[word]] = -np.inf
        kept = max(0, min(count, len(self) - 1))
        order: list[int] = np.argsort(-similarities, kind="stable")[:kept].tolist()
        return [Neighbour(self.words[place], float(similarities[place])) for place in order]

    def embed(self, words: Sequence[str]) -> Floats:
        """The vectors of words, zeros for unknown ones: (words, dim)."""
        places = np.array([self.ids.get(word, -1) for word in words], np.int64)
        return np.where(places[:, None] >= 0, self.vectors[places], 0)

    def pooled(self, texts: Iterable[Sequence[str]], pooling: Pooling = "mean") -> Floats:
        """A vector a text, of its known words: (texts, dim), or (texts, 2 dim) for mean+max.

        A text without any known word gives zeros.
        """
        ways = pooling.split("+")
        if unknown := sorted(set(ways) - {"mean", "max"}):
            raise UserError(f"pooling: expected mean, max or mean+max; got {unknown[0]!r}")
        rows = [self._pooled(portion, ways) for portion in self._portions(texts)]
        return np.concatenate([np.empty((0, len(ways) * self.dim), np.float32), *rows])

    def _portions(self, texts: Iterable[Sequence[str]]) -> Iterator[list[list[int]]]:
        """Texts as the rows of their known words, some at a time."""
        held: list[list[int]] = []
        words = 0
        for text in texts:
            held.append([self.ids[word] for word in text if word in self.ids])
            words += len(held[-1])
            if words >= WORDS_AT_ONCE:
                yield held
                held, words = [], 0
        if held:
            yield held

    def _pooled(self, texts: list[list[int]], ways: Sequence[str]) -> Floats:
        lengths = np.array([len(text) for text in texts])
        pooled = np.zeros((len(texts), len(ways), self.dim), np.float32)
        if lengths.any():
            known = lengths > 0
            starts = (np.cumsum(lengths) - lengths)[known]
            words = self.vectors[np.concatenate([np.array(text, np.int64) for text in texts])]
            for place, way in enumerate(ways):
                if way == "mean":
                    pooled[known, place] = np.add.reduceat(words, starts) / lengths[known, None]
                else:
                    pooled[known, place] = np.maximum.reduceat(words, starts)
        return pooled.reshape(len(texts), -1)

    def save(self, path: Path | str) -> None:
        """Write word2vec's binary format to a file named .bin, its text format to .txt or .vec."""
        write_word_vectors(Path(path), self.words, self.vectors)

    @classmethod
    def load(cls, path: Path | str, most: int | None = None) -> StaticVectors:
        """Read a file in word2vec's formats or GloVe's, of ours or anybody's: all of it, or the
        `most` vectors that come first."""
        found = dict[str, Floats]()
        for word, vector in islice(all_word_vectors(Path(path)), most):
            found.setdefault(word, vector)
        if not found:
            raise UserError(f"{path}: expected vectors, but the file holds none")
        return cls(tuple(found), np.stack(list(found.values())))

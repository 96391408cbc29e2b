"""The words a model knows, most frequent first, with how often each was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.errors import UserError
from elmo.files import read_text, write_text

BEGIN, END, UNKNOWN = 0, 1, 2
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")
LARGEST_FILE = 1 << 30


@dataclass(frozen=True)
class Vocabulary:
    """Words by id. The first three are the sentence boundaries and the unknown word."""

    words: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.words[:3] != SPECIAL_WORDS:
            raise UserError(f"a vocabulary must start with {', '.join(SPECIAL_WORDS)}")
        if len(self.words) != len(self.counts):
            raise UserError(f"{len(self.words):,} words but {len(self.counts):,} counts")
        if len(self.ids) != len(self.words):
            repeated = next(w for idx, w in enumerate(self.words) if self.ids[w] != idx)
            raise UserError(f"the vocabulary holds {repeated!r} twice")

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: idx for idx, word in enumerate(self.words)}

    def id(self, word: str) -> int:
        """The id of a word, or that of the unknown word."""
        return self.ids.get(word, UNKNOWN)

    def encode(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The ids of words, unknown ones included."""
        return np.fromiter(map(self.ids.get, words, repeat(UNKNOWN)), dtype=np.int64)

    def unknown_rate(self, words: Sequence[str], counts: NDArray[np.int64]) -> float:
        """The fraction of running words, given as distinct words with counts, that is unknown."""
        unknown = self.encode(words) == UNKNOWN
        return float(counts[unknown].sum() / max(1, counts.sum()))

    def grown(self, words: Sequence[str], counts: Sequence[int]) -> Vocabulary:
        """This vocabulary and, after it, the new ones of `words`; old ids stay what they are."""
        new = [(w, c) for w, c in zip(words, counts, strict=True) if w not in self.ids]
        return Vocabulary(
            self.words + tuple(word for word, _ in new),
            self.counts + tuple(count for _, count in new),
        )

    def save(self, path: Path) -> None:
        """Write one line per word: the word, a tab, its count."""
        lines = (f"{w}\t{c}\n" for w, c in zip(self.words, self.counts, strict=True))
        write_text(path, "".join(lines))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote, or say which line is wrong."""
        words, counts = read_counts(path)
        try:
            return cls(tuple(words), tuple(counts))
        except UserError as error:
            raise UserError(f"{path}: {error}") from None


def build_vocabulary(
    words: Sequence[str],
    counts: Sequence[int],
    *,
    boundaries: int,
    min_count: int,
    max_size: int | None,
) -> Vocabulary:
    """Cut a list of words, most frequent first, into a vocabulary.

    `boundaries` is how often a text began (and ended); what is cut off counts as unknown.
    """
    room = len(words) if max_size is None else max(0, max_size - len(SPECIAL_WORDS))
    kept = 0
    while kept < min(room, len(words)) and counts[kept] >= max(1, min_count):
        kept += 1
    unknown = int(sum(counts[kept:]))
    return Vocabulary(
        (*SPECIAL_WORDS, *words[:kept]), (boundaries, boundaries, unknown, *counts[:kept])
    )


def read_counts(path: Path) -> tuple[list[str], list[int]]:
    """Read lines of a word, a tab and a count."""
    words: list[str] = []
    counts: list[int] = []
    lines = read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        word, tab, count = line.partition("\t")
        if not tab or not word or not (count.isascii() and count.isdigit()) or len(count) > 18:
            raise UserError(
                f"{path}, line {number}: expected a word, a tab and a count; got {line[:80]!r}"
            )
        words.append(word)
        counts.append(int(count))
    return words, counts


# A word as a row of byte ids, exactly as the official ELMo models spell it.


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
    if boundary is not None:
        content = [boundary]
    else:
        content = list(word.encode("utf-8", errors="surrogatepass")[:LONGEST_WORD])
    row[0] = BEGIN_WORD
    row[1 : 1 + len(content)] = content
    row[1 + len(content)] = END_WORD
    return row + SHIFT


def spell_all(words: Sequence[str]) -> NDArray[np.int64]:
    """The rows of many words, (words, 50)."""
    if not words:
        return np.zeros((0, ROW_LENGTH), dtype=np.int64)
    return np.stack([spell(word) for word in words])

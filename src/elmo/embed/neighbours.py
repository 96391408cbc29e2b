"""A word in a sentence, and the words of a corpus that mean most nearly the same in theirs."""

from __future__ import annotations

import heapq
import logging
import random
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo.config import check, nearest
from elmo.embed.config import EncodeConfig, NeighbourConfig
from elmo.embed.embedder import (
    BATCHES_AT_ONCE,
    Embedder,
    Listener,
    Pace,
    TokenisedText,
    Vectors,
    chunks_of,
    tokenised,
)
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.model_folder import Text

DECIMALS = 6
"""To which similarities are rounded and compared. The texts a text is read together with change its
vectors by less, so equal words stay equal and in the order of the corpus."""
WORDS_AROUND = 2  # on either side, in a phrase that is shown only once
T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WordInText:
    """A text, and the index of one of its words."""

    words: tuple[str, ...]
    position: int

    @property
    def word(self) -> str:
        return self.words[self.position]


@dataclass(frozen=True)
class Neighbour:
    """A word of the corpus in its text."""

    similarity: float  # the cosine of the angle between its vector and that of the query
    word: str
    position: int  # index of the word in its text
    text_number: int  # index of the text in the corpus
    words: tuple[str, ...]  # the whole text


@dataclass(frozen=True)
class Neighbours:
    """A word in a sentence, and its nearest words in a corpus."""

    query: WordInText
    texts: int  # how many texts were searched
    neighbours: tuple[Neighbour, ...]  # the nearest first


def find_neighbours(
    embedder: Embedder,
    word: str | int,
    sentence: Text,
    corpus: Iterable[Text],
    config: NeighbourConfig | None = None,
    *,
    progress: Listener | None = None,
) -> Neighbours:
    """Find the words of a corpus whose vectors are nearest to that of a word; `Embedder.nearest`.

    The texts of the sample are in memory, but never all of their vectors.
    """
    config = config or NeighbourConfig()
    check(config)
    if isinstance(corpus, str):
        raise UserError("expected several texts, got one string; put it in a list: [text]")
    encoder = embedder.encoder(
        EncodeConfig(output="tokens", layer=config.layer, batch_tokens=config.batch_tokens)
    )
    model = embedder.loaded
    query = find_word(model, word, sentence, config.occurrence)
    if not model.model.spelled and query.word not in model.vocabulary.ids:
        log.warning(
            "%r is not in the model's vocabulary; all unknown words share one vector", query.word
        )

    numbered: Iterable[tuple[int, Text]] = enumerate(corpus)
    if config.same_word:
        # Texts without the word would be read in vain.
        texts = tokenised(model, corpus)
        numbered = ((text.number, text.text) for text in texts if query.word in text.words)
    sample, total = draw(numbered, config.texts, config.seed)
    if len(sample) < total:
        log.info("searching a random sample: %s of %s texts", f"{len(sample):,}", f"{total:,}")

    closest = Nearest(query, encoder.encode([query.words])[0][query.position], config)
    pace = None if progress is None else Pace(progress, len(sample))
    words = (text for idx, sampled in sample for text in tokenised(model, [sampled], first=idx))
    for chunk in chunks_of(words, BATCHES_AT_ONCE * encoder.batch_tokens):
        vectors = encoder.encode([text.words for text in chunk], pace and pace.add)
        for text, rows in zip(chunk, vectors, strict=True):
            closest.take(text, rows)
    return Neighbours(query, len(sample), tuple(closest.ranked()))


def draw(things: Iterable[T], size: int, seed: int) -> tuple[list[T], int]:
    """Draw `size` items, or all if there are no more; only the sample is held in memory.

    Returns the sample, in the order in which its items came, and the number of all items.
    """
    generator, positions = random.Random(seed), count()
    keyed = ((generator.random(), next(positions), thing) for thing in things)
    # The smallest of random keys are a fair sample; keys and positions decide, never the items.
    drawn = heapq.nsmallest(size, keyed, key=lambda entry: entry[:2])
    return [thing for _, _, thing in sorted(drawn, key=lambda entry: entry[1])], next(positions)


def find_word(model: LanguageModel, word: str | int, text: Text, occurrence: int = 1) -> WordInText:
    """Find a word, or its index, in a text as the model tokenizes it.

    `occurrence` says which one, counted from 1, if the word is there several times.
    """
    words = model.words(text)
    shown = " ".join(words) or "(none)"
    if isinstance(word, int):
        if not 0 <= word < len(words):
            raise UserError(
                f"word {word} was asked for, but the sentence has {len(words)} words, counted from "
                f"0: {shown}"
            )
        return WordInText(tuple(words), word)
    written = word.lower() if model.tokenizer.lowercase and isinstance(text, str) else word
    positions = [position for position, other in enumerate(words) if other == written]
    if not positions:
        raise UserError(
            f"{written!r} is not a word of the sentence{nearest(written, words)}; its words are: "
            f"{shown}"
        )
    if not 1 <= occurrence <= len(positions):
        raise UserError(
            f"occurrence {occurrence} of {written!r} was asked for, but the sentence has "
            f"{len(positions)}, counted from 1"
        )
    if len(positions) > 1:
        log.info("%r is in the sentence %d times; taken: %d", written, len(positions), occurrence)
    return WordInText(tuple(words), positions[occurrence - 1])


class Nearest:
    """The nearest words so far: a list that stays short, however many words are compared."""

    def __init__(self, query: WordInText, vector: Vectors, config: NeighbourConfig) -> None:
        self._query, self._vector, self._config = query, vector, config
        self._neighbours: dict[Hashable, Neighbour] = {}
        self._floor = -np.inf  # similarity of the last one, once the list is full

    def take(self, text: TokenisedText, vectors: Vectors) -> None:
        """Compare the words of a text, by their vectors (words, dim)."""
        words = tuple(text.words)
        if words == self._query.words:
            return
        similarities = cosines(vectors, self._vector).round(DECIMALS)
        # A tie with the last one of the list does not count: that one came first.
        for position in np.flatnonzero(similarities > self._floor).tolist():
            word = words[position]
            if word != self._query.word and self._config.same_word:
                continue
            similarity = similarities[position].item()
            self._add(Neighbour(similarity, word, position, text.number, words))

    def ranked(self) -> list[Neighbour]:
        """The nearest first; of equals, the first of the corpus."""
        return sorted(self._neighbours.values(), key=_rank)

    def _add(self, neighbour: Neighbour) -> None:
        key = self._identity(neighbour)
        same = self._neighbours.get(key)
        if same is not None and same.similarity >= neighbour.similarity:
            return
        self._neighbours[key] = neighbour
        if len(self._neighbours) > self._config.count:
            del self._neighbours[max(self._neighbours, key=lambda k: _rank(self._neighbours[k]))]
        if len(self._neighbours) == self._config.count:
            self._floor = min(hit.similarity for hit in self._neighbours.values())

    def _identity(self, neighbour: Neighbour) -> Hashable:
        if self._config.distinct == "none":
            return neighbour.text_number, neighbour.position
        around = WORDS_AROUND if self._config.distinct == "phrase" else 0
        padding = [""] * around
        padded = [*padding, *neighbour.words, *padding]
        phrase = padded[neighbour.position : neighbour.position + 2 * around + 1]
        return tuple(word.lower() for word in phrase)


def _rank(neighbour: Neighbour) -> tuple[float, int, int]:
    return -neighbour.similarity, neighbour.text_number, neighbour.position


def cosines(vectors: Vectors, vector: Vectors) -> NDArray[np.float64]:
    """Cosine similarity of (words, dim) to one vector; 0 for a vector of zeros."""
    rows, query = vectors.astype(np.float64), vector.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=-1) * np.linalg.norm(query)
    return (rows @ query) / np.where(lengths > 0, lengths, 1)

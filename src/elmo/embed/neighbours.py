"""A word in a sentence, and the words of a corpus that mean most nearly the same in theirs."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.config import check, nearest
from elmo.embed.config import Distinct, EncodeConfig, NeighbourConfig
from elmo.embed.embedder import (
    BATCHES_AT_ONCE,
    Embedder,
    Encoder,
    Listener,
    Pace,
    TokenisedText,
    Vectors,
    portions,
    tokenised,
)
from elmo.errors import UserError
from elmo.language_model import LanguageModel
from elmo.model_folder import Text
from elmo.text.inspect import draw

# One word of a text: which one is meant, by itself or by its number.


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WordInText:
    """A text, and the place of one of its words, counted from 0."""

    words: tuple[str, ...]
    position: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.words[self.position]


def find_word(
    loaded: LanguageModel, word: str | int, text: Text, occurrence: int = 1
) -> WordInText:
    """Find a word in a text as the model cuts it; a word is named, or numbered from 0.

    Of a word that is there several times, `occurrence` says which is meant, counted from 1.
    """
    words = loaded.words(text)
    if isinstance(word, int):
        return WordInText(tuple(words), _checked(word, words))
    written = word.lower() if loaded.tokenizer.lowercase and isinstance(text, str) else word
    places = [place for place, one in enumerate(words) if one == written]
    if not places:
        raise UserError(
            f"{written!r} is not a word of the sentence{nearest(written, words)}; its words are: "
            f"{' '.join(words) or '(none)'}"
        )
    return WordInText(tuple(words), _chosen(written, places, occurrence))


def _checked(place: int, words: Sequence[str]) -> int:
    if not 0 <= place < len(words):
        raise UserError(
            f"word {place} was asked for, but the sentence has {len(words)} words, counted from 0: "
            f"{' '.join(words) or '(none)'}"
        )
    return place


def _chosen(word: str, places: Sequence[int], occurrence: int) -> int:
    if not 1 <= occurrence <= len(places):
        raise UserError(
            f"occurrence {occurrence} of {word!r} was asked for, but the sentence has "
            f"{len(places)}, counted from 1"
        )
    if len(places) > 1:
        log.info("%r is in the sentence %d times; taken: %d", word, len(places), occurrence)
    return places[occurrence - 1]


# The nearest words so far: a list that stays short, however many words are compared.


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


__all__ = ["Neighbour", "NeighbourConfig", "Neighbours", "find_neighbours"]


@dataclass(frozen=True)
class Neighbours:
    """A word in a sentence, and its nearest words in a corpus."""

    query: WordInText
    texts: int
    """How many texts were searched."""
    neighbours: tuple[Neighbour, ...]
    """The nearest first."""


@dataclass(frozen=True)
class _Numbered:
    """A text, and its number in the corpus."""

    number: int
    text: Text


def find_neighbours(
    embedder: Embedder,
    word: str | int,
    sentence: Text,
    corpus: Iterable[Text],
    config: NeighbourConfig | None = None,
    *,
    progress: Listener | None = None,
) -> Neighbours:
    """Find the words of a corpus whose vectors point most nearly where that of a word does.

    The word is one of the sentence, named or numbered from 0. Texts that equal the sentence are
    left out. The texts of the sample are in memory, but never all of their vectors.
    """
    config = config or NeighbourConfig()
    check(config)
    if isinstance(corpus, str):
        raise UserError("expected several texts, got one string; put it in a list: [text]")
    encoder = embedder.encoder(
        EncodeConfig(output="tokens", layer=config.layer, batch_tokens=config.batch_tokens)
    )
    query = find_word(embedder.loaded, word, sentence, config.occurrence)
    nearest = Nearest(query, encoder.encode([query.words])[0][query.position], config)
    texts = _sample(embedder.loaded, corpus, query, config)
    pace = None if progress is None else Pace(progress, len(texts))
    _search(encoder, _in_order(embedder.loaded, texts), nearest, pace)
    return Neighbours(query, len(texts), tuple(nearest.ranked()))


def _sample(
    loaded: LanguageModel, corpus: Iterable[Text], query: WordInText, config: NeighbourConfig
) -> list[_Numbered]:
    """The texts to search."""
    numbered = (_Numbered(number, text) for number, text in enumerate(corpus))
    if config.same_word:
        numbered = _with_word(loaded, corpus, query.word)
    sample = draw(numbered, config.texts, config.seed)
    if len(sample.items) < sample.of:
        size, of = f"{len(sample.items):,}", f"{sample.of:,}"
        log.info("searching a random sample: %s of %s texts", size, of)
    return sample.items


def _with_word(loaded: LanguageModel, corpus: Iterable[Text], word: str) -> Iterator[_Numbered]:
    """The texts with this word: all others would be read in vain."""
    for text in tokenised(loaded, corpus):
        if word in text.words:
            yield _Numbered(text.number, text.text)


def _in_order(loaded: LanguageModel, texts: Sequence[_Numbered]) -> Iterator[TokenisedText]:
    for one in texts:
        yield from tokenised(loaded, [one.text], first=one.number)


def _search(
    encoder: Encoder, texts: Iterable[TokenisedText], nearest: Nearest, pace: Pace | None
) -> None:
    """Compare the words of all texts, the vectors of some in memory at a time."""
    for portion in portions(texts, BATCHES_AT_ONCE * encoder.batch_tokens):
        words = [text.words for text in portion]
        vectors = encoder.encode(words, None if pace is None else pace.add)
        for text, rows in zip(portion, vectors, strict=True):
            nearest.take(text, rows)

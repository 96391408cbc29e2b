"""A word in a sentence, and the words of a corpus that mean most nearly the same in theirs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from elmo.checkpoint import LoadedModel, Text
from elmo.config import check
from elmo.contextual.embedder import BATCHES_AT_ONCE, Embedder
from elmo.contextual.encode_config import EncodeConfig
from elmo.contextual.encoder import Encoder
from elmo.contextual.nearest import Nearest, Neighbour
from elmo.contextual.neighbour_config import NeighbourConfig
from elmo.contextual.portions import TokenisedText, portions, tokenised
from elmo.contextual.progress import Listener, Pace
from elmo.contextual.word_in_text import WordInText, find_word
from elmo.errors import UserError
from elmo.text.sampling import draw

__all__ = ["Neighbour", "NeighbourConfig", "Neighbours", "find_neighbours"]

log = logging.getLogger(__name__)


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
    loaded: LoadedModel, corpus: Iterable[Text], query: WordInText, config: NeighbourConfig
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


def _with_word(loaded: LoadedModel, corpus: Iterable[Text], word: str) -> Iterator[_Numbered]:
    """The texts with this word: all others would be read in vain."""
    for text in tokenised(loaded, corpus):
        if word in text.words:
            yield _Numbered(text.number, text.text)


def _in_order(loaded: LoadedModel, texts: Sequence[_Numbered]) -> Iterator[TokenisedText]:
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

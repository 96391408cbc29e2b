"""One word of a text: which one is meant, by itself or by its number."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from elmo.checkpoint import LoadedModel, Text
from elmo.config import nearest
from elmo.errors import UserError

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


def find_word(loaded: LoadedModel, word: str | int, text: Text, occurrence: int = 1) -> WordInText:
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

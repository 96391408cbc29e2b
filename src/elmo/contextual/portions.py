"""Any number of texts, only some of them in memory at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from elmo.checkpoint import LoadedModel, Text
from elmo.errors import UserError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenisedText:
    """A text, its number among all, and its words."""

    number: int
    text: Text
    words: list[str]


def tokenised(
    loaded: LoadedModel, texts: Iterable[Text], first: int = 0
) -> Iterator[TokenisedText]:
    """Cut texts into words; what is wrong with one is told with its number, counted from 0."""
    for number, text in enumerate(texts, start=first):
        try:
            yield TokenisedText(number, text, _words(loaded, text))
        except UserError as error:
            raise UserError(f"text {number}: {error}") from None


def _words(loaded: LoadedModel, text: Any) -> list[str]:
    if isinstance(text, str):
        return loaded.words(text)
    if not isinstance(text, Iterable):
        raise UserError(f"expected a string or a list of words, got {type(text).__name__}")
    words = list(cast("Iterable[Any]", text))
    for word in words:
        if not isinstance(word, str):
            raise UserError(f"expected words, got {type(word).__name__}: {word!r:.60}")
    return loaded.words(words)


def portions(
    texts: Iterable[TokenisedText], tokens: int, multiple: int = 1
) -> Iterator[list[TokenisedText]]:
    """Texts of about so many words at a time; how many, but for the last ones, is a multiple."""
    portion: list[TokenisedText] = []
    held = 0
    for text in texts:
        portion.append(text)
        held += 1 + len(text.words)
        if held >= tokens and len(portion) % multiple == 0:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion


def tell_empty(texts: Iterable[TokenisedText]) -> None:
    """Log which texts have no words, and so no vectors but zeros."""
    numbers = [str(text.number) for text in texts if not text.words]
    if numbers:
        shown = ", ".join(numbers[:10]) + (", …" if len(numbers) > 10 else "")
        log.warning("without words, so without vectors but zeros: text %s", shown)

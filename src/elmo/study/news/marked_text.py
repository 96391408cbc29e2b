"""Expanded templates become finished text, and their marks the places of ambiguous words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from elmo.text.tokenizers import tokenize_words

_MARK = re.compile(r"<(\w+)/(\w+)>")
_BEGINNING = re.compile(r'(?:^|(?<=[.!?] )|(?<=[.!?]" ))"?[a-z]')
# "a" before a vowel that is heard: a uniform, a one-way road, but an hour.
_AN = re.compile(r"\b(a) (?=<?(?:(?!one|uni|us[aeiu]|eur|uru)[aeiou]|hour|honest))", re.IGNORECASE)


@dataclass(frozen=True)
class SenseMark:
    """An ambiguous word of a text, and what it means there."""

    place: int
    """Number of the word among those that `tokenize_words` finds, counted from 0."""
    word: str
    """The word as the text has it."""
    sense: str


@dataclass(frozen=True)
class MarkedText:
    """A text, and its ambiguous words in order."""

    text: str
    marks: tuple[SenseMark, ...]


def finish(expanded: str) -> MarkedText:
    """Write sentences as they should be, and take the notation <word/sense> out of them."""
    polished = _AN.sub(r"\1n ", _BEGINNING.sub(lambda found: found[0].upper(), expanded))
    text = _MARK.sub(r"\1", polished)
    places = _places(text)
    marks: list[SenseMark] = []
    removed = 0
    for found in _MARK.finditer(polished):
        marks.append(SenseMark(places[found.start() - removed], found[1], found[2]))
        removed += len(found[0]) - len(found[1])
    return MarkedText(text, tuple(marks))


def _places(text: str) -> dict[int, int]:
    """The number of each word, by where in the text it begins."""
    places: dict[int, int] = {}
    end = 0
    for number, word in enumerate(tokenize_words(text)):
        begin = text.index(word, end)
        places[begin] = number
        end = begin + len(word)
    return places

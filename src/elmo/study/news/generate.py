"""News that nobody wrote: items drawn from the grammar, the same for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Literal, get_args

from elmo.errors import UserError
from elmo.study.news.grammar import expand, news_grammar
from elmo.study.news.marked_text import SenseMark, finish
from elmo.text.ag_news import LABELS

Part = Literal["train", "test"]

FEWEST_WORDS = 15
MOST_WORDS = 45

_RULES: dict[str, str] = dict(zip(LABELS, ("world", "sports", "business", "science"), strict=True))
_TEST_SHARE = 0.25


@dataclass(frozen=True)
class NewsItem:
    """A piece of invented news."""

    text: str
    label: str
    senses: tuple[SenseMark, ...]
    """The ambiguous words of the text, in order."""


def generate_news(count: int, seed: int, *, part: Part = "train") -> list[NewsItem]:
    """Make so many items, no two alike; of different parts none are, whatever their seeds."""
    if count < 0:
        raise UserError(f"expected a number of items that is not negative, got {count}")
    if part not in get_args(Part):
        raise UserError(f"expected the part 'train' or 'test', got {part!r}")
    return list(islice(_items(Random(f"{part} {seed}"), part), count))


def _items(chance: Random, part: Part) -> Iterator[NewsItem]:
    """Items without end: as many of each class, in random order."""
    seen: set[str] = set()
    while True:
        for label in chance.sample(LABELS, len(LABELS)):
            item = _fitting_item(label, chance, part, seen)
            seen.add(item.text)
            yield item


def _fitting_item(label: str, chance: Random, part: Part, seen: set[str]) -> NewsItem:
    """Draw until an item is of the right length, belongs to the part and is new."""
    while True:
        marked = finish(expand(news_grammar(), _RULES[label], chance))
        fits = FEWEST_WORDS <= len(marked.text.split()) <= MOST_WORDS
        if fits and _part_of(marked.text) == part and marked.text not in seen:
            return NewsItem(marked.text, label, marked.marks)


def _part_of(text: str) -> Part:
    """A stable property of a text, so that parts drawn apart cannot overlap."""
    lot = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return "test" if lot < _TEST_SHARE * 2**64 else "train"

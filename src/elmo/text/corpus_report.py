"""What a look through a corpus finds, as plain values that JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the files something is: lines of plain text, else documents, counted from 1."""

    source: str
    unit: Literal["line", "document"]
    number: int

    def __str__(self) -> str:
        return f"'{self.source}', {self.unit} {self.number}"


@dataclass(frozen=True, kw_only=True)
class Sightings:
    """How many documents show something, and the first of them."""

    documents: int
    first: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """The size of the training or of the held-out part."""

    documents: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How many tokens documents have: at least so many documents are at most so long."""

    median: int
    percentile_95: int
    percentile_99: int
    longest: int
    longest_at: Place
    window: int
    over_window: Sightings
    """Documents that need more than one window, counting the boundary each starts with."""


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """How many documents would go if only one of each kind were kept."""

    compared: int
    """The first so many documents, as memory allows."""
    exact: int
    near: int
    """An estimate, besides the exact ones: two texts count as copies with a probability equal to
    the share of five-word phrases they have in common."""


@dataclass(frozen=True, kw_only=True)
class VocabularyPoint:
    """One choice of vocabulary and what it leaves unknown."""

    min_count: int
    max_size: int | None
    size: int
    """Words the model can predict, the three special ones included."""
    unknown_rate: float | None
    """Share of the held-out words that are unknown; none if nothing is held out."""


@dataclass(frozen=True, kw_only=True)
class GrowthPoint:
    """How many distinct words so many running words hold."""

    tokens: int
    types: int


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a corpus and what a vocabulary makes of them."""

    types: int
    capped: bool
    """Whether there are more distinct words than can be kept."""
    special: tuple[str, ...]
    """Special words of the model that the text itself holds."""
    chosen: VocabularyPoint
    by_min_count: tuple[VocabularyPoint, ...]
    by_max_size: tuple[VocabularyPoint, ...]
    growth: tuple[GrowthPoint, ...]
    heaps_exponent: float | None
    """The b of Heaps' law, types = a tokens^b; none where there is too little text to tell."""


@dataclass(frozen=True, kw_only=True)
class CorpusReport:
    """All that a look through a corpus finds."""

    files: int
    unreadable: tuple[str, ...]
    """What is wrong with files that could not be read to their end."""
    blank_lines: int | None
    """Blank lines of plain text; none if there is no plain text."""
    train: Part
    held_out: Part
    lengths: Lengths
    replaced: Sightings
    """Documents with U+FFFD, which stands for bytes that are not UTF-8."""
    not_utf8: tuple[str, ...]
    """The first fault of each file with bytes that are not UTF-8."""
    replaces_errors: bool
    """Whether such bytes are to be replaced, rather than to stop the training."""
    control: Sightings
    """Documents with control characters or invisible ones."""
    html: Sightings
    """Documents with what looks like HTML."""
    duplicates: Duplicates
    words: Words

    @property
    def documents(self) -> int:
        """Documents of both parts."""
        return self.train.documents + self.held_out.documents

    @property
    def tokens(self) -> int:
        """Running words of both parts."""
        return self.train.tokens + self.held_out.tokens

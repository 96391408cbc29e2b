"""Settings of an index; apart, to be shown without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elmo.config import Count, Seed

Distinct = Literal["phrase", "word", "none"]
"""The unit of which only the best occurrence is shown."""


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """Which words of a corpus get into an index."""

    layers: tuple[int, ...] | None = None
    """Layers whose vectors are stored; 0 is the words alone. Default: all."""
    max_words: Count = 1_000_000
    """A corpus with more words is sampled, text by text."""
    seed: Seed = 0
    """Which texts are drawn."""

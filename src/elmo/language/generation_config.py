"""How generated words are chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How words are chosen."""

    direction: Literal["forward", "backward"] = "forward"
    """forward: go on from the prompt; backward: write what comes before it."""
    length: int = 30
    """Write at most so many words; the text may end before."""
    temperature: float = 1.0
    """Below 1: likelier words; above: more surprising ones; 0: always the most probable word."""
    top_k: int | None = None
    """Choose among the so many most probable words only."""
    top_p: float = 1.0
    """Choose among the fewest most probable words that have this share of the probability."""
    seed: int = 0
    """The same seed gives the same text."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.length < 1:
            yield f"length: at least one word, got {self.length}"
        if not 0 <= self.temperature < float("inf"):
            yield f"temperature: expected 0 (always the best word) or more, got {self.temperature}"
        if self.top_k is not None and self.top_k < 1:
            yield f"top_k: at least one word is needed to choose from, got {self.top_k}"
        if not 0 < self.top_p <= 1:
            yield f"top_p: expected a share above 0 and up to 1, got {self.top_p}"
        if not 0 <= self.seed <= LARGEST_SEED:
            yield f"seed: expected a number from 0 to {LARGEST_SEED}, got {self.seed}"

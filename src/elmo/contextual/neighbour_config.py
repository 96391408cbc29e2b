"""What counts as a neighbour of a word in a sentence, and how many are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

WordLayer = int | Literal["top", "average", "mix"]
Distinct = Literal["phrase", "word", "none"]
WORD_LAYERS = ("top", "average", "mix")
DISTINCT = ("phrase", "word", "none")


@dataclass(frozen=True, kw_only=True)
class NeighbourConfig:
    """Which words of a corpus are compared, by which of their vectors."""

    count: int = 10
    """How many neighbours to find."""
    layer: WordLayer = "top"
    """A layer by number (0 is the word alone), top, average, or the model's mix. The higher, the
    more the sentence counts; the lower, the more the word itself."""
    same_word: bool = False
    """Only other occurrences of the same word, letter by letter: its senses in the corpus."""
    distinct: Distinct = "phrase"
    """Of what to show only the nearest. phrase: of the same word with the same two words on either
    side, since news is full of near copies; word: of the same word; none: show all. Case does not
    matter."""
    texts: int = 20_000
    """How many texts to search: a random sample, where there are more; of those with the word, if
    only the same word counts."""
    seed: int = 0
    """Which random sample."""
    occurrence: int = 1
    """Which one is meant where the word is in the sentence several times, counted from 1."""
    batch_tokens: int | None = None
    """Words read in one step, padding included; longer texts are read in several. None: 8,192 to
    32,768, the more, the smaller the model."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        for name in ("count", "texts", "occurrence"):
            if getattr(self, name) < 1:
                yield f"{name}: must be positive, got {getattr(self, name)}"
        if isinstance(self.layer, str) and self.layer not in WORD_LAYERS:
            yield f"layer: expected a number or one of {', '.join(WORD_LAYERS)}; got {self.layer!r}"
        if self.distinct not in DISTINCT:
            yield f"distinct: expected one of {', '.join(DISTINCT)}; got {self.distinct!r}"
        if self.batch_tokens is not None and self.batch_tokens < 2:
            yield f"batch_tokens: at least 2 are needed, got {self.batch_tokens}"

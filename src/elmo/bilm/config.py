"""What a biLM is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

# How generated words are chosen.


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


BLANK = "___"
LARGEST_SIZE = 1 << 17
LARGEST_STACK = 256
"""Bounds that no model comes near: whoever writes more in a file of settings means no good."""


@dataclass(frozen=True, kw_only=True)
class CharacterConfig:
    """The character CNN."""

    char_dim: int = 16
    """Size of a character's vector."""
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256))
    """Width and number of the filters, as pairs."""
    highways: int = 1
    """Highway layers behind the filters."""
    activation: Literal["relu", "tanh"] = "relu"
    """What follows the maximum over positions."""

    @property
    def features(self) -> int:
        """How many numbers the CNN makes of a word."""
        return sum(number for _, number in self.filters)

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if not 1 <= self.char_dim <= LARGEST_SIZE:
            yield f"char_dim: expected 1 to {LARGEST_SIZE:,}, got {self.char_dim}"
        if not self.filters or any(width < 1 or number < 1 for width, number in self.filters):
            yield f"filters: expected pairs of positive width and number, got {self.filters}"
        if any(width > 50 for width, _ in self.filters):
            yield "filters: a filter cannot be wider than the 50 characters of a word"
        if len(self.filters) > LARGEST_STACK or self.features > LARGEST_SIZE:
            yield f"filters: at most {LARGEST_STACK} pairs, of {LARGEST_SIZE:,} filters in all"
        if not 0 <= self.highways <= LARGEST_STACK:
            yield f"highways: expected 0 to {LARGEST_STACK}, got {self.highways}"


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig:
    """How the next word is predicted, and what is saved while training."""

    loss: Literal["full", "sampled", "adaptive", "none"] = "sampled"
    """full: all words; sampled: the right word and a sample; adaptive: rare words in clusters;
    none: nothing is predicted, as official weights come without a softmax."""
    samples: int = 2048
    """Words drawn, for the sampled loss."""
    sampler: Literal["log_uniform", "unigram"] = "unigram"
    """What the sample is drawn from: Zipf's law over the ranks, or the counted words."""
    shared_negatives: bool = True
    """Draw one sample for a whole batch (fast), or one for each word."""
    cutoffs: tuple[int, ...] = (2000, 10000)
    """Ranks at which the clusters of the adaptive loss start."""
    tied: bool = True
    """Let the softmax use the word vectors of the input as its weights."""

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.samples < 1:
            yield f"samples: must be positive, got {self.samples}"
        if list(self.cutoffs) != sorted(set(self.cutoffs)) or min(self.cutoffs, default=3) < 3:
            yield f"cutoffs: expected ascending ranks above 2, got {self.cutoffs}"
        if self.loss == "adaptive" and self.tied:
            yield (
                "tied: the adaptive loss has vectors of several sizes and cannot be tied; "
                "use --no-tied or another loss"
            )
        if self.loss == "none" and self.tied:
            yield "tied: there is no softmax to tie; use --no-tied or another loss"


@dataclass(frozen=True, kw_only=True)
class BiLMConfig:
    """A forward and a backward LSTM stack over one token layer and one softmax."""

    input: Literal["words", "characters", "both"] = "words"
    """What the model sees of a word."""
    word_dim: int = 256
    """Size of a word's vector."""
    freeze_words: bool = False
    """Keep the word vectors as they were initialised."""
    characters: CharacterConfig = field(default_factory=CharacterConfig)
    layers: int = 2
    """LSTM layers a direction."""
    hidden: int = 256
    """Cells of an LSTM layer."""
    projection: int | None = None
    """Size to which each layer's output is projected; none: it stays as wide as the cells."""
    skip: bool = False
    """Add a layer's input to its output, from the second layer on."""
    cell_clip: float | None = None
    """Bound on the cells' values."""
    projection_clip: float | None = None
    """Bound on the projected values."""
    dropout: float = 0.1
    """Share dropped at each layer's input and at the output, the same at every step of a text."""
    softmax: SoftmaxConfig = field(default_factory=SoftmaxConfig)

    @property
    def width(self) -> int:
        """Size of a direction's output, and of the token layer's."""
        return self.hidden if self.projection is None else self.projection

    @property
    def spelled(self) -> bool:
        """Whether the model sees characters."""
        return self.input != "words"

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if not 1 <= self.layers <= LARGEST_STACK:
            yield f"layers: expected 1 to {LARGEST_STACK}, got {self.layers}"
        for name in ("word_dim", "hidden", "projection"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= LARGEST_SIZE:
                yield f"{name}: expected 1 to {LARGEST_SIZE:,}, got {value}"
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                yield f"{name}: must be positive, got {value}"
        if self.projection_clip is not None and self.projection is None:
            yield "projection_clip: there is no projection to clip; set --projection"
        if not 0 <= self.dropout < 1:
            yield f"dropout: expected a share from 0 to below 1, got {self.dropout}"
        yield from self._tying_problems()
        yield from self.characters.problems()
        yield from self.softmax.problems()

    def _tying_problems(self) -> Iterable[str]:
        if not self.softmax.tied or self.softmax.loss in ("adaptive", "none"):
            return
        if self.input == "characters":
            yield "tied: a character model has no word vectors to tie; use --no-tied"
        elif self.word_dim != self.width:
            yield (
                f"tied: word vectors of {self.word_dim} cannot be the weights of a softmax over "
                f"{self.width} numbers; make them equal or use --no-tied"
            )
        if self.freeze_words:
            yield "freeze_words: the tied softmax would be frozen too; use --no-tied"

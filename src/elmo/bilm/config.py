"""What a biLM is made of, and how it generates text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from elmo.config import Count, DropoutRate, NotNegative, Positive, Range, Seed

LARGEST_SIZE = 1 << 17
LARGEST_STACK = 256  # far above any real model: a hostile config must not allocate memory
Size = Annotated[int, Range(1, LARGEST_SIZE)]
BLANK = "___"


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """How generated words are chosen."""

    direction: Literal["forward", "backward"] = "forward"
    """forward: continue the prompt; backward: write what comes before it."""
    length: Annotated[int, Range(1, 100_000)] = 30
    """Maximum number of words; the text may end earlier."""
    temperature: NotNegative = 1.0
    """Below 1: more likely words; above 1: more surprising ones; 0: always the most likely word."""
    top_k: Count | None = None
    """Choose among the k most likely words; default: all."""
    top_p: Annotated[float, Range(0, 1, "(]")] = 1.0
    """Choose among the fewest most likely words that together have this probability."""
    seed: Seed = 0
    """The same seed gives the same text."""


@dataclass(frozen=True, kw_only=True)
class CharacterConfig:
    """The character CNN."""

    char_dim: Size = 16
    """Size of a character vector."""
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256))
    """Width and number of filters, as pairs."""
    highways: Annotated[int, Range(0, LARGEST_STACK)] = 1
    """Number of highway layers after the filters."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation after max pooling."""

    @property
    def features(self) -> int:
        """Number of features per word: one per filter."""
        return sum(number for _, number in self.filters)

    def problems(self) -> Iterable[str]:
        if not self.filters or any(width < 1 or number < 1 for width, number in self.filters):
            yield f"filters: expected pairs of positive width and number, got {self.filters}"
        if any(width > 50 for width, _ in self.filters):
            yield "filters: a filter cannot be wider than the 50 characters of a word"
        if len(self.filters) > LARGEST_STACK or self.features > LARGEST_SIZE:
            yield f"filters: at most {LARGEST_STACK} pairs, of {LARGEST_SIZE:,} filters in all"


@dataclass(frozen=True, kw_only=True)
class SoftmaxConfig:
    """How the next word is predicted."""

    loss: Literal["full", "sampled", "adaptive", "none"] = "sampled"
    """full: all words; sampled: the target and a sample; adaptive: rare words in clusters; none: no
    softmax, as in official weights."""
    samples: Count = 2048
    """Number of words that the sampled loss draws, for all targets of a batch together."""
    sampler: Literal["log_uniform", "unigram"] = "unigram"
    """Distribution of the sample: log_uniform over the ranks, or the word counts."""
    cutoffs: tuple[int, ...] = (2000, 10000)
    """Ranks at which the clusters of the adaptive loss start."""
    tied: bool = True
    """Use the input word vectors as the weights of the softmax."""

    def problems(self) -> Iterable[str]:
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
    """How the model reads a word."""
    word_dim: Size = 256
    """Size of a word vector."""
    freeze_words: bool = False
    """Do not train the word vectors."""
    characters: CharacterConfig = field(default_factory=CharacterConfig)
    layers: Annotated[int, Range(1, LARGEST_STACK)] = 2
    """Number of LSTM layers per direction."""
    hidden: Size = 256
    """Number of cells per LSTM layer."""
    projection: Size | None = None
    """Size to which each layer's output is projected; default: no projection."""
    skip: bool = False
    """Add a layer's input to its output, from the second layer on."""
    skip_tokens: bool = False
    """With skip: add the token vectors to the output of the first layer, too."""
    cell_clip: Positive | None = None
    """Clip cell values to this magnitude; default: no clipping."""
    projection_clip: Positive | None = None
    """Clip projected values to this magnitude; default: no clipping."""
    dropout: DropoutRate = 0.1
    """Dropout rate at each layer's input and at the output; one mask per text."""
    softmax: SoftmaxConfig = field(default_factory=SoftmaxConfig)

    @property
    def width(self) -> int:
        """Output size of one direction, and of the token layer."""
        return self.hidden if self.projection is None else self.projection

    @property
    def first_skip(self) -> int:
        """Index of the lowest layer whose input is added to its output."""
        return (0 if self.skip_tokens else 1) if self.skip else self.layers

    @property
    def spelled(self) -> bool:
        """Whether the model reads characters."""
        return self.input != "words"

    def problems(self) -> Iterable[str]:
        if self.projection_clip is not None and self.projection is None:
            yield "projection_clip: there is no projection to clip; set --projection"
        if self.skip_tokens and not self.skip:
            yield "skip_tokens: there are no skip connections to extend; use --skip"
        yield from self.characters.problems()
        yield from self.softmax.problems()
        if not self.softmax.tied or self.softmax.loss in ("adaptive", "none"):
            return
        if self.input == "characters":
            yield "tied: a character model has no word vectors to tie; use --no-tied"
        elif self.word_dim != self.width:
            yield (
                f"tied: the softmax needs word vectors of size {self.width}, got {self.word_dim}; "
                "make them equal or use --no-tied"
            )
        if self.freeze_words:
            yield "freeze_words: the tied softmax would be frozen too; use --no-tied"

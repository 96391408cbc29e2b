"""How the layers of a biLM become one vector a word."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

# What is wanted of texts: which layer, pooled or a vector a word, read from which state.


Layer = int | Literal["mix", "top", "average", "all"]
Output = Literal["pooled", "tokens"]
Start = Literal["zero", "warm", "carry"]
POOLINGS = ("mean", "max", "first", "last")
LAYERS = ("mix", "top", "average", "all")


@dataclass(frozen=True, kw_only=True)
class EncodeConfig:
    """How texts become vectors."""

    output: Output = "pooled"
    """pooled: one vector a text; tokens: one a word."""
    layer: Layer = "mix"
    """A layer by number (0 is the word alone), top, average, all of them side by side, or mix:
    the model's mix, which is the average where none was given."""
    pooling: str = "mean"
    """How words become a text: mean, max, first, last, or several joined by '+'."""
    start: Start = "zero"
    """The state each text is read from. zero: always the same; warm: always that after a neutral
    context; carry: that in which the text before was left, as the original ELMo does."""
    slots: int = 1
    """For carry: texts read side by side, each going on from the one so many before it."""
    batch_tokens: int | None = None
    """Words read in one step, padding included; longer texts are read in several. None: 8,192 to
    32,768, the more, the smaller the model."""

    @property
    def poolings(self) -> tuple[str, ...]:
        """The names of the poolings, in the order in which their results are joined."""
        return tuple(self.pooling.split("+"))

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.output not in ("pooled", "tokens"):
            yield f"output: expected pooled or tokens, got {self.output!r}"
        if isinstance(self.layer, str) and self.layer not in LAYERS:
            yield f"layer: expected a number or one of {', '.join(LAYERS)}; got {self.layer!r}"
        for name in self.poolings:
            if name not in POOLINGS:
                known = ", ".join(POOLINGS)
                yield f"pooling: expected {known}, or some of them joined by '+'; got {name!r}"
        if self.start not in ("zero", "warm", "carry"):
            yield f"start: expected zero, warm or carry; got {self.start!r}"
        if self.slots < 1:
            yield f"slots: must be positive, got {self.slots}"
        if self.slots > 1 and self.start != "carry":
            yield f"slots: only start=carry reads in slots, but start is {self.start!r}"
        if self.batch_tokens is not None and self.batch_tokens < 2:
            yield f"batch_tokens: at least 2 are needed, got {self.batch_tokens}"


TOLERANCE = 1e-4
"""How far from 1 the sum of weights may be that were rounded when they were written down."""

MixKind = Literal["trainable", "frozen", "function", "layer", "top", "average", "concatenation"]


@dataclass(frozen=True, kw_only=True)
class MixConfig:
    """What is made of the layers."""

    mix: MixKind = "trainable"
    """trainable: a weighted sum, weights and scale learned; frozen: the same, fixed; function: a
    small network over all layers; layer, top: one of them; average; concatenation."""
    layer_weights: tuple[float, ...] | None = None
    """Weights of the sum, normalised, layer 0 first: those to start from (trainable) or to keep
    (frozen). None: equal ones (trainable), or drawn at random (frozen)."""
    gamma: float = 1.0
    """The scale of the sum: the one to start from (trainable) or to keep."""
    mix_seed: int = 0
    """What is drawn follows from it."""
    mix_layer: int = 0
    """Which layer, for the kind `layer`; 0 is the word alone."""
    function_hidden: int = 128
    """Units of the learned function's hidden layer."""
    function_dim: int | None = None
    """Size of the learned function's output; none: that of a layer."""
    function_average: bool = True
    """Whether the learned function starts as the average of the layers and learns what to add to
    it; otherwise it starts at random."""
    function_activation: Literal["relu", "tanh", "gelu"] = "relu"
    """The learned function's non-linearity."""
    layer_norm: bool = False
    """Bring each word's vector to mean 0 and variance 1, layer by layer, before mixing."""
    mix_dropout: float = 0.0
    """Share of the mix dropped in training."""
    mix_pull: float = 0.0
    """Strength of the pull of the learned weights towards the average (the paper's lambda)."""

    @property
    def is_sum(self) -> bool:
        """Whether the layers are summed, each with a weight."""
        return self.mix not in ("function", "concatenation")

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with these settings."""
        if self.layer_weights is not None:
            yield from self._weight_problems(self.layer_weights)
        if not math.isfinite(self.gamma):
            yield f"gamma: expected a number, got {self.gamma}"
        if self.gamma != 1 and not self.is_sum:
            yield f"gamma: only a sum of layers is scaled, but the mix is a {self.mix}"
        if self.mix_layer < 0:
            yield f"mix_layer: layers are counted from 0, got {self.mix_layer}"
        if self.function_hidden < 1:
            yield f"function_hidden: must be positive, got {self.function_hidden}"
        if self.function_dim is not None and self.function_dim < 1:
            yield f"function_dim: must be positive, got {self.function_dim}"
        if not 0 <= self.mix_dropout < 1:
            yield f"mix_dropout: expected a share from 0 to below 1, got {self.mix_dropout}"
        if not 0 <= self.mix_pull < math.inf:
            yield f"mix_pull: expected 0 or more, got {self.mix_pull}"
        if self.mix_pull and self.mix != "trainable":
            yield f"mix_pull: there are no weights to pull in a mix that is {self.mix}"

    def _weight_problems(self, weights: Sequence[float]) -> Iterable[str]:
        if self.mix not in ("trainable", "frozen"):
            yield f"layer_weights: a mix of the kind {self.mix!r} has none to set"
        yield from weight_problems(weights, positive=self.mix == "trainable")


def weight_problems(weights: Sequence[float], *, positive: bool) -> Iterable[str]:
    """Yield what is wrong with the weights of a sum; learned ones (`positive`) are never 0."""
    if any(not 0 <= weight < math.inf for weight in weights):
        yield f"layer_weights: expected numbers from 0 to 1, got {list(weights)}"
    elif abs(sum(weights) - 1) > TOLERANCE:
        yield f"layer_weights: expected a sum of 1, got {sum(weights):g} from {list(weights)}"
    elif positive and min(weights) == 0:
        yield (
            "layer_weights: a softmax never gives exactly 0, so a trainable weight cannot be set "
            "to it; use a small one such as 0.001, or a frozen mix"
        )


# What counts as a neighbour of a word in a sentence, and how many are wanted.


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

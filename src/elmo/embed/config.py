"""How the layers of a biLM become one vector a word."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

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

"""What can be pooled: vectors of words, or a sum of layers, pooled layer by layer and then summed.

The sum of layers that do not learn has few weights that do. To pool first makes all gradients as
small as the pooled vectors; else each had the size of all words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from elmo.contextual.packed import PackedLayers


class Poolable(Protocol):
    """A part of the vectors of words; what stands behind the end of a text never counts."""

    @property
    def values(self) -> Tensor:
        """What is pooled, (batch, words, size)."""
        ...

    @property
    def dim(self) -> int:
        """How many numbers it adds to a word's vector."""
        ...

    def scores(self, weight: Tensor) -> Tensor:
        """Each word's vector times the weight, (batch, words)."""
        ...

    def summed(self, weights: Tensor) -> Tensor:
        """Sums of the words, each with a weight, (batch, sums, words): (batch, sums, dim)."""
        ...

    def highest(self, lengths: Tensor) -> Tensor:
        """The highest value of each number, (batch, dim); 0 for a text without words."""
        ...


@dataclass(frozen=True)
class Vectors:
    """Vectors as they are."""

    values: Tensor  # (batch, words, dim)

    @property
    def dim(self) -> int:
        """How many numbers a vector has."""
        return self.values.shape[2]

    def scores(self, weight: Tensor) -> Tensor:
        """One product."""
        return self.values @ weight

    def summed(self, weights: Tensor) -> Tensor:
        """One product."""
        return weights.bmm(self.values)

    def highest(self, lengths: Tensor) -> Tensor:
        """Of words before the end of the shortest text and of those behind it, each for itself."""
        shortest = int(lengths.min())
        # Only what lies behind the end of the shortest text need be looked at for padding.
        whole, rest = self.values[:, :shortest], self.values[:, shortest:]
        found = [_highest(whole)] if shortest else []
        if rest.shape[1]:
            found.append(_highest(rest.masked_fill(_outside(rest, lengths, shortest), -torch.inf)))
        highest = torch.maximum(*found) if len(found) == 2 else found[0]
        return highest if shortest else highest.where(lengths[:, None] > 0, 0)


@dataclass(frozen=True)
class SumOfLayers:
    """Layers that do not learn, each times a factor that does."""

    layers: PackedLayers
    values: Tensor  # (batch, words, size): the layers in single precision
    factors: Tensor  # (1 + layers,)

    @classmethod
    def of(cls, layers: PackedLayers, factors: Tensor) -> SumOfLayers:
        """The sum is never written out but to find its highest values."""
        return cls(layers, layers.exact, factors)

    @property
    def dim(self) -> int:
        """As many numbers as a layer has."""
        return 2 * self.layers.width

    def scores(self, weight: Tensor) -> Tensor:
        """One product with the weights of all layers side by side."""
        return self.values @ self.layers.folded((self.factors[:, None] * weight).flatten())

    def summed(self, weights: Tensor) -> Tensor:
        """The sums of each layer, then the sum of the layers."""
        return self._mixed(self.layers.spread(weights.bmm(self.values)))

    def highest(self, lengths: Tensor) -> Tensor:
        """What the layers have where their sum is highest, and the sum of that."""
        with torch.no_grad():
            written = self.layers.summed(self.factors)
            if not self.factors.requires_grad:
                return Vectors(written).highest(lengths)
            shortest = int(lengths.min())
            rest = written[:, shortest:]
            rest.masked_fill_(_outside(rest, lengths, shortest), -torch.inf)
            layers = self.layers.at(written.max(dim=1).indices)
        return self._mixed(layers)

    def _mixed(self, layers: Tensor) -> Tensor:
        return torch.einsum("l,...ld->...d", self.factors, layers)


def _outside(rest: Tensor, lengths: Tensor, first: int) -> Tensor:
    """Which of the words from a place on are padding, (batch, words, 1)."""
    places = torch.arange(first, first + rest.shape[1], device=lengths.device)
    return (places >= lengths[:, None])[:, :, None]


def _highest(vectors: Tensor) -> Tensor:
    """The maximum over the words; for a gradient, one that remembers where it was."""
    return vectors.max(dim=1).values if vectors.requires_grad else vectors.amax(dim=1)

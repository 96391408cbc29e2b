"""Weights as they were when something was made of them: whether that still holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SAMPLE = 4096
"""Numbers of each weight that are looked at to see whether it has changed."""


@dataclass(frozen=True)
class WeightsSeen:
    """Weights, and how to see whether they have changed since."""

    tensors: tuple[Tensor, ...]
    versions: tuple[int, ...]
    sample: Tensor

    @classmethod
    def of(cls, weights: Sequence[Tensor]) -> WeightsSeen:
        """As they are now."""
        versions = tuple(weight._version for weight in weights)
        return cls(tuple(weights), versions, torch.cat([_sample(weight) for weight in weights]))

    def are_still(self, weights: WeightsSeen) -> bool:
        """Whether these are the same tensors and nothing was written to them.

        Their versions count what is written, but not by fused optimizers nor to `weight.data`; the
        sample tells of those.
        """
        same = len(self.tensors) == len(weights.tensors) and all(
            one is other for one, other in zip(self.tensors, weights.tensors, strict=True)
        )
        return (
            same and self.versions == weights.versions and _are_equal(self.sample, weights.sample)
        )


def _sample(weight: Tensor) -> Tensor:
    """About so many numbers, from everywhere: an odd step meets all columns of a matrix."""
    return weight.detach().flatten()[:: (weight.numel() // SAMPLE) | 1]


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return (one.dtype, one.device) == (other.dtype, other.device) and torch.equal(one, other)

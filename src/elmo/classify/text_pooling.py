"""Encoded words become a text: fixed poolings, and one that learns which words matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class TextPooling(nn.Module):
    """Pools (batch, words, dim) into (batch, output_dim); padding never counts.

    All but the maximum are sums of the words, each with a weight, and are computed together.
    """

    def __init__(self, dim: int, poolings: Sequence[str]) -> None:
        super().__init__()
        self.poolings = tuple(poolings)
        self.output_dim = dim * len(self.poolings)
        attends = "attention" in self.poolings
        self.attention = nn.Linear(dim, 1) if attends else None
        if self.attention is not None:
            # All words alike at first, so that attention starts as the mean.
            nn.init.zeros_(self.attention.weight)
            nn.init.zeros_(self.attention.bias)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Pool; a text without words gives zeros."""
        if not vectors.shape[1]:
            return vectors.new_zeros(len(vectors), self.output_dim)
        places = torch.arange(vectors.shape[1], device=lengths.device)
        parts: dict[str, Tensor] = {}
        sums = [name for name in self.poolings if name != "max"]
        if sums:
            weights = [self._weights(name, vectors, places, lengths[:, None]) for name in sums]
            pooled = torch.stack(weights, dim=1).bmm(vectors)  # (batch, sums, dim)
            parts = dict(zip(sums, pooled.unbind(1), strict=True))
        if "max" in self.poolings:
            parts["max"] = _maximum(vectors, places < lengths[:, None])
        return torch.cat([parts[name] for name in self.poolings], dim=1)

    def _weights(self, name: str, vectors: Tensor, places: Tensor, lengths: Tensor) -> Tensor:
        """The weight of each word, (batch, words): nothing behind the end of a text."""
        inside = places < lengths
        if name == "first":
            return ((places == 0) & inside).to(vectors.dtype)
        if name == "last":
            return (places == lengths - 1).to(vectors.dtype)
        if self.attention is None or name == "mean":
            return inside.to(vectors.dtype) / lengths.clamp(min=1)
        scores = self.attention(vectors).squeeze(2).masked_fill(~inside, -torch.inf)
        # Of a text without words all scores are -inf, whose softmax is no number.
        return scores.softmax(dim=1).masked_fill(~inside, 0)


def _maximum(vectors: Tensor, inside: Tensor) -> Tensor:
    highest = vectors.masked_fill(~inside[:, :, None], -torch.inf).max(dim=1).values
    return highest.where(inside.any(dim=1, keepdim=True), 0)

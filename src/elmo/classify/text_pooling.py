"""Encoded words become a text: fixed poolings, and one that learns which words matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo.contextual.pooling import pool


class TextPooling(nn.Module):
    """Pools (batch, words, dim) into (batch, output_dim); padding never counts."""

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
        parts = [self._pool(name, vectors, lengths) for name in self.poolings]
        return torch.cat(parts, dim=1)

    def _pool(self, name: str, vectors: Tensor, lengths: Tensor) -> Tensor:
        if self.attention is None or name != "attention":
            return pool(vectors, lengths, [name])
        places = torch.arange(vectors.shape[1], device=lengths.device)
        inside = places < lengths[:, None]  # (batch, words)
        scores = self.attention(vectors).squeeze(2).masked_fill(~inside, -torch.inf)
        # Of a text without words all scores are -inf, whose softmax is no number.
        weights = scores.softmax(dim=1).masked_fill(~inside, 0)
        return torch.einsum("bw,bwd->bd", weights, vectors)

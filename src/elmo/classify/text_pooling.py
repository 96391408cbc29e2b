"""Encoded words become a text: fixed poolings, and one that learns which words matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo.classify.poolable import Poolable


class TextPooling(nn.Module):
    """Pools words, (batch, words, dim), into texts, (batch, output_dim); padding never counts.

    A word's vector may come in parts, which count as if they lay side by side. To join them would
    copy them all, and would make a gradient for those that do not learn.

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

    def forward(self, parts: Sequence[Poolable], lengths: Tensor) -> Tensor:
        """Pool; a text without words gives zeros."""
        texts, words, _ = parts[0].values.shape
        if not words:
            return parts[0].values.new_zeros(texts, self.output_dim)
        places = torch.arange(words, device=lengths.device)
        pooled: dict[str, list[Tensor]] = {}
        sums = [name for name in self.poolings if name != "max"]
        if sums:
            weights = torch.stack(
                [self._weights(name, parts, places, lengths[:, None]) for name in sums], dim=1
            )
            summed = [part.summed(weights).unbind(1) for part in parts]
            pooled = {name: list(some) for name, *some in zip(sums, *summed, strict=True)}
        if "max" in self.poolings:
            pooled["max"] = [part.highest(lengths) for part in parts]
        return torch.cat([part for name in self.poolings for part in pooled[name]], dim=1)

    def _weights(
        self, name: str, parts: Sequence[Poolable], places: Tensor, lengths: Tensor
    ) -> Tensor:
        """The weight of each word, (batch, words): nothing behind the end of a text."""
        inside, dtype = places < lengths, parts[0].values.dtype
        if name == "first":
            return ((places == 0) & inside).to(dtype)
        if name == "last":
            return (places == lengths - 1).to(dtype)
        if self.attention is None or name == "mean":
            return inside.to(dtype) / lengths.clamp(min=1)
        scores = _scores(self.attention, parts).masked_fill(~inside, -torch.inf)
        # Of a text without words all scores are -inf, whose softmax is no number.
        return scores.softmax(dim=1).masked_fill(~inside, 0)


def _scores(attention: nn.Linear, parts: Sequence[Poolable]) -> Tensor:
    """How much each word matters, (batch, words)."""
    weights = torch.split(attention.weight[0], [part.dim for part in parts])
    scores = [part.scores(weight) for part, weight in zip(parts, weights, strict=True)]
    return torch.stack(scores).sum(0) + attention.bias

"""Encoded words become a text: fixed poolings, and one that learns which words matter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


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

    def forward(self, parts: Sequence[Tensor], lengths: Tensor) -> Tensor:
        """Pool; a text without words gives zeros."""
        texts, words, _ = parts[0].shape
        if not words:
            return parts[0].new_zeros(texts, self.output_dim)
        places = torch.arange(words, device=lengths.device)
        pooled: dict[str, list[Tensor]] = {}
        sums = [name for name in self.poolings if name != "max"]
        if sums:
            weights = torch.stack(
                [self._weights(name, parts, places, lengths[:, None]) for name in sums], dim=1
            )
            summed = [weights.bmm(part).unbind(1) for part in parts]
            pooled = {name: list(some) for name, *some in zip(sums, *summed, strict=True)}
        if "max" in self.poolings:
            shortest = int(lengths.min())
            pooled["max"] = [_maximum(part, places, lengths, shortest) for part in parts]
        return torch.cat([part for name in self.poolings for part in pooled[name]], dim=1)

    def _weights(
        self, name: str, parts: Sequence[Tensor], places: Tensor, lengths: Tensor
    ) -> Tensor:
        """The weight of each word, (batch, words): nothing behind the end of a text."""
        inside, dtype = places < lengths, parts[0].dtype
        if name == "first":
            return ((places == 0) & inside).to(dtype)
        if name == "last":
            return (places == lengths - 1).to(dtype)
        if self.attention is None or name == "mean":
            return inside.to(dtype) / lengths.clamp(min=1)
        scores = _scores(self.attention, parts).masked_fill(~inside, -torch.inf)
        # Of a text without words all scores are -inf, whose softmax is no number.
        return scores.softmax(dim=1).masked_fill(~inside, 0)


def _scores(attention: nn.Linear, parts: Sequence[Tensor]) -> Tensor:
    """How much each word matters, (batch, words)."""
    weights = torch.split(attention.weight[0], [part.shape[2] for part in parts])
    scores = [part @ weight for part, weight in zip(parts, weights, strict=True)]
    return torch.stack(scores).sum(0) + attention.bias


def _maximum(vectors: Tensor, places: Tensor, lengths: Tensor, shortest: int) -> Tensor:
    """The highest value of each number of a vector; 0 for a text without words."""
    # Only what lies behind the end of the shortest text need be looked at for padding.
    whole, rest = vectors[:, :shortest], vectors[:, shortest:]
    found = [_highest(whole)] if shortest else []
    if rest.shape[1]:
        inside = places[shortest:] < lengths[:, None]
        found.append(_highest(rest.masked_fill(~inside[:, :, None], -torch.inf)))
    highest = torch.maximum(*found) if len(found) == 2 else found[0]
    return highest if shortest else highest.where(lengths[:, None] > 0, 0)


def _highest(vectors: Tensor) -> Tensor:
    """The maximum over the words; for a gradient, one that remembers where it was."""
    return vectors.max(dim=1).values if vectors.requires_grad else vectors.amax(dim=1)

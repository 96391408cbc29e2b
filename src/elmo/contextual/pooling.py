"""Words become a text; padding never counts, and a text without words gives zeros."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pool(vectors: Tensor, lengths: Tensor, poolings: Sequence[str]) -> Tensor:
    """Pool (batch, ..., words, dim), each text's words first, into (batch, ..., dim).

    Several poolings, of mean, max, first and last, are put side by side.
    """
    parts = [_pool_one(vectors, lengths, pooling) for pooling in poolings]
    return torch.cat(parts, dim=-1)


def _pool_one(vectors: Tensor, lengths: Tensor, pooling: str) -> Tensor:
    if not vectors.shape[-2]:
        return vectors.sum(dim=-2)
    own = lengths.view(-1, *[1] * (vectors.dim() - 1))  # (batch, 1, ..., 1)
    inside = torch.arange(vectors.shape[-2], device=vectors.device)[:, None] < own
    if pooling == "mean":
        return vectors.where(inside, 0).sum(dim=-2) / own.squeeze(-1).clamp(min=1)
    if pooling == "max":
        highest = vectors.masked_fill(~inside, -torch.inf).amax(dim=-2)
        return highest.where(own.squeeze(-1) > 0, 0)
    place = own.sub(1).clamp(min=0) if pooling == "last" else torch.zeros_like(own)
    picked = vectors.gather(-2, place.expand(*vectors.shape[:-2], 1, vectors.shape[-1]))
    return picked.squeeze(-2).where(own.squeeze(-1) > 0, 0)

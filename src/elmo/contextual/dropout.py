"""Dropout by a given source of chance."""

from __future__ import annotations

import math

import torch
from torch import Size, Tensor

LONG, SHORT = torch.iinfo(torch.int64), torch.iinfo(torch.int16)
STEPS = 1 << SHORT.bits


def dropped(values: Tensor, share: float, random: torch.Generator | None) -> Tensor:
    """Drop a share of the values and scale up the others; nothing without `random`."""
    if random is None or share == 0:
        return values
    kept = _kept(values.shape, share, random).to(values.dtype)
    return values * kept.mul_(1 / (1 - share))


def _kept(shape: Size, share: float, random: torch.Generator) -> Tensor:
    """Which values stay. To draw takes longest, so each draw of 64 bits decides on four values."""
    count = math.prod(shape)
    draws = torch.empty(-(-count // 4), dtype=torch.int64, device=random.device)
    draws.random_(LONG.min, None, generator=random)
    bits = draws.view(torch.int16)[:count].view(shape)
    return bits >= SHORT.min + min(round(share * STEPS), STEPS - 1)

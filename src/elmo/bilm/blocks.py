"""Words computed in blocks of fixed shapes, so that the vector of none depends on the others.

A matrix product of another size may round in another way. Where the same word must give the same
bits whatever is computed beside it, as many rows as a block has are computed each time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from elmo.text.characters import PADDING, ROW_LENGTH, SHIFT

ROWS = 16
"""Words in a block."""
SPELLED_ROWS = 8
"""The same of spellings, of which there are blocks of several lengths, and so more to fill up."""
LENGTHS = (16, 24, ROW_LENGTH)
"""Characters to which spellings are cut."""


def in_blocks(function: Callable[..., Tensor], *tensors: Tensor, rows: int = ROWS) -> Tensor:
    """A function of rows, so many at a time; the last block is filled up with rows once more."""
    number = len(tensors[0])
    padded = -(-number // rows) * rows
    places = torch.arange(padded, device=tensors[0].device) % number
    blocks = [function(*(one[block] for one in tensors)) for block in places.view(-1, rows)]
    return torch.cat(blocks)[:number]


def by_length(function: Callable[[Tensor], Tensor], spellings: Tensor, reach: int) -> Tensor:
    """A function of spellings, (rows, 50), each cut to a length that follows from it alone."""
    needed = needed_lengths(spellings, reach)
    limits = torch.tensor(LENGTHS, device=needed.device)
    kinds = torch.searchsorted(limits, needed)
    found: list[Tensor] = []
    order: list[Tensor] = []
    for kind, length in enumerate(LENGTHS):
        places = (kinds == kind).nonzero()[:, 0]
        if len(places):
            found.append(in_blocks(function, spellings[places, :length], rows=SPELLED_ROWS))
            order.append(places)
    return torch.cat(found)[torch.cat(order).argsort()]


def needed_lengths(spellings: Tensor, reach: int) -> Tensor:
    """How much of each spelling a filter of this reach must see.

    Behind the word and one window of padding, all windows are like that one: none is a new maximum.
    """
    return ((spellings != PADDING + SHIFT).sum(dim=1) + reach).clamp(max=ROW_LENGTH)

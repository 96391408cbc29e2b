"""Gradients of several processes added up; of the words, only the rows that have one.

A step touches the words of its batch and of its sample, some thousands of a vocabulary that may
have a million. Summing their matrices whole would send hundreds of times as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from elmo.distributed import World

BUCKET_NUMBERS = 6 << 20
"""Gradients are added up in pieces of about so many numbers (25 MB), as DDP does."""
DENSE_SHARE = 0.5
"""Where more of a matrix's rows have a gradient, all of them are sent: no index is needed then."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that a process hands over to be added up in a step."""

    sent: int
    dense: int
    """What it would be if every gradient were sent whole."""


def make_whole(parameters: Sequence[Tensor]) -> None:
    """Turn gradients that name only some rows into matrices, once a step."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.to_dense()


def sum_gradients(
    world: World, parameters: Sequence[Tensor], by_row: Sequence[Tensor] = ()
) -> Traffic:
    """Replace the gradient of each parameter by its sum over all processes.

    Of parameters `by_row` only those rows are sent that have a gradient in some process.
    """
    trained = [one for one in parameters if one.requires_grad]
    dense = sum(one.numel() * one.element_size() for one in trained)
    if world.size == 1:
        return Traffic(0, dense)
    seldom = [one for one in by_row if one.requires_grad]
    exist, rows = _touched(world, trained, seldom)
    pieces: list[_Piece] = []
    for parameter, is_there in zip(trained, exist, strict=True):
        # A parameter that nobody used keeps no gradient: to an optimizer that is not a zero.
        if is_there:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            pieces.append(_Piece(parameter.grad, rows.get(id(parameter))))
    for bucket in _buckets(pieces):
        _sum_bucket(world, bucket)
    flags = len(trained) + sum(len(one) for one in seldom)
    return Traffic(flags + sum(piece.bytes for piece in pieces), dense)


@dataclass(frozen=True)
class _Piece:
    """A gradient, or some of its rows."""

    gradient: Tensor
    rows: Tensor | None

    @property
    def numbers(self) -> int:
        rows = len(self.gradient) if self.rows is None else len(self.rows)
        return rows * self.gradient[0].numel()

    @property
    def bytes(self) -> int:
        return self.numbers * self.gradient.element_size()

    def values(self) -> Tensor:
        chosen = self.gradient if self.rows is None else self.gradient[self.rows]
        return chosen.reshape(-1)

    def replace(self, values: Tensor) -> None:
        if self.rows is None:
            self.gradient.copy_(values.view_as(self.gradient))
        else:
            self.gradient[self.rows] = values.view(len(self.rows), *self.gradient.shape[1:])


def _touched(
    world: World, trained: Sequence[Tensor], seldom: Sequence[Tensor]
) -> tuple[list[bool], dict[int, Tensor]]:
    """Which parameters, and which rows of some, have a gradient in any process."""
    exist = torch.tensor([one.grad is not None for one in trained], dtype=torch.uint8)
    masks = [_row_mask(one).to(torch.uint8).cpu() for one in seldom]
    common = torch.cat([exist, *masks])
    world.largest(common)
    sizes = [len(exist), *map(len, masks)]
    exist, *masks = cast("tuple[Tensor, ...]", common.split(sizes))
    rows = {
        id(one): mask.nonzero()[:, 0].to(one.device)
        for one, mask in zip(seldom, masks, strict=True)
        if int(mask.sum()) <= DENSE_SHARE * len(mask)
    }
    return [bool(one) for one in exist], rows


def _row_mask(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        return torch.zeros(len(parameter), dtype=torch.bool)
    return parameter.grad.reshape(len(parameter), -1).any(dim=1)


def _buckets(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    bucket: list[_Piece] = []
    held = 0
    for piece in pieces:
        bucket.append(piece)
        held += piece.numbers
        if held >= BUCKET_NUMBERS:
            yield bucket
            bucket, held = [], 0
    if bucket:
        yield bucket


def _sum_bucket(world: World, bucket: Sequence[_Piece]) -> None:
    flat = torch.cat([piece.values() for piece in bucket])
    world.sum(flat)
    sizes = [piece.numbers for piece in bucket]
    for piece, values in zip(bucket, cast("tuple[Tensor, ...]", flat.split(sizes)), strict=True):
        piece.replace(values)

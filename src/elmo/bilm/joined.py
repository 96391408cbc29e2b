"""Two independent readings at the same time, one thread each, forward and backward.

Each thread keeps the graph of its own reading; together they are one step of the graph around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.bilm.side_by_side import Extra, Work, run_side_by_side


def join(left: Work[Extra], right: Work[Extra]) -> list[tuple[Tensor, Extra]]:
    """Compute two tensors, and what their functions return besides; gradients flow to both."""
    extras: list[Extra] = []
    tensors = (left.argument, *left.parameters, right.argument, *right.parameters)
    results = cast("tuple[Tensor, Tensor]", _Joined.apply((left, right), extras, *tensors))
    return list(zip(results, extras, strict=True))


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, works: tuple[Work[Any], Work[Any]], extras: list[Any], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        left, right = works
        first, second = run_side_by_side(lambda: _begin(left), lambda: _begin(right))
        extras.extend((first[2], second[2]))
        ctx.works = works
        # What is saved this way, here the graphs of both, is freed when any other graph would be.
        ctx.save_for_backward(*first[:2], *second[:2])
        return first[1].detach(), second[1].detach()

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *d_results: Tensor
    ) -> tuple[Tensor | None, ...]:
        left, right = ctx.works
        left_argument, left_result, right_argument, right_result = ctx.saved_tensors
        first, second = run_side_by_side(
            lambda: _gradients(left_result, (left_argument, *left.parameters), d_results[0]),
            lambda: _gradients(right_result, (right_argument, *right.parameters), d_results[1]),
        )
        return (None, None, *first, *second)


def _begin(work: Work[Extra]) -> tuple[Tensor, Tensor, Extra]:
    """The argument where this graph begins, what came of it, and what came besides."""
    with torch.enable_grad():
        argument = work.argument.detach().requires_grad_(work.argument.requires_grad)
        result, extra = work.function(argument)
    return argument, result, extra


def _gradients(result: Tensor, tensors: Sequence[Tensor], d_result: Tensor) -> list[Tensor | None]:
    """The gradient of each tensor; none of those that are frozen, or all if nothing is trained."""
    trained = [one for one in tensors if one.requires_grad]
    if not result.requires_grad:
        return [None] * len(tensors)
    found = iter(
        torch.autograd.grad(result, trained, d_result, allow_unused=True, retain_graph=True)
    )
    return [next(found) if one.requires_grad else None for one in tensors]

"""Two independent losses computed at the same time, one thread each, as one step of autograd.

The two directions of a biLM share nothing but parameters. Two threads on one product wait for each
other at every barrier; two threads on two directions never do. Each thread computes its loss *and*
its gradients, which then join the graph as if they had come from an ordinary backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.runtime import after_fork_in_child

Extra = TypeVar("Extra")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Work(Generic[Extra]):
    """A loss as a function of one tensor, with the parameters it uses besides."""

    function: Callable[[Tensor], tuple[Tensor, Extra]]
    argument: Tensor
    parameters: Sequence[Tensor]


def losses_side_by_side(left: Work[Extra], right: Work[Extra]) -> list[tuple[Tensor, Extra]]:
    """Compute two losses, and what their functions return besides, at once."""
    if not torch.is_grad_enabled():
        return run_side_by_side(
            lambda: left.function(left.argument), lambda: right.function(right.argument)
        )
    extras: list[Extra] = []
    tensors = (left.argument, *left.parameters, right.argument, *right.parameters)
    losses = cast("tuple[Tensor, Tensor]", _Join.apply((left, right), extras, *tensors))
    return list(zip(losses, extras, strict=True))


def run_side_by_side(left: Callable[[], Result], right: Callable[[], Result]) -> list[Result]:
    """Run two functions at once, each with half of the threads; gradients are off.

    Where there is but one thread, one after the other.
    """
    if torch.get_num_threads() == 1:
        return [_without_gradients(left), _without_gradients(right)]
    with _half_the_threads():
        other = _pool().submit(_without_gradients, left)
        mine = _without_gradients(right)
        return [other.result(), mine]


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, works: tuple[Work[Any], Work[Any]], extras: list[Any], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        left, right = works
        done = run_side_by_side(
            lambda: _loss_and_gradients(left), lambda: _loss_and_gradients(right)
        )
        extras.extend(extra for _, extra, _ in done)
        ctx.gradients = [gradients for _, _, gradients in done]
        return tuple(loss for loss, _, _ in done)

    @staticmethod
    def backward(ctx: Any, *d_losses: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [
            None if gradient is None else gradient * d_loss
            for gradients, d_loss in zip(ctx.gradients, d_losses, strict=True)
            for gradient in gradients
        ]
        return (None, None, *scaled)


def _loss_and_gradients(work: Work[Extra]) -> tuple[Tensor, Extra, tuple[Tensor | None, ...]]:
    with torch.enable_grad():
        # Where all below is frozen, nothing need be remembered on the way to the loss.
        argument = work.argument.detach().requires_grad_(work.argument.requires_grad)
        loss, extra = work.function(argument)
        tensors = (argument, *work.parameters)
        trained = [one for one in tensors if one.requires_grad]
        found = iter(torch.autograd.grad(loss, trained, allow_unused=True) if trained else ())
    gradients = tuple(next(found) if one.requires_grad else None for one in tensors)
    return loss.detach(), extra, gradients


def _without_gradients(function: Callable[[], Result]) -> Result:
    with torch.no_grad():
        return function()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="elmo-direction")


# A forked process has none of its parent's threads.
after_fork_in_child(_pool.cache_clear)


@contextmanager
def _half_the_threads() -> Generator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // 2))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# Two independent readings at the same time, one thread each, forward and backward.
#
# Each thread keeps the graph of its own reading; together they are one step of the graph around
# them.


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

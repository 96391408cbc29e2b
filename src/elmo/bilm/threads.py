"""Both directions at the same time: one thread each, forward and backward through the graph.

The two directions of a biLM share nothing but parameters. Two OpenMP threads on one matrix product
wait for each other at every barrier; two threads on two directions never do (while another process
takes a core, the former are up to 20 times slower, the latter are not). On an accelerator the two
directions are queued one after the other instead, and autograd needs no help.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.runtime import after_fork_in_child

Extra = TypeVar("Extra")
Result = TypeVar("Result")
Tensors = tuple[Tensor, ...]
Direction = Callable[[Tensor], tuple[Tensors, Extra]]
"""Computes differentiable tensors, and something else, from the vectors of a batch's words."""


def run_directions(
    directions: Sequence[Direction[Extra]],
    vectors: Tensor,
    parameters: Sequence[Sequence[Tensor]],
) -> list[tuple[Tensors, Extra]]:
    """Call both directions with `vectors`; gradients flow to these and to `parameters`.

    Args:
        directions: the two functions. The second value that they return has no gradient.
        vectors: their argument.
        parameters: for each direction, the parameters that it uses.
    """
    first, second = directions
    if vectors.device.type != "cpu":
        return [first(vectors), second(vectors)]
    if not torch.is_grad_enabled():
        return in_two_threads(lambda: first(vectors), lambda: second(vectors))
    extras: list[Extra] = []
    tensors = [(vectors, *used) for used in parameters]
    results = cast(
        "Tensors", _TwoThreads.apply(directions, len(tensors[0]), extras, *tensors[0], *tensors[1])
    )
    half = len(results) // 2  # both directions return equally many
    return list(zip((results[:half], results[half:]), extras, strict=True))


def in_two_threads(left: Callable[[], Result], right: Callable[[], Result]) -> list[Result]:
    """Call two functions at once, without gradients, each with half of torch's threads.

    With one thread they are called one after the other.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        with torch.no_grad():
            return [left(), right()]
    half = threads // 2

    def run(function: Callable[[], Result]) -> Result:
        # OpenMP counts threads per calling thread, and torch hands its count over only with the
        # first operation that it divides itself: without this line, the first matrix product of a
        # new thread ran with all cores, and differed in its last bits from all later ones.
        torch.set_num_threads(half)
        with torch.no_grad():
            return function()

    try:
        other = _pool().submit(run, left)
        mine = run(right)
        return [other.result(), mine]
    finally:
        torch.set_num_threads(threads)


class _TwoThreads(torch.autograd.Function):
    """Each thread builds the graph of its direction, and later goes back through it."""

    @staticmethod
    def forward(
        ctx: Any,
        directions: Sequence[Direction[Any]],
        split: int,
        extras: list[Any],
        *tensors: Tensor,
    ) -> Tensors:
        both = (tensors[:split], tensors[split:])

        def run(number: int) -> tuple[Tensors, Any, Tensor, list[Tensor | None] | None]:
            vectors, *used = both[number]
            with torch.enable_grad():
                # A graph of its own; if all below is frozen, nothing need be kept for it.
                vectors = vectors.detach().requires_grad_(vectors.requires_grad)
                results, extra = directions[number](vectors)
            if len(results) == 1 and not results[0].dim():
                # Of a loss the gradients are known but for a factor: compute them right now, so
                # that the threads meet once per step, and the graph is gone before the other's
                # comes where there is but one thread.
                return results, extra, vectors, _gradients(results, (vectors, *used), None)
            return results, extra, vectors, None

        (left, left_extra, *left_graph), (right, right_extra, *right_graph) = in_two_threads(
            lambda: run(0), lambda: run(1)
        )
        extras.extend((left_extra, right_extra))
        ctx.split, ctx.parameters = split, [used[1:] for used in both]
        ctx.gradients = [left_graph[1], right_graph[1]]
        if ctx.gradients[0] is None:
            # What is saved this way, here both graphs, is freed when any other graph would be.
            ctx.save_for_backward(left_graph[0], *left, right_graph[0], *right)
        return tuple(result.detach() for result in (*left, *right))

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *d_results: Tensor
    ) -> tuple[Tensor | None, ...]:
        half = len(d_results) // 2
        if ctx.gradients[0] is not None:
            scaled = [
                None if gradient is None else gradient * d_loss
                for gradients, d_loss in zip(ctx.gradients, d_results, strict=True)
                for gradient in gradients
            ]
            return (None, None, None, *scaled)
        saved = ctx.saved_tensors
        graphs = (saved[: half + 1], saved[half + 1 :])

        def run(number: int) -> list[Tensor | None]:
            vectors, *results = graphs[number]
            d_mine = d_results[half * number : half * (number + 1)]
            return _gradients(results, (vectors, *ctx.parameters[number]), d_mine)

        left, right = in_two_threads(lambda: run(0), lambda: run(1))
        return (None, None, None, *left, *right)


def _gradients(
    results: Sequence[Tensor], tensors: Sequence[Tensor], d_results: Sequence[Tensor] | None
) -> list[Tensor | None]:
    """The gradient of each tensor, None where it is frozen; a loss (no `d_results`) counts once."""
    trained = [tensor for tensor in tensors if tensor.requires_grad]
    graph = [number for number, result in enumerate(results) if result.requires_grad]
    if not graph:
        return [None] * len(tensors)
    gradients = iter(
        torch.autograd.grad(
            [results[number] for number in graph],
            trained,
            None if d_results is None else [d_results[number] for number in graph],
            allow_unused=True,
            retain_graph=d_results is not None,
        )
    )
    return [next(gradients) if tensor.requires_grad else None for tensor in tensors]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="elmo-direction")


def _after_fork() -> None:
    # A forked process has none of its parent's threads: neither ours, nor those of GNU OpenMP,
    # which would wait for them for ever. Whoever wants more threads in a worker should spawn it.
    _pool.cache_clear()
    torch.set_num_threads(1)


after_fork_in_child(_after_fork)

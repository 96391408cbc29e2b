"""Two losses at once give what two losses in a row would give."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from elmo.bilm.side_by_side import Work, losses_side_by_side, run_side_by_side


def leaf(*shape: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_()


def two_works(shared: Tensor, left: Tensor, right: Tensor, below: Tensor) -> list[Work[str]]:
    """Two losses over one argument that is itself computed, with a parameter in common."""
    argument = torch.tanh(below)
    return [
        Work(lambda x: ((x @ shared).sin().sum() * left.prod(), "left"), argument, [shared, left]),
        Work(
            lambda x: ((x @ shared).exp().sum() + right.sum(), "right"), argument, [shared, right]
        ),
    ]


def test_values_gradients_and_extras() -> None:
    leaves = [leaf(3, 2, seed=0), leaf(2, seed=1), leaf(2, seed=2), leaf(4, 3, seed=3)]
    works = two_works(*leaves)
    (left, first), (right, second) = losses_side_by_side(*works)
    assert (first, second) == ("left", "right")
    expected = [work.function(work.argument)[0] for work in works]
    torch.testing.assert_close(left, expected[0])
    torch.testing.assert_close(right, expected[1])
    found = torch.autograd.grad(2 * left - 3 * right, leaves, retain_graph=True)
    plain = torch.autograd.grad(2 * expected[0] - 3 * expected[1], leaves)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_against_differences() -> None:
    leaves = [leaf(3, 2, seed=0), leaf(2, seed=1), leaf(2, seed=2), leaf(2, 3, seed=3)]

    def losses(*given: Tensor) -> tuple[Tensor, ...]:
        return tuple(loss for loss, _ in losses_side_by_side(*two_works(*given)))

    assert torch.autograd.gradcheck(losses, leaves)


@pytest.mark.parametrize("is_trained", [True, False])
def test_an_argument_that_is_frozen_needs_no_gradient(is_trained: bool) -> None:
    weight = leaf(2, seed=0).requires_grad_(is_trained)
    argument = leaf(2, seed=1).detach()
    asked: list[bool] = []

    def function(x: Tensor) -> tuple[Tensor, None]:
        asked.append(x.requires_grad)
        return (x * weight).sum(), None

    work: Work[None] = Work(function, argument, [weight])
    (left, _), (right, _) = losses_side_by_side(work, work)
    assert asked == [False, False]
    torch.testing.assert_close(left + right, 2 * (argument * weight).sum())
    if is_trained:
        (left + right).backward()
        torch.testing.assert_close(weight.grad, 2 * argument)


def test_unused_and_frozen_parameters_get_no_gradient() -> None:
    used, unused, frozen = leaf(2, seed=0), leaf(2, seed=1), leaf(2, seed=2).detach()
    argument = leaf(2, seed=3)
    parameters = [unused, frozen, used]
    work: Work[None] = Work(lambda x: ((x * used * frozen).sum(), None), argument, parameters)
    (left, _), (right, _) = losses_side_by_side(work, work)
    (left + right).backward()
    assert unused.grad is None
    assert frozen.grad is None
    assert used.grad is not None
    torch.testing.assert_close(used.grad, 2 * (argument * frozen).detach())


def test_an_argument_that_is_not_trained() -> None:
    weight, argument = leaf(2, seed=0), leaf(2, seed=1).detach()
    work: Work[None] = Work(lambda x: ((x * weight).sum(), None), argument, [weight])
    (left, _), _ = losses_side_by_side(work, work)
    left.backward()
    torch.testing.assert_close(weight.grad, argument)


def test_without_gradients_there_is_no_graph() -> None:
    leaves = [leaf(3, 2, seed=0), leaf(2, seed=1), leaf(2, seed=2), leaf(4, 3, seed=3)]
    works = two_works(*leaves)
    with torch.no_grad():
        (left, first), (right, second) = losses_side_by_side(*works)
    assert not left.requires_grad
    assert not right.requires_grad
    assert (first, second) == ("left", "right")
    torch.testing.assert_close(left, works[0].function(works[0].argument)[0].detach())


def test_two_threads_are_at_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def meet() -> int:
        meeting.wait()
        return threading.get_ident()

    first, second = run_side_by_side(meet, meet)
    assert first != second


@pytest.mark.parametrize("side", [0, 1])
def test_an_exception_comes_through_and_breaks_nothing(side: int) -> None:
    def broken(_: Tensor) -> tuple[Tensor, None]:
        raise RuntimeError("no loss today")

    argument = leaf(2, seed=0)
    fine: Work[None] = Work(lambda x: (x.sum(), None), argument, [])
    bad: Work[None] = Work(broken, argument, [])
    threads = torch.get_num_threads()
    pair = (bad, fine) if side == 0 else (fine, bad)
    with pytest.raises(RuntimeError, match="no loss today"):
        losses_side_by_side(*pair)
    assert torch.get_num_threads() == threads
    (left, _), _ = losses_side_by_side(fine, fine)
    torch.testing.assert_close(left, argument.sum())


def test_each_side_has_half_of_the_threads_and_gives_them_back() -> None:
    torch.set_num_threads(4)
    try:
        _, mine = run_side_by_side(torch.get_num_threads, torch.get_num_threads)
        assert mine == 2
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_stays_one(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        left, right = run_side_by_side(threading.get_ident, threading.get_ident)
    finally:
        torch.set_num_threads(before)
    assert len({left, right}) == threads

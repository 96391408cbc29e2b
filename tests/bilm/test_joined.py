"""Two readings at once give the values and the gradients that two in a row would give."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from tests.bilm.test_side_by_side import leaf
from torch import Tensor

from elmo.bilm.joined import join
from elmo.bilm.side_by_side import Work


def two_works(shared: Tensor, left: Tensor, right: Tensor, below: Tensor) -> list[Work[str]]:
    """Two tensors over one argument that is itself computed, with a parameter in common."""
    argument = torch.tanh(below)
    return [
        Work(lambda x: ((x @ shared).sin() * left, "left"), argument, [shared, left]),
        Work(lambda x: ((x @ shared).exp() + right, "right"), argument, [shared, right]),
    ]


def some_leaves() -> list[Tensor]:
    return [leaf(3, 2, seed=0), leaf(2, seed=1), leaf(2, seed=2), leaf(4, 3, seed=3)]


def in_a_row(leaves: list[Tensor]) -> list[Tensor]:
    return [work.function(work.argument)[0] for work in two_works(*leaves)]


def test_values_gradients_and_extras() -> None:
    leaves = some_leaves()
    (left, first), (right, second) = join(*two_works(*leaves))
    assert (first, second) == ("left", "right")
    expected = in_a_row(leaves)
    assert torch.equal(left, expected[0])
    assert torch.equal(right, expected[1])
    found = torch.autograd.grad((left * right).sum(), leaves)
    plain = torch.autograd.grad((expected[0] * expected[1]).sum(), leaves)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_against_differences() -> None:
    def results(*given: Tensor) -> tuple[Tensor, ...]:
        return tuple(result for result, _ in join(*two_works(*given)))

    assert torch.autograd.gradcheck(results, some_leaves())


def test_only_one_side_used() -> None:
    leaves = some_leaves()
    (left, _), _ = join(*two_works(*leaves))
    left.sum().backward()
    expected = torch.autograd.grad(in_a_row(leaves)[0].sum(), leaves[0])
    torch.testing.assert_close(leaves[0].grad, expected[0])
    assert leaves[2].grad is None or not leaves[2].grad.any()


@pytest.mark.parametrize("frozen", range(4))
def test_what_is_frozen_gets_no_gradient(frozen: int) -> None:
    leaves = some_leaves()
    leaves[frozen].requires_grad_(False)
    (left, _), (right, _) = join(*two_works(*leaves))
    (left.sum() + 2 * right.sum()).backward()
    trained = [one for one in leaves if one.requires_grad]
    plain = in_a_row(leaves)
    expected = torch.autograd.grad(plain[0].sum() + 2 * plain[1].sum(), trained)
    assert leaves[frozen].grad is None
    for one, other in zip(trained, expected, strict=True):
        torch.testing.assert_close(one.grad, other)


def test_where_nothing_is_trained_there_is_no_graph() -> None:
    leaves = [one.detach() for one in some_leaves()]
    (left, _), (right, _) = join(*two_works(*leaves))
    assert not left.requires_grad
    assert not right.requires_grad


def test_twice_in_one_graph_and_twice_through_one_graph() -> None:
    leaves = some_leaves()
    works = two_works(*leaves)
    (one, _), (two, _) = join(*works)
    (three, _), (four, _) = join(*works)
    loss = (one * three).sum() + (two * four).sum()
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    again = torch.autograd.grad(loss, leaves)
    plain = in_a_row(leaves)
    expected = torch.autograd.grad((plain[0] ** 2).sum() + (plain[1] ** 2).sum(), leaves)
    for found, repeated, wanted in zip(first, again, expected, strict=True):
        torch.testing.assert_close(found, wanted)
        assert torch.equal(found, repeated)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, leaves)


def test_going_back_frees_what_was_kept() -> None:
    kept: list[weakref.ref[Tensor]] = []

    def function(x: Tensor) -> tuple[Tensor, None]:
        result = x * 2
        kept.append(weakref.ref(result))
        return result, None

    work: Work[None] = Work(function, leaf(3, seed=0), [])
    (left, _), (right, _) = join(work, work)
    gc.collect()
    assert all(one() is not None for one in kept)
    loss = (left + right).sum()
    loss.backward()
    gc.collect()
    assert all(one() is None for one in kept)


def test_both_ways_two_threads_are_at_work() -> None:
    meeting = threading.Barrier(2, timeout=20)

    class Meet(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            meeting.wait()
            return x.clone()

        @staticmethod
        def backward(ctx, d_x: Tensor) -> Tensor:
            meeting.wait()
            return d_x

    argument = leaf(2, seed=0)
    work: Work[None] = Work(lambda x: (Meet.apply(x), None), argument, [])  # pyright: ignore
    (left, _), (right, _) = join(work, work)
    (left + right).sum().backward()
    torch.testing.assert_close(argument.grad, torch.full_like(argument, 2))

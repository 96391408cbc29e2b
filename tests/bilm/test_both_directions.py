"""Two losses at once give what two losses in a row would give."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest
import torch
from torch import Tensor

from elmo.bilm.model import both_directions, in_two_threads

Extra = TypeVar("Extra")


@dataclass(frozen=True)
class Work(Generic[Extra]):
    """One direction: a function of one tensor, with the parameters that it uses."""

    function: Callable[[Tensor], tuple[Tensor, Extra]]
    argument: Tensor
    parameters: Sequence[Tensor]


def join(left: Work[Extra], right: Work[Extra]) -> list[tuple[Tensor, Extra]]:
    """Run both; the argument is the same."""

    def read(direction: int, vectors: Tensor) -> tuple[tuple[Tensor, ...], Extra]:
        result, extra = (left, right)[direction].function(vectors)
        return (result,), extra

    both = both_directions(read, left.argument, [left.parameters, right.parameters])
    return [(results[0], extra) for results, extra in both]


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
    (left, first), (right, second) = join(*works)
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
        return tuple(loss for loss, _ in join(*two_works(*given)))

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
    (left, _), (right, _) = join(work, work)
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
    (left, _), (right, _) = join(work, work)
    (left + right).backward()
    assert unused.grad is None
    assert frozen.grad is None
    assert used.grad is not None
    torch.testing.assert_close(used.grad, 2 * (argument * frozen).detach())


def test_an_argument_that_is_not_trained() -> None:
    weight, argument = leaf(2, seed=0), leaf(2, seed=1).detach()
    work: Work[None] = Work(lambda x: ((x * weight).sum(), None), argument, [weight])
    (left, _), _ = join(work, work)
    left.backward()
    torch.testing.assert_close(weight.grad, argument)


def test_without_gradients_there_is_no_graph() -> None:
    leaves = [leaf(3, 2, seed=0), leaf(2, seed=1), leaf(2, seed=2), leaf(4, 3, seed=3)]
    works = two_works(*leaves)
    with torch.no_grad():
        (left, first), (right, second) = join(*works)
    assert not left.requires_grad
    assert not right.requires_grad
    assert (first, second) == ("left", "right")
    torch.testing.assert_close(left, works[0].function(works[0].argument)[0].detach())


def test_two_threads_are_at_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def meet() -> int:
        meeting.wait()
        return threading.get_ident()

    first, second = in_two_threads(meet, meet)
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
        join(*pair)
    assert torch.get_num_threads() == threads
    (left, _), _ = join(fine, fine)
    torch.testing.assert_close(left, argument.sum())


@pytest.fixture
def four_threads() -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
def test_where_the_right_side_fails_the_left_one_is_waited_for() -> None:
    started, done = threading.Event(), threading.Event()

    def left() -> None:
        started.set()
        time.sleep(0.2)
        done.set()

    def right() -> None:
        started.wait(20)
        raise RuntimeError("no loss today")

    with pytest.raises(RuntimeError, match="no loss today"):
        in_two_threads(left, right)
    assert done.is_set()


@pytest.mark.usefixtures("four_threads")
def test_two_threads_of_the_user_keep_their_number_of_threads() -> None:
    """Overlapping calls: the one that began second took the halved number for its own."""
    inside = threading.Event()
    counts: list[int] = []

    def wait_inside() -> None:
        inside.set()
        time.sleep(0.2)

    def second() -> None:
        inside.wait(20)
        in_two_threads(lambda: None, lambda: counts.append(torch.get_num_threads()))
        counts.append(torch.get_num_threads())

    thread = threading.Thread(target=second)
    thread.start()
    in_two_threads(wait_inside, lambda: time.sleep(0.2))
    thread.join()
    assert counts == [2, 4]
    assert torch.get_num_threads() == 4


def test_each_side_has_half_of_the_threads_and_gives_them_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        _, mine = in_two_threads(torch.get_num_threads, torch.get_num_threads)
        assert mine == 2
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_stays_one(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        left, right = in_two_threads(threading.get_ident, threading.get_ident)
    finally:
        torch.set_num_threads(before)
    assert len({left, right}) == threads


# Two readings at once give the values and the gradients that two in a row would give.


def two_works_joined(shared: Tensor, left: Tensor, right: Tensor, below: Tensor) -> list[Work[str]]:
    """Two tensors over one argument that is itself computed, with a parameter in common."""
    argument = torch.tanh(below)
    return [
        Work(lambda x: ((x @ shared).sin() * left, "left"), argument, [shared, left]),
        Work(lambda x: ((x @ shared).exp() + right, "right"), argument, [shared, right]),
    ]


def some_leaves() -> list[Tensor]:
    return [leaf(3, 2, seed=0), leaf(2, seed=1), leaf(2, seed=2), leaf(4, 3, seed=3)]


def in_a_row(leaves: list[Tensor]) -> list[Tensor]:
    return [work.function(work.argument)[0] for work in two_works_joined(*leaves)]


def test_values_gradients_and_extras_joined() -> None:
    leaves = some_leaves()
    (left, first), (right, second) = join(*two_works_joined(*leaves))
    assert (first, second) == ("left", "right")
    expected = in_a_row(leaves)
    assert torch.equal(left, expected[0])
    assert torch.equal(right, expected[1])
    found = torch.autograd.grad((left * right).sum(), leaves)
    plain = torch.autograd.grad((expected[0] * expected[1]).sum(), leaves)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_against_differences_joined() -> None:
    def results(*given: Tensor) -> tuple[Tensor, ...]:
        return tuple(result for result, _ in join(*two_works_joined(*given)))

    assert torch.autograd.gradcheck(results, some_leaves())


def test_only_one_side_used() -> None:
    leaves = some_leaves()
    (left, _), _ = join(*two_works_joined(*leaves))
    left.sum().backward()
    expected = torch.autograd.grad(in_a_row(leaves)[0].sum(), leaves[0])
    torch.testing.assert_close(leaves[0].grad, expected[0])
    assert leaves[2].grad is None or not leaves[2].grad.any()


@pytest.mark.parametrize("frozen", range(4))
def test_what_is_frozen_gets_no_gradient(frozen: int) -> None:
    leaves = some_leaves()
    leaves[frozen].requires_grad_(False)
    (left, _), (right, _) = join(*two_works_joined(*leaves))
    (left.sum() + 2 * right.sum()).backward()
    trained = [one for one in leaves if one.requires_grad]
    plain = in_a_row(leaves)
    expected = torch.autograd.grad(plain[0].sum() + 2 * plain[1].sum(), trained)
    assert leaves[frozen].grad is None
    for one, other in zip(trained, expected, strict=True):
        torch.testing.assert_close(one.grad, other)


def test_where_nothing_is_trained_there_is_no_graph() -> None:
    leaves = [one.detach() for one in some_leaves()]
    (left, _), (right, _) = join(*two_works_joined(*leaves))
    assert not left.requires_grad
    assert not right.requires_grad


def test_twice_in_one_graph_and_twice_through_one_graph() -> None:
    leaves = some_leaves()
    works = two_works_joined(*leaves)
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


def test_several_results_a_direction() -> None:
    weight, argument = leaf(3, seed=0), leaf(3, seed=1)

    def run(direction: int, vectors: Tensor) -> tuple[tuple[Tensor, ...], str]:
        return (vectors * weight, vectors.detach(), vectors.sin()), "done"

    left, right = both_directions(run, argument, [[weight], [weight]])
    assert left[1] == right[1] == "done"
    expected = [argument * weight, argument.detach(), argument.sin()] * 2
    found = [*left[0], *right[0]]
    torch.testing.assert_close(found, expected)
    weights = [torch.randn(3, dtype=torch.float64) for _ in found]
    sums = [
        sum((w * one).sum() for w, one in zip(weights, results, strict=True))
        for results in (found, expected)
    ]
    mine, plain = (torch.autograd.grad(total, [weight, argument]) for total in sums)  # pyright: ignore
    torch.testing.assert_close(mine, plain)


def run_python(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, timeout=120,
        capture_output=True, text=True,
    ).stdout  # fmt: skip


START = """
import os, sys
import torch
from elmo.bilm.model import in_two_threads
torch.set_num_threads(2)
x = torch.rand(300, 300, generator=torch.Generator().manual_seed(0))
def work():
    return torch.addmm(x, x, x).tanh() @ x
"""


def test_the_first_call_of_a_process_equals_the_second_bit_by_bit() -> None:
    code = "first, second = in_two_threads(work, work), in_two_threads(work, work)\n"
    code += "print(all(map(torch.equal, first, second)), torch.equal(*first))"
    assert run_python(START + code).split() == ["True", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_has_one_thread_and_does_not_hang() -> None:
    code = """
in_two_threads(work, work)
child = os.fork()
if child == 0:
    left, right = in_two_threads(work, work)
    os._exit(0 if torch.equal(left, right) and torch.get_num_threads() == 1 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_python(START + code).strip() == "0"

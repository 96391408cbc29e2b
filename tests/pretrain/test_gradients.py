"""Gradients of several processes: their sum, whatever was sent whole, by rows, or not at all."""

from __future__ import annotations

import pytest
import torch
from tests.worlds import in_world
from torch import Tensor, nn

from elmo.distributed import World
from elmo.pretrain import gradients
from elmo.pretrain.gradients import Traffic, sum_gradients

WORDS, DIM = 100, 3


def parameters(rank: int) -> dict[str, nn.Parameter]:
    """Parameters with the gradients that one process has."""
    random = torch.Generator().manual_seed(rank)
    made = {
        "whole": nn.Parameter(torch.zeros(4, 5)),
        "words": nn.Parameter(torch.zeros(WORDS, DIM)),
        "bias": nn.Parameter(torch.zeros(WORDS)),
        "busy": nn.Parameter(torch.zeros(8, DIM)),
        "elsewhere": nn.Parameter(torch.zeros(2)),
        "unused": nn.Parameter(torch.zeros(2)),
        "frozen": nn.Parameter(torch.zeros(2), requires_grad=False),
    }
    made["whole"].grad = torch.randn(4, 5, generator=random)
    made["words"].grad = torch.zeros(WORDS, DIM)
    made["words"].grad[[rank, 10, 50 + rank]] = torch.randn(3, DIM, generator=random)
    made["bias"].grad = torch.zeros(WORDS)
    made["bias"].grad[7] = 1.0
    made["busy"].grad = torch.randn(8, DIM, generator=random)
    if rank == 1:
        made["elsewhere"].grad = torch.ones(2)
    return made


def summed(world: World) -> tuple[dict[str, Tensor | None], Traffic]:
    mine = parameters(world.rank)
    by_row = [mine["words"], mine["bias"], mine["busy"]]
    traffic = sum_gradients(world, list(mine.values()), by_row)
    return {name: one.grad for name, one in mine.items()}, traffic


def in_small_buckets(world: World) -> tuple[dict[str, Tensor | None], Traffic]:
    gradients.BUCKET_NUMBERS = 4
    return summed(world)


@pytest.mark.parametrize("work", [summed, in_small_buckets])
@pytest.mark.parametrize("size", [2, 3])
def test_each_process_has_the_sum(work, size):
    found = in_world(size, work)
    for name in parameters(0):
        given = [parameters(rank)[name].grad for rank in range(size)]
        there = [one for one in given if one is not None]
        for mine, _ in found:
            if not there:
                assert mine[name] is None, "an optimizer would take a zero for a gradient"
            else:
                torch.testing.assert_close(mine[name], torch.stack(there).sum(0))
                assert torch.equal(mine[name], found[0][0][name])


def test_only_rows_with_a_gradient_are_sent():
    found = in_world(2, summed)
    rows = len({0, 1, 10, 50, 51})
    flags = 6 + WORDS + WORDS + 8
    numbers = 4 * 5 + rows * DIM + 1 + 8 * DIM + 2
    dense = 4 * (4 * 5 + WORDS * DIM + WORDS + 8 * DIM + 2 + 2)
    assert found[0][1] == found[1][1] == Traffic(sent=flags + 4 * numbers, dense=dense)


def test_alone_nothing_is_sent():
    before = {name: one.grad for name, one in parameters(0).items()}
    after, traffic = summed(World())
    assert traffic.sent == 0
    for name, one in before.items():
        assert (one is None) == (after[name] is None)
        assert one is None or torch.equal(one, after[name])

"""Processes that agree, tell and add up, tried with real ones; a lost one is noticed."""

from __future__ import annotations

import os

import pytest
import torch
from tests.worlds import in_world
from torch import Tensor, nn
from torch.distributed import TCPStore

from elmo.errors import UserError
from elmo.training import distributed
from elmo.training.distributed import World, joined, sum_gradients


def speak(world: World) -> dict[str, object]:
    """Use everything that a world can do."""
    mine = torch.arange(3.0) * (world.rank + 1)
    world.all_reduce(mine)
    largest = torch.tensor([world.rank, -world.rank])
    world.all_reduce(largest, largest=True)
    return {
        "any": world.any(world.rank == 1, False, True),
        "sums": world.sums(world.rank, 0.5),
        "sum": mine.tolist(),
        "largest": largest.tolist(),
        "told": world.broadcast(f"naïve 雨 {world.rank}"),
        "silence": world.broadcast("" if world.is_first else "not heard"),
        "first": world.on_first(lambda: world.rank + 100),
        "same": world.all_same("x"),
        "different": world.all_same(str(world.rank)),
    }


def test_three_processes_agree():
    found = in_world(3, speak)
    assert [one.pop("first") for one in found] == [100, None, None]
    for one in found:
        assert one == {
            "any": (True, False, True),
            "sums": (3.0, 1.5),
            "sum": [0.0, 6.0, 12.0],
            "largest": [2, 0],
            "told": "naïve 雨 0",
            "silence": "",
            "same": True,
            "different": False,
        }


def test_alone_there_is_nobody_to_ask():
    with joined() as world:
        assert speak(world) == {
            "any": (False, False, True),
            "sums": (0, 0.5),
            "sum": [0.0, 1.0, 2.0],
            "largest": [0, 0],
            "told": "naïve 雨 0",
            "silence": "",
            "first": 100,
            "same": True,
            "different": True,
        }


def fail(world: World) -> None:
    def work() -> None:
        raise UserError("the text is missing; bring it back")

    world.on_first(work)


def test_where_the_first_process_fails_all_fail_alike():
    found = in_world(2, fail)
    assert [type(one) for one in found] == [UserError, UserError]
    assert {str(one) for one in found} == {"the text is missing; bring it back"}
    with pytest.raises(UserError, match="the text is missing"):
        fail(World())


def break_down(world: World) -> None:
    def work() -> None:
        raise MemoryError

    world.on_first(work)


def test_whatever_the_first_process_raises_the_others_do_not_wait_for_it():
    first, other = in_world(2, break_down)
    assert type(first) is MemoryError
    assert type(other) is UserError
    assert "MemoryError" in str(other)
    with pytest.raises(MemoryError):
        break_down(World())


def die(world: World) -> None:
    if world.rank == 1:
        os._exit(9)
    while True:
        world.any(True)


def test_a_lost_process_is_noticed_at_once():
    left, lost = in_world(2, die)
    assert lost is None
    assert isinstance(left, UserError)
    assert "another process of this run is gone" in str(left)


def test_the_dead_are_not_called_after_a_restart():
    """torchrun's store remembers them; who comes first must wait for the living."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    in_world(2, die, store=store)
    for size in (2, 3):
        found = in_world(size, speak, store=store)
        assert [one["told"] for one in found] == ["naïve 雨 0"] * size


def test_what_torchrun_says_is_heard(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert distributed.own_device("cuda") == "cuda"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert distributed.own_device("cuda") == "cuda:3"
    assert distributed.own_device("cuda:1") == "cuda:1"
    assert distributed.own_device("cpu") == "cpu"


# Gradients of several processes are summed, in one bucket or in many.


def parameters(rank: int) -> dict[str, nn.Parameter]:
    """Parameters with the gradients that one process has."""
    random = torch.Generator().manual_seed(rank)
    made = {
        "matrix": nn.Parameter(torch.zeros(4, 5)),
        "bias": nn.Parameter(torch.zeros(7)),
        "elsewhere": nn.Parameter(torch.zeros(2)),
        "unused": nn.Parameter(torch.zeros(2)),
        "frozen": nn.Parameter(torch.zeros(2), requires_grad=False),
    }
    for name in ("matrix", "bias"):
        made[name].grad = torch.randn(made[name].shape, generator=random)
    if rank == 1:
        made["elsewhere"].grad = torch.ones(2)
    return made


def summed(world: World, bucket: int = 1 << 20) -> dict[str, Tensor | None]:
    distributed.BUCKET_ELEMENTS = bucket
    mine = parameters(world.rank)
    sum_gradients(world, list(mine.values()))
    return {name: parameter.grad for name, parameter in mine.items()}


@pytest.mark.parametrize(("size", "bucket"), [(2, 1 << 20), (3, 4)])
def test_each_process_has_the_sum(size, bucket):
    found = in_world(size, summed, bucket)
    for name in parameters(0):
        given = [parameters(rank)[name].grad for rank in range(size)]
        there = [one for one in given if one is not None]
        for mine in found:
            if not there:
                assert mine[name] is None, "an optimizer would take a zero for a gradient"
            else:
                torch.testing.assert_close(mine[name], torch.stack(there).sum(0))
                assert torch.equal(mine[name], found[0][name])


def test_alone_gradients_stay_as_they_are():
    before = {name: one.grad for name, one in parameters(0).items()}
    after = summed(World())
    for name, one in before.items():
        assert (one is None) == (after[name] is None)
        assert one is None or torch.equal(one, after[name])


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "x", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "x"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"RANK": "0", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "x"},
    ],
)
def test_variables_that_torchrun_did_not_set(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="start the command with torchrun, or unset"), joined():
        pass

"""Processes that agree, tell and add up, tried with real ones; a lost one is noticed."""

from __future__ import annotations

import os

import pytest
import torch
from tests.worlds import in_world
from torch.distributed import TCPStore

from elmo import distributed
from elmo.distributed import World, joined
from elmo.errors import UserError


def speak(world: World) -> dict[str, object]:
    """Use everything that a world can do."""
    mine = torch.arange(3.0) * (world.rank + 1)
    world.sum(mine)
    largest = torch.tensor([world.rank, -world.rank])
    world.largest(largest)
    return {
        "any": world.any(world.rank == 1, False, True),
        "sums": world.sums(world.rank, 0.5),
        "sum": mine.tolist(),
        "largest": largest.tolist(),
        "told": world.tell(f"naïve 雨 {world.rank}"),
        "silence": world.tell("" if world.is_first else "not heard"),
        "first": world.first(lambda: world.rank + 100),
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

    world.first(work)


def test_where_the_first_process_fails_all_fail_alike():
    found = in_world(2, fail)
    assert [type(one) for one in found] == [UserError, UserError]
    assert {str(one) for one in found} == {"the text is missing; bring it back"}
    with pytest.raises(UserError, match="the text is missing"):
        fail(World())


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
    assert not distributed.is_launched()
    assert distributed.own_device("cuda") == "cuda"
    assert distributed.processes_here() == 1
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert distributed.is_launched()
    assert distributed.own_device("cuda") == "cuda:3"
    assert distributed.own_device("cuda:1") == "cuda:1"
    assert distributed.own_device("cpu") == "cpu"
    assert distributed.processes_here() == 4

"""The carried state: cut among those who read, whole again in a checkpoint."""

from __future__ import annotations

import pytest
import torch
from tests.worlds import in_world

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState
from elmo.distributed import World
from elmo.pretrain.carried import CarriedState
from elmo.text.steps import Share

CPU = torch.device("cpu")


def whole_state(rows: int) -> BiLMState:
    random = torch.Generator().manual_seed(rows)
    layers = [
        LSTMState(torch.randn(rows, 4, generator=random), torch.randn(rows, 4, generator=random))
        for _ in range(4)
    ]
    return BiLMState(tuple(layers[:2]), tuple(layers[2:]))


def tensors(state: BiLMState) -> list[torch.Tensor]:
    return [one for side in state for layer in side for one in (layer.output, layer.cell)]


def cut_and_join(world: World, vocabulary, rows: int, accumulate: int) -> list[torch.Tensor]:
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    share = Share.of_process(world.rank, world.size, accumulate)
    carried = CarriedState(share, CPU, whole_state(rows))
    for part, places in zip(carried.parts, share.rows(rows), strict=True):
        for mine, all_rows in zip(tensors(part), tensors(whole_state(rows)), strict=True):
            assert torch.equal(mine, all_rows[places.places])
    return tensors(carried.whole(model, world))


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_what_is_cut_can_be_joined(vocabulary, rows, accumulate):
    joined = cut_and_join(World(), vocabulary, rows, accumulate)
    for before, after in zip(tensors(whole_state(rows)), joined, strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize(("rows", "accumulate"), [(1, 1), (7, 2)])
def test_processes_join_what_each_has(vocabulary, rows, accumulate):
    found = in_world(2, cut_and_join, vocabulary, rows, accumulate)
    for one in found:
        for before, after in zip(tensors(whole_state(rows)), one, strict=True):
            assert torch.equal(before, after)


def test_before_the_first_batch_there_is_no_state(vocabulary):
    model = BiLM(BiLMConfig(word_dim=4, hidden=4), vocabulary)
    assert CarriedState(Share(), CPU).whole(model, World()) is None

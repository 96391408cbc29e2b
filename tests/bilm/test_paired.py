"""Both directions read in one loop give what each gives alone."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMState
from elmo.bilm.paired import read_paired
from elmo.bilm.ragged import Ragged
from elmo.bilm.stack import LSTMStack

HIDDEN, WORDS = 5, 7


def random_states(layers: int, texts: int, width: int, *, given: bool) -> list[LSTMState] | None:
    if not given:
        return None
    return [LSTMState(torch.randn(texts, width), torch.randn(texts, HIDDEN)) for _ in range(layers)]


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    layers=st.integers(1, 3),
    skip=st.booleans(),
    projection=st.sampled_from([None, 3]),
    clip=st.sampled_from([None, 0.1]),
    carries=st.booleans(),
    depth=st.sampled_from([None, 1]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60)
@torch.no_grad()
def test_as_two_stacks_read_one_after_the_other(
    lengths: list[int],
    layers: int,
    skip: bool,
    projection: int | None,
    clip: float | None,
    carries: bool,
    depth: int | None,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    config = BiLMConfig(
        hidden=HIDDEN, projection=projection, layers=layers, skip=skip,
        cell_clip=clip, projection_clip=clip if projection else None,
    )  # fmt: skip
    ahead, behind = LSTMStack(config), LSTMStack(config)
    for weights in (*ahead.parameters(), *behind.parameters()):
        weights.normal_(std=0.5)
    vectors = torch.randn(WORDS, config.width)
    ragged = Ragged.of(torch.tensor(lengths))
    rows = len(ragged.step)
    places = (torch.randint(0, WORDS, (rows,)), torch.randint(0, WORDS, (rows,)))
    states = (
        random_states(layers, len(lengths), config.width, given=carries),
        random_states(layers, len(lengths), config.width, given=carries),
    )
    found = read_paired((ahead, behind), vectors, places, ragged, states, depth)
    for one, stack, place, start in zip(found, (ahead, behind), places, states, strict=True):
        wanted = stack.read_ragged(vectors, place, ragged, start, depth=depth)
        torch.testing.assert_close(one.layers, wanted.layers)
        for mine, other in zip(one.states, wanted.states, strict=True):
            torch.testing.assert_close(mine.output, other.output)
            torch.testing.assert_close(mine.cell, other.cell)

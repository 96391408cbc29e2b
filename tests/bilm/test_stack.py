"""Layers on top of each other: skip connections, carried states, dropout that keeps its choice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bilm.numpy_bilm import array, lstm, stack
from torch import Tensor

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMLayer, LSTMState
from elmo.bilm.ragged import Ragged
from elmo.bilm.stack import LSTMStack, variational_dropout
from elmo.text.batches import Rows

BATCH, STEPS, WIDTH = 3, 6, 4
LENGTHS = torch.tensor([6, 4, 1])


def build(*, layers: int, skip: bool, dropout: float = 0.0) -> LSTMStack:
    torch.manual_seed(layers)
    config = BiLMConfig(hidden=5, projection=WIDTH, layers=layers, skip=skip, dropout=dropout)
    return LSTMStack(config).double()


def inputs() -> Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randn(STEPS, BATCH, WIDTH, generator=random, dtype=torch.float64)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("skip", [False, True])
def test_values_of_each_layer(layers: int, skip: bool) -> None:
    direction = build(layers=layers, skip=skip)
    tokens = inputs()
    found = direction(tokens, None, LENGTHS)
    assert len(found.layers) == len(found.states) == layers
    for column, length in enumerate(LENGTHS.tolist()):
        expected = stack(direction, array(tokens[:length, column]))
        for layer, values in zip(found.layers, expected, strict=True):
            np.testing.assert_allclose(array(layer[:length, column]), values, atol=1e-12)


def test_the_skip_connection_leaves_the_recurrent_state_alone() -> None:
    direction = build(layers=2, skip=True)
    found = direction(inputs(), None, torch.full((BATCH,), STEPS))
    added = found.layers[0][-1]
    torch.testing.assert_close(found.states[1].output + added, found.layers[1][-1])
    assert added.abs().max() > 0.01


def test_reading_on_equals_reading_at_once() -> None:
    direction = build(layers=3, skip=True)
    tokens = inputs()
    whole = direction(tokens, None, torch.full((BATCH,), STEPS))
    first = direction(tokens[:2], None, torch.full((BATCH,), 2))
    second = direction(tokens[2:], first.states, torch.full((BATCH,), 4))
    for number in range(3):
        joined = torch.cat([first.layers[number], second.layers[number]])
        torch.testing.assert_close(joined, whole.layers[number])


def test_dropout_makes_one_choice_a_text() -> None:
    random = torch.Generator().manual_seed(0)
    ones = torch.ones(STEPS, 400, 50)
    dropped = variational_dropout(ones, 0.3, random)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    kept = dropped[0].ne(0).float()
    assert abs(kept.mean().item() - 0.7) < 4 * (0.3 * 0.7 / kept.numel()) ** 0.5
    # Each text and each feature for itself.
    assert kept.mean(dim=1).std() > 0.02
    assert kept.mean(dim=0).std() > 0.01


def test_without_randomness_nothing_is_dropped() -> None:
    values = inputs()
    assert variational_dropout(values, 0.5, None) is values
    assert variational_dropout(values, 0.0, torch.Generator()) is values


def test_dropout_falls_on_the_input_before_the_skip_adds_it() -> None:
    direction = build(layers=2, skip=True, dropout=0.5)
    tokens = inputs()
    full = torch.full((BATCH,), STEPS)
    found = direction(tokens, None, full, torch.Generator().manual_seed(4))
    random = torch.Generator().manual_seed(4)
    masks = [variational_dropout(torch.ones_like(tokens), 0.5, random) for _ in range(2)]
    first, second = direction.layers
    assert isinstance(first, LSTMLayer)
    assert isinstance(second, LSTMLayer)
    zeros = np.zeros(WIDTH), np.zeros(5)
    for column in range(BATCH):
        below, _, _ = lstm(first, array((tokens * masks[0])[:, column]), *zeros)
        dropped = below * array(masks[1][:, column])
        above, _, _ = lstm(second, dropped, *zeros)
        np.testing.assert_allclose(array(found.layers[0][:, column]), below, atol=1e-12)
        np.testing.assert_allclose(array(found.layers[1][:, column]), above + dropped, atol=1e-12)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_part_of_a_batch_drops_what_it_drops_in_the_whole(step):
    values = torch.ones(2, 5, 6)
    whole = variational_dropout(values, 0.5, torch.Generator().manual_seed(3))
    for first in range(step):
        rows = Rows(first, step, 5)
        random = torch.Generator().manual_seed(3)
        part = variational_dropout(values[:, rows.places], 0.5, random, rows)
        assert torch.equal(part, whole[:, rows.places])
        assert len(rows) == part.shape[1]


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any),
    st.booleans(),
    st.sampled_from([None, 3]),
    st.integers(0, 50),
)
@settings(max_examples=30)
def test_without_padding_a_stack_reads_what_it_reads_with_it(
    lengths: list[int], skip: bool, seed_of_dropout: int | None, seed: int
) -> None:
    torch.manual_seed(seed)
    both = build(layers=2, skip=skip, dropout=0.4)
    vectors = torch.randn(7, WIDTH, dtype=torch.float64)
    places = torch.randint(0, 7, (max(lengths), len(lengths)))
    states = [
        LSTMState(torch.rand(len(lengths), WIDTH).double(), torch.rand(len(lengths), 5).double())
        for _ in range(2)
    ]
    generators = [
        None if seed_of_dropout is None else torch.Generator().manual_seed(seed_of_dropout)
        for _ in range(3)
    ]
    steps = torch.tensor(lengths)
    padded = both(vectors[places], states, steps, generators[0])
    ragged = Ragged.of(steps)
    flat = places[ragged.step, ragged.text]
    found = both.read_ragged(vectors, flat, ragged, states, generators[1])
    for one, other in zip(found.layers, padded.layers, strict=True):
        torch.testing.assert_close(one, other[ragged.step, ragged.text])
    for one, other in zip(found.states, padded.states, strict=True):
        torch.testing.assert_close(one.output, other.output)
        torch.testing.assert_close(one.cell, other.cell)
    lower = both.read_ragged(vectors, flat, ragged, states, generators[2], depth=1)
    assert len(lower.layers) == len(lower.states) == 1
    assert torch.equal(lower.layers[0], found.layers[0])

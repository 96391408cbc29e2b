"""What is dropped is drawn from the source given, in the share asked for, and the mean stays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.contextual.dropout import dropped


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_so_many_are_dropped(share: float) -> None:
    count = 400_000
    values = dropped(torch.ones(count), share, source())
    zeros = int((values == 0).sum())
    # Five standard deviations of so many draws.
    assert abs(zeros - share * count) < 5 * (count * share * (1 - share)) ** 0.5
    assert torch.equal(values[values != 0].unique(), torch.tensor([1 / (1 - share)]))


def test_neighbours_are_dropped_independently() -> None:
    # Four values come of one draw: of each pair of places, both fall a quarter of the time.
    gone = (dropped(torch.ones(100_000, 4), 0.5, source()) == 0).double()
    together = gone.T @ gone / len(gone)
    expected = torch.full((4, 4), 0.25, dtype=torch.double) + torch.eye(4) / 4
    torch.testing.assert_close(together, expected, atol=0.01, rtol=0)


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_the_same_source_drops_the_same(shape: list[int], share: float, seed: int) -> None:
    values = torch.ones(shape)
    first = dropped(values, share, source(seed))
    assert first.shape == values.shape
    assert torch.equal(first, dropped(values, share, source(seed)))


def test_nearly_everything_can_be_dropped() -> None:
    assert int((dropped(torch.ones(10_000), 1 - 1e-9, source()) != 0).sum()) <= 5


def test_without_a_source_or_a_share_nothing_is_dropped() -> None:
    values = torch.ones(3)
    assert dropped(values, 0.5, None) is values
    assert dropped(values, 0.0, source()) is values


def test_gradients_pass_where_values_stay() -> None:
    values = torch.ones(100, requires_grad=True)
    result = dropped(values, 0.5, source())
    result.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad, result.detach())

"""Weights are the same as long as nothing is written to them, however it is written."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmo.bilm.weights_seen import SAMPLE, WeightsSeen


def weights(count: int = 2) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(300, 40) for _ in range(count)]


def test_untouched_weights_are_the_same() -> None:
    some = weights()
    assert WeightsSeen.of(some).are_still(WeightsSeen.of(some))


def test_equal_copies_are_others() -> None:
    assert not WeightsSeen.of(weights()).are_still(WeightsSeen.of(weights()))


def test_one_weight_less_is_a_change() -> None:
    some = weights()
    assert not WeightsSeen.of(some).are_still(WeightsSeen.of(some[:1]))


@given(st.integers(0, 299), st.integers(0, 39))
def test_a_single_number_written_in_place_is_seen(row: int, column: int) -> None:
    some = weights()
    before = WeightsSeen.of(some)
    some[1][row, column] += 1
    assert not before.are_still(WeightsSeen.of(some))


@pytest.mark.parametrize("shape", [(1,), (SAMPLE + 1,), (64, 128), (128, 64), (1000, 64)])
def test_what_is_written_to_the_data_of_a_row_or_column_is_seen(shape: tuple[int, ...]) -> None:
    """A version does not count it, so the sample must meet every column and the first row."""
    weight = torch.zeros(shape)
    for column in range(shape[-1]):
        before = WeightsSeen.of([weight])
        weight.data[..., column] += 1
        assert not before.are_still(WeightsSeen.of([weight]))


def test_what_is_kept_does_not_change_with_the_weights() -> None:
    """A sample of a small weight is a view of it; it must not move along unnoticed."""
    weight = torch.zeros(5)
    before = WeightsSeen.of([weight])
    weight.data += 1
    assert not before.are_still(WeightsSeen.of([weight]))

"""Every row is learned from once an epoch, in an order that follows from seed and epoch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.order import batches_by_length, shuffled_batches


@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 5), st.integers(0, 5))
def test_each_row_once_and_the_same_for_the_same_seed(
    number: int, batch: int, seed: int, epoch: int
) -> None:
    lengths = np.random.default_rng(7).integers(0, 30, number + 10)
    rows = np.arange(5, number + 5)
    batches = shuffled_batches(rows, lengths, batch, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == rows.tolist()
    assert max(map(len, batches)) <= batch
    again = shuffled_batches(rows, lengths, batch, seed, epoch)
    assert all(map(np.array_equal, batches, again))


def test_epochs_differ_and_like_lengths_stand_together() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 1000)
    rows = np.arange(1000)
    one, other = (shuffled_batches(rows, lengths, 20, 0, epoch) for epoch in (0, 1))
    assert not np.array_equal(np.concatenate(one), np.concatenate(other))
    spread = np.mean([np.ptp(lengths[batch]) for batch in one])
    assert spread < 10


def test_by_length_the_shortest_come_first() -> None:
    lengths = np.array([5, 1, 3, 1])
    found = batches_by_length(np.arange(4), lengths, 3)
    assert [batch.tolist() for batch in found] == [[1, 3, 2], [0]]

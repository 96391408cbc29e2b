"""Rows without padding hold each step of each text once, those that read longest first."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.bilm.ragged import Ragged, Way, padded_way

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any)


@given(LENGTHS)
def test_rows_are_the_steps_of_all_texts(lengths: list[int]) -> None:
    ragged = Ragged.of(torch.tensor(lengths))
    rows = list(zip(ragged.step.tolist(), ragged.text.tolist(), strict=True))
    order = ragged.order.tolist()
    assert order == sorted(range(len(lengths)), key=lambda text: -lengths[text])
    assert rows == [(t, b) for t in range(max(lengths)) for b in order if t < lengths[b]]
    assert ragged.way.sizes == [sum(n > t for n in lengths) for t in range(max(lengths))]
    for text, last in zip(order, ragged.way.last.tolist(), strict=True):
        assert last < 0 if lengths[text] == 0 else rows[last] == (lengths[text] - 1, text)


@given(LENGTHS, st.integers(0, 2))
def test_the_way_through_padded_texts(lengths: list[int], more: int) -> None:
    steps, batch = max(lengths) + more, len(lengths)
    way = padded_way(steps, torch.tensor(lengths))
    assert way.sizes == [batch] * steps
    for text, last in enumerate(way.last.tolist()):
        assert last < 0 if lengths[text] == 0 else divmod(last, batch) == (lengths[text] - 1, text)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(1, 12))
def test_stretches_follow_each_other_and_hold_as_much_as_they_may(
    sizes: list[int], rows: int
) -> None:
    way = Way(sizes, torch.zeros(1, dtype=torch.int64))
    stretches = list(way.stretches(rows))
    assert [size for stretch in stretches for size in stretch.sizes] == sizes
    first = 0
    for stretch in stretches:
        assert stretch.rows == slice(first, first + sum(stretch.sizes))
        assert len(stretch.sizes) == 1 or sum(stretch.sizes) <= rows
        first = stretch.rows.stop
    for one, following in pairwise(stretches):
        assert sum(one.sizes) + following.sizes[0] > rows
    assert len(list(way.stretches(None))) == 1

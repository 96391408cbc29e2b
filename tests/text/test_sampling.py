"""A sample is some of the things, in order, fair, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from elmo.text.sampling import draw


@given(st.integers(0, 60), st.integers(1, 80), st.integers(0, 5))
def test_a_sample_is_some_of_all_in_their_order(count: int, size: int, seed: int) -> None:
    # What is drawn may be of any kind: even things that have no order.
    things = [{"number": number} for number in range(count)]
    sample = draw(iter(things), size, seed)
    numbers = [one["number"] for one in sample.items]
    assert numbers == sorted(set(numbers))
    assert set(numbers) <= set(range(count))
    assert (len(numbers), sample.of) == (min(size, count), count)
    assert draw(things, size, seed) == sample


def test_each_is_drawn_equally_often() -> None:
    drawn = Counter(item for seed in range(3000) for item in draw(range(10), 3, seed).items)
    # 900 each are expected, with a standard deviation of 25.
    assert all(abs(drawn[item] - 900) < 120 for item in range(10))

"""Parts are drawn class by class, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.split import development_split, few_labels
from elmo.errors import UserError

SIZES = st.lists(st.integers(2, 40), min_size=1, max_size=5)
SEEDS = st.integers(0, 2**32)


def shuffled(sizes: list[int], seed: int) -> np.ndarray:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(seed + 1).permutation(labels)


@given(sizes=SIZES, share=st.floats(0.01, 0.99), seed=SEEDS)
def test_parts_share_no_row_and_hold_every_class(sizes: list[int], share: float, seed: int) -> None:
    labels = shuffled(sizes, seed)
    train, development = development_split(labels, share, seed)
    assert sorted([*train, *development]) == list(range(len(labels)))
    assert (np.diff(train) > 0).all()
    assert (np.diff(development) > 0).all()
    for one, size in enumerate(sizes):
        held = int((labels[development] == one).sum())
        assert 1 <= held <= size - 1
        assert abs(held - share * size) <= 1


@given(sizes=SIZES, seed=SEEDS, data=st.data())
def test_few_labels_are_as_many_of_each_class_and_nested(
    sizes: list[int], seed: int, data: st.DataObject
) -> None:
    labels = shuffled(sizes, seed)
    more = data.draw(st.integers(1, min(sizes)))
    fewer = data.draw(st.integers(1, more))
    rows = few_labels(labels, more, seed)
    assert np.bincount(labels[rows]).tolist() == [more] * len(sizes)
    assert len(set(rows)) == len(rows)
    assert set(few_labels(labels, fewer, seed)) <= set(rows)


def test_the_seed_decides() -> None:
    labels = shuffled([50, 50], 0)
    first, again, other = (development_split(labels, 0.2, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.development, again.development)
    assert not np.array_equal(first.development, other.development)
    assert not np.array_equal(few_labels(labels, 5, 1), few_labels(labels, 5, 2))


def test_every_row_is_drawn_about_equally_often() -> None:
    labels = np.repeat([0, 1], 10)
    drawn = np.zeros(20)
    for seed in range(2000):
        drawn[development_split(labels, 0.3, seed).development] += 1
    # Five standard deviations of a binomial count of 2000 draws at 0.3.
    assert np.abs(drawn - 600).max() < 5 * np.sqrt(2000 * 0.3 * 0.7)


def test_a_class_that_does_not_occur_is_no_matter() -> None:
    labels = np.array([0, 0, 2, 2])
    assert len(development_split(labels, 0.5, 0).train) == 2
    assert len(few_labels(labels, 1, 0)) == 2


def test_too_small_a_class() -> None:
    labels = np.array([0, 0, 1])
    with pytest.raises(UserError, match=r"needs at least 2 rows, one for training.*'b' has 1;"):
        development_split(labels, 0.5, 0, names=["a", "b"])
    with pytest.raises(UserError, match=r"at least 3 rows.*class 0 has 2, class 1 has 1;"):
        few_labels(labels, 3, 0)
    with pytest.raises(UserError, match=r"class 4 has 1 and 95 classes more; .*--label-column"):
        development_split(np.arange(100), 0.5, 0)


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_impossible_shares(share: float) -> None:
    with pytest.raises(UserError, match="share between 0 and 1"):
        development_split(np.array([0, 0, 1, 1]), share, 0)


def test_impossible_numbers() -> None:
    with pytest.raises(UserError, match="at least one row a class"):
        few_labels(np.array([0, 1]), 0, 0)
    with pytest.raises(UserError, match="there are none"):
        few_labels(np.array([], np.int64), 1, 0)

"""Mutual information against the formula, written out for whole matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from elmo.static.ppmi import ppmi

SIZE = 5
counts = st.lists(st.integers(0, 9), min_size=SIZE**2, max_size=SIZE**2)


def dense(table: Any, shift: float, smoothing: float) -> Any:
    joint = table / table.sum()
    word = table.sum(axis=1) / table.sum()
    context = table.sum(axis=0) ** smoothing
    context = context / context.sum()
    found = np.zeros_like(table)
    for row, column in zip(*table.nonzero(), strict=True):
        information = np.log(joint[row, column] / (word[row] * context[column]))
        found[row, column] = max(0.0, information - np.log(shift))
    return found


@given(counts, st.sampled_from([1.0, 1.5, 5.0]), st.sampled_from([0.0, 0.75, 1.0]))
def test_it_is_the_formula(values: list[int], shift: float, smoothing: float) -> None:
    table = np.array(values, float).reshape(SIZE, SIZE)
    table = table + table.T
    table[0, 0] += 1  # never all zeros: the formula would divide by them
    found = ppmi(csr_array(table), shift=shift, context_smoothing=smoothing)
    np.testing.assert_allclose(found.toarray(), dense(table, shift, smoothing), atol=1e-5)
    assert (found.data > 0).all()


def test_words_that_are_together_by_chance_have_none() -> None:
    frequencies = np.array([1.0, 2.0, 4.0])
    assert ppmi(csr_array(np.outer(frequencies, frequencies)), context_smoothing=1).sum() < 1e-6


def test_no_pairs_give_nothing() -> None:
    assert ppmi(csr_array((3, 3), dtype=float)).nnz == 0


@pytest.mark.parametrize("shift", [1.0, 2.0])
def test_two_words_always_together(shift: float) -> None:
    table = csr_array(np.array([[0, 3], [3, 0]], float))
    found = ppmi(table, shift=shift, context_smoothing=1).toarray()
    np.testing.assert_allclose(found, np.log(2 / shift) * np.array([[0, 1], [1, 0]]), atol=1e-6)

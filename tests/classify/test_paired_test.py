"""McNemar's test agrees with scipy, exact and approximate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from elmo.classify.paired_test import PairedTest, mcnemar
from elmo.errors import UserError


def compared(only_first: int, only_second: int, both: int = 3, neither: int = 2) -> PairedTest:
    counts = [only_first, only_second, both, neither]
    first = np.repeat([True, False, True, False], counts)
    second = np.repeat([False, True, True, False], counts)
    return mcnemar(first, second)


@given(first=st.integers(0, 500), second=st.integers(0, 500))
def test_few_disagreements_are_an_exact_binomial_test(first: int, second: int) -> None:
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    found = compared(first, second)
    assert (found.only_first, found.only_second) == (first, second)
    assert found.p == pytest.approx(expected, rel=1e-9)


@given(first=st.integers(1001, 3000), second=st.integers(0, 3000))
def test_many_are_a_corrected_chi_squared(first: int, second: int) -> None:
    statistic = max(0, abs(first - second) - 1) ** 2 / (first + second)
    assert compared(first, second).p == pytest.approx(chi2.sf(statistic, 1), rel=1e-9, abs=1e-300)


def test_both_ways_meet() -> None:
    assert compared(530, 470).p == pytest.approx(compared(530, 471).p, rel=0.1)


def test_order_does_not_matter_and_equals_are_equal() -> None:
    assert compared(30, 12).p == compared(12, 30, both=0, neither=9).p
    assert compared(0, 0).p == compared(7, 7).p == compared(700, 700).p == 1


def test_other_rows() -> None:
    with pytest.raises(UserError, match="same rows of both classifiers, got 2 and 3"):
        mcnemar(np.ones(2, np.bool_), np.ones(3, np.bool_))

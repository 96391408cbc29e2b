"""The best checkpoint interval: least by formula, by search and by simulation."""

from __future__ import annotations

import math

import pytest
from scipy.special import lambertw

from failures import best_interval, overhead, simulated, young


@pytest.mark.parametrize(("cost", "between"), [(1.0, 600.0), (10.0, 3600.0), (60.0, 600.0)])
def test_the_best_interval_is_lamberts(cost, between):
    exact = between * (1 + lambertw(-math.exp(-1 - cost / between)).real)
    assert best_interval(cost, between) == pytest.approx(exact, rel=1e-6)
    for factor in (0.8, 1.25):
        assert overhead(exact * factor, cost, between) > overhead(exact, cost, between)


def test_young_is_its_limit():
    assert best_interval(1.0, 1e6) == pytest.approx(young(1.0, 1e6), rel=0.01)


@pytest.mark.parametrize("share", [0.3, 1.0, 3.0])
def test_simulated_runs_agree_with_the_formula(share):
    interval = share * best_interval(10.0, 3600.0)
    assert simulated(interval, 10.0, 3600.0) == pytest.approx(
        overhead(interval, 10.0, 3600.0), abs=0.02
    )

"""Targets find what was measured, compare it turn by turn, and do not take less for enough."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.benchmarks.test_bench_files import bench

from bench_files import Figure, read_bench
from performance_targets import TARGETS, Found, at_least, below, ratio


def target(what: str, *figures: Figure) -> Found | None:
    (one,) = [one for one in TARGETS if one.what == what]
    return one.find(bench(figures=figures))


def speeds(name: str, *values: float, memory: float = 0.0) -> Figure:
    return Figure.of(name, "tokens/s", values, peak_megabytes=memory)


def test_nothing_is_found_where_nothing_was_measured():
    assert [one.find(bench(figures=())) for one in TARGETS] == [None] * len(TARGETS)


def test_every_figure_is_looked_for_where_it_is_measured(results: Path):
    files = {one.bench: read_bench(results / f"{one.bench}.json") for one in TARGETS}
    missing = {one.what for one in TARGETS if one.find(files[one.bench]) is None}
    assert {what for what in missing if "bf16" not in what} == {
        "a classifier on AG News, frozen biLM",  # left out of the tests
        "memory of embedding a text file of 1 GB",
    }


def test_ratios_are_those_of_a_turn():
    # The ratio of the medians would be 3.3: a machine that drifts would count.
    found = ratio(speeds("a", 10, 2, 30), speeds("b", 5, 1, 3))
    assert found == Found(2, 2, 10)
    assert ratio(speeds("plain", 100), speeds("ours", 5, 4, 10)) == Found(20, 10, 25)
    assert ratio(speeds("a", 1), None) is None


def test_bounds_say_what_they_want():
    assert str(at_least(20_000, "tokens/s")) == "≥ 20,000 tokens/s"
    assert str(below(0.3, "s")) == "< 0.3 s"
    founds = [Found(value, 0, 9) for value in (1.9, 2, 3)]
    assert [at_least(2, "").holds(one) for one in founds] == [False, True, True]
    assert [below(2, "").holds(one) for one in founds] == [True, False, False]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_share_kept_is_that_of_the_same_precision(precision: str):
    alone, beside = f"default, {precision}", f"default, {precision}, one core taken"
    figures = (speeds("default, fp32", 77), speeds(alone, 10, 20), speeds(beside, 5, 15))
    figures = figures[1:] if precision == "fp32" else figures
    what = "speed kept beside a process that takes a core"
    assert target(what, *figures) == Found(62.5, 50, 75)


def test_time_is_compared_with_the_plain_ones():
    figures = (speeds("plain", 1800), speeds("ours", 60, 30, 90))
    what = "as good as the plain implementation, sooner by"
    assert target(what, *figures) == Found(30, 20, 60)


def test_memory_is_the_largest_of_any_repeat():
    figures = (speeds("default, fp32", 1, memory=900), speeds("plain", 1, memory=7000))
    assert target("memory of pre-training, default preset", *figures) == Found(0.9, 0.9, 0.9)


@pytest.mark.parametrize(("megabytes", "found"), [(100.0, None), (1000.0, Found(0.5, 0.5, 0.5))])
def test_a_small_file_does_not_stand_for_a_large_one(megabytes, found):
    figure = Figure.of("embedding a file", "tokens/s", [1], peak_megabytes=500, at=megabytes)
    assert target("memory of embedding a text file of 1 GB", figure) == found

"""Ours and the plain one are measured side by side, on the same text."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

import training
from bench_files import read_bench


def names(found: object) -> list[str]:
    return [one.name for one in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("bf16", [True, False])
def test_bf16_is_measured_where_there_are_units_for_it(monkeypatch, bf16):
    has = ["fp32", "bf16"] if bf16 else ["fp32"]
    monkeypatch.setattr(training, "precisions", lambda: has)
    given = Namespace(plain_words=9, seconds=1.0, threads=2)
    cases = training.cases(given, Path("text"))
    presets = [f"{preset}, {one}" for preset in ("default", "characters") for one in has]
    assert names(cases) == ["plain", *presets, f"default, {has[-1]}, one core taken"]
    assert [case.one_core_taken for case in cases] == [False] * (len(cases) - 1) + [True]
    assert all(case.arguments[1:] == (Path("text"), 1.0, 2) for case in cases)
    precisions = [case.arguments[0].training.precision for case in cases[1:]]
    assert precisions == [*has, *has, has[-1]]


def test_every_case_has_its_speed_and_memory(results: Path):
    found = read_bench(results / "training.json")
    assert names(found.figures)[:2] == ["plain", "default, fp32"]
    for figure in found.figures:
        assert len(figure.values) == 2
        assert 0 < figure.lowest <= figure.median <= figure.highest
        assert figure.peak_megabytes > 100  # torch alone takes more

"""Both models are asked for the same, and only training takes time."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

import time_to_quality
from elmo.text.corpus import load_corpus
from harness import Curve, read_bench
from time_to_quality import Progress, check_comparable
from training import prepared


def curve(*, predicted: int = 10, perplexity: float = 50.0) -> Curve:
    end = (perplexity,)
    return Curve(name="ours", seconds=(1.0,), tokens=(1,), perplexity=end, predicted=predicted)


def test_both_are_asked_for_all_that_is_held_out(results: Path, text: Path):
    found = read_bench(results / "time_to_quality.json")
    corpus = load_corpus(prepared(str(text), results / "cache"))
    assert corpus.held_out.documents > 0
    assert {one.predicted for one in found.curves} == {corpus.held_out.targets}


def test_ours_stops_when_it_is_as_good(results: Path):
    found = read_bench(results / "time_to_quality.json")
    plain, *ours = found.curves
    assert [one.name for one in ours] == ["ours, seed 0", "ours, seed 1"]
    for one in ours:
        assert one.perplexity[-1] <= plain.perplexity[-1]
        assert all(before > plain.perplexity[-1] for before in one.perplexity[:-1])
    assert found.figure("ours").values == tuple(one.seconds[-1] for one in ours)
    assert found.figure("plain").values == plain.seconds[-1:]


def test_the_plain_one_gets_the_time_it_was_promised(text, tmp_path, monkeypatch):
    seconds = count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(seconds)))
    monkeypatch.setattr(time_to_quality, "time", clock)
    monkeypatch.setattr(time_to_quality, "train", lambda *given, **settings: iter([5] * 8))
    found = time_to_quality.plain_curve(prepared(str(text), tmp_path), 8.0, 0.001, 1)
    assert found.seconds == (1, 2, 4, 8)
    assert found.tokens == (5, 10, 20, 40)


def test_evaluations_take_no_time(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(time_to_quality, "time", SimpleNamespace(perf_counter=lambda: now))
    progress = Progress("ours", since=now)
    now = 102.0
    progress.trained(7)
    now = 150.0
    progress.evaluated(9.0, 5)
    now = 153.0
    progress.trained(11)
    progress.evaluated(8.0, 5)
    assert progress.curve() == Curve(
        name="ours", seconds=(2.0, 5.0), tokens=(7, 11), perplexity=(9.0, 8.0), predicted=5
    )


def test_what_cannot_be_compared_is_not():
    check_comparable(curve(), [curve(perplexity=49.0)], 50.0)
    with pytest.raises(SystemExit, match="asked for 11 words, plain for 10"):
        check_comparable(curve(), [curve(predicted=11)], 50.0)
    with pytest.raises(SystemExit, match=r"perplexity 51\.0 and never reached"):
        check_comparable(curve(), [curve(perplexity=51.0)], 50.0)

"""What is planned is what will be done, in the same units."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.study.toys import toy_request

from elmo.study.plan import planned
from elmo.study.progress import StepProgress
from elmo.study.run import run_study


def test_static_rows_weigh_what_was_planned(tmp_path: Path) -> None:
    request = toy_request(tmp_path, rows=("tfidf", "svd"), samples=(), draws=0)
    heard: dict[str, StepProgress] = {}
    run_study(request, lambda step: heard.update({step.name: step}))
    for row in planned(request):
        done = sum(step.weight for step in heard.values() if step.row == row.name)
        assert done == pytest.approx(row.work)


def test_analyses_weigh_what_was_planned(tmp_path: Path) -> None:
    chosen = ("tfidf", "skipgram", "trainable")
    request = toy_request(tmp_path, rows=chosen, samples=(2, 3), draws=2)
    heard: dict[str, StepProgress] = {}
    run_study(request, lambda step: heard.update({step.name: step}))
    plan = {row.name: row.work for row in planned(request)}
    for name in ("draws", "samples"):
        done = sum(step.weight for step in heard.values() if step.row == name)
        assert done == pytest.approx(plan[name])


def test_a_bilm_that_is_to_be_trained_is_planned(tmp_path: Path) -> None:
    names = [row.name for row in planned(toy_request(tmp_path, rows=("layer-0",)))]
    assert names == ["biLM", "reading", "layer-0", "draws"]
    assert [row.name for row in planned(toy_request(tmp_path, rows=("own",)))] == ["own"]

"""Every seed is in the table with its own figures, compared with the control on the same rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import study_seeds
from elmo.classify.metrics import measure
from elmo.config import to_json
from elmo.files import write_json
from elmo.study.rows import Outcome

GOLD = [0, 1] * 10


def put(folder: Path, step: str, wrong: set[int]) -> None:
    predictions = [1 - one if place in wrong else one for place, one in enumerate(GOLD)]
    gold, names = np.array(GOLD), ["a", "b"]
    outcome = Outcome(
        development_accuracy=0.8125,
        train=measure(np.eye(2)[GOLD], gold, names),
        test=measure(np.eye(2)[predictions], gold, names),
        predictions=tuple(predictions),
        training_seconds=1.0,
        texts_per_second=1.0,
        parameters=1,
        layer_weights=(0.25, 0.75),
    )
    write_json(folder / f"{step}.json", {"result": to_json(outcome)})


@pytest.fixture
def study(tmp_path: Path) -> Path:
    steps = tmp_path / "study" / "cells"
    steps.mkdir(parents=True)
    put(steps, "row-tfidf", {0, 1, 2, 3, 4, 5, 6, 7})
    put(steps, "row-svd-2-seed0", {0, 1})
    put(steps, "row-svd-2-seed1", {8, 9, 10, 11})
    return steps.parent


def run(study: Path, source: Path, monkeypatch: pytest.MonkeyPatch, *flags: str) -> None:
    command = ["study_seeds.py", str(study), "--source", str(source), *flags]
    monkeypatch.setattr(sys, "argv", command)
    study_seeds.main()


def test_seeds_means_and_paired_tests(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = study / "test.csv"
    rows.write_text("text,label\n" + "".join(f"word,{'ab'[one]}\n" for one in GOLD))
    run(study, rows, monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    p = 2 * 0.5**6  # six rows that the control alone has wrong, none that it alone has right
    low, high = binomtest(18, 20).proportion_ci(method="wilson")
    assert lines[2] == (
        f"| svd-2 | 0 | 1.0000 | 0.8125 | 0.9000 ({low:.4f} to {high:.4f}) | 0.9000 | {p:.2g} "
        "| 0.250, 0.750 |"
    )
    assert "**0.8500 ± 0.0707**" in lines[4]
    table, below = lines[:6], lines[6:]
    assert len({line.count("|") for line in table}) == 1
    assert below == [
        "",
        "A vote of these 2 runs: 0.9000; wrong in all of them: 0.0000 of the test rows.",
    ]
    run(study, rows, monkeypatch, "--rows", "tfidf", "svd-2")
    assert capsys.readouterr().out.splitlines()[2:] == [lines[5], *lines[2:5], *below]


def test_a_vote_and_what_all_have_wrong() -> None:
    gold = np.array([0, 1, 2, 2, 1])
    runs = [[0, 1, 2, 0, 0], [0, 1, 0, 1, 1], [0, 0, 1, 1, 1]]  # a tie in the third row
    said = study_seeds.together([np.array(one) for one in runs], gold)
    assert said == (
        "A vote of these 3 runs: 0.8000; wrong in all of them: 0.2000 of the test rows."
    )


def test_other_rows_are_refused(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = study / "test.csv"
    rows.write_text("text,label\n" + "".join(f"word,{'ba'[one]}\n" for one in GOLD[:-1]) + "w,b\n")
    with pytest.raises(SystemExit, match="not the test rows"):
        run(study, rows, monkeypatch)


def test_a_row_that_is_not_there_is_named(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = study / "test.csv"
    rows.write_text("text,label\n" + "".join(f"word,{'ab'[one]}\n" for one in GOLD))
    with pytest.raises(SystemExit, match="no row 'svd-9'; it has svd-2, tfidf"):
        run(study, rows, monkeypatch, "--rows", "svd-9")

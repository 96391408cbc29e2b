"""Every seed is in the table with its own figures, compared with the control on the same rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import study_seeds

GOLD = [0, 1] * 10


def put(folder: Path, step: str, wrong: set[int]) -> None:
    predictions = [1 - one if place in wrong else one for place, one in enumerate(GOLD)]
    accuracy = {"value": 1 - len(wrong) / len(GOLD), "low": 0.1, "high": 0.9}
    result = {
        "development_accuracy": 0.8125,
        "train": {"accuracy": {"value": 0.9375}},
        "test": {"accuracy": accuracy, "macro_f1": {"value": 0.75}},
        "predictions": predictions,
        "layer_weights": [0.25, 0.75],
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{step}.json").write_text(json.dumps({"result": result}))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    steps = tmp_path / "study" / "steps"
    steps.parent.mkdir()
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
    assert lines[2] == (
        f"| svd-2 | 0 | 0.9375 | 0.8125 | 0.9000 (0.1000 to 0.9000) | 0.7500 | {p:.2g} "
        "| 0.250, 0.750 |"
    )
    assert "**0.8500 ± 0.0707**" in lines[4]
    assert len({line.count("|") for line in lines}) == 1
    run(study, rows, monkeypatch, "--rows", "tfidf", "svd-2")
    assert capsys.readouterr().out.splitlines()[2:] == [lines[5], *lines[2:5]]


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

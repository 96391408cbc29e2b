"""The live table: rows done, running and to come, and how long it will take."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.study.toys import toy_request

from elmo.cli import studying
from elmo.cli.studying import StudyDisplay
from elmo.study.progress import State, StepProgress


def step(name: str, row: str, state: State, share: float = 0.0) -> StepProgress:
    return StepProgress(name=name, row=row, state=state, share=share, weight=100.0)


def drawn(display: StudyDisplay) -> str:
    console = Console(file=StringIO(), width=100)
    console.print(display.table())
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_rows_done_running_and_to_come(tmp_path: Path) -> None:
    display = StudyDisplay()
    display.begin(toy_request(tmp_path, rows=("tfidf", "own", "svd")))
    for one in (
        step("tuning-tfidf-0", "tfidf", "kept"),
        step("row-tfidf", "tfidf", "done", 1.0),
        step("row-own-seed0", "own", "running", 0.25),
        step("row-own-seed1", "own", "waiting"),
    ):
        display.show(one)
    lines = drawn(display).splitlines()
    found = {line[:24].strip(): line[24:].split() for line in lines}
    assert found["TF-IDF, linear SVM"] == ["2", "of", "2"]
    assert found["Own word vectors alone"] == ["0", "of", "2", "row-own-seed0", "25%"]
    assert found["SVD, window 2"] == ["to", "come"]


def test_the_time_left_follows_from_the_work_of_this_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(studying.time, "monotonic", lambda: now[0])
    display = StudyDisplay()
    display.show(step("a", "one", "kept"))
    display.show(step("b", "one", "waiting"))
    display.show(step("c", "one", "waiting"))
    assert "left" not in display.overall()
    now[0] += 60
    display.show(step("b", "one", "done", 1.0))
    # One of two steps took a minute; what was kept took none of it.
    assert display.overall() == " 66.7% done in 0:01:00, about 0:01:00 left"


def test_a_failure_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    display = StudyDisplay()
    failed = StepProgress(name="x", row="svd-2", state="failed", note="no [words]")
    display.show(failed)
    assert "svd-2: failed: no [words]" in capsys.readouterr().err

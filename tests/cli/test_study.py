"""elmo study: a report from a table, exit codes, and mistakes in one line."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.study.toys import toy_parts, toy_request

from elmo.cli import study as studying
from elmo.cli.main import main
from elmo.cli.main import parse as parse_line
from elmo.cli.options import Arguments
from elmo.cli.study import StudyDisplay, preset_of
from elmo.study.config import PRESETS
from elmo.study.jobs import State, StepProgress

# The live table: rows done, running and to come, and how long it will take.


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


FAST = ["--own-words", "4", "--least-steps", "2", "--epochs", "1", "--samples", "4", "--seeds", "0"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "toy.jsonl"
    train = toy_parts().train
    rows = zip(train.texts, train.labels or (), strict=True)
    path.write_text("".join(json.dumps({"text": t, "label": x}) + "\n" for t, x in rows))
    return path


def test_a_report_is_written_and_drawn_again(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "[a] folder whose path is longer than a line of a terminal that nobody widens"
    flags = ["--out", str(out), "--rows", "majority", "tfidf", "own", *FAST]
    assert main(["study", str(table), *flags]) == 0
    shown = capsys.readouterr()
    assert f"study of {table}: 64 rows to train on, 16 to test on" in shown.err
    assert "row-own-seed0: done" in shown.err
    assert "Majority class" in shown.out
    assert str(out / "report.html") in shown.out
    results = json.loads((out / "results.json").read_text())
    assert [row["name"] for row in results["rows"]] == ["majority", "tfidf", "own"]
    (out / "report.pdf").unlink()
    assert main(["study", "--report-only", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == results
    assert (out / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_row_that_fails_gives_exit_code_1(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--rows", "majority", "svd", "--windows", "3", *FAST]
    assert main(["study", str(table), "--out", str(tmp_path / "out"), *flags]) == 1
    assert "SVD, window 3: failed: " in capsys.readouterr().err
    assert "or give more text" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rows", "tfdif"], "no row is named 'tfdif' (did you mean 'tfidf'?)"),
        (["--sweeps", "windw=3"], "did you mean 'window'"),
        (["--seeds", "1", "1"], "seeds: expected one or more, each once"),
        (["--label-column", "colour"], "colour"),
        (["--model", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_told_in_one_line(
    flags: list[str], message: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", str(table), "--out", str(tmp_path / "out"), *flags]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_a_test_part_alone_is_refused(
    tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "--test", str(table), "--out", str(tmp_path / "out")]) == 2
    assert "--test came without texts" in capsys.readouterr().err


def test_nothing_to_draw_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--report-only", "--out", str(tmp_path)]) == 2
    assert "results.json" in capsys.readouterr().err


def parse(argv: list[str]) -> Arguments:
    return parse_line(["study", *argv])[1]


def test_presets_follow_from_the_texts_and_flags_change_them() -> None:
    assert preset_of(parse([])) == "quick"
    assert parse([]).config == PRESETS["quick"]
    assert preset_of(parse(["ag_news"])) == "standard"
    full = parse(["ag_news", "--preset", "full", "--draws", "7"])
    assert full.config.draws == 7
    assert full.config.seeds == PRESETS["full"].seeds

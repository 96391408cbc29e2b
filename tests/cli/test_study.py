"""elmo study: a report from a table, exit codes, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.study.toys import toy_parts

from elmo.cli import study as studying
from elmo.cli.main import Arguments, main
from elmo.cli.main import parse as parse_line
from elmo.cli.study import StudyDisplay, preset_of
from elmo.config import BILM
from elmo.study.config import PRESETS
from elmo.study.pool import CellProgress, State

# The bar: what is done, and how long the rest will take.


def cell(name: str, row: str, state: State, fraction: float = 0.0) -> CellProgress:
    return CellProgress(name, row, state, fraction, work=100.0)


def test_the_time_left_follows_from_the_work_of_this_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(studying.time, "monotonic", lambda: now[0])
    display = StudyDisplay()
    display.show_cell(cell("a", "one", "cached"))
    display.show_cell(cell("b", "one", "waiting"))
    display.show_cell(cell("c", "one", "waiting"))
    assert "left" not in display.overall()[1]
    now[0] += 60
    display.show_cell(cell("b", "one", "done", 1.0))
    # One of two cells took a minute; the cached one took none of it.
    assert display.overall() == (2 / 3, " 66.7% done in 0:01:00, about 0:01:00 left")


def test_a_failure_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    failed = CellProgress("x", "SVD", "failed", note="no [words]")
    StudyDisplay().show_cell(failed)
    assert "SVD: x failed: no [words]" in capsys.readouterr().err


FAST = ["--task-dim", "4", "--epochs", "1", "--samples", "4", "--seeds", "0", "--sweeps"]


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
    flags = ["--out", str(out), "--rows", "majority", "tfidf", "task", *FAST]
    assert main(["study", str(table), *flags]) == 0
    shown = capsys.readouterr()
    assert f"study of {table.name}: 64 rows to train on, 16 to test on" in shown.err
    assert "beside-task-seed0: done" in shown.err
    assert "Majority class" in shown.out
    assert "note: Only 6 development rows" in shown.out
    assert "64 training rows, 16 test rows" in shown.out
    assert "drawing report.html" in shown.err
    assert str(out / "report.html") in shown.out
    results = json.loads((out / "results.json").read_text())
    assert [row["name"] for row in results["rows"]] == ["majority", "tfidf", "task"]
    (out / "report.pdf").unlink()
    again = ["study", "--report-only", "--out", str(out), "--json", "--title", "Another title"]
    assert main(again) == 0
    results["about"]["title"] = "Another title"
    assert json.loads(capsys.readouterr().out) == results
    assert "<h1>Another title</h1>" in (out / "report.html").read_text()
    assert (out / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_row_that_fails_gives_exit_code_1(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--rows", "majority", "svd", "--windows", "3", *FAST]
    assert main(["study", str(table), "--out", str(tmp_path / "out"), *flags]) == 1
    assert "SVD, window 3: vectors-svd-3 failed: " in capsys.readouterr().err
    assert "or give more text" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rows", "tfdif"], "got 'tfdif' (did you mean 'tfidf'?)"),
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
    assert parse(["ag_news", "--model", "default"]).model == BILM

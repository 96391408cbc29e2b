"""elmo check tells what it found to people and to scripts, and its exit code can be relied on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elmo.cli.main import main

QUICK = ("--no-estimate", "--tokenizer", "whitespace")


@pytest.fixture(autouse=True)
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred words per second, whatever the model."""
    monkeypatch.setattr("elmo.training.estimate.measure_speed", lambda *_: 100.0)


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def sound_lines() -> list[str]:
    return [f"the cat number n{place} sat on the mat ." for place in range(60)]


def checked(capsys: pytest.CaptureFixture[str], *given: str) -> tuple[int, Any]:
    code = main(["check", *given, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_sound_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.txt", [*sound_lines(), "", "twice over", "twice over"])
    code, found = checked(capsys, path, *QUICK)
    assert code == 0
    corpus = found["corpus"]
    assert corpus["documents"] == 62
    assert corpus["tokens"] == 60 * 9 + 4
    assert (corpus["files"], corpus["blank_lines"]) == (1, 1)
    assert corpus["exact_duplicates"] == 1
    assert found["estimate"] is None
    assert {finding["kind"] for finding in found["findings"]} == {"note"}


def test_flags_decide_what_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.txt", sound_lines())
    flags = ("--min-count", "2", "--held-out-share", "0", "--window", "4", "--max-vocabulary", "6")
    _, found = checked(capsys, path, *QUICK, *flags)
    chosen = found["corpus"]["vocabulary"]
    assert chosen == {"min_count": 2, "max_size": 6, "size": 6, "unknown_rate": None}
    assert found["corpus"]["over_window"]["documents"] == 60
    assert found["corpus"]["held_out_documents"] == 0


def test_time_and_size_are_estimated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.txt", sound_lines())
    flags = ("--tokenizer", "whitespace", "--held-out-share", "0")
    _, found = checked(capsys, path, *flags, "--epochs", "3")
    # Nine words and a boundary a line.
    assert found["estimate"]["targets"] == 60 * 10 * 3
    assert found["estimate"]["seconds"] == 18
    _, larger = checked(capsys, path, *flags, "--hidden", "300", "--word-dim", "300")
    assert larger["estimate"]["parameters"] > found["estimate"]["parameters"]


def test_a_problem_comes_first_and_gives_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("".join(f"{line}\n" for line in sound_lines()).encode() + b"caf\xe9\n")
    code, found = checked(capsys, str(path), *QUICK)
    kinds = [finding["kind"] for finding in found["findings"]]
    assert code == 1
    assert kinds == ["problem"] + ["note"] * (len(kinds) - 1)
    assert "line 61" in found["findings"][0]["what"]
    assert "--errors replace" in found["findings"][0]["advice"]
    assert checked(capsys, str(path), *QUICK, "--errors", "replace")[0] == 0


def test_mistakes_of_the_user_give_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.txt", sound_lines())
    (tmp_path / "empty.txt").touch()
    for given in (
        [str(tmp_path / "missing.txt")],
        [str(tmp_path / "empty.txt"), *QUICK],
        [path, "--min-count", "0"],
        [path, "--hidden", "8", "--no-estimate"],  # not the size of the tied words
    ):
        assert main(["check", *given]) == 2, given
        assert capsys.readouterr().err.startswith("elmo: ")


def test_what_people_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.txt", [*sound_lines(), "[bold]not markup[/bold] <b>tag</b>"])
    assert main(["check", path, "--tokenizer", "whitespace"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "\x1b" not in captured.out
    for wanted in ("documents", "seen 3 or more times", "training time", "is in 1 of 61 documents"):
        assert wanted in captured.out


def test_help_needs_no_torch() -> None:
    code = "import sys; from elmo.cli import corpus; corpus; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_ag_news(capsys: pytest.CaptureFixture[str]) -> None:
    data = os.environ.get("ELMO_DATA")
    if not data:
        pytest.skip("ELMO_DATA names no folder with AG News")
    assert (Path(data) / "ag_news" / "test.csv").is_file(), "ELMO_DATA is set but has no AG News"
    code, found = checked(capsys, "ag_news:test", "--epochs", "5")
    assert code == 0
    assert found["corpus"]["documents"] == 7600
    assert found["estimate"]["seconds"] == pytest.approx(13_150, rel=0.02)

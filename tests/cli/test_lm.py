"""Texts from arguments, files and standard input are scored as the library scores them."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from elmo.checkpoint import load_model
from elmo.cli.main import main
from elmo.language.score import score

TEXTS = ["the cat sat on the mat .", "my zebra ran"]


def lines(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def expected(model: Path) -> list[Any]:
    return json.loads(json.dumps([asdict(one) for one in score(load_model(model), TEXTS)]))


def test_each_text_is_one_line_of_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(model), *TEXTS, "--json"]) == 0
    assert lines(capsys) == expected(model)


def test_texts_come_from_files_and_standard_input(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(TEXTS) + "\n")
    assert main(["score", str(model), "--files", str(path), "--json"]) == 0
    assert lines(capsys) == expected(model)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert main(["score", str(model), "-", "--json"]) == 0
    assert lines(capsys) == expected(model)


def test_people_get_a_table(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(model), "the [old] zebra"]) == 0
    shown = capsys.readouterr().out
    (found,) = score(load_model(model), ["the [old] zebra"])
    for one in found.words:
        assert f"{one.forward:.3f}" in shown
    assert "zebra (unknown)" in shown
    assert f"{found.backward.total:.3f}" in shown


def test_words_in_brackets_are_no_markup(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(model), "[red] cat [/red]", "--tokenizer", "whitespace"]) == 0
    shown = capsys.readouterr().out
    assert "[red] (unknown)" in shown
    assert "[/red] (unknown)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no text was given"),
        ([" "], "an empty one was given"),
        (["cat", "\udcff"], "expected text in UTF-8"),
        (["--files", "nowhere.txt"], "nowhere.txt"),
        (["cat </S>", "--tokenizer", "whitespace"], "holds '</S>'"),
    ],
)
def test_bad_texts_are_told(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["score", str(model), *arguments]) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""

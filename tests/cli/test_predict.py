"""Candidates are printed as the library finds them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from elmo.checkpoint import load_model
from elmo.cli.main import main
from elmo.language.predict import predict

TEXT = "the ___ sat on the ___ ."


def test_candidates_are_told_to_scripts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(model), TEXT, "--top", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (found,) = predict(load_model(model), [TEXT], top=3)
    assert told == json.loads(json.dumps(asdict(found)))
    assert [len(blank["combined"]) for blank in told["blanks"]] == [3, 3]


def test_the_model_has_learned_its_language(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "the [MASK] sat on the mat . 7"
    assert main(["predict", str(model), text, "--blank", "[MASK]", "--json"]) == 0
    (blank,) = json.loads(capsys.readouterr().out)["blanks"]
    assert {"cat", "dog"} < {one["word"] for one in blank["combined"][:3]}


def test_people_get_a_table_a_blank(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(model), TEXT, "--top", "4"]) == 0
    shown = capsys.readouterr().out
    (found,) = predict(load_model(model), [TEXT], top=4)
    first, second = found.blanks
    assert f"the [{first.combined[0].word}] sat on the ___ ." in shown
    assert f"the ___ sat on the [{second.combined[0].word}] ." in shown
    for one in first.forward + first.backward + second.combined:
        assert f"{one.word} {one.probability:.4f}" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no text was given"),
        (["the cat"], "expected a text with a blank"),
        ([TEXT, "--top", "0"], "top: at least one"),
        ([TEXT, "--blank", ""], "blank: expected a mark"),
    ],
)
def test_mistakes_are_told(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["predict", str(model), *arguments]) == 2
    assert message in capsys.readouterr().err

"""Held-out text and any other text, for people and for scripts."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from elmo.checkpoint import load_model
from elmo.cli.main import main
from elmo.description import describe_model
from elmo.language.evaluate_text import evaluate_text
from elmo.pretrain.evaluate_run import evaluate_run


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["evaluate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def edited(model: Path, to: Path, **sections: dict[str, Any]) -> Path:
    """A copy of a model with other settings."""
    shutil.copytree(model, to)
    config = json.loads((to / "config.json").read_text())
    for name, changes in sections.items():
        config[name] |= changes
    (to / "config.json").write_text(json.dumps(config))
    return to


def test_held_out_text_is_found_again(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, str(model))
    card = describe_model(model).held_out_perplexity
    assert card is not None
    assert found["forward"]["perplexity"] == pytest.approx(card.forward, abs=0.006)
    assert found["backward"]["perplexity"] == pytest.approx(card.backward, abs=0.006)
    assert found["average"]["perplexity"] == pytest.approx(found["perplexity"])


def test_held_out_text_is_prepared_anew_where_the_cache_is_gone(
    model: Path, tmp_path: Path
) -> None:
    assert evaluate_run(model, cache=tmp_path) == evaluate_run(model)


def test_a_text_is_evaluated(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.csv"
    path.write_text("id,text\n1,the cat sat on a tree .\n2,zebras looked at the mat .\n")
    found = told(capsys, str(model), str(path), "--column", "text")
    twin = evaluate_text(load_model(model), str(path))
    assert found["forward"] == json.loads(json.dumps(asdict(twin.forward)))
    assert found["unknown_rate"] > 0


def test_people_get_a_table(model: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(model), str(corpus)]) == 0
    shown = capsys.readouterr().out
    for row in ("perplexity", "accuracy", "top-5 accuracy", "precision, macro", "F1, weighted"):
        assert row in shown
    assert "forward  backward  average" in shown
    assert "unknown words: " in shown


def test_a_changed_text_is_not_taken_for_the_held_out_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = edited(model, tmp_path / "copy", run={"digest": "0" * 64})
    assert main(["evaluate", str(other)]) == 2
    assert "has changed since it started" in capsys.readouterr().err


def test_a_model_without_a_run_needs_a_text(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = edited(model, tmp_path / "copy")
    config = json.loads((other / "config.json").read_text())
    del config["run"]
    (other / "config.json").write_text(json.dumps(config))
    assert main(["evaluate", str(other)]) == 2
    assert "name a text to evaluate on" in capsys.readouterr().err


def test_a_custom_tokenizer_needs_words_already_cut(
    model: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = edited(model, tmp_path / "copy", tokenizer={"tokenizer": "custom"})
    assert main(["evaluate", str(other), str(corpus)]) == 2
    assert "--tokenizer whitespace" in capsys.readouterr().err
    assert told(capsys, str(other), str(corpus), "--tokenizer", "whitespace")["perplexity"] > 1


def test_a_missing_text_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(model), "nowhere.txt"]) == 2
    assert "nowhere.txt" in capsys.readouterr().err

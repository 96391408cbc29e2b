"""A model folder is described as its files are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from elmo.checkpoint import load_model, parameter_count
from elmo.cli.main import main


def test_a_model_is_shown_to_people(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model)]) == 0
    shown = capsys.readouterr().out
    loaded = load_model(model)
    assert f"{parameter_count(loaded.model):,} (F32)" in shown
    assert f"{len(loaded.model.vocabulary):,} words" in shown
    assert "2 a direction, 12 cells" in shown
    assert "corpus.txt" in shown
    assert "elmo pretrain corpus.txt --out tiny" in shown
    assert "held-out perplexity  forward" in shown


def test_a_model_is_told_to_scripts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(model), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    config = json.loads((model / "config.json").read_text())
    assert told["model"] == config["model"]
    assert told["tokenizer"] == config["tokenizer"]
    assert told["stages"]["run"] == config["run"]
    card = (model / "README.md").read_text()
    for direction in ("forward", "backward"):
        assert f"| {direction} | {told['held_out_perplexity'][direction]:.2f} |" in card


def test_a_damaged_model_is_told(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert main(["info", str(copy)]) == 2
    assert "damaged" in capsys.readouterr().err

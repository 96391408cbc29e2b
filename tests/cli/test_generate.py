"""What is written is what the library writes, and flags are its settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elmo.checkpoint import load_model
from elmo.cli.main import main
from elmo.language.generate import generate
from elmo.language.generation_config import GenerationConfig


def test_flags_are_settings(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--direction backward --length 7 --temperature 0.7 --top-k 5 --top-p 0.9 --seed 3"
    assert main(["generate", str(model), "the mat .", *flags.split(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    config = GenerationConfig(
        direction="backward", length=7, temperature=0.7, top_k=5, top_p=0.9, seed=3
    )
    made = generate(load_model(model), "the mat .", config)
    assert told["words"] == list(made.words)
    assert told["written"] == list(made.written)
    assert told["prompt"] == ["the", "mat", "."]
    assert told["ended"] == made.ended


def test_people_get_a_line_a_prompt(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(model), "the cat", "a", "--seed", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    loaded = load_model(model)
    assert first.split() == list(generate(loaded, "the cat", GenerationConfig(seed=2)).words)
    assert second.split() == list(generate(loaded, "a", GenerationConfig(seed=2)).words)


def test_no_prompt_is_an_empty_one(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(model), "--temperature", "0"]) == 0
    words = capsys.readouterr().out.split()
    assert words[0] in ("the", "a", "my")


def test_all_mistakes_are_told_at_once(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--temperature", "-0.5", "--top-p", "1.5", "--length", "0"]
    assert main(["generate", str(model), "the", *flags]) == 2
    told = capsys.readouterr().err
    assert "temperature: expected 0" in told
    assert "top_p: expected a share above 0 and up to 1, got 1.5" in told
    assert "length: at least one word" in told

"""Texts from arguments, files and standard input are scored as the library scores them."""

from __future__ import annotations

import io
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from elmo.bilm.config import GenerationConfig
from elmo.cli.main import main
from elmo.language_model import open_model
from elmo.text.tokenizer import join_words

TEXTS = ["the cat sat on the mat .", "my zebra ran"]


def lines(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def expected(model: Path) -> list[Any]:
    scored = [asdict(one) for one in open_model(model).score(TEXTS)]
    for one in scored:
        known = [word["known"] for word in one["words"]]
        one["unknown_rate"] = known.count(False) / len(known)
    return json.loads(json.dumps(scored))


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
    (found,) = open_model(model).score(["the [old] zebra"])
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
    ],
)
def test_bad_texts_are_told(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["score", str(model), *arguments]) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""


# Candidates are printed as the library finds them.


TEXT = "the ___ sat on the ___ ."


def test_candidates_are_told_to_scripts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(model), TEXT, "--top", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (found,) = open_model(model).fill([TEXT], 3)
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
    (found,) = open_model(model).fill([TEXT], 4)
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
        ([TEXT, "--top", "0"], "expected at least one candidate per blank, got 0"),
        ([TEXT, "--blank", ""], "blank: expected a mark"),
    ],
)
def test_mistakes_are_told(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["predict", str(model), *arguments]) == 2
    assert message in capsys.readouterr().err


# What is written is what the library writes, and flags are its settings.


def test_flags_are_settings(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--direction backward --length 7 --temperature 0.7 --top-k 5 --top-p 0.9 --seed 3"
    assert main(["generate", str(model), "the mat .", *flags.split(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    config = GenerationConfig(
        direction="backward", length=7, temperature=0.7, top_k=5, top_p=0.9, seed=3
    )
    made = open_model(model).generate("the mat .", config)
    assert told["words"] == list(made.words)
    assert told["written"] == list(made.written)
    assert told["prompt"] == ["the", "mat", "."]
    assert told["ended"] == made.ended


def test_people_get_a_line_a_prompt(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(model), "the cat", "a", "--seed", "2"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    loaded = open_model(model)
    assert first == join_words(loaded.generate("the cat", GenerationConfig(seed=2)).words)
    assert second == join_words(loaded.generate("a", GenerationConfig(seed=2)).words)


def test_no_prompt_is_an_empty_one(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(model), "--temperature", "0"]) == 0
    words = capsys.readouterr().out.split()
    assert words[0] in ("the", "a", "my")


def test_all_mistakes_are_told_at_once(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--temperature", "-0.5", "--top-p", "1.5", "--length", "0"]
    assert main(["generate", str(model), "the", *flags]) == 2
    told = capsys.readouterr().err
    assert "temperature: expected at least 0" in told
    assert "top_p: expected more than 0, up to 1, got 1.5" in told
    assert "length: expected 1 to 100,000, got 0" in told


def test_scores_as_lines_in_bits(capsys) -> None:
    text = "Oil prices fell ."
    assert main(["score", text, "--format", "tsv", "--unit", "bits"]) == 0
    header, *lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == ["text", "position", "word", "known", "forward", "backward"]
    assert [line[2] for line in lines] == text.split()
    assert main(["score", text, "--json"]) == 0
    words = json.loads(capsys.readouterr().out)["words"]
    for line, word in zip(lines, words, strict=True):
        assert float(line[4]) == pytest.approx(word["forward"] / math.log(2), abs=1e-5)
        assert float(line[5]) == pytest.approx(word["backward"] / math.log(2), abs=1e-5)


def test_in_an_ascii_locale_typed_text_is_read_as_utf8(capsys) -> None:
    assert main(["score", "na\udcc3\udcafve", "--json"]) == 0  # as Python decodes the arguments
    assert json.loads(capsys.readouterr().out)["words"][0]["word"] == "naïve"

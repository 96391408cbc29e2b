"""elmo neighbours finds what the library finds, and tells mistakes in one line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from elmo import Embedder, find_neighbours
from elmo.cli.main import main
from elmo.contextual.neighbours import NeighbourConfig

SENTENCE = "the cat sat on the mat ."


def call(model: Path, corpus: Path, *flags: str, word: str = "cat", text: str = SENTENCE) -> int:
    where = ["--model", str(model), "--corpus", str(corpus), "--threads", "1"]
    return main(["neighbours", word, text, *where, *flags])


def test_scripts_get_what_the_library_finds(
    model: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--layer", "1", "--count", "4", "--distinct", "word", "--texts", "100"]
    assert call(model, corpus, *flags, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    config = NeighbourConfig(layer=1, count=4, distinct="word", texts=100)
    texts = corpus.read_text(encoding="utf-8").splitlines()
    wanted = find_neighbours(Embedder.from_pretrained(model), "cat", SENTENCE, texts, config)
    assert told == json.loads(json.dumps(asdict(wanted)))
    assert len(told["neighbours"]) == 4


def test_the_model_has_learned_which_words_are_alike(
    model: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(model, corpus, "--distinct", "word", "--count", "4", "--json") == 0
    found = json.loads(capsys.readouterr().out)["neighbours"]
    assert {one["word"] for one in found} == {"cat", "dog", "bird", "friend"}


def test_people_get_the_sentences_below_their_own(
    model: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(model, corpus, "--count", "3", "--same-word", "--occurrence", "2", word="the") == 0
    lines = capsys.readouterr().out.splitlines()
    before, behind = lines[0].split("«the»")
    assert (before.split(), behind) == (["similarity", "the", "cat", "sat", "on"], "  mat .")
    assert len(lines) == 4
    assert {line.index("«the»") for line in lines} == {lines[0].index("«the»")}
    assert all(line.startswith("0.") for line in lines[1:])


def test_no_neighbour_is_told(
    model: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(model, corpus, "--same-word", word="zebra", text="my zebra ran") == 0
    assert "no neighbours: no other text has 'zebra'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "flags", "message"),
    [
        ("cats", [], "'cats' is not a word of the sentence (did you mean 'cat'?); its words are: "),
        ("the", ["--occurrence", "3"], "occurrence 3 of 'the' was asked for"),
        ("cat", ["--layer", "5"], "layers 0 to 2"),
        ("cat", ["--count", "0"], "count: must be positive"),
        ("cat", ["--threads", "0"], "--threads: must be positive"),
        ("cat", ["--corpus", "nowhere.txt"], "nowhere.txt"),
        ("cat", ["--corpus"], "no text was named"),
        ("cat", ["--model", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_told(
    model: Path,
    corpus: Path,
    capsys: pytest.CaptureFixture[str],
    word: str,
    flags: list[str],
    message: str,
) -> None:
    assert call(model, corpus, *flags, word=word) == 2
    assert message in capsys.readouterr().err

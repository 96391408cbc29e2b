"""elmo embed writes what the library gives, from any source, and tells mistakes in one line."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo.cli.display import ProgressDisplay, embedding_progress
from elmo.cli.embed import static_progress
from elmo.cli.main import main
from elmo.embed.config import NeighbourConfig
from elmo.embed.embedder import Embedder, Progress
from elmo.embed.neighbours import find_neighbours
from elmo.static.train import SkipGramConfig, SvdConfig, train_static
from elmo.static.vectors import StaticVectors

# elmo static writes what the library makes, by either method, and tells mistakes in one line.


def test_svd_to_a_text_file(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "vectors.txt"
    flags = ["--dim", "5", "--window", "2", "--shift", "1"]
    assert main(["static", str(corpus), "--out", str(out), *flags]) == 0
    wanted = train_static(str(corpus), SvdConfig(dim=5, window=2, shift=1))
    written = StaticVectors.load(out)
    assert written.words == wanted.vectors.words
    assert np.array_equal(written.vectors, wanted.vectors.vectors)
    shown = capsys.readouterr()
    assert shown.out == (
        f"{out}: vectors of 5 numbers for {len(written)} words, from {wanted.documents} texts of "
        f"{wanted.tokens:,} words\n"
    )
    assert "counting pairs of words" in shown.err


def test_skip_gram_to_a_binary_file(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "vectors.bin"
    flags = ["--method", "skipgram", "--dim", "4", "--epochs", "2", "--held-out-share", "0"]
    assert main(["static", str(corpus), "--out", str(out), *flags, "--json"]) == 0
    wanted = train_static(str(corpus), SkipGramConfig(dim=4, epochs=2), held_out_share=0)
    written = StaticVectors.load(out)
    assert np.array_equal(written.vectors, wanted.vectors.vectors)
    assert json.loads(capsys.readouterr().out) == {
        "path": str(out),
        "method": "skipgram",
        "words": len(written),
        "dim": 4,
        "documents": 400,
        "tokens": wanted.tokens,
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--out", "v.npz"], "v.npz: expected a name that ends in .txt, .vec (text) or .bin"),
        (["--out", "v.txt", "--window", "0", "--dim", "0"], "2 problems in the settings"),
        (["--out", "v.txt", "--dim", "300"], "use --dim"),
        (["--out", "v.txt", "--min-count", "5000"], "no word occurs 5000 times"),
        (["--out", "v.txt", "--dim", "5", "--shift", "900"], "lower --shift"),
    ],
)
def test_mistakes_are_told(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["static", str(corpus), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_flags_are_those_of_the_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["static", "a.txt", "--out", "v.txt", "--epochs", "2"]) == 2
    assert "static: unknown key 'epochs'" in capsys.readouterr().err
    assert main(["static", "a.txt", "--out", "v.txt", "--method=skipgram", "--shift", "2"]) == 2
    assert "static: unknown key 'shift'" in capsys.readouterr().err


def test_each_stage_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    show = static_progress(ProgressDisplay(""))
    show("preparing the text", 1000, None)
    show("factorising 9 pairs", 0, None)
    show("training", 1200, 7600)
    show("training", 2400, 7600)
    assert capsys.readouterr().err.splitlines() == [
        "preparing the text: 1,000 texts",
        "factorising 9 pairs",
        "training: 1,200 of 7,600 texts",
    ]


# elmo neighbours finds what the library finds, and tells mistakes in one line.


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
        ("cat", ["--count", "0"], "count: expected at least 1"),
        ("cat", ["--threads", "0"], "--threads: expected 1 to 1,024"),
        ("cat", ["--corpus", "nowhere.txt"], "nowhere.txt"),
        ("cat", ["--corpus"], "--corpus: expected at least one argument"),
        ("cat", ["--model", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_told_neighbours(
    model: Path,
    corpus: Path,
    capsys: pytest.CaptureFixture[str],
    word: str,
    flags: list[str],
    message: str,
) -> None:
    assert call(model, corpus, *flags, word=word) == 2
    assert message in capsys.readouterr().err


TEXTS = ["the cat sat on the mat .", "my zebra ran"]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


def vectors_of(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as found:
        return found["vectors"]


def test_pooled_vectors(model: Path, texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = texts.with_name("vectors.npz")
    assert (
        main(["embed", str(texts), "--model", str(model), "--out", str(out), "--threads", "1"]) == 0
    )
    wanted = Embedder.from_pretrained(model).encode(TEXTS)
    np.testing.assert_allclose(vectors_of(out), wanted, rtol=0, atol=1e-6)
    shown = capsys.readouterr().out
    assert shown == f"{out}: 2 texts, 10 words, one vector of 24 numbers per text\n"


def test_words_of_standard_input_by_a_warm_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "\n".join(TEXTS).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    out = tmp_path / "words.npz"
    flags = ["--output=tokens", "--layer=2", "--initial-state=warm", "--threads=1", "--json"]
    assert main(["embed", "-", "--model", str(model), "--out", str(out), *flags]) == 0
    embedder = Embedder.from_pretrained(model)
    wanted = embedder.encode(TEXTS, output="tokens", layer=2, initial_state="warm")
    np.testing.assert_allclose(vectors_of(out), np.concatenate(wanted), rtol=0, atol=1e-6)
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "path": str(out),
        "texts": 2,
        "tokens": 10,
        "dim": 24,
        "empty": [],
        "unknown_rate": 0.1,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "v.txt"], "v.txt: expected a name that ends in one of .npz, .parquet, .h5"),
        (["nowhere.txt", "--out", "v.npz"], "nowhere.txt"),
        (["--out", "v.npz"], "no text was named"),
        (["-", "--out", "v.npz", "--layer", "7"], "layers 0 to 2"),
        (
            ["--words", "--out", "v.npz", "--layer", "0"],
            "settings of how texts are read and pooled",
        ),
        (["a", "b", "--words", "--out", "v.npz"], "one vocabulary file"),
        (["nowhere.txt", "--words", "--out", "v.npz"], "nowhere.txt"),
    ],
)
def test_mistakes_are_told_embed(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a cat\n")))
    assert main(["embed", "--model", str(model), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_words_for_themselves(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, listed = tmp_path / "own.npz", tmp_path / "few.hdf5"
    assert (
        main(["embed", "--model", str(model), "--words", "--out", str(out), "--threads", "1"]) == 0
    )
    embedder = Embedder.from_pretrained(model)
    wanted = embedder.model.token_layer.word_vectors
    assert wanted is not None
    np.testing.assert_array_equal(vectors_of(out), wanted.detach().numpy())
    told = f"{out}: one vector of 12 numbers for {len(wanted)} words\n"
    assert capsys.readouterr().out == told
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    flags = [str(tmp_path / "words.txt"), "--words", "--out", str(listed), "--json"]
    assert main(["embed", "--model", str(model), *flags, "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(listed), "words": 2, "dim": 12}
    assert (tmp_path / "few.txt").read_text() == "cat\ndog\n"


def test_progress_in_one_line_embed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Progress(texts=1200, total=7600, tokens=40000, tokens_per_second=9876, seconds_left=75)
    monkeypatch.setattr("elmo.cli.display.SECONDS_BETWEEN_LINES", 0.0)
    embedding_progress(ProgressDisplay(""))(report)
    assert capsys.readouterr().err == "1,200 of 7,600 texts  9,876 words/s  0:01:15 left\n"


def test_what_a_kill_left_is_removed_though_the_file_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed while it removed its journal, a job is done: the same command refuses, but tidies."""
    out, left = tmp_path / "o.npz", tmp_path / ".o.npz.unfinished.elmo-0123abcd.partial"
    out.write_bytes(b"whole")
    left.mkdir()
    (left / "vectors").write_bytes(b"half")
    assert main(["embed", str(tmp_path / "x.txt"), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["o.npz"]

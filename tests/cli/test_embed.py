"""elmo embed writes what the library gives, from any source, and tells mistakes in one line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo.cli.embedding import line
from elmo.cli.main import main
from elmo.contextual.embedder import Embedder
from elmo.contextual.progress import Progress

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
    assert shown == f"{out}: 2 texts, 10 words, a vector of 24 numbers a text\n"


def test_words_of_standard_input_by_a_warm_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "\n".join(TEXTS).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
    out = tmp_path / "words.npz"
    flags = ["--output", "tokens", "--layer", "2", "--start", "warm", "--threads", "1", "--json"]
    assert main(["embed", "-", "--model", str(model), "--out", str(out), *flags]) == 0
    embedder = Embedder.from_pretrained(model)
    wanted = embedder.encode(TEXTS, output="tokens", layer=2, start="warm")
    np.testing.assert_allclose(vectors_of(out), np.concatenate(wanted), rtol=0, atol=1e-6)
    told = json.loads(capsys.readouterr().out)
    assert told == {"path": str(out), "texts": 2, "tokens": 10, "dim": 24, "empty": []}


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
def test_mistakes_are_told(
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
    told = f"{out}: a vector of 12 numbers for {len(wanted)} words\n"
    assert capsys.readouterr().out == told
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    flags = [str(tmp_path / "words.txt"), "--words", "--out", str(listed), "--json"]
    assert main(["embed", "--model", str(model), *flags, "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(listed), "words": 2, "dim": 12}
    assert (tmp_path / "few.txt").read_text() == "cat\ndog\n"


def test_progress_in_one_line() -> None:
    report = Progress(texts=1200, total=7600, tokens=40000, tokens_per_second=9876, seconds_left=75)
    assert line(report) == "1,200 of 7,600 texts  9,876 words/s  0:01:15 left"

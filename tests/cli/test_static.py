"""elmo static writes what the library makes, by either method, and tells mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from elmo.cli.main import main
from elmo.cli.static import line
from elmo.static.config import SkipGramConfig, SvdConfig
from elmo.static.progress import Progress
from elmo.static.train import train_static
from elmo.static.vectors import StaticVectors


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
        (["--out", "v.txt", "--min-count", "5000"], "no word is seen 5000 times"),
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
    with pytest.raises(SystemExit):
        main(["static", "a.txt", "--out", "v.txt", "--epochs", "2"])
    with pytest.raises(SystemExit):
        main(["static", "a.txt", "--out", "v.txt", "--method=skipgram", "--shift", "2"])
    assert "--epochs" in capsys.readouterr().err


def test_progress_in_one_line() -> None:
    assert line(Progress("training", 1200, 7600)) == "training: 1,200 of 7,600 texts"
    assert line(Progress("preparing the text", 1000)) == "preparing the text: 1,000 texts"
    assert line(Progress("factorising 9 pairs")) == "factorising 9 pairs"

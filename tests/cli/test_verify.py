"""elmo verify: the exit code tells whether a model computes what was stored."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.interop.golden_elmo import golden

from elmo.cli.main import main

WORDS = ["cat", "雨", "<S>"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A golden model, two sentences, their layers and the token vectors of three words."""
    theirs = golden()
    folder = tmp_path_factory.mktemp("verify")
    theirs.write(folder / "model")
    (folder / "sentences.txt").write_text("the cat sat\n雨\n")
    first, state = theirs.read(["the", "cat", "sat"])
    second, _ = theirs.read(["雨"], state)
    arrays = {"0": first.astype(np.float32), "1": second.astype(np.float32)}
    np.savez(folder / "layers.npz", **arrays)  # pyright: ignore
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    with h5py.File(folder / "tokens.hdf5", "w") as file:
        file["embedding"] = np.array([theirs.token(word) for word in WORDS], np.float32)
    return folder


def verify(folder: Path, expected: str, *flags: str) -> int:
    return main(["verify", str(folder / "model"), "--expected", str(folder / expected), *flags])


def test_equal_layers_give_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = ("--sentences", str(folder / "sentences.txt"), "--tolerance", "5e-6")
    assert verify(folder, "layers.npz", *sentences) == 0
    shown = capsys.readouterr().out
    assert "all within 5.00e-06" in shown
    assert "NOT" not in shown
    assert verify(folder, "layers.npz", *sentences, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["holds"]
    assert [one["layer"] for one in told["differences"]] == [0, 0, 1, 1, 2, 2]


def test_other_layers_give_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = ("--sentences", str(folder / "sentences.txt"))
    assert verify(folder, "layers.npz", *sentences, "--start", "zero") == 1
    assert "NOT all within" in capsys.readouterr().out
    assert verify(folder, "layers.npz", *sentences, "--tolerance", "1e-12") == 1


def test_token_vectors_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--vocabulary", str(folder / "words.txt"), "--tolerance", "5e-6")
    assert verify(folder, "tokens.hdf5", *words, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    assert (found["layer"], found["words"]) == (0, 3)


def test_mistakes_give_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folder, "layers.npz") == 2
    assert "either --sentences" in capsys.readouterr().err
    assert verify(folder, "nothing.npz", "--sentences", str(folder / "sentences.txt")) == 2
    assert "no such file" in capsys.readouterr().err
    assert verify(folder, "tokens.hdf5", "--sentences", str(folder / "sentences.txt")) == 2
    assert "expected one array for each of 2 texts" in capsys.readouterr().err

"""elmo convert: from official files to a model folder and back, by command."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from tests.official.golden_elmo import golden

from elmo.cli.main import main
from elmo.language_model import open_model
from elmo.model_folder import model_tensors

# elmo verify: the exit code tells whether a model computes what was stored.


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
    with h5py.File(folder / "layers.hdf5", "w") as file:
        file["0"], file["1"] = first.astype(np.float32), second.astype(np.float32)
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in WORDS))
    with h5py.File(folder / "tokens.hdf5", "w") as file:
        file["embedding"] = np.array([theirs.token(word) for word in WORDS], np.float32)
    return folder


def verify(folder: Path, expected: str, *flags: str) -> int:
    return main(["verify", str(folder / "model"), "--expected", str(folder / expected), *flags])


def test_equal_layers_give_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = ("--sentences", str(folder / "sentences.txt"), "--tolerance", "5e-6")
    assert verify(folder, "layers.hdf5", *sentences) == 0
    shown = capsys.readouterr().out
    assert "all within 5.00e-06" in shown
    assert "NOT" not in shown
    assert verify(folder, "layers.hdf5", *sentences, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["holds"]
    assert [one["layer"] for one in told["differences"]] == [0, 0, 1, 1, 2, 2]


def test_other_layers_give_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = ("--sentences", str(folder / "sentences.txt"))
    assert verify(folder, "layers.hdf5", *sentences, "--start", "zero") == 1
    assert "NOT all within" in capsys.readouterr().out
    assert verify(folder, "layers.hdf5", *sentences, "--tolerance", "1e-12") == 1


def test_token_vectors_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--vocabulary", str(folder / "words.txt"), "--tolerance", "5e-6")
    assert verify(folder, "tokens.hdf5", *words, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    assert (found["layer"], found["words"]) == (0, 3)


def test_mistakes_give_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folder, "layers.hdf5") == 2
    assert "either --sentences" in capsys.readouterr().err
    assert verify(folder, "nothing.hdf5", "--sentences", str(folder / "sentences.txt")) == 2
    assert "no such file" in capsys.readouterr().err
    assert verify(folder, "tokens.hdf5", "--sentences", str(folder / "sentences.txt")) == 2
    assert "expected one array for each of 2 texts" in capsys.readouterr().err


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden().write(tmp_path_factory.mktemp("models") / "official")


def test_there_and_back(official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, back = str(tmp_path / "ours"), str(tmp_path / "back")
    assert main(["convert", str(official), ours]) == 0
    assert main(["convert", ours, back, "--to", "official"]) == 0
    assert "number for number" in capsys.readouterr().out
    names: list[str] = []
    with (
        h5py.File(official / "weights.hdf5") as before,
        h5py.File(tmp_path / "back" / "weights.hdf5") as after,
    ):
        before.visit(names.append)
        for name in names:
            if isinstance(before[name], h5py.Dataset):
                assert before[name][()].tobytes() == after[name][()].tobytes()  # pyright: ignore
    texts = [json.loads((one / "options.json").read_text()) for one in (official, Path(back))]
    assert texts[0] == texts[1]


def test_a_model_of_ours_leaves_its_softmax_behind(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, back = str(tmp_path / "official"), str(tmp_path / "back")
    assert main(["convert", str(model), there, "--to", "official"]) == 0
    assert "not included" in capsys.readouterr().out
    assert main(["convert", there, back]) == 0
    before = model_tensors(open_model(model).model)
    after = model_tensors(open_model(back).model)
    assert set(before) - set(after) == {"output.bias"}
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())


def test_mistakes_are_told(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main(["convert", str(official), out, "--to", "official"]) == 2
    assert "did you mean --to elmo?" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "nowhere"), out]) == 2
    assert "expected a model folder" in capsys.readouterr().err
    assert main(["convert", str(official), str(official)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert not Path(out).exists()


def test_official_files_are_described(official: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(official)]) == 0
    shown = capsys.readouterr().out
    assert "2 per direction, 6 cells, projected to 4" in shown
    assert "weights.hdf5" in shown
    assert "unknown words" not in shown
    assert main(["info", str(official), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["softmax"]["loss"] == "none"


@pytest.mark.parametrize("command", [["score", "a b"], ["predict", "a ___ b"], ["generate", "a"]])
def test_what_needs_a_softmax_says_so(
    official: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main([command[0], str(official), *command[1:]]) == 2
    assert "this model has no softmax: its authors did not publish it" in capsys.readouterr().err


def test_evaluate_needs_a_softmax_too(
    official: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("a b c\n")
    assert main(["evaluate", str(official), str(tmp_path / "text.txt")]) == 2
    assert "this model has no softmax" in capsys.readouterr().err

"""Folders and files of the user are never written to, and what a stranger wrote is not trusted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.faults.conftest import train
from tests.training.conftest import write_corpus

from elmo.classify.classifier import check_run
from elmo.classify.config import ClassifierConfig
from elmo.errors import UserError
from elmo.files import MARK, claim_folder, locked, write_json, writing
from elmo.language_model import LanguageModel
from elmo.study.runner import is_cell
from elmo.training.pretrain import pretrain


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("names", [["README.md"], [".lock"], ["sub/x", "vocabulary.txt"]])
def test_a_folder_with_files_of_the_user_is_refused(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(UserError, match="elmo did not write"):
        claim_folder(tmp_path)
    assert tree(tmp_path) == before


def test_a_new_an_empty_and_a_marked_folder_are_claimed(tmp_path: Path) -> None:
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        claim_folder(folder)
        (folder / "weights").touch()
        claim_folder(folder)
        assert (folder / MARK).is_file()


@pytest.mark.parametrize("marked", [True, False])
def test_a_link_out_of_the_folder_is_refused(tmp_path: Path, marked: bool) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    folder = tmp_path / "downloaded"
    if marked:
        claim_folder(folder)
    folder.mkdir(exist_ok=True)
    (folder / "log.jsonl").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(UserError, match="leads out"):
        claim_folder(folder, ours=True)


@pytest.mark.parametrize("fresh", [False, True])
def test_pretraining_into_a_folder_of_the_user_changes_nothing(tmp_path: Path, fresh: bool) -> None:
    """In 0.1, README.md, vocabulary.txt and log.jsonl were replaced and checkpoints/ deleted."""
    write_corpus(tmp_path / "corpus.txt", documents=10)
    for name in ("README.md", "vocabulary.txt", "log.jsonl", ".lock", "checkpoints/step-1/mine"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(UserError, match="elmo did not write"):
        pretrain(str(tmp_path / "corpus.txt"), tmp_path, fresh=fresh, cache=tmp_path / "cache")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", [".lock", "log.jsonl", "checkpoints"])
def test_a_downloaded_run_cannot_write_to_files_of_the_user(tmp_path: Path, name: str) -> None:
    write_corpus(tmp_path / "corpus.txt", documents=10)
    train(tmp_path)
    mine = tmp_path / "mine"
    (mine / "step-000000001").mkdir(parents=True)
    (mine / "step-000000001" / "thesis.tex").write_text("precious")
    target = mine if name == "checkpoints" else mine / "step-000000001" / "thesis.tex"
    place = tmp_path / "run" / name
    place.rename(tmp_path / "moved") if place.exists() else None
    place.symlink_to(target)
    with pytest.raises(UserError, match="link"):
        train(tmp_path)
    assert (mine / "step-000000001" / "thesis.tex").read_text() == "precious"


def test_leftovers_of_a_killed_writer_are_removed_by_the_next_one(tmp_path: Path) -> None:
    leftover = tmp_path / ".v.npz.elmo-0123abcd.partial"
    other = tmp_path / ".w.npz.elmo-0123abcd.partial"
    leftover.touch(), other.touch()
    with writing(tmp_path / "v.npz"):
        assert not leftover.exists()
        with pytest.raises(UserError, match="another process"), writing(tmp_path / "v.npz"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == [other.name]


def test_a_lock_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("mine")
    with locked(tmp_path / "lock", "busy"):
        pass
    assert (tmp_path / "lock").read_text() == "mine"


def test_names_that_are_not_utf8_are_written_and_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"path": "a\udcff", "name": "naïve"})
    assert json.loads((tmp_path / "x.json").read_text()) == {"path": "a\udcff", "name": "naïve"}


# Weights.


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_corpus(folder / "corpus.txt", documents=10)
    train(folder)
    return folder / "run"


@pytest.mark.parametrize(
    "harm", ["nan", "inf", "3e38", "bool", "int8", "int64", "complex64", "float8_e4m3fn"]
)
def test_weights_that_are_no_numbers_are_refused(model: Path, harm: str) -> None:
    good = (model / "model.safetensors").read_bytes()
    tensors = load_file(model / "model.safetensors")
    name = max(tensors, key=lambda one: tensors[one].numel())
    if harm in ("nan", "inf", "3e38"):
        tensors[name].view(-1)[-1] = float(harm)
    else:
        tensors[name] = tensors[name].to(getattr(torch, harm))
    try:
        save_file(tensors, model / "model.safetensors")
        with pytest.raises(UserError, match=f"{name} holds"):
            LanguageModel.from_pretrained(model)
    finally:
        (model / "model.safetensors").write_bytes(good)


def test_numbers_of_hdf5_that_are_not_finite_or_were_never_written(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    from elmo.official.hdf5 import opened, read_numbers, require_readable

    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["nan"] = np.array([1, np.nan], np.float32)
        file.create_dataset("absent", (8,), np.float32, compression="gzip")
    with opened(tmp_path / "x.hdf5") as datasets:
        with pytest.raises(UserError, match="not finite"):
            read_numbers(datasets["nan"])
        with pytest.raises(UserError, match="never written"):
            require_readable(tmp_path / "x.hdf5", {"absent": datasets["absent"]})


def test_fresh_deletes_no_file_that_the_user_put_into_a_trained_folder(tmp_path: Path) -> None:
    """The whole folder was replaced, notes included."""
    out = tmp_path / "c"
    out.mkdir()
    for name in (
        "classifier.json",
        "README.md",
        "metrics_test.json",
        "confusion_train.png",
        "bilm",
    ):
        (out / name).touch()
    settings = (ClassifierConfig(), "classifier.json", True, False, 1.0)
    check_run(out, *settings)
    (out / "notes.md").write_text("mine")
    with pytest.raises(UserError, match=r"notes\.md"):
        check_run(out, *settings)


def test_a_folder_of_cells_that_are_not_ours_is_no_study(tmp_path: Path) -> None:
    """Any folder with a folder called cells was taken for a study, and --fresh emptied it."""
    ours, mine = tmp_path / "ours.json", tmp_path / "mine.json"
    ours.write_text('{"name": "a", "key": "b", "result": {}}')
    mine.write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    assert [is_cell(path) for path in (ours, mine, tmp_path / "notes.txt")] == [True, False, False]

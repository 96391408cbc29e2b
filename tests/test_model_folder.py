"""What is saved is loaded again bit for bit; what is damaged is told, never guessed at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.errors import UserError
from elmo.language_model import open_model
from elmo.model_folder import (
    CONFIG,
    VOCABULARY,
    WEIGHTS,
    describe_model,
    model_tensors,
    parameter_count,
    read_config,
    save_config,
    save_metrics,
    save_tensors,
    save_weights,
)
from elmo.text.batching import pack_texts
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import Vocabulary

KINDS = [
    (kind, loss, tied)
    for kind, loss, tied in product(
        ["words", "characters", "both"], ["full", "sampled", "adaptive"], [False, True]
    )
    if not (tied and (kind == "characters" or loss == "adaptive"))
]


def build(
    vocabulary: Vocabulary, kind: str = "words", loss: str = "full", tied: bool = True
) -> BiLM:
    config = BiLMConfig(
        input=kind,  # pyright: ignore
        word_dim=4,
        characters=CharacterConfig(char_dim=2, filters=((1, 2), (2, 3))),
        hidden=6,
        projection=4,
        softmax=SoftmaxConfig(loss=loss, tied=tied, cutoffs=(5, 9)),  # pyright: ignore
    )
    torch.manual_seed(0)
    return BiLM(config, vocabulary)


def save(folder: Path, model: BiLM, **options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    save_config(folder, model.config, TokenizerConfig(lowercase=True), {"run": {"command": "x"}})
    model.vocabulary.save(folder / VOCABULARY)
    save_weights(folder / WEIGHTS, model, **options)
    return folder


@pytest.fixture
def folder(tmp_path: Path, vocabulary: Vocabulary) -> Path:
    return save(tmp_path / "model", build(vocabulary))


@pytest.mark.parametrize(("kind", "loss", "tied"), KINDS)
def test_save_and_load_is_identity(
    tmp_path: Path, vocabulary: Vocabulary, kind: str, loss: str, tied: bool
) -> None:
    model = build(vocabulary, kind, loss, tied)
    loaded = open_model(save(tmp_path / "model", model))
    assert loaded.model.config == model.config
    assert loaded.model.vocabulary == vocabulary
    assert loaded.tokenizer == TokenizerConfig(lowercase=True)
    assert loaded.config["run"] == {"command": "x"}
    before, after = model_tensors(model), model_tensors(loaded.model)
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]), name
    batch = pack_texts([["the", "new", "cat"]], vocabulary, spelled=model.config.spelled)
    with torch.no_grad():
        ours, theirs = model.layers(batch), loaded.model.layers(batch)
        assert torch.equal(ours.words(), theirs.words())
        for states in ours.at_targets():
            expected = model.output.log_probabilities(states)
            assert torch.equal(loaded.model.output.log_probabilities(states), expected)


@pytest.mark.parametrize(("kind", "loss", "tied"), KINDS[::3])
def test_half_precision_is_rounded_once(
    tmp_path: Path, vocabulary: Vocabulary, kind: str, loss: str, tied: bool
) -> None:
    model = build(vocabulary, kind, loss, tied)
    loaded = open_model(save(tmp_path / "one", model, precision="bf16"))
    for name, tensor in model_tensors(model).items():
        assert torch.equal(tensor.bfloat16().float(), model_tensors(loaded.model)[name]), name
    again = save(tmp_path / "two", loaded.model, precision="bf16")
    assert (again / WEIGHTS).read_bytes() == (tmp_path / "one" / WEIGHTS).read_bytes()
    whole = save(tmp_path / "three", model)
    assert (again / WEIGHTS).stat().st_size < (whole / WEIGHTS).stat().st_size


def test_a_tied_matrix_is_stored_once_and_tied_again(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    loaded = open_model(save(tmp_path / "model", build(vocabulary)))
    assert "output.weight" not in load_file(tmp_path / "model" / WEIGHTS)
    assert loaded.model.output.weight is loaded.model.token_layer.word_vectors  # pyright: ignore


def test_what_was_frozen_stays_frozen(tmp_path: Path, vocabulary: Vocabulary) -> None:
    config = BiLMConfig(
        word_dim=3, hidden=4, freeze_words=True, softmax=SoftmaxConfig(loss="full", tied=False)
    )
    loaded = open_model(save(tmp_path / "model", BiLM(config, vocabulary)))
    trained = {name: one.requires_grad for name, one in loaded.model.named_parameters()}
    assert [name for name, is_trained in trained.items() if not is_trained] == [
        "token_layer.words.weight"
    ]


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, "output.bias": torch.zeros(7)}, folder / WEIGHTS)
    with pytest.raises(UserError, match=r"output\.bias is \(7,\), expected \(13,\)"):
        open_model(folder)


def test_missing_and_extra_tensors_are_named(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    bias = tensors.pop("output.bias")
    save_file({**tensors, "output.bios": bias}, folder / WEIGHTS)
    with pytest.raises(UserError) as raised:
        open_model(folder)
    assert "output.bias is missing" in str(raised.value)
    assert "output.bios is not expected" in str(raised.value)


def test_a_model_of_another_vocabulary_does_not_fit(folder: Path) -> None:
    lines = (folder / VOCABULARY).read_text().splitlines(keepends=True)
    (folder / VOCABULARY).write_text("".join(lines[:-1]))
    with pytest.raises(
        UserError, match=r"token_layer\.words\.weight is \(13, 4\), expected \(12, 4\)"
    ):
        open_model(folder)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2, 0.9, 0.999])
def test_a_truncated_file_is_damaged(folder: Path, share: float) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: int(share * len(content))])
    for read in (open_model, describe_model):
        with pytest.raises(UserError, match="damaged or not a safetensors file"):
            read(folder)


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04" + bytes(99), b"\x80\x04pickle", bytes(8), b"\xff" * 64]
)
def test_another_kind_of_file_is_refused(folder: Path, content: bytes) -> None:
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(UserError, match="damaged or not a safetensors file"):
        open_model(folder)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, VOCABULARY])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        open_model(folder)


def test_a_missing_folder_is_told() -> None:
    with pytest.raises(UserError, match="nowhere: expected a model folder"):
        open_model("nowhere")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, VOCABULARY])
def test_a_link_out_of_the_folder_is_refused(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    for read in (open_model, describe_model):
        with pytest.raises(UserError, match="leads out of the model folder"):
            read(folder)


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "weights")
    (folder / WEIGHTS).symlink_to("weights")
    open_model(folder)


def edit(folder: Path, change: dict[str, Any]) -> None:
    content = json.loads((folder / CONFIG).read_text())
    for key, value in change.items():
        if isinstance(value, dict):
            content[key] |= value
        else:
            content[key] = value
    (folder / CONFIG).write_text(json.dumps(content))


def test_a_config_is_read_strictly(folder: Path) -> None:
    edit(folder, {"model": {"hiden": 4, "layers": "two"}})
    with pytest.raises(UserError) as raised:
        open_model(folder)
    assert "unknown key 'hiden' (did you mean 'hidden'?)" in str(raised.value)
    assert "model.layers: expected int, got 'two'" in str(raised.value)


@pytest.mark.parametrize("shared", [True, False])
def test_a_setting_of_earlier_versions_is_passed_over(
    folder: Path, shared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    config = json.loads((folder / CONFIG).read_text())
    config["model"]["softmax"]["shared_negatives"] = shared
    (folder / CONFIG).write_text(json.dumps(config))
    loaded = open_model(folder)
    assert "shared_negatives" not in loaded.config["model"]["softmax"]
    assert ("a sample of words per target" in caplog.text) is not shared


def test_a_config_that_contradicts_itself_is_refused(folder: Path) -> None:
    edit(folder, {"model": {"word_dim": 5}})
    with pytest.raises(UserError, match="tied: the softmax needs word vectors of size 4, got 5"):
        open_model(folder)


def test_a_config_of_another_format_is_refused(folder: Path) -> None:
    edit(folder, {"format": 99})
    with pytest.raises(UserError, match="format 99"):
        open_model(folder)
    (folder / CONFIG).write_text("[]")
    with pytest.raises(UserError, match="not the settings of an elmo model"):
        open_model(folder)


def test_huge_settings_take_no_memory(folder: Path) -> None:
    edit(folder, {"model": {"hidden": 10**5, "projection": 4}})
    with pytest.raises(UserError, match="does not fit"):
        open_model(folder)
    edit(folder, {"model": {"hidden": 10**7, "projection": 4}})
    with pytest.raises(UserError, match="hidden: expected 1 to 131,072, got 10,000,000"):
        open_model(folder)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.ones(3)})
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(UserError, match="disk is full"):
        save_tensors(path, {"a": torch.zeros(3)})
    assert torch.equal(load_file(path)["a"], torch.ones(3))
    assert [one.name for one in tmp_path.iterdir()] == ["x.safetensors"]


def _full(handle: int) -> None:
    raise OSError(28, "No space left on device")


def test_texts_are_cut_as_the_model_says(folder: Path) -> None:
    loaded = open_model(folder)
    assert loaded.words("The CAT.") == ["the", "cat", "."]
    assert loaded.words(["The", "CAT."]) == ["The", "CAT."]


def test_a_description_agrees_with_the_model(tmp_path: Path, vocabulary: Vocabulary) -> None:
    model = build(vocabulary, "both", "adaptive", tied=False)
    folder = save(tmp_path / "model", model, precision="bf16")
    found = describe_model(folder)
    assert found.model == model.config
    assert found.tokenizer == TokenizerConfig(lowercase=True)
    assert found.vocabulary == 13
    assert found.training_tokens == sum(vocabulary.counts[2:])
    assert found.unknown_rate == 4 / found.training_tokens
    assert found.parameters == parameter_count(model)
    sizes = {
        name: sum(one.numel() for one in part.parameters()) for name, part in model.named_children()
    }
    assert found.parts == sizes
    assert found.number_format == "BF16"
    assert found.files == {path.name: path.stat().st_size for path in folder.iterdir()}
    assert found.stages == {"run": {"command": "x"}}
    assert found.held_out_perplexity is None


def test_metrics_are_kept_with_the_settings(folder: Path) -> None:
    before = read_config(folder)
    metrics = {"forward": {"perplexity": 8.5}, "backward": {"perplexity": 9}, "perplexity": 8.75}
    save_metrics(folder, metrics)
    assert read_config(folder) == {**before, "metrics": metrics}
    (folder / "README.md").write_text("| forward | 12.50 | 0.1 |\n| backward | 13.00 | 0.1 |\n")
    found = describe_model(folder)
    assert found.held_out_perplexity == {"forward": 8.5, "backward": 9.0}
    assert found.stages["metrics"] == metrics
    for broken in (3, {}, {"forward": 1}, {"forward": {"perplexity": "low"}}):
        save_metrics(folder, broken)  # pyright: ignore
        with pytest.raises(UserError, match="metrics: expected the perplexity of forward and"):
            describe_model(folder)


def test_a_description_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; from elmo.model_folder import describe_model; "
        "print(describe_model(sys.argv[1]).parameters, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.split() == [str(describe_model(folder).parameters), "False"]


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, VOCABULARY])
def test_a_named_pipe_is_not_opened(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    for read in (open_model, describe_model):
        with pytest.raises(UserError, match=f"{name} is missing"):
            read(folder)


def test_a_description_of_the_first_version_tells_what_the_card_says(folder: Path) -> None:
    (folder / "README.md").write_text("| forward | 12.50 | 0.1 |\n| backward | 13.00 | 0.1 |\n")
    assert describe_model(folder).held_out_perplexity == {
        "forward": 12.5,
        "backward": 13.0,
    }
    (folder / "README.md").write_text("Nothing was held out.\n")
    assert describe_model(folder).held_out_perplexity is None


def test_weights_are_as_readable_as_other_files(folder: Path) -> None:
    modes = {name: (folder / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert modes["model.safetensors"] == modes["config.json"]

"""Official → ours → official and ours → official → ours: number for number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from tests.official.golden_elmo import SPECIAL, golden

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.config import from_json, to_json
from elmo.errors import UserError
from elmo.language_model import LanguageModel, describe, open_model
from elmo.model_folder import model_tensors
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import Vocabulary

WORDS = [*SPECIAL, "the", "cat", "naïve"]
KINDS: list[dict[str, Any]] = [
    {},
    {"layers": 3, "skip": False, "highways": 2, "characters": 261},
    {"cells": 4, "activation": "tanh", "cell_clip": None},
    {"cells": 4, "square_projection": True},
    {"filters": ((1, 2), (3, 2)), "highways": 0},
    {"words": WORDS},
]


def datasets(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    names: list[str] = []
    with h5py.File(path) as file:
        file.visit(names.append)
        found = {name: file[name] for name in names}
        return {name: one[()] for name, one in found.items() if isinstance(one, h5py.Dataset)}


@pytest.mark.parametrize("kind", KINDS)
def test_official_to_ours_and_back(tmp_path: Path, kind: dict[str, Any]) -> None:
    theirs = golden(**kind)
    theirs.options |= {"n_train_tokens": 768648884, "batch_size": 128}
    folder = theirs.write(tmp_path / "official")
    open_model(folder).save_pretrained(tmp_path / "ours")
    open_model(tmp_path / "ours").save_official(tmp_path / "back")
    found = datasets(tmp_path / "back" / "weights.hdf5")
    assert found.keys() == theirs.weights.keys()
    for name, values in theirs.weights.items():
        assert found[name].dtype == np.float32
        assert found[name].tobytes() == values.tobytes(), name
    assert json.loads((tmp_path / "back" / "options.json").read_text()) == theirs.options
    has_words = (tmp_path / "back" / "vocab.txt").exists()
    assert has_words == ("words" in kind)
    if has_words:
        assert (tmp_path / "back" / "vocab.txt").read_text().split() == WORDS


def ours(vocabulary: Vocabulary, **settings: Any) -> LanguageModel:
    characters = CharacterConfig(char_dim=2, filters=((1, 2), (2, 3)), activation="tanh")
    softmax = SoftmaxConfig(loss="full", tied=False)
    chosen = {"input": "characters", "hidden": 6, "projection": 4, **settings}
    config = BiLMConfig(characters=characters, softmax=softmax, **chosen)
    torch.manual_seed(0)
    model = BiLM(config, vocabulary)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
        if model.token_layer.characters is not None:
            model.token_layer.characters.characters.weight[0] = 0
    return LanguageModel(model, TokenizerConfig(lowercase=True))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"projection": None, "cell_clip": 3.0},
        {"projection": 6, "projection_clip": 2.5},
        {"skip": True, "cell_clip": 1.0, "projection_clip": 0.5, "layers": 3, "dropout": 0.3},
        {"input": "words", "word_dim": 4},
    ],
)
def test_ours_to_official_and_back(
    tmp_path: Path, vocabulary: Vocabulary, settings: dict[str, Any]
) -> None:
    before = ours(vocabulary, **settings)
    before.save_official(tmp_path / "official")
    open_model(tmp_path / "official").save_pretrained(tmp_path / "ours")
    after = open_model(tmp_path / "ours")
    kept = {n: t for n, t in model_tensors(before.model).items() if not n.startswith("output.")}
    found = model_tensors(after.model)
    assert found.keys() == kept.keys()
    for name, tensor in kept.items():
        assert torch.equal(found[name], tensor), name
    assert after.tokenizer == before.tokenizer
    assert after.model.vocabulary.words == vocabulary.words
    told = {**to_json(before.model.config), "softmax": to_json(after.model.config.softmax)}
    if before.model.config.spelled:
        told["word_dim"] = after.model.config.word_dim
    else:
        told["characters"] = to_json(after.model.config.characters)
    assert from_json(BiLMConfig, json.loads(json.dumps(told)), "") == after.model.config


def test_options_that_are_no_longer_true_are_written_anew(tmp_path: Path) -> None:
    loaded = open_model(golden().write(tmp_path / "official"))
    changed = {**to_json(loaded.model.config), "skip": False}
    config = from_json(BiLMConfig, json.loads(json.dumps(changed)), "")
    model = BiLM(config, loaded.model.vocabulary)
    replace(loaded, model=model).save_official(tmp_path / "new")
    options = json.loads((tmp_path / "new" / "options.json").read_text())
    assert options["lstm"]["use_skip_connections"] is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input": "both", "word_dim": 4}, "not of both"),
        ({"input": "words", "word_dim": 5}, "here they have 5 and 4 numbers"),
        ({"projection": 7}, "make 6 cells fewer, not 7"),
    ],
)
def test_what_the_official_format_cannot_hold_is_refused(
    tmp_path: Path, vocabulary: Vocabulary, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        ours(vocabulary, **settings).save_official(tmp_path / "official")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    loaded = open_model(golden().write(tmp_path / "official"))
    for save in (loaded.save_pretrained, loaded.save_official):
        with pytest.raises(UserError, match="already exists"):
            save(tmp_path / "official")


def test_both_kinds_of_folder_are_described_alike(tmp_path: Path) -> None:
    folder = golden().write(tmp_path / "official")
    open_model(folder).save_pretrained(tmp_path / "ours")
    theirs, mine = describe(folder), describe(tmp_path / "ours")
    assert theirs.model == mine.model
    padding = mine.model.characters.char_dim
    assert theirs.parameters + padding == mine.parameters
    assert theirs.parts["forward_stack"] == mine.parts["forward_stack"]
    assert theirs.stages == mine.stages
    assert "weights.hdf5, sha256" in (tmp_path / "ours" / "README.md").read_text()

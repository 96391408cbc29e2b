"""Official files mean what their specification says, to the last layer and the longest word."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.official.golden_elmo import SPECIAL, Golden, State, golden

from elmo.bilm.config import BiLMConfig, CharacterConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.config import to_json
from elmo.errors import ConfigError, UserError
from elmo.language_model import describe, open_model
from elmo.official.format import config_of, load_official, names_of, options_of, read_options
from elmo.text.batching import pack_texts

LONG = "x" * 47
SENTENCES = [
    ["the", "cat", "sat"],
    ["naïve", "雨", "🙂", "x" * 60],
    [LONG + "é", LONG + "ü", LONG + "y", "x" * 48 + "abc"],
    ["<S>", "cat", "</S>", "<UNK>"],
    ["one"],
]
WORDS = [*SPECIAL, "the", "cat", "naïve"]
KINDS: dict[str, dict[str, Any]] = {
    "as published": {},
    "no skip": {"skip": False},
    "three layers": {"layers": 3},
    "one layer": {"layers": 1},
    "tanh": {"activation": "tanh"},
    "261 characters": {"characters": 261},
    "no highway": {"highways": 0},
    "two highways": {"highways": 2},
    "no clips": {"cell_clip": None, "proj_clip": None},
    "no projection": {"cells": 4},
    "a square projection": {"cells": 4, "square_projection": True},
    "features as wide as layers": {"filters": ((1, 2), (3, 2))},
    "words": {"words": WORDS},
    "words without projection": {"words": WORDS, "cells": 4},
}


def layers(model: BiLM, sentence: list[str]) -> NDArray[np.float32]:
    batch = pack_texts([sentence], model.vocabulary, spelled=model.spelled)
    with torch.no_grad():
        return model.layers(batch).words().numpy()


def load(model: Golden, folder: Path) -> BiLM:
    return open_model(model.write(folder)).model


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_is_that_of_the_specification(tmp_path: Path, kind: str) -> None:
    theirs = golden(**KINDS[kind])
    ours = load(theirs, tmp_path / "model")
    for sentence in SENTENCES:
        np.testing.assert_allclose(
            layers(ours, sentence), theirs.read(sentence)[0], rtol=0, atol=5e-6
        )


@pytest.mark.parametrize("bound", ["cell_clip", "proj_clip"])
def test_the_clips_of_the_golden_model_are_active(bound: str) -> None:
    clipped, free = golden(), golden(**{bound: None})
    gap = clipped.read(SENTENCES[0])[0] - free.read(SENTENCES[0])[0]
    assert np.abs(gap[1:]).max() > 0.05


def test_state_is_carried_by_each_text_of_a_batch(tmp_path: Path) -> None:
    theirs = golden(layers=3)
    ours = load(theirs, tmp_path / "model")
    states: list[State | None] = [None, None]
    state = None
    for turn in ((0, 1), (2, 4), (3, 0)):
        texts = [SENTENCES[place] for place in turn]
        batch = pack_texts(texts, ours.vocabulary, spelled=True, read_end=True)
        with torch.no_grad():
            outputs = ours.layers(batch, state)
        state = outputs.state
        layers, _ = outputs.padded()
        for slot, text in enumerate(texts):
            expected, states[slot] = theirs.read(text, states[slot])
            found = layers[:, slot, : len(text)].numpy()
            np.testing.assert_allclose(found, expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    ("options", "weights", "others"),
    [
        ("elmo_2x1024_128_2048cnn_1xhighway_options.json",
         "elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5", ["token_vectors.hdf5"]),
        ("options.json", "weights.hdf5", ["small_options.json", "small_weights.hdf5"]),
        ("options.json", "lm_weights.hdf5", ["lm_embeddings_0.hdf5", "lm_embeddings_1.hdf5"]),
        ("options.json", "model.hdf5", []),
    ],
)  # fmt: skip
def test_files_are_found_under_their_published_names(
    tmp_path: Path, options: str, weights: str, others: list[str]
) -> None:
    theirs = golden()
    folder = theirs.write(tmp_path / "model")
    (folder / "options.json").rename(folder / options)
    (folder / "weights.hdf5").rename(folder / weights)
    for name in others:
        (folder / name).write_text("another file")
    loaded = open_model(folder)
    np.testing.assert_allclose(
        layers(loaded.model, SENTENCES[0]), theirs.read(SENTENCES[0])[0], rtol=0, atol=5e-6
    )
    assert set(describe(folder).files) == {options, weights}


def test_two_models_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = golden().write(tmp_path / "model")
    for name in ("options.json", "weights.hdf5"):
        (folder / f"a_{name}").write_bytes((folder / name).read_bytes())
        (folder / name).rename(folder / f"b_{name}")
    with pytest.raises(UserError, match=r"a_options\.json, b_options\.json, .*keep one model per"):
        open_model(folder)


def test_words_that_begin_with_the_same_48_bytes_are_one(tmp_path: Path) -> None:
    ours = load(golden(), tmp_path / "model")
    assert np.array_equal(layers(ours, [LONG + "é"])[0], layers(ours, [LONG + "è"])[0])
    assert not np.array_equal(layers(ours, [LONG + "y"])[0], layers(ours, [LONG + "z"])[0])
    assert np.array_equal(layers(ours, ["x" * 48])[0], layers(ours, ["x" * 60])[0])


def test_a_vocabulary_beside_is_read_and_none_is_needed(tmp_path: Path) -> None:
    theirs = golden()
    assert load(theirs, tmp_path / "bare").vocabulary.words == tuple(SPECIAL)
    theirs.vocabulary = ["cat", "</S>", "<S>", "雨"]
    folder = theirs.write(tmp_path / "named")
    assert open_model(folder).model.vocabulary.words == (*SPECIAL, "cat", "雨")
    (folder / "vocab-2.txt").write_text("x\n")
    with pytest.raises(UserError, match=r"at most one vocabulary.*vocab-2\.txt, vocab\.txt"):
        open_model(folder)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"needs the vocabulary.*vocab\.txt"),
        (["the", *SPECIAL, "cat", "naïve"], "must start with the lines <S>, </S>, <UNK>"),
        ([*WORDS, "more"], r"embedding is \(6, 4\), expected \(7, 4\).*the vocabulary is not"),
        ([*WORDS[:-1], "cat"], "holds 'cat' twice"),
        ([*WORDS, " "], "line 7: expected one word"),
    ],
)
def test_a_model_of_words_needs_its_own_vocabulary(
    tmp_path: Path, words: list[str], message: str
) -> None:
    theirs = golden(words=WORDS)
    theirs.vocabulary = words
    with pytest.raises(UserError, match=message):
        load(theirs, tmp_path / "model")


def test_stored_token_vectors_are_used_and_other_words_spelled(tmp_path: Path) -> None:
    theirs = golden()
    theirs.vocabulary = ["cat", "<UNK>", "雨"]
    folder = theirs.write(tmp_path / "model")
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    with h5py.File(tmp_path / "tokens.hdf5", "w") as file:
        file["embedding"] = table
    files = (folder / "options.json", folder / "weights.hdf5")
    stored = load_official(*files, token_vectors=tmp_path / "tokens.hdf5")[0]
    text = ["cat", "unseen", "<UNK>", "雨"]
    tokens, plain = layers(stored, text)[0, :, :4], theirs.read(text)[0][0, :, :4]
    assert np.array_equal(tokens[[0, 3]], table[[0, 2]])
    np.testing.assert_allclose(tokens[1:3], plain[1:3], rtol=0, atol=5e-6)
    assert "token_layer.vectors" not in stored.state_dict()
    with h5py.File(tmp_path / "tokens.hdf5", "w") as file:
        file["embedding"] = table[:2]
    with pytest.raises(UserError, match=r"embedding is \(2, 4\) of float32, expected \(3, 4\)"):
        load_official(*files, token_vectors=tmp_path / "tokens.hdf5")


def test_stored_token_vectors_of_the_model_itself_change_nothing(tmp_path: Path) -> None:
    theirs = golden()
    theirs.vocabulary = ["cat", "<S>", "</S>", "雨", "x" * 60]
    folder = theirs.write(tmp_path / "model")
    with h5py.File(tmp_path / "tokens.hdf5", "w") as file:
        vectors = np.array([theirs.token(word) for word in theirs.vocabulary])
        file["embedding"] = vectors.astype(np.float32)
    stored = load_official(
        folder / "options.json", folder / "weights.hdf5", token_vectors=tmp_path / "tokens.hdf5"
    )[0]
    for sentence in SENTENCES:
        expected = theirs.read(sentence)[0]
        np.testing.assert_allclose(layers(stored, sentence), expected, rtol=0, atol=5e-6)


def test_a_model_without_softmax_says_so(tmp_path: Path) -> None:
    ours = load(golden(), tmp_path / "model")
    batch = pack_texts([["cat"]], ours.vocabulary, spelled=True)
    with pytest.raises(UserError, match="no softmax: its authors did not publish it"):
        ours.loss(batch)
    assert all(parameter.requires_grad for parameter in ours.parameters())


# options.json is read strictly where it says what a model is, and all problems at once.


MANY = [f"dataset_{number}" for number in range(20)]


def read(options: dict[str, Any]) -> BiLMConfig:
    return config_of(options, MANY, "options.json")


@pytest.mark.parametrize(
    ("cells", "width", "highways", "published"),
    [(1024, 128, 1, 13_593_312), (2048, 256, 1, 28_027_744), (4096, 512, 2, 93_600_864)],
)
def test_published_models_have_their_published_sizes(
    cells: int, width: int, highways: int, published: int
) -> None:
    options = golden(highways=highways).options
    options["lstm"] |= {"dim": cells, "projection_dim": width}
    filters = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
    options["char_cnn"] |= {"filters": filters, "embedding": {"dim": 16}}
    rows = names_of(read(options), 3)
    # Published numbers count a row of the characters for padding, which is not in the file.
    assert sum(math.prod(row.shape) for row in rows) == published - 16


def test_what_options_say_is_what_the_model_is() -> None:
    config = read(golden(activation="tanh", highways=2).options)
    assert config == BiLMConfig(
        input="characters",
        word_dim=4,
        characters=CharacterConfig(
            char_dim=3, filters=((1, 2), (3, 5)), highways=2, activation="tanh"
        ),
        hidden=6,
        projection=4,
        skip=True,
        cell_clip=0.6,
        projection_clip=0.9,
        softmax=SoftmaxConfig(loss="none", tied=False),
    )
    assert to_json(read(options_of(config))) == to_json(config)


def test_skip_connections_from_the_token_layer_cannot_be_written() -> None:
    config = replace(read(golden().options), skip_tokens=True)
    with pytest.raises(UserError, match="cannot hold this model: its first layer does not add"):
        options_of(config)


def test_all_problems_are_told_at_once() -> None:
    options = golden().options
    options["lstm"] |= {"dim": 3, "cell_clip": -1}
    options["char_cnn"] |= {"n_characters": 260, "max_characters_per_token": 20, "n_highway": -1}
    options["bidirectional"] = False
    with pytest.raises(ConfigError) as raised:
        read(options)
    message = str(raised.value)
    for part in (
        "bidirectional", "projection_dim: 4 is more than the 3 cells", "cell_clip",
        "n_characters: expected 261 or 262", "max_characters_per_token: expected 50", "highways",
    ):  # fmt: skip
        assert part in message
    assert len(raised.value.problems) == 6


def test_unknown_keys_and_wrong_types_are_told_at_once() -> None:
    options = golden().options
    options["lstm"] |= {"n_layer": 2, "dim": "six"}
    del options["char_cnn"]["filters"]
    with pytest.raises(ConfigError) as raised:
        read(options)
    assert "unknown key 'n_layer' (did you mean 'n_layers'?)" in str(raised.value)
    assert "lstm.dim: expected int, got 'six'" in str(raised.value)
    assert "key 'filters' is missing" in str(raised.value)


def test_how_a_model_was_trained_is_no_problem() -> None:
    training = {"n_epochs": 10, "all_clip_norm_val": 10.0, "n_tokens_vocab": 793471}
    assert read({**golden().options, **training}) == read(golden().options)
    assert read({**golden().options, "dropout": 0.5}).dropout == 0.5


@pytest.mark.parametrize("text", ["", "hello", "[]", "{}", '{"model_type": "bert"}', "null"])
def test_a_text_that_is_no_model_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "options.json").write_text(text)
    with pytest.raises(UserError, match=r"options\.json: (expected JSON|not the options)"):
        read_options(tmp_path / "options.json")

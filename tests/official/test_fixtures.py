"""The activations that the original programs stored are computed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmo.bilm.model import BiLM
from elmo.official.format import load_official
from elmo.official.verify import read_slots, verify_activations, verify_tokens
from elmo.text.batching import pack_texts

SETS = {"allennlp": "sentences.json", "bilm_tf": "lm_embeddings_sentences.json"}
TOLERANCE = 2e-6


def load(folder: Path, **options: Any) -> BiLM:
    return load_official(folder / "options.json", folder / "lm_weights.hdf5", **options)[0]


@pytest.mark.parametrize("name", SETS)
def test_all_batches_with_the_state_carried(originals: Path, name: str) -> None:
    folder = originals / name
    model = load(folder)
    slots: list[list[str]] = json.loads((folder / SETS[name]).read_text())
    assert [len(slot) for slot in slots] == [10, 10, 10]
    stored = [h5py.File(folder / f"lm_embeddings_{slot}.hdf5") for slot in range(3)]
    state = None
    compared = 0
    for turn in range(10):
        texts = [slot[turn].split() for slot in slots]
        batch = pack_texts(texts, model.vocabulary, spelled=True, read_end=True)
        with torch.no_grad():
            outputs, fresh = model.layers(batch, state), model.layers(batch)
        state = outputs.state
        layers, without_state = outputs.padded()[0], fresh.padded()[0]
        for slot, text in enumerate(texts):
            expected = np.concatenate(list(stored[slot][str(turn)][()]), axis=1)  # pyright: ignore
            found = layers[-1, slot, : len(text)].numpy()
            np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
            stateless = without_state[-1, slot, : len(text)].numpy()
            assert np.array_equal(stateless, found) == (turn == 0)
            compared += len(text)
    assert compared == 744
    for file in stored:
        file.close()


@pytest.mark.parametrize("name", SETS)
def test_verify_finds_the_same(originals: Path, name: str) -> None:
    folder = originals / name
    slots = read_slots(folder / SETS[name])
    expected = [folder / f"lm_embeddings_{slot}.hdf5" for slot in range(3)]
    found = verify_activations(load(folder), slots, expected)
    assert [(one.layer, one.direction, one.words) for one in found] == [
        (2, "forward", 744),
        (2, "backward", 744),
    ]
    assert all(one.within(TOLERANCE) for one in found)


def test_the_458_token_vectors(originals: Path) -> None:
    folder = originals / "allennlp"
    words = folder / "vocab_test.txt"
    (found,) = verify_tokens(load(folder), words, folder / "elmo_token_embeddings.hdf5")
    assert (found.layer, found.direction, found.words) == (0, "both", 458)
    assert found.within(TOLERANCE)


def test_the_token_vectors_take_the_place_of_the_cnn(originals: Path) -> None:
    folder = originals / "allennlp"
    stored = load(folder, token_vectors=folder / "elmo_token_embeddings.hdf5")
    slots = read_slots(folder / SETS["allennlp"])
    expected = [folder / f"lm_embeddings_{slot}.hdf5" for slot in range(3)]
    assert all(one.within(TOLERANCE) for one in verify_activations(stored, slots, expected))

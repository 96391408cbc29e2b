"""With carried states the Embedder gives what the original ELMo gave, state per slot and all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.embed.embedder import Embedder
from elmo.language_model import LanguageModel

SLOTS, BATCHES = 3, 10


@pytest.mark.parametrize(
    ("name", "sentences"),
    [("allennlp", "sentences.json"), ("bilm_tf", "lm_embeddings_sentences.json")],
)
def test_stored_activations_of_the_originals(name: str, sentences: str) -> None:
    data = os.environ.get("ELMO_DATA")
    if data is None or not (folder := Path(data) / "elmo_fixtures" / name).is_dir():
        pytest.skip("set ELMO_DATA to a folder with elmo_fixtures to compare with the originals")
    slots = [[text.split() for text in one] for one in json.loads((folder / sentences).read_text())]
    files = (folder / "options.json", folder / "lm_weights.hdf5")
    embedder = Embedder(LanguageModel.from_official(*files))
    found = embedder.encode(
        [slots[slot][batch] for batch in range(BATCHES) for slot in range(SLOTS)],
        output="tokens",
        layer="top",
        initial_state="carry",
        slots=SLOTS,
        batch_tokens=64,
    )
    for slot in range(SLOTS):
        with h5py.File(folder / f"lm_embeddings_{slot}.hdf5") as file:
            for batch in range(BATCHES):
                forward, backward = file[str(batch)][()]  # pyright: ignore
                wanted = np.concatenate([forward, backward], axis=1)
                np.testing.assert_allclose(found[batch * SLOTS + slot], wanted, rtol=0, atol=2e-6)

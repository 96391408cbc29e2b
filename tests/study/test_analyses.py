"""Senses are told apart by what embeddings give for the marked words, and by nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.study.toys import toy_data

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.checkpoint import LoadedModel
from elmo.classify.own_words import own_vocabulary
from elmo.contextual.embedder import Embedder
from elmo.static.vectors import StaticVectors
from elmo.study.senses import sense_accuracies_of
from elmo.text.tokenizers import TokenizerConfig

DATA = toy_data()


@pytest.fixture
def senses(tmp_path: Path) -> Path:
    """Every bank of the test part, its sense by the class of its text."""
    marks = [
        {"row": row, "place": words.index("bank"), "word": "bank",
         "sense": DATA.labels[DATA.classes[DATA.train_count + row]]}
        for row, words in enumerate(DATA.words[DATA.train_count :]) if "bank" in words
    ]  # fmt: skip
    path = tmp_path / "senses.jsonl"
    path.write_text("".join(json.dumps(mark) + "\n" for mark in marks))
    return path


def test_static_vectors_give_chance_and_layers_what_they_know(senses: Path) -> None:
    torch.manual_seed(0)
    vocabulary = own_vocabulary(DATA.words, 1)
    model = BiLM(BiLMConfig(word_dim=8, hidden=8), vocabulary)
    embedder = Embedder(LoadedModel(model, TokenizerConfig()))
    static = StaticVectors(("bank", "loan"), np.eye(2, dtype=np.float32))
    found = sense_accuracies_of(DATA, senses, embedder, ("SVD", static))
    layers = [f"ELMo layer {number}" for number in range(3)]
    assert [one.embedding for one in found] == ["SVD", *layers]
    first, word_alone, *above = found
    assert first.accuracy == pytest.approx(first.chance)
    assert word_alone.accuracy == pytest.approx(word_alone.chance)
    assert all(one.accuracy != pytest.approx(one.chance) for one in above)
    marks = [json.loads(line) for line in senses.read_text().splitlines()]
    expected = []
    for mark in marks:
        others = [one for one in marks if one["row"] != mark["row"]]
        expected.append(np.mean([one["sense"] == mark["sense"] for one in others]))
    assert first.chance == pytest.approx(np.mean(expected))
    assert first.occurrences == len(marks)

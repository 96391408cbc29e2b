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
from elmo.classify.features import build_task_vocabulary
from elmo.embed.embedder import Embedder
from elmo.model_folder import LoadedModel
from elmo.static.vectors import StaticVectors
from elmo.study import analyses as ambiguous
from elmo.study.analyses import ambiguous_word, sense_accuracies_of
from elmo.text.tokenizer import TokenizerConfig

# Neighbours of ambiguous words point at the rows they were found in.


DATA = toy_data()
WORDS = ("bank", "loan", "water")
STATIC = StaticVectors(WORDS, torch.eye(3).numpy())


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(word_dim=8, hidden=8), build_task_vocabulary(DATA.words, 1))
    return Embedder(LoadedModel(model, TokenizerConfig()))


def test_texts_rows_and_words_belong_together(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ambiguous, "SEARCHED", 30)
    found = ambiguous_word("bank", DATA, embedder, "svd-2", STATIC, shows_texts=True)
    assert found is not None
    assert [one.word for one in found.static] == ["loan", "water"]
    for context in found.contexts:
        words = DATA.words[DATA.train_count + context.row]
        assert context.text == " ".join(words)
        assert "bank" in words
        for one in context.neighbours:
            assert one.word in DATA.words[one.row]
            assert one.text == " ".join(DATA.words[one.row])
    assert not caplog.records


def test_texts_are_not_shown_where_they_may_not_be(embedder: Embedder) -> None:
    found = ambiguous_word("bank", DATA, embedder, "svd-2", STATIC, shows_texts=False)
    assert found is not None
    assert all(context.text is None for context in found.contexts)
    assert all(one.text is None for context in found.contexts for one in context.neighbours)


def test_a_word_that_is_hardly_there_is_left_out(embedder: Embedder) -> None:
    assert ambiguous_word("court", DATA, embedder, "svd-2", STATIC, shows_texts=True) is None
    assert ambiguous_word("boat", DATA, embedder, "svd-2", STATIC, shows_texts=True) is None


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
    vocabulary = build_task_vocabulary(DATA.words, 1)
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

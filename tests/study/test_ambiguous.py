"""Neighbours of ambiguous words point at the rows they were found in."""

from __future__ import annotations

import pytest
import torch
from tests.study.toys import toy_data

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.checkpoint import LoadedModel
from elmo.classify.own_words import own_vocabulary
from elmo.contextual.embedder import Embedder
from elmo.static.vectors import StaticVectors
from elmo.study import ambiguous
from elmo.study.ambiguous import ambiguous_word
from elmo.text.tokenizers import TokenizerConfig

DATA = toy_data()
WORDS = ("bank", "loan", "water")
STATIC = StaticVectors(WORDS, torch.eye(3).numpy())


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(word_dim=8, hidden=8), own_vocabulary(DATA.words, 1))
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

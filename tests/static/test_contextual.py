"""Distilled vectors are means over a word's occurrences, computed here one text at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.bilm.config import BiLMConfig
from elmo.bilm.model import BiLM
from elmo.embed.embedder import Embedder
from elmo.errors import ConfigError, UserError
from elmo.language_model import LanguageModel
from elmo.static import contextual
from elmo.static.contextual import ContextualConfig, contextual_vectors
from elmo.static.train import train_static
from elmo.static.vectors import StaticVectors
from elmo.text.tokenizer import TokenizerConfig
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

TEXTS = [
    text.split()
    for text in (
        "the bank raised its rates", "we sat on the bank", "", "rates fell",
        "the the bank bank of the river", "a river of rates and the bank of it",
    )
]  # fmt: skip
WORDS = ("bank", "rates", "the", "river", "unseen")


@pytest.fixture(scope="module")
def loaded() -> LanguageModel:
    torch.manual_seed(0)
    words = sorted({word for text in TEXTS for word in text} - {"raised"})  # one is unknown to it
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), (1,) * (3 + len(words)))
    return LanguageModel(BiLM(BiLMConfig(word_dim=8, hidden=8), vocabulary), TokenizerConfig())


def with_vectors() -> Vocabulary:
    return Vocabulary((*SPECIAL_WORDS, *WORDS), (1,) * (3 + len(WORDS)))


@pytest.mark.parametrize("layer", [0, 1, 2, "top", "average"])
def test_vectors_are_means_over_occurrences(loaded: LanguageModel, layer: int | str) -> None:
    found = contextual_vectors(TEXTS, with_vectors(), loaded, ContextualConfig(layer=layer))  # pyright: ignore
    assert found.words == ("bank", "rates", "the", "river")
    embedder = Embedder(loaded)
    for word in found.words:
        seen = [
            vector
            for text in TEXTS
            if text
            for name, vector in zip(
                text, embedder.encode([text], output="tokens", layer=layer)[0], strict=True
            )
            if name == word
        ]
        np.testing.assert_allclose(found.vector(word), np.mean(seen, 0), atol=1e-5)


def test_blocks_and_chunks_bound_the_memory_and_change_nothing_else(
    loaded: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = contextual_vectors(TEXTS, with_vectors(), loaded)
    done: list[int] = []
    monkeypatch.setattr(contextual, "TOKENS_AT_ONCE", 8)
    blocks = contextual_vectors(iter(TEXTS), with_vectors(), loaded, on_texts=done.append)
    np.testing.assert_allclose(blocks.vectors, whole.vectors, atol=1e-5)
    assert done[-1] == len(TEXTS)
    # Of a text longer than a chunk, each chunk is read by itself.
    monkeypatch.setattr(contextual, "CHUNK_WORDS", 2)
    pairs = [text[start : start + 2] for text in TEXTS for start in range(0, len(text), 2)]
    apart = contextual_vectors(pairs, with_vectors(), loaded)
    np.testing.assert_allclose(
        contextual_vectors(TEXTS, with_vectors(), loaded).vectors, apart.vectors, atol=1e-5
    )


def test_files_become_vectors_that_word2vec_readers_read(
    loaded: LanguageModel, tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(" ".join(text) for text in TEXTS if text), encoding="utf-8")
    config = ContextualConfig(min_count=3, layer="top")
    trained = train_static(
        str(path), config, model=loaded, held_out_share=0, cache=tmp_path / "cache"
    )
    assert set(trained.vectors.words) == {"the", "bank", "rates", "of"}
    expected = contextual_vectors([text for text in TEXTS if text], with_vectors(), loaded, config)
    np.testing.assert_allclose(trained.vectors.vector("bank"), expected.vector("bank"), atol=1e-5)
    trained.vectors.save(tmp_path / "vectors.bin")
    np.testing.assert_array_equal(
        StaticVectors.load(tmp_path / "vectors.bin").vectors, trained.vectors.vectors
    )


def test_mistakes_are_named(loaded: LanguageModel) -> None:
    with pytest.raises(UserError, match="expected one of layers 0 to 2, got 3"):
        contextual_vectors(TEXTS, with_vectors(), loaded, ContextualConfig(layer=3))
    with pytest.raises(ConfigError, match="min_count"):
        contextual_vectors(TEXTS, with_vectors(), loaded, ContextualConfig(min_count=0))
    with pytest.raises(UserError, match="give more text"):
        contextual_vectors([[], ["unheard"]], with_vectors(), loaded)

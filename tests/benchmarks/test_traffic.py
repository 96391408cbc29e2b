"""Bytes a step: the arithmetic against counting what is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.text.config import Batching
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training.config import PretrainConfig
from traffic import bytes_a_step, touched_rows, word_numbers


@pytest.mark.parametrize("tied", [True, False])
def test_all_gradients_are_all_parameters(tied):
    words = Vocabulary((*SPECIAL_WORDS, *(f"w{n}" for n in range(97))), (1,) * 100)
    config = BiLMConfig(word_dim=8, hidden=8, softmax=SoftmaxConfig(tied=tied))
    model = BiLM(config, words)
    numbers = sum(one.numel() for one in model.parameters())
    assert bytes_a_step(PretrainConfig(model=config), 100, 1).dense == 4 * numbers
    by_word = sum(one.numel() for one in model.word_parameters)
    assert word_numbers(config) * 100 == by_word


def test_expected_rows_are_what_is_drawn():
    config = BiLMConfig(softmax=SoftmaxConfig(samples=50))
    words = 1000
    zipf = 1 / np.arange(1, words + 1)
    smooth = zipf**0.75
    random = np.random.default_rng(0)
    drawn = [
        len(
            np.union1d(
                random.choice(words, 300, p=zipf / zipf.sum()),
                random.choice(words, 100, p=smooth / smooth.sum()),
            )
        )
        for _ in range(200)
    ]
    assert touched_rows(config, words, 300) == pytest.approx(np.mean(drawn), rel=0.01)


def test_a_small_vocabulary_is_sent_whole():
    config = PretrainConfig(batching=Batching(batch_tokens=100_000, window=256))
    found = bytes_a_step(config, 100, 1)
    assert found.sent == pytest.approx(found.dense, rel=0.01)

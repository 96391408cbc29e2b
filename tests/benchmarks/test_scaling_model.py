"""Bytes a step: the arithmetic against counting what is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import lambertw

from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.text.config import Batching
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training.config import PAPER, PretrainConfig
from scaling_model import (
    best_interval,
    bytes_a_step,
    distinct_share,
    overhead,
    products_a_token,
    simulated,
    touched_rows,
    word_numbers,
    young,
)

# The best checkpoint interval: least by formula, by search and by simulation.


@pytest.mark.parametrize(("cost", "between"), [(1.0, 600.0), (10.0, 3600.0), (60.0, 600.0)])
def test_the_best_interval_is_lamberts(cost, between):
    exact = between * (1 + lambertw(-math.exp(-1 - cost / between)).real)
    assert best_interval(cost, between) == pytest.approx(exact, rel=1e-6)
    for factor in (0.8, 1.25):
        assert overhead(exact * factor, cost, between) > overhead(exact, cost, between)


def test_young_is_its_limit():
    assert best_interval(1.0, 1e6) == pytest.approx(young(1.0, 1e6), rel=0.01)


@pytest.mark.parametrize("share", [0.3, 1.0, 3.0])
def test_simulated_runs_agree_with_the_formula(share):
    interval = share * best_interval(10.0, 3600.0)
    assert simulated(interval, 10.0, 3600.0) == pytest.approx(
        overhead(interval, 10.0, 3600.0), abs=0.02
    )


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


# The arithmetic of the paper's model, against its parameters: each weight is used once a token.


def test_an_lstm_multiplies_each_of_its_weights_once_a_token():
    with torch.device("meta"):
        model = BiLM(PAPER.model, Vocabulary(SPECIAL_WORDS, (1, 1, 1)))
    stacks = (model.forward_stack, model.backward_stack)
    weights = sum(one.numel() for stack in stacks for one in stack.parameters() if one.dim() == 2)
    assert products_a_token(PAPER)["LSTM"] == weights


def test_a_longer_batch_repeats_more_words():
    shares = [distinct_share(tokens) for tokens in (1, 100, 10_000)]
    assert shares[0] == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)

"""Checkpoint intervals and operations per token: the arithmetic against other ways to count."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.special import lambertw

from elmo.bilm.model import BiLM
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training.config import PAPER
from scaling_model import (
    best_interval,
    distinct_share,
    overhead,
    products_a_token,
    simulated,
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

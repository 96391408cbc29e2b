"""The arithmetic of the paper's model, against its parameters: each weight is used once a token."""

from __future__ import annotations

import pytest
import torch

from billion_words import distinct_share, products_a_token
from elmo.bilm.model import BiLM
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary
from elmo.training.config import PAPER


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

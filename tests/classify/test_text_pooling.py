"""Words are pooled as NumPy pools them, and padding never counts."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.text_pooling import TextPooling

DIM = 3


def pooled_by_hand(words: np.ndarray, weight: np.ndarray) -> np.ndarray:
    if not len(words):
        return np.zeros(5 * DIM)
    scores = np.exp(words @ weight)
    attended = (scores / scores.sum()) @ words
    return np.concatenate([words.mean(0), words.max(0), words[0], words[-1], attended])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 99))
def test_each_text_as_if_alone_whatever_stands_in_the_padding(
    lengths: list[int], padding: int, seed: int
) -> None:
    torch.manual_seed(seed)
    pooling = TextPooling(DIM, ("mean", "max", "first", "last", "attention")).double()
    assert pooling.attention is not None
    torch.nn.init.normal_(pooling.attention.weight)
    vectors = torch.randn(len(lengths), max(lengths) + padding, DIM, dtype=torch.float64)
    found = pooling(vectors, torch.tensor(lengths)).detach().numpy()
    weight = pooling.attention.weight[0].detach().numpy()
    for row, length in enumerate(lengths):
        wanted = pooled_by_hand(vectors[row, :length].numpy(), weight)
        np.testing.assert_allclose(found[row], wanted, rtol=0, atol=1e-12)


def test_attention_starts_as_the_mean() -> None:
    torch.manual_seed(0)
    vectors, lengths = torch.randn(2, 4, DIM), torch.tensor([4, 2])
    attention = TextPooling(DIM, ("attention",))(vectors, lengths)
    torch.testing.assert_close(attention, TextPooling(DIM, ("mean",))(vectors, lengths))

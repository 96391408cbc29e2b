"""Words are pooled as NumPy pools them, and padding never counts."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.poolable import Vectors
from elmo.classify.text_pooling import TextPooling

DIM = 3
POOLINGS = ("mean", "max", "first", "last", "attention")


def pooled_by_hand(words: np.ndarray, weight: np.ndarray) -> np.ndarray:
    if not len(words):
        return np.zeros(5 * DIM)
    scores = np.exp(words @ weight)
    attended = (scores / scores.sum()) @ words
    return np.concatenate([words.mean(0), words.max(0), words[0], words[-1], attended])


def pooling_of_all_kinds(seed: int) -> TextPooling:
    torch.manual_seed(seed)
    pooling = TextPooling(DIM, POOLINGS).double()
    assert pooling.attention is not None
    torch.nn.init.normal_(pooling.attention.weight)
    return pooling


lengths_of_texts = st.lists(st.integers(0, 5), min_size=1, max_size=4)
sizes_of_parts = st.sampled_from([(DIM,), (1, DIM - 1), (0, DIM), (1, 1, DIM - 2)])


@given(lengths_of_texts, st.integers(0, 3), st.integers(0, 99), sizes_of_parts, st.booleans())
def test_each_text_as_if_alone_whatever_stands_in_the_padding(
    lengths: list[int], padding: int, seed: int, sizes: tuple[int, ...], learns: bool
) -> None:
    pooling = pooling_of_all_kinds(seed)
    assert pooling.attention is not None
    vectors = torch.randn(len(lengths), max(lengths) + padding, DIM, dtype=torch.float64)
    parts = vectors.clone().requires_grad_(learns).split(sizes, dim=2)
    found = pooling([Vectors(part) for part in parts], torch.tensor(lengths)).detach().numpy()
    weight = pooling.attention.weight[0].detach().numpy()
    for row, length in enumerate(lengths):
        wanted = pooled_by_hand(vectors[row, :length].numpy(), weight)
        np.testing.assert_allclose(found[row], wanted, rtol=0, atol=1e-12)


@given(lengths_of_texts, st.integers(0, 2), st.integers(0, 99))
def test_the_gradient_is_that_of_finite_differences(
    lengths: list[int], padding: int, seed: int
) -> None:
    pooling = pooling_of_all_kinds(seed)
    assert pooling.attention is not None
    vectors = torch.randn(len(lengths), max(lengths) + padding, DIM, dtype=torch.float64)
    fixed, learned = vectors[:, :, :1], vectors[:, :, 1:].clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda learned, _: pooling([Vectors(fixed), Vectors(learned)], torch.tensor(lengths)),
        (learned, pooling.attention.weight),
    )


def test_attention_starts_as_the_mean() -> None:
    torch.manual_seed(0)
    vectors, lengths = torch.randn(2, 4, DIM), torch.tensor([4, 2])
    attention = TextPooling(DIM, ("attention",))([Vectors(vectors)], lengths)
    torch.testing.assert_close(attention, TextPooling(DIM, ("mean",))([Vectors(vectors)], lengths))

"""A sum of layers is pooled as if it had been written out, and so are its gradients."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmo.classify.poolable import Poolable, SumOfLayers, Vectors
from elmo.contextual.packed import PackedLayers

LAYERS, WIDTH = 3, 2
DIM = 2 * WIDTH


def pooled(part: Poolable, weight: Tensor, weights: Tensor, lengths: Tensor) -> list[Tensor]:
    return [part.scores(weight), part.summed(weights), part.highest(lengths)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 99))
def test_a_sum_of_layers_is_its_vectors(lengths: list[int], padding: int, seed: int) -> None:
    torch.manual_seed(seed)
    counts = torch.tensor(lengths)
    shape = (LAYERS, len(lengths), max(lengths) + padding, DIM)
    layers = torch.randn(shape, dtype=torch.float64)
    layers[0, ..., WIDTH:] = layers[0, ..., :WIDTH]
    layers *= (torch.arange(shape[2]) < counts[:, None])[:, :, None]
    learned = [
        torch.randn(size, dtype=torch.float64, requires_grad=True)
        for size in ((LAYERS,), (DIM,), (len(lengths), 3, shape[2]))
    ]
    factors, weight, weights = learned
    packed = PackedLayers.of(layers)
    written = torch.einsum("l,lbwd->bwd", factors, layers)
    by_layer = pooled(SumOfLayers.of(packed, factors), weight, weights, counts)
    by_word = pooled(Vectors(written), weight, weights, counts)
    torch.testing.assert_close(by_layer, by_word, rtol=0, atol=1e-12)
    upstream = [torch.randn_like(one) for one in by_word]
    gradients = [torch.autograd.grad(some, learned, upstream) for some in (by_layer, by_word)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-11)
    with torch.no_grad():
        fixed = SumOfLayers.of(packed, factors.detach())
        torch.testing.assert_close(fixed.highest(counts), by_word[2], rtol=0, atol=1e-12)

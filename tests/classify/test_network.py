"""The network computes what its parts say, for each text as if it were alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmo.classify.config import NetworkConfig
from elmo.classify.network import (
    ClassifierNetwork,
    LayerSum,
    Poolable,
    TextLayers,
    TextPooling,
    Vectors,
    build_encoder,
)
from elmo.embed.config import MixConfig
from elmo.embed.mix import PackedLayers

# A sum of layers is pooled as if it had been written out, and so are its gradients.


LAYERS, WIDTH = 3, 2
DIM = 2 * WIDTH


def pooled(part: Poolable, weight: Tensor, weights: Tensor, lengths: Tensor) -> list[Tensor]:
    return [part.scores(weight), part.weighted_sums(weights), part.maximum(lengths)]


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
    by_layer = pooled(LayerSum.of(packed, factors), weight, weights, counts)
    by_word = pooled(Vectors(written), weight, weights, counts)
    torch.testing.assert_close(by_layer, by_word, rtol=0, atol=1e-12)
    upstream = [torch.randn_like(one) for one in by_word]
    gradients = [torch.autograd.grad(some, learned, upstream) for some in (by_layer, by_word)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-11)
    with torch.no_grad():
        fixed = LayerSum.of(packed, factors.detach())
        torch.testing.assert_close(fixed.maximum(counts), by_word[2], rtol=0, atol=1e-12)


@given(st.lists(st.integers(0, 70), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 99))
def test_the_gradient_of_a_maximum_is_that_of_the_highest_word(
    lengths: list[int], padding: int, seed: int
) -> None:
    """In single precision, where positions are found in a manner of its own."""
    torch.manual_seed(seed)
    counts = torch.tensor(lengths)
    values = torch.randn(len(lengths), max(lengths) + padding, DIM, requires_grad=True)
    highest = Vectors(values).maximum(counts)
    expected = [text[:count].amax(0) if count else torch.zeros(DIM)
                for text, count in zip(values, lengths, strict=True)]  # fmt: skip
    torch.testing.assert_close(highest, torch.stack(expected), rtol=1e-4, atol=0)
    (gradient,) = torch.autograd.grad(highest.sum(), values)
    assert gradient.sum() == DIM * sum(count > 0 for count in lengths)
    torch.testing.assert_close((gradient * values).sum(1), highest, rtol=0, atol=0)


def test_the_maximum_of_what_became_nan_is_nan() -> None:
    values = torch.full((1, 3, DIM), torch.nan, requires_grad=True)
    assert Vectors(values).maximum(torch.tensor([2])).isnan().all()


CLASSES, TASK_WORDS = 2, 7


def texts(lengths: list[int], seed: int = 0) -> TextLayers:
    torch.manual_seed(seed)
    longest = max(lengths)
    layers = torch.randn(LAYERS, len(lengths), longest, DIM, dtype=torch.float64)
    own = torch.randint(0, TASK_WORDS, (len(lengths), longest))
    return TextLayers(layers, torch.tensor(lengths), own)


def build(**settings: Any) -> ClassifierNetwork:
    torch.manual_seed(1)
    network = ClassifierNetwork(NetworkConfig(**settings), LAYERS, DIM, CLASSES, TASK_WORDS)
    return network.double()


def test_against_numpy() -> None:
    network = build(task_dim=2, pooling="mean", hidden=3)
    given = texts([3])
    state = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    words = np.concatenate(
        [given.layers[:, 0].numpy().mean(0), state["task_embedding.weight"][given.task_ids[0]]],
        axis=1,
    )
    text = words.mean(0)
    text = (text - text.mean()) / np.sqrt(text.var() + 1e-5)
    text = text * state["norm.weight"] + state["norm.bias"]
    hidden = np.maximum(0, state["hidden.weight"] @ text + state["hidden.bias"])
    wanted = state["scores.weight"] @ hidden + state["scores.bias"]
    np.testing.assert_allclose(network(given)[0].detach().numpy(), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"task_dim": 0, "hidden": 0},
        {"encoder": "lstm", "encoder_dim": 4, "elmo_at_output": True},
        {"encoder": "attention", "encoder_dim": 4, "pooling": "last+attention"},
        {"mix": MixConfig(mix="function", function_hidden=5)},
        {"mix": MixConfig(mix="concatenation")},
    ],
)
def test_each_text_as_if_alone(settings: dict[str, Any]) -> None:
    network = build(**settings)
    together = texts([3, 0, 2])
    scores = network(together)
    assert scores.shape == (3, CLASSES)
    for row, length in enumerate(together.lengths.tolist()):
        alone = TextLayers(
            together.layers[:, row : row + 1, :length],
            together.lengths[row : row + 1],
            together.task_ids[row : row + 1, :length],
        )
        torch.testing.assert_close(scores[row], network(alone)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mix", ["average", "function"])
def test_products_in_another_precision_are_nearly_the_same(mix: Any) -> None:
    network, given = build(mix=MixConfig(mix=mix)).float(), texts([4, 3])
    packed = given._replace(layers=PackedLayers.of(given.layers.float()))  # pyright: ignore
    exact = network(packed)
    network.multiply_in(torch.bfloat16)
    rounded = network(packed)
    assert rounded.dtype == exact.dtype
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.02)
    rounded.sum().backward()
    assert network.hidden is not None
    assert network.hidden.weight.grad is not None
    network.multiply_in(None)
    assert torch.equal(network(packed), exact)


def test_dropout_follows_its_source_and_none_means_none() -> None:
    network, given = build(dropout=0.5, word_dropout=0.5), texts([4, 4])
    first = network(given, torch.Generator().manual_seed(3))
    again = network(given, torch.Generator().manual_seed(3))
    other = network(given, torch.Generator().manual_seed(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(network(given), network(given))


def test_the_pull_of_both_mixes_counts() -> None:
    mix = MixConfig(mix_pull=0.5, layer_weights=(0.2, 0.3, 0.5))
    network = build(mix=mix, encoder="lstm", encoder_dim=4, elmo_at_output=True)
    assert len(network.mixes) == 2
    torch.testing.assert_close(network.penalty(), 2 * network.mix.penalty())
    assert float(network.penalty().detach()) > 0


# What an encoder makes of a text does not depend on what stands beside it or behind its end.


@pytest.mark.parametrize("kind", ["lstm", "attention"])
def test_encoders_read_each_text_as_if_alone(kind: Any) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(NetworkConfig(encoder=kind, encoder_dim=8), inputs=5)
    assert encoder is not None
    encoder = encoder.double().eval()
    lengths = torch.tensor([4, 1, 0, 3])
    vectors = torch.randn(4, 6, 5, dtype=torch.float64)
    together = encoder(vectors, lengths)
    assert together.shape == (4, 6, encoder.output_dim)
    assert torch.isfinite(together).all()
    for row, length in enumerate(lengths.tolist()):
        if length:
            alone = encoder(vectors[row : row + 1, :length], lengths[row : row + 1])
            torch.testing.assert_close(together[row, :length], alone[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["lstm", "attention"])
def test_words_see_each_other(kind: Any) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(NetworkConfig(encoder=kind, encoder_dim=8), inputs=5)
    assert encoder is not None
    vectors = torch.randn(1, 3, 5)
    before = encoder(vectors, torch.tensor([3]))
    vectors[0, 2] += 1
    assert not torch.allclose(before[0, 0], encoder(vectors, torch.tensor([3]))[0, 0])


def test_none_is_none() -> None:
    assert build_encoder(NetworkConfig(encoder="none"), inputs=5) is None


# Words are pooled as NumPy pools them, and padding never counts.


POOLED_DIM = 3
POOLINGS = ("mean", "max", "first", "last", "attention")


def pooled_by_hand(words: np.ndarray, weight: np.ndarray) -> np.ndarray:
    if not len(words):
        return np.zeros(5 * POOLED_DIM)
    scores = np.exp(words @ weight)
    attended = (scores / scores.sum()) @ words
    return np.concatenate([words.mean(0), words.max(0), words[0], words[-1], attended])


def pooling_of_all_kinds(seed: int) -> TextPooling:
    torch.manual_seed(seed)
    pooling = TextPooling(POOLED_DIM, POOLINGS).double()
    assert pooling.attention is not None
    torch.nn.init.normal_(pooling.attention.weight)
    return pooling


lengths_of_texts = st.lists(st.integers(0, 5), min_size=1, max_size=4)
sizes_of_parts = st.sampled_from(
    [
        (POOLED_DIM,),
        (1, POOLED_DIM - 1),
        (0, POOLED_DIM),
        (1, 1, POOLED_DIM - 2),
    ]
)


@given(lengths_of_texts, st.integers(0, 3), st.integers(0, 99), sizes_of_parts, st.booleans())
def test_each_text_as_if_alone_whatever_stands_in_the_padding(
    lengths: list[int], padding: int, seed: int, sizes: tuple[int, ...], learns: bool
) -> None:
    pooling = pooling_of_all_kinds(seed)
    assert pooling.attention is not None
    vectors = torch.randn(len(lengths), max(lengths) + padding, POOLED_DIM, dtype=torch.float64)
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
    vectors = torch.randn(len(lengths), max(lengths) + padding, POOLED_DIM, dtype=torch.float64)
    fixed, learned = vectors[:, :, :1], vectors[:, :, 1:].clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda learned, _: pooling([Vectors(fixed), Vectors(learned)], torch.tensor(lengths)),
        (learned, pooling.attention.weight),
    )


def test_attention_starts_as_the_mean() -> None:
    torch.manual_seed(0)
    vectors, lengths = torch.randn(2, 4, POOLED_DIM), torch.tensor([4, 2])
    attention = TextPooling(POOLED_DIM, ("attention",))([Vectors(vectors)], lengths)
    torch.testing.assert_close(
        attention, TextPooling(POOLED_DIM, ("mean",))([Vectors(vectors)], lengths)
    )

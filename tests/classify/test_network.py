"""The network computes what its parts say, for each text as if it were alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from elmo.classify.config import NetworkConfig
from elmo.classify.network import ClassifierNetwork, TextLayers
from elmo.contextual.mix_config import MixConfig

LAYERS, DIM, CLASSES, OWN = 3, 4, 2, 7


def texts(lengths: list[int], seed: int = 0) -> TextLayers:
    torch.manual_seed(seed)
    longest = max(lengths)
    layers = torch.randn(LAYERS, len(lengths), longest, DIM, dtype=torch.float64)
    own = torch.randint(0, OWN, (len(lengths), longest))
    return TextLayers(layers, torch.tensor(lengths), own)


def build(**settings: Any) -> ClassifierNetwork:
    torch.manual_seed(1)
    network = ClassifierNetwork(NetworkConfig(**settings), LAYERS, DIM, CLASSES, OWN)
    return network.double()


def test_against_numpy() -> None:
    network = build(own_words=2, pooling="mean", hidden=3)
    given = texts([3])
    state = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    words = np.concatenate(
        [given.layers[:, 0].numpy().mean(0), state["own_words.weight"][given.words[0]]], axis=1
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
        {"own_words": 0, "hidden": 0},
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
            together.words[row : row + 1, :length],
        )
        torch.testing.assert_close(scores[row], network(alone)[0], rtol=0, atol=1e-12)


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

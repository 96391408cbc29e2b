"""As a layer of a network, the model gives the Embedder's vectors, and only the mix learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny_models import make_model

from elmo.embed.config import MixConfig
from elmo.embed.embedder import Embedder
from elmo.embed.layer import ElmoLayer
from elmo.embed.mix import LayerMix
from elmo.errors import UserError

TEXTS = [["the", "cat", "sat"], [], ["雨", "unheard"]]


@pytest.mark.parametrize("kind", ["average", "function"])
def test_vectors_are_those_of_the_embedder_and_zero_at_padding(kind: Any) -> None:
    config = MixConfig(mix=kind, function_hidden=4)
    elmo = ElmoLayer(make_model(), config).double()
    vectors, mask = elmo(TEXTS)
    assert vectors.shape == (3, 3, elmo.output_dim)
    expected = Embedder(make_model(), mix=elmo.mix).encode(TEXTS, output="tokens")
    assert mask.sum(1).tolist() == [len(text) for text in expected]
    for found, here, wanted in zip(vectors.detach(), mask, expected, strict=True):
        np.testing.assert_allclose(found[here].numpy(), wanted, rtol=0, atol=2e-6)
        assert not found[~here].any()


def step(elmo: ElmoLayer) -> dict[str, bool]:
    """Train once; which tensors changed."""
    before = {name: one.clone() for name, one in elmo.state_dict().items()}
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
    elmo(TEXTS).vectors.square().sum().backward()
    optimizer.step()
    return {name: not torch.equal(one, before[name]) for name, one in elmo.state_dict().items()}


def test_frozen_only_the_mix_learns() -> None:
    changed = step(ElmoLayer(make_model()).double())
    assert {name for name, one in changed.items() if one} == {"mix.logits", "mix.scale"}


def test_not_frozen_the_language_model_learns_too() -> None:
    changed = step(ElmoLayer(make_model("both"), freeze=False).double())
    assert all(one for name, one in changed.items() if not name.startswith("bilm.output."))


def test_gradients_of_the_language_model_against_differences() -> None:
    elmo = ElmoLayer(make_model(), freeze=False).double()
    weights = [*elmo.bilm.backward_stack.parameters()][:2]
    torch.manual_seed(0)
    wanted = torch.randn(3, 3, 12, dtype=torch.float64)
    (elmo(TEXTS).vectors * wanted).sum().backward()
    for weight in weights:
        place = (1, 2)
        values: list[float] = []
        for shift in (1e-5, -2e-5):
            with torch.no_grad():
                weight[place] += shift
                values.append(float((elmo(TEXTS).vectors * wanted).sum()))
        slope = (values[0] - values[1]) / 2e-5
        assert float(weight.grad[place]) == pytest.approx(slope, rel=1e-5)  # pyright: ignore


def test_dropout_falls_in_training_only() -> None:
    elmo = ElmoLayer(make_model(), MixConfig(mix_dropout=0.5))
    whole = elmo.eval()(TEXTS).vectors
    assert torch.equal(elmo(TEXTS).vectors, whole)
    first, second = (elmo.train()(TEXTS).vectors for _ in range(2))
    assert not torch.equal(first, second)
    again = ElmoLayer(make_model(), MixConfig(mix_dropout=0.5)).train()
    assert torch.equal(again(TEXTS).vectors, first)


def test_several_mixes_of_one_reading() -> None:
    elmo = ElmoLayer(make_model())
    read = elmo.layers(TEXTS)
    top = LayerMix(MixConfig(mix="top"), 3, 12)
    torch.testing.assert_close(top(read.layers), read.layers[2])


def test_a_state_dict_holds_model_and_mix() -> None:
    one = ElmoLayer(make_model(), MixConfig(layer_weights=(0.5, 0.3, 0.2), gamma=1.5))
    other = ElmoLayer(make_model(seed=5))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(TEXTS).vectors, other(TEXTS).vectors)


@pytest.mark.parametrize("texts", ["the cat", []])
def test_no_list_of_texts_is_told(texts: Any) -> None:
    with pytest.raises(UserError, match="expected a list of texts"):
        ElmoLayer(make_model())(texts)


def test_the_kind_of_the_mix_is_enough() -> None:
    assert ElmoLayer(make_model(), "function").mix.config == MixConfig(mix="function")
    assert ElmoLayer(make_model()).mix.config == MixConfig(mix="trainable")


class Encoded(torch.utils.data.Dataset[Any]):
    """Rows that are encoded in the workers of a DataLoader."""

    def __init__(self, elmo: ElmoLayer) -> None:
        self.elmo = elmo

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return self.elmo([["the", "cat", "sat"][: 1 + index % 3]]).vectors[0].sum(0).detach()


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker")  # on one core
def test_it_works_in_workers_after_use_in_the_parent() -> None:
    rows = Encoded(ElmoLayer(make_model()).eval())
    expected = [rows[index] for index in range(6)]
    loader: Any = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2, timeout=60)
    for vector, wanted in zip(loader, expected, strict=True):
        torch.testing.assert_close(vector, wanted, rtol=0, atol=1e-6)

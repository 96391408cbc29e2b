"""Mixes and their gradients are what NumPy makes of the equations; what is fixed stays fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import from_json, to_json
from elmo.embed.config import MixConfig
from elmo.embed.mix import LayerMix, PackedLayers, dropped
from elmo.errors import UserError

# What is dropped is drawn from the source given, in the share asked for, and the mean stays.


def source(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.9, 0.999])
def test_so_many_are_dropped(share: float) -> None:
    count = 400_000
    values = dropped(torch.ones(count), share, source())
    zeros = int((values == 0).sum())
    # Five standard deviations of so many draws.
    assert abs(zeros - share * count) < 5 * (count * share * (1 - share)) ** 0.5
    assert torch.equal(values[values != 0].unique(), torch.tensor([1 / (1 - share)]))


def test_neighbours_are_dropped_independently() -> None:
    # Four values come of one draw: of each pair of places, both fall a quarter of the time.
    gone = (dropped(torch.ones(100_000, 4), 0.5, source()) == 0).double()
    together = gone.T @ gone / len(gone)
    expected = torch.full((4, 4), 0.25, dtype=torch.double) + torch.eye(4) / 4
    torch.testing.assert_close(together, expected, atol=0.01, rtol=0)


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_the_same_source_drops_the_same(shape: list[int], share: float, seed: int) -> None:
    values = torch.ones(shape)
    first = dropped(values, share, source(seed))
    assert first.shape == values.shape
    assert torch.equal(first, dropped(values, share, source(seed)))


def test_nearly_everything_can_be_dropped() -> None:
    assert int((dropped(torch.ones(10_000), 1 - 1e-9, source()) != 0).sum()) <= 5


def test_without_a_source_or_a_share_nothing_is_dropped() -> None:
    values = torch.ones(3)
    assert dropped(values, 0.5, None) is values
    assert dropped(values, 0.0, source()) is values


def test_gradients_pass_where_values_stay() -> None:
    values = torch.ones(100, requires_grad=True)
    result = dropped(values, 0.5, source())
    result.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad, result.detach())


Array = NDArray[np.float64]
LAYERS, BATCH, WORDS, DIM = 3, 2, 4, 6


def layers_of(seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(LAYERS, BATCH, WORDS, DIM, generator=random, dtype=torch.float64)


def mix_of(**settings: Any) -> LayerMix:
    return LayerMix(MixConfig(**settings), LAYERS, DIM).double()


def softmax(values: Array) -> Array:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def normed(layers: Array) -> Array:
    centred = layers - layers.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


@given(
    st.lists(st.floats(-3, 3), min_size=LAYERS, max_size=LAYERS), st.floats(-2, 2), st.booleans()
)
def test_a_learned_sum_and_its_gradients(logits: list[float], gamma: float, norm: bool) -> None:
    mix = mix_of(layer_norm=norm)
    assert mix.logits is not None
    with torch.no_grad():
        mix.logits.copy_(torch.tensor(logits))
        mix.scale.fill_(gamma)
    layers = layers_of()
    upstream = layers_of(1)[0]
    mixed = mix(layers)
    (mixed * upstream).sum().backward()

    values = normed(layers.numpy()) if norm else layers.numpy()
    shares = softmax(mix.logits.detach().numpy())
    total = np.einsum("l,lbwd->bwd", shares, values)
    np.testing.assert_allclose(mixed.detach().numpy(), gamma * total, atol=1e-12)
    # d/dw_j of gamma * sum_j s_j x_j is gamma * s_j (x_j - sum_i s_i x_i).
    each = np.einsum("lbwd,bwd->l", values, upstream.numpy())
    np.testing.assert_allclose(
        mix.logits.grad.numpy(),  # pyright: ignore
        gamma * shares * (each - shares @ each),
        atol=1e-10,
    )
    np.testing.assert_allclose(float(mix.scale.grad), shares @ each, atol=1e-10)  # pyright: ignore


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_learned_function_and_its_gradients(activation: str) -> None:
    mix = mix_of(
        mix="function", function_hidden=5, function_dim=7, function_activation=activation,
        function_average=False,
    )  # fmt: skip
    layers, upstream = layers_of(), torch.randn(BATCH, WORDS, 7, dtype=torch.float64)
    mixed = mix(layers)
    assert mixed.shape[-1] == mix.output_dim == 7
    (mixed * upstream).sum().backward()

    first, last = mix.function[0], mix.function[2]  # pyright: ignore
    a, b, c, d = (
        one.detach().numpy()
        for one in (first.weight, first.bias, last.weight, last.bias)  # pyright: ignore
    )
    inputs = np.concatenate(list(layers.numpy()), axis=-1)
    before = inputs @ a.T + b
    hidden = np.maximum(before, 0) if activation == "relu" else np.tanh(before)
    np.testing.assert_allclose(mixed.detach().numpy(), hidden @ c.T + d, atol=1e-12)
    slope = (before > 0) * 1.0 if activation == "relu" else 1 - hidden**2
    d_before = (upstream.numpy() @ c) * slope
    expected = np.einsum("bwh,bwi->hi", d_before, inputs)
    np.testing.assert_allclose(first.weight.grad.numpy(), expected, atol=1e-10)  # pyright: ignore


def test_a_learned_function_starts_as_the_average_and_adds_to_it() -> None:
    layers = layers_of()
    mix = mix_of(mix="function", function_hidden=5)
    average = layers.numpy().mean(0)
    np.testing.assert_allclose(mix(layers).detach().numpy(), average, atol=1e-12)
    first, last = mix.function[0], mix.function[2]  # pyright: ignore
    with torch.no_grad():
        last.weight.normal_(generator=torch.Generator().manual_seed(1))  # pyright: ignore
    inputs = np.concatenate(list(layers.numpy()), axis=-1)
    hidden = np.maximum(inputs @ first.weight.detach().numpy().T, 0)  # pyright: ignore
    added = hidden @ last.weight.detach().numpy().T  # pyright: ignore
    np.testing.assert_allclose(mix(layers).detach().numpy(), average + added, atol=1e-12)


def test_a_function_of_another_size_cannot_be_added_to_the_average() -> None:
    with pytest.raises(UserError, match="leave function_dim out"):
        mix_of(mix="function", function_dim=DIM + 1)


def test_the_baselines() -> None:
    layers = layers_of()
    assert torch.equal(mix_of(mix="layer", mix_layer=1)(layers), layers[1])
    assert torch.equal(mix_of(mix="top")(layers), layers[2])
    torch.testing.assert_close(mix_of(mix="average")(layers), layers.mean(0), rtol=0, atol=1e-7)
    joined = mix_of(mix="concatenation")
    assert torch.equal(joined(layers), torch.cat(list(layers), dim=-1))
    assert joined.output_dim == LAYERS * DIM
    for kind in ("layer", "top", "average", "concatenation"):
        assert not list(mix_of(mix=kind).parameters())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"layer_norm": True, "gamma": 0.5},
        {"mix": "layer", "mix_layer": 0, "gamma": 0.5},
        {"mix": "top"},
        {"mix": "average", "layer_norm": True},
        {"mix": "frozen", "mix_seed": 3, "gamma": 2.0},
        {"mix": "frozen", "layer_weights": (0.0, 0.25, 0.75)},
        {"mix": "function", "function_hidden": 5},
        {"mix": "function", "function_hidden": 5, "function_dim": 7, "function_average": False},
        {"mix": "concatenation"},
    ],
)
def test_packed_layers_are_mixed_alike(settings: dict[str, Any]) -> None:
    layers, mix = layers_of(), mix_of(**settings)
    layers[0, ..., DIM // 2 :] = layers[0, ..., : DIM // 2]
    for parameter in mix.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    upstream = torch.randn(BATCH, WORDS, mix.output_dim, dtype=torch.float64)
    found: list[list[Tensor]] = []
    for way in (layers, PackedLayers.of(layers)):
        mixed = mix(way)
        learned = list(mix.parameters())
        gradients = torch.autograd.grad((mixed * upstream).sum(), learned) if learned else ()
        found.append([mixed.detach(), *gradients])
    torch.testing.assert_close(*found, rtol=0, atol=1e-6)


def train(mix: LayerMix, steps: int = 3) -> None:
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1)), *mix.parameters()], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        loss = (mix(layers_of()) * scale).square().sum()
        loss.backward()
        optimizer.step()


def test_frozen_weights_stay_and_trainable_ones_learn() -> None:
    frozen, trainable = mix_of(mix="frozen", mix_seed=3, gamma=0.7), mix_of()
    before = {name: value.clone() for name, value in frozen.state_dict().items()}
    train(frozen)
    train(trainable)
    assert before.keys() == {"fixed", "scale"}
    assert all(torch.equal(value, before[name]) for name, value in frozen.state_dict().items())
    assert trainable.weights != pytest.approx([1 / LAYERS] * LAYERS, abs=1e-3)
    assert trainable.gamma != 1


@given(st.integers(0, 1000))
def test_frozen_weights_are_drawn_by_seed_and_normalised(seed: int) -> None:
    weights = mix_of(mix="frozen", mix_seed=seed).weights
    assert weights is not None
    assert weights == mix_of(mix="frozen", mix_seed=seed).weights
    assert weights != mix_of(mix="frozen", mix_seed=seed + 1).weights
    assert sum(weights) == pytest.approx(1, abs=1e-6)
    assert min(weights) >= 0


@given(st.lists(st.floats(0.01, 1), min_size=LAYERS, max_size=LAYERS), st.floats(0.1, 3))
def test_weights_are_set_and_read_normalised(parts: list[float], gamma: float) -> None:
    weights = [part / sum(parts) for part in parts]
    for kind in ("trainable", "frozen"):
        mix = mix_of(mix=kind, layer_weights=tuple(weights), gamma=gamma)
        assert mix.weights == pytest.approx(weights, abs=1e-6)
        assert mix.gamma == pytest.approx(gamma)


def test_the_pull_is_least_at_the_average() -> None:
    mix = mix_of(mix_pull=0.5, layer_weights=(0.2, 0.3, 0.5))
    logs = np.log([0.2, 0.3, 0.5])
    expected = 0.5 * ((logs - logs.mean()) ** 2).sum()
    assert float(mix.penalty().detach()) == pytest.approx(expected)
    optimizer = torch.optim.SGD([mix.logits], lr=0.5)  # pyright: ignore
    for _ in range(50):
        optimizer.zero_grad()
        mix.penalty().backward()
        optimizer.step()
    assert mix.weights == pytest.approx([1 / LAYERS] * LAYERS, abs=1e-6)
    assert float(mix_of(mix="average").penalty()) == 0


def test_dropout_follows_from_its_generator() -> None:
    mix = mix_of(mix_dropout=0.5)
    layers = layers_of()
    drawn = [mix(layers, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    whole = mix(layers)
    kept = drawn[0] != 0
    torch.testing.assert_close(drawn[0][kept], 2 * whole[kept])
    assert 0 < kept.sum() < kept.numel()


@pytest.mark.parametrize("kind", ["trainable", "frozen", "function", "average", "concatenation"])
def test_saved_and_loaded_a_mix_is_the_same(kind: str) -> None:
    mix = mix_of(mix=kind, mix_seed=4)
    train(mix)
    config = from_json(MixConfig, to_json(mix.config), "mix")
    again = LayerMix(config, LAYERS, DIM).double()
    again.load_state_dict(mix.state_dict())
    assert torch.equal(again(layers_of(5)), mix(layers_of(5)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer_weights": (0.5, 0.5)}, "expected 3 weights, one per layer, got 2"),
        ({"layer_weights": (0.5, 0.6, 0.5)}, "expected a sum of 1, got 1.6"),
        ({"layer_weights": (0.0, 0.5, 0.5)}, "never gives exactly 0"),
        ({"mix": "frozen", "layer_weights": (-0.5, 0.5, 1.0)}, "numbers from 0 to 1"),
        ({"mix": "average", "layer_weights": (1.0, 0.0, 0.0)}, "has no weights to set"),
        ({"mix": "layer", "mix_layer": 3}, "layers 0 to 2"),
        ({"mix": "function", "gamma": 2.0}, "only a sum of layers is scaled"),
        ({"mix": "frozen", "mix_pull": 0.1}, "no weights to regularise"),
        ({"mix_dropout": 1.0, "function_hidden": 0}, "2 problems"),
    ],
)
def test_bad_settings_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        mix_of(**settings)


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="of the kind 'top' has no weights to set"):
        mix_of(mix="top", layer_weights=(0.2, 0.3, 0.5))
    with pytest.raises(UserError, match="expected 3 weights"):
        mix_of(layer_weights=(0.5, 0.5))
    with pytest.raises(UserError, match="sum of 1"):
        mix_of(layer_weights=(1.0, 2.0, 3.0))

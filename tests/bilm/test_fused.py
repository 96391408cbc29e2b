"""torch's own LSTM gives of a text alone what the loop over its steps gives."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmo.bilm.lstm import LSTMLayer, LSTMState
from elmo.bilm.ragged import Ragged, Way

WORDS, HIDDEN = 6, 16


def drawn_layer(seed: int, **settings: float) -> LSTMLayer:
    torch.manual_seed(seed)
    layer = LSTMLayer(HIDDEN, HIDDEN, **settings)  # pyright: ignore[reportArgumentType]
    torch.nn.init.normal_(layer.bias)
    return layer


def in_a_loop(
    layer: LSTMLayer, inputs: Tensor, state: LSTMState | None, way: Way, places: Tensor | None
) -> tuple[Tensor, LSTMState]:
    with torch.enable_grad():  # a gradient may be wanted, so nothing is left to torch
        outputs, end = layer.read(inputs, state, way, places)
    return outputs.detach(), end.detach()


def assert_same(found: tuple[Tensor, LSTMState], wanted: tuple[Tensor, LSTMState]) -> None:
    for one, other in (
        (found[0], wanted[0]),
        (found[1].output, wanted[1].output),
        (found[1].cell, wanted[1].cell),
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6)


@given(st.integers(1, 40), st.integers(0, 99), st.booleans(), st.booleans())
@torch.no_grad()
def test_values_and_where_it_ends(steps: int, seed: int, carries: bool, by_word: bool) -> None:
    layer = drawn_layer(seed)
    way = Ragged.of(torch.tensor([steps])).way
    inputs = torch.randn(WORDS if by_word else steps, HIDDEN)
    places = torch.randint(0, WORDS, (steps,)) if by_word else None
    state = LSTMState(torch.randn(1, HIDDEN), torch.randn(1, HIDDEN)) if carries else None
    assert layer.reads_in_one_call(inputs, 1)
    found = layer.read(inputs, state, way, places)
    assert_same(found, in_a_loop(layer, inputs, state, way, places))


@pytest.mark.parametrize("write", ["in place", "to the data", "by an optimizer"])
@torch.no_grad()
def test_changed_weights_are_noticed(write: str) -> None:
    layer, inputs = drawn_layer(0), torch.randn(5, HIDDEN)
    way = Ragged.of(torch.tensor([5])).way
    before, _ = layer.read(inputs, None, way)
    if write == "in place":
        layer.recurrent_weight.mul_(0.5)
    elif write == "to the data":
        layer.recurrent_weight.data.mul_(0.5)
    else:
        layer.recurrent_weight.grad = torch.ones_like(layer.recurrent_weight)
        torch.optim.AdamW([layer.recurrent_weight], lr=0.1, fused=True).step()
    after = layer.read(inputs, None, way)
    assert not torch.allclose(before, after[0])
    assert_same(after, in_a_loop(layer, inputs, None, way, None))


@torch.no_grad()
def test_a_copy_has_weights_of_its_own() -> None:
    layer, inputs = drawn_layer(0), torch.randn(5, HIDDEN)
    way = Ragged.of(torch.tensor([5])).way
    before = layer.read(inputs, None, way)
    other = copy.deepcopy(layer)
    other.bias.add_(1.0)
    assert_same(other.read(inputs, None, way), in_a_loop(other, inputs, None, way, None))
    assert_same(layer.read(inputs, None, way), before)


@torch.no_grad()
def test_padding_behind_the_text_does_not_move_its_end() -> None:
    layer, inputs = drawn_layer(0), torch.randn(9, 1, HIDDEN)
    _, end = layer(inputs, None, torch.tensor([5]))
    _, wanted = layer(inputs[:5], None, torch.tensor([5]))
    torch.testing.assert_close(end.output, wanted.output, rtol=0, atol=2e-6)
    torch.testing.assert_close(end.cell, wanted.cell, rtol=0, atol=2e-6)


@torch.no_grad()
def test_what_torch_does_not_know_is_left_to_the_loop() -> None:
    inputs = torch.randn(5, HIDDEN)
    assert not drawn_layer(0).reads_in_one_call(inputs, 2)
    assert not drawn_layer(0).reads_in_one_call(inputs.bfloat16(), 1)
    assert not drawn_layer(0, cell_clip=1.0).reads_in_one_call(inputs, 1)
    assert not drawn_layer(0, projection=HIDDEN).reads_in_one_call(inputs, 1)
    with torch.inference_mode():
        assert not LSTMLayer(HIDDEN, HIDDEN).reads_in_one_call(inputs, 1)
    with torch.enable_grad():
        assert not drawn_layer(0).reads_in_one_call(inputs, 1)


@torch.no_grad()
def test_under_autocast_the_loop_reads() -> None:
    """torch would read in a lower precision than was asked of us."""
    layer, inputs = drawn_layer(0), torch.randn(5, HIDDEN)
    way = Ragged.of(torch.tensor([5])).way
    wanted = layer.read(inputs, None, way)
    with torch.autocast("cpu", torch.bfloat16):
        assert not layer.reads_in_one_call(inputs, 1)
        assert_same(layer.read(inputs, None, way), wanted)

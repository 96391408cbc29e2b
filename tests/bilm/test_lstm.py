"""The layer against its equations step by step, its gradient against autograd and differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.bilm.numpy_bilm import array, lstm
from torch import Tensor, nn

from elmo.bilm.lstm import LSTMLayer, LSTMState


@dataclass(frozen=True)
class Case:
    projection: int | None = None
    cell_clip: float | None = None
    projection_clip: float | None = None
    inputs: int = 4
    hidden: int = 3


CASES = [
    Case(),
    Case(projection=2),
    Case(cell_clip=0.3),
    Case(projection=5, cell_clip=0.3, projection_clip=0.2),
]
cases = pytest.mark.parametrize("case", CASES)


def build(case: Case, seed: int = 0, scale: float = 1.0) -> LSTMLayer:
    torch.manual_seed(seed)
    layer = LSTMLayer(
        case.inputs, case.hidden, case.projection, case.cell_clip, case.projection_clip
    ).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape) * scale)
    return layer


def state_of(layer: LSTMLayer, batch: int, seed: int = 1) -> LSTMState:
    random = torch.Generator().manual_seed(seed)
    output = torch.rand(batch, layer.width, generator=random, dtype=torch.float64) - 0.5
    cell = torch.rand(batch, layer.hidden, generator=random, dtype=torch.float64) - 0.5
    return LSTMState(output, cell)


def inputs_of(case: Case, steps: int, batch: int, seed: int = 2) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(steps, batch, case.inputs, generator=random, dtype=torch.float64)


def step_by_step(layer: LSTMLayer, inputs: Tensor, state: LSTMState) -> Tensor:
    """The same in plain operations that autograd knows how to derive."""
    h, c = state.output, state.cell
    outputs: list[Tensor] = []
    for x in inputs:
        z = x @ layer.input_weight + h @ layer.recurrent_weight + layer.bias
        i, f, o, j = z.chunk(4, dim=1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
        if layer.cell_clip is not None:
            c = c.clamp(-layer.cell_clip, layer.cell_clip)
        h = torch.sigmoid(o) * torch.tanh(c)
        if layer.projection_weight is not None:
            h = h @ layer.projection_weight
            if layer.projection_clip is not None:
                h = h.clamp(-layer.projection_clip, layer.projection_clip)
        outputs.append(h)
    return torch.stack(outputs)


@given(
    st.sampled_from(CASES),
    st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    st.booleans(),
    st.integers(0, 100),
)
def test_values(case: Case, lengths: list[int], carried: bool, seed: int) -> None:
    layer = build(case, seed)
    inputs = inputs_of(case, max(lengths), len(lengths), seed)
    start = state_of(layer, len(lengths), seed) if carried else None
    outputs, end = layer(inputs, start, torch.tensor(lengths))
    for column, length in enumerate(lengths):
        h = np.zeros(layer.width) if start is None else array(start.output[column])
        c = np.zeros(layer.hidden) if start is None else array(start.cell[column])
        expected, h, c = lstm(layer, array(inputs[:length, column]), h, c)
        np.testing.assert_allclose(array(outputs[:length, column]), expected, atol=1e-12)
        np.testing.assert_allclose(array(end.output[column]), h, atol=1e-12)
        np.testing.assert_allclose(array(end.cell[column]), c, atol=1e-12)


def test_the_cases_really_clip() -> None:
    case = CASES[-1]
    layer = build(case)
    outputs, end = layer(inputs_of(case, 6, 4), None, torch.full((4,), 6))
    assert (outputs.abs() == case.projection_clip).any()
    assert (outputs.abs() < 0.2).any()
    assert (end.cell.abs() == case.cell_clip).any()
    assert (end.cell.abs() < 0.3).any()


@cases
def test_gradients_against_differences(case: Case) -> None:
    layer = build(case, seed=3)
    start = state_of(layer, 2)
    lengths = torch.full((2,), 4)
    tensors = [inputs_of(case, 4, 2), start.output, start.cell, *layer.parameters()]
    names = [name for name, _ in layer.named_parameters()]

    def outputs(inputs: Tensor, output: Tensor, cell: Tensor, *parameters: Tensor) -> Tensor:
        given = dict(zip(names, parameters, strict=True))
        call = (inputs, LSTMState(output, cell), lengths)
        return torch.func.functional_call(layer, given, call)[0]

    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    assert torch.autograd.gradcheck(outputs, leaves)


@cases
def test_gradients_against_autograd(case: Case) -> None:
    layer = build(case, seed=5)
    inputs = inputs_of(case, 7, 3).requires_grad_()
    made = state_of(layer, 3)
    start = LSTMState(made.output.requires_grad_(), made.cell.requires_grad_())
    wanted = torch.randn(7, 3, layer.width, dtype=torch.float64)
    leaves = [inputs, start.output, start.cell, *layer.parameters()]
    found = torch.autograd.grad(layer(inputs, start, torch.full((3,), 7))[0], leaves, wanted)
    expected = torch.autograd.grad(step_by_step(layer, inputs, start), leaves, wanted)
    for one, other in zip(found, expected, strict=True):
        assert other.abs().max() > 0
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("projection", [None, 2])
def test_agrees_with_torch_where_torch_can(projection: int | None) -> None:
    case = Case(projection=projection)
    layer = build(case, seed=7)
    theirs = nn.LSTM(case.inputs, case.hidden, proj_size=projection or 0).double()
    n = case.hidden
    # Ours: input, forget, output, candidate. Theirs: input, forget, candidate, output.
    order = torch.cat([torch.arange(2 * n), torch.arange(3 * n, 4 * n), torch.arange(2 * n, 3 * n)])
    bias = layer.bias.detach().clone()
    bias[n : 2 * n] += 1
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(layer.input_weight.t()[order])
        theirs.weight_hh_l0.copy_(layer.recurrent_weight.t()[order])
        theirs.bias_ih_l0.copy_(bias[order])
        theirs.bias_hh_l0.zero_()
        if layer.projection_weight is not None:
            theirs.weight_hr_l0.copy_(layer.projection_weight.t())  # pyright: ignore
    inputs = inputs_of(case, 6, 3)
    outputs, end = layer(inputs, None, torch.full((3,), 6))
    expected, (h, c) = theirs(inputs)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(end.output, h[0])
    torch.testing.assert_close(end.cell, c[0])


@cases
def test_half_precision_is_close(case: Case) -> None:
    layer = build(case, seed=9, scale=0.5).float()
    inputs = inputs_of(case, 8, 3).float()
    lengths = torch.full((3,), 8)
    exact, end = layer(inputs, None, lengths)
    rough, rough_end = layer(inputs.bfloat16(), None, lengths)
    assert rough.dtype == torch.bfloat16
    assert rough_end.cell.dtype == torch.float32
    torch.testing.assert_close(rough.float(), exact, rtol=0, atol=0.03)
    torch.testing.assert_close(rough_end.cell, end.cell, rtol=0, atol=0.05)
    parameters = list(layer.parameters())
    for one, other in zip(
        torch.autograd.grad(rough.float().square().sum(), parameters),
        torch.autograd.grad(exact.square().sum(), parameters),
        strict=True,
    ):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.05 * other.norm()


def test_reading_on_equals_reading_at_once() -> None:
    case = CASES[-1]
    layer = build(case, seed=11)
    inputs = inputs_of(case, 9, 2)
    whole, end = layer(inputs, None, torch.tensor([9, 9]))
    first, state = layer(inputs[:4], None, torch.tensor([4, 4]))
    second, last = layer(inputs[4:], state, torch.tensor([5, 5]))
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(last.output, end.output)
    torch.testing.assert_close(last.cell, end.cell)


def test_a_new_layer_remembers() -> None:
    layer = LSTMLayer(4, 6, projection=3)
    assert layer.bias.eq(0).all()
    for gate in layer.recurrent_weight.chunk(4, dim=1):
        torch.testing.assert_close(gate @ gate.t(), torch.eye(3), atol=1e-5, rtol=0)


def test_a_detached_state_has_no_past() -> None:
    layer = build(CASES[0])
    _, end = layer(inputs_of(CASES[0], 3, 2), None, torch.tensor([3, 3]))
    assert end.output.requires_grad
    assert not end.detach().output.requires_grad
    assert torch.equal(end.detach().output, end.output)

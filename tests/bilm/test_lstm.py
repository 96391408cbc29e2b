"""The layer against its equations step by step, its gradient against autograd and differences."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.bilm.numpy_bilm import array, lstm
from torch import Tensor, nn

from elmo.bilm import lstm as scan
from elmo.bilm.lstm import (
    InputProducts,
    LSTMLayer,
    LSTMState,
    Ragged,
    Way,
    padded_way,
    product_gradients,
)

# Products of distinct words, spread over rows, are the products of the rows.


torch.manual_seed(0)
WORDS = torch.randn(4, 3, dtype=torch.float64)
PLACES = torch.tensor([0, 2, 2, 3, 0, 0, 2])  # one word is never read
WEIGHT = torch.randn(3, 8, dtype=torch.float64)
BIAS = torch.randn(8, dtype=torch.float64)
ROWS = WORDS[PLACES]


def test_a_part_of_the_rows() -> None:
    expected = ROWS @ WEIGHT + BIAS
    for rows in (slice(0, 7), slice(2, 5)):
        for inputs, places in ((ROWS, None), (WORDS, PLACES)):
            gates = torch.full((rows.stop - rows.start, 8), torch.nan, dtype=torch.float64)
            InputProducts(inputs, places, WEIGHT, BIAS).write(rows, gates)
            torch.testing.assert_close(gates, expected[rows])


def test_gradients_against_autograd() -> None:
    d_gates = torch.randn(7, 8, dtype=torch.float64)
    for inputs, places in ((ROWS, None), (WORDS, PLACES)):
        leaves = [inputs.clone().requires_grad_(), WEIGHT.clone().requires_grad_()]
        rows = leaves[0] if places is None else leaves[0][places]
        expected = torch.autograd.grad(rows @ leaves[1], leaves, d_gates)
        found = product_gradients(inputs, places, WEIGHT, d_gates)
        torch.testing.assert_close(found.inputs, expected[0])
        torch.testing.assert_close(found.weight, expected[1])


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
def test_gradients_against_autograd_lstm(case: Case) -> None:
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


# Steps in rows: texts of different lengths give what each gives alone, values and gradients.


LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any)
WORDS_scan = 5


def words_of(case: Case, ragged: Ragged, seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    vectors = torch.randn(WORDS_scan, case.inputs, generator=random, dtype=torch.float64)
    return vectors, torch.randint(0, WORDS_scan, ragged.step.shape, generator=random)


@given(st.sampled_from(CASES), LENGTHS, st.sampled_from([1, 3, 1024]), st.integers(0, 100))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("gradients", [False, True])
def test_each_text_as_if_alone(
    monkeypatch: pytest.MonkeyPatch,
    gradients: bool,
    case: Case,
    lengths: list[int],
    rows_at_once: int,
    seed: int,
) -> None:
    monkeypatch.setattr(scan, "ROWS_AT_ONCE", rows_at_once)
    layer = build(case, seed)
    ragged = Ragged.of(torch.tensor(lengths))
    start = state_of(layer, len(lengths), seed)
    vectors, places = words_of(case, ragged, seed)
    with torch.set_grad_enabled(gradients):
        by_word, end = layer.read(vectors, start, ragged.way, places)
        by_row, _ = layer.read(vectors[places], start, ragged.way)
    assert by_word.requires_grad == gradients
    np.testing.assert_allclose(array(by_row), array(by_word), atol=1e-12)
    for place, text in enumerate(ragged.order.tolist()):
        mine = ragged.text == text
        expected, h, c = lstm(
            layer,
            array(vectors[places[mine]]),
            array(start.output[place]),
            array(start.cell[place]),
        )
        np.testing.assert_allclose(array(by_word[mine]), expected, atol=1e-12)
        np.testing.assert_allclose(array(end.output[place]), h, atol=1e-12)
        np.testing.assert_allclose(array(end.cell[place]), c, atol=1e-12)


def alone(
    layer: LSTMLayer, vectors: Tensor, places: Tensor, ragged: Ragged, start: LSTMState
) -> Tensor:
    """Each text by itself, in operations that autograd knows, put back into rows."""
    found: dict[tuple[int, int], Tensor] = {}
    for place, text in enumerate(ragged.order.tolist()):
        inputs = vectors[places[ragged.text == text]]
        state = LSTMState(start.output[place : place + 1], start.cell[place : place + 1])
        if len(inputs):
            for step, output in enumerate(step_by_step(layer, inputs[:, None], state)):
                found[step, text] = output[0]
    rows = zip(ragged.step.tolist(), ragged.text.tolist(), strict=True)
    return torch.stack([found[row] for row in rows])


@given(st.sampled_from(CASES), LENGTHS, st.integers(0, 100))
@settings(max_examples=25)
def test_gradients_against_autograd_scan(case: Case, lengths: list[int], seed: int) -> None:
    layer = build(case, seed)
    ragged = Ragged.of(torch.tensor(lengths))
    made = state_of(layer, len(lengths), seed)
    start = LSTMState(made.output.requires_grad_(), made.cell.requires_grad_())
    vectors, places = words_of(case, ragged, seed)
    leaves = [vectors.requires_grad_(), start.output, start.cell, *layer.parameters()]
    outputs, _ = layer.read(vectors, start, ragged.way, places)
    wanted = torch.randn(outputs.shape, dtype=torch.float64)
    found = torch.autograd.grad(outputs, leaves, wanted)
    expected = torch.autograd.grad(alone(layer, vectors, places, ragged, start), leaves, wanted)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("numbers", [1, scan.MANY_NUMBERS - 1, scan.MANY_NUMBERS, 100_000])
@pytest.mark.parametrize("reach", [1e-3, 1.0, 20.0, 1e30])
def test_tanh(numbers: int, reach: float) -> None:
    values = torch.linspace(-reach, reach, numbers)
    expected = np.tanh(values.numpy().astype(np.float64))
    found = torch.empty_like(values)
    assert scan.tanh(values, out=found) is found
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=2e-7)
    scan.tanh(values, out=values)
    assert torch.equal(values, found)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_tanh_is_torchs_where_the_sigmoid_would_be_too_coarse(kind: torch.dtype) -> None:
    values = torch.linspace(-1e-3, 1e-3, 2 * scan.MANY_NUMBERS, dtype=kind)
    assert torch.equal(scan.tanh(values, out=torch.empty_like(values)), values.tanh())


def test_many_rows_in_single_precision() -> None:
    layer, texts = LSTMLayer(8, 256), 64
    random = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.1, generator=random)
    inputs, lengths = torch.randn(3, texts, 8, generator=random), torch.full((texts,), 3)
    assert texts * layer.hidden >= scan.MANY_NUMBERS
    with torch.no_grad():
        found, _ = layer(inputs, None, lengths)
    exact, nothing = layer.double(), np.zeros(layer.hidden)
    for text in range(texts):
        expected, _, _ = lstm(exact, array(inputs[:, text].double()), nothing, nothing)
        np.testing.assert_allclose(found[:, text].numpy(), expected, rtol=0, atol=1e-6)


# Rows without padding hold each step of each text once, those that read longest first.


LENGTHS_ragged = st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any)


@given(LENGTHS_ragged)
def test_rows_are_the_steps_of_all_texts(lengths: list[int]) -> None:
    ragged = Ragged.of(torch.tensor(lengths))
    rows = list(zip(ragged.step.tolist(), ragged.text.tolist(), strict=True))
    order = ragged.order.tolist()
    assert order == sorted(range(len(lengths)), key=lambda text: -lengths[text])
    assert rows == [(t, b) for t in range(max(lengths)) for b in order if t < lengths[b]]
    assert ragged.way.sizes == [sum(n > t for n in lengths) for t in range(max(lengths))]
    for text, last in zip(order, ragged.way.last.tolist(), strict=True):
        assert last < 0 if lengths[text] == 0 else rows[last] == (lengths[text] - 1, text)


@given(LENGTHS_ragged, st.integers(0, 2))
def test_the_way_through_padded_texts(lengths: list[int], more: int) -> None:
    steps, batch = max(lengths) + more, len(lengths)
    way = padded_way(steps, torch.tensor(lengths))
    assert way.sizes == [batch] * steps
    for text, last in enumerate(way.last.tolist()):
        assert last < 0 if lengths[text] == 0 else divmod(last, batch) == (lengths[text] - 1, text)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(1, 12))
def test_stretches_follow_each_other_and_hold_as_much_as_they_may(
    sizes: list[int], rows: int
) -> None:
    way = Way(sizes, torch.zeros(1, dtype=torch.int64))
    stretches = list(way.stretches(rows))
    assert [size for stretch in stretches for size in stretch.sizes] == sizes
    first = 0
    for stretch in stretches:
        assert stretch.rows == slice(first, first + sum(stretch.sizes))
        assert len(stretch.sizes) == 1 or sum(stretch.sizes) <= rows
        first = stretch.rows.stop
    for one, following in pairwise(stretches):
        assert sum(one.sizes) + following.sizes[0] > rows
    assert len(list(way.stretches(None))) == 1


# torch's own LSTM gives of a text alone what the loop over its steps gives.


WORDS_fused, HIDDEN = 6, 16


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
    inputs = torch.randn(WORDS_fused if by_word else steps, HIDDEN)
    places = torch.randint(0, WORDS_fused, (steps,)) if by_word else None
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

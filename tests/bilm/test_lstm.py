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

from elmo.bilm import lstm as module
from elmo.bilm.lstm import LSTMLayer, LSTMState, scan_pair, tanh
from elmo.text.batching import Layout

WORDS = 5


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
LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any)


def build(case: Case, seed: int = 0, scale: float = 1.0) -> LSTMLayer:
    torch.manual_seed(seed)
    layer = LSTMLayer(
        case.inputs, case.hidden, case.projection, case.cell_clip, case.projection_clip
    ).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape) * scale)
    return layer


def state_of(layer: LSTMLayer, texts: int, seed: int = 1) -> LSTMState:
    random = torch.Generator().manual_seed(seed)
    output = torch.rand(texts, layer.width, generator=random, dtype=torch.float64) - 0.5
    cell = torch.rand(texts, layer.hidden, generator=random, dtype=torch.float64) - 0.5
    return LSTMState(output, cell)


def layout_of(*lengths: int) -> Layout:
    return Layout.of(np.array(lengths))


def words_of(case: Case, layout: Layout, seed: int) -> tuple[Tensor, Tensor]:
    """Vectors of distinct words, and which of them each token is."""
    random = torch.Generator().manual_seed(seed)
    vectors = torch.randn(WORDS, case.inputs, generator=random, dtype=torch.float64)
    return vectors, torch.randint(0, WORDS, layout.text.shape, generator=random)


def step_by_step(layer: LSTMLayer, inputs: Tensor, state: LSTMState) -> Tensor:
    """One text, (steps, inputs), in plain operations that autograd knows how to derive."""
    h, c = state.output, state.cell
    outputs: list[Tensor] = []
    for x in inputs:
        z = x[None] @ layer.input_weight + h @ layer.recurrent_weight + layer.bias
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
    return torch.cat(outputs)


def each_alone(layer: LSTMLayer, tokens: Tensor, layout: Layout, start: LSTMState) -> Tensor:
    """Each text by itself, put back into the packed layout."""
    outputs = tokens.new_zeros(len(tokens), layer.width)
    for rank, text in enumerate(layout.sorted_indices.tolist()):
        mine = (layout.text == text).nonzero()[:, 0]
        if len(mine):
            alone = step_by_step(layer, tokens[mine], start.select(slice(rank, rank + 1)))
            outputs = outputs.index_copy(0, mine, alone)
    return outputs


# Values


@given(
    st.sampled_from(CASES), LENGTHS, st.sampled_from([1, 3, 1024]), st.booleans(),
    st.integers(0, 100),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("gradients", [False, True])
def test_each_text_as_if_alone(
    monkeypatch: pytest.MonkeyPatch,
    gradients: bool,
    case: Case,
    lengths: list[int],
    at_once: int,
    many_words: bool,
    seed: int,
) -> None:
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
    monkeypatch.setattr(module, "DISTINCT_AT_ONCE", 1 if many_words else 1024)
    layer, layout = build(case, seed), layout_of(*lengths)
    start = state_of(layer, len(lengths), seed)
    vectors, index = words_of(case, layout, seed)
    with torch.set_grad_enabled(gradients):
        by_word, end = layer(vectors, start, layout, index)
        by_token, _ = layer(vectors[index], start, layout)
    assert by_word.requires_grad == gradients
    np.testing.assert_allclose(array(by_token), array(by_word), atol=1e-12)
    for rank, text in enumerate(layout.sorted_indices.tolist()):
        mine = layout.text == text
        expected, h, c = lstm(
            layer, array(vectors[index[mine]]), array(start.output[rank]), array(start.cell[rank])
        )
        np.testing.assert_allclose(array(by_word[mine]), expected, atol=1e-12)
        np.testing.assert_allclose(array(end.output[rank]), h, atol=1e-12)
        np.testing.assert_allclose(array(end.cell[rank]), c, atol=1e-12)


def test_the_cases_really_clip() -> None:
    case = CASES[-1]
    layer, layout = build(case), layout_of(6, 6, 6, 6)
    vectors, index = words_of(case, layout, 2)
    outputs, end = layer(vectors[index], layer.zero_state(4, vectors), layout)
    assert (outputs.abs() == case.projection_clip).any()
    assert (outputs.abs() < 0.2).any()
    assert (end.cell.abs() == case.cell_clip).any()
    assert (end.cell.abs() < 0.3).any()


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
    texts = [torch.randn(length, case.inputs, dtype=torch.float64) for length in (3, 6, 1)]
    packed = nn.utils.rnn.pack_sequence(texts, enforce_sorted=False)
    layout = layout_of(3, 6, 1)
    assert layout.batch_sizes == packed.batch_sizes.tolist()
    assert torch.equal(layout.sorted_indices, packed.sorted_indices)  # pyright: ignore
    outputs, end = layer(packed.data, layer.zero_state(3, packed.data), layout)
    expected, (h, c) = theirs(packed)
    torch.testing.assert_close(outputs, expected.data)
    torch.testing.assert_close(end.output[layout.unsorted_indices], h[0])
    torch.testing.assert_close(end.cell[layout.unsorted_indices], c[0])


@cases
def test_half_precision_is_close(case: Case) -> None:
    layer, layout = build(case, seed=9, scale=0.5).float(), layout_of(8, 8, 8)
    vectors, index = words_of(case, layout, 2)
    tokens = vectors[index].float()
    exact, end = layer(tokens, layer.zero_state(3, tokens), layout)
    tokens = tokens.bfloat16()
    rough, rough_end = layer(tokens, layer.zero_state(3, tokens), layout)
    assert rough.dtype == torch.bfloat16
    assert rough_end.cell.dtype == torch.float32
    torch.testing.assert_close(rough.float(), exact, rtol=0, atol=0.03)
    torch.testing.assert_close(rough_end.cell, end.cell, rtol=0, atol=0.05)
    parameters = list(layer.parameters())
    for mine, other in zip(
        torch.autograd.grad(rough.float().square().sum(), parameters),
        torch.autograd.grad(exact.square().sum(), parameters),
        strict=True,
    ):
        assert mine.dtype == torch.float32
        assert (mine - other).norm() < 0.05 * other.norm()


def test_reading_on_equals_reading_at_once() -> None:
    case = CASES[-1]
    layer, tokens = build(case, seed=11), torch.randn(9, 2, 4, dtype=torch.float64)
    whole, end = layer(tokens.flatten(0, 1), layer.zero_state(2, tokens), layout_of(9, 9))
    first, state = layer(tokens[:4].flatten(0, 1), layer.zero_state(2, tokens), layout_of(4, 4))
    second, last = layer(tokens[4:].flatten(0, 1), state, layout_of(5, 5))
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(tuple(last), tuple(end))


def test_a_new_layer_remembers() -> None:
    layer = LSTMLayer(4, 6, projection=3)
    assert layer.bias.eq(0).all()
    for gate in layer.recurrent_weight.chunk(4, dim=1):
        torch.testing.assert_close(gate @ gate.t(), torch.eye(3), atol=1e-5, rtol=0)


def test_a_detached_state_has_no_past() -> None:
    layer, layout = build(CASES[0]), layout_of(3, 3)
    vectors, index = words_of(CASES[0], layout, 0)
    _, end = layer(vectors, layer.zero_state(2, vectors), layout, index)
    assert end.output.requires_grad
    assert not end.detach().output.requires_grad
    assert torch.equal(end.detach().output, end.output)


# Gradients


@cases
def test_gradients_against_differences(case: Case) -> None:
    layer, layout = build(case, seed=3), layout_of(4, 2)
    vectors, index = words_of(case, layout, 2)
    start = state_of(layer, 2)
    names = [name for name, _ in layer.named_parameters()]

    def outputs(inputs: Tensor, output: Tensor, cell: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(names, parameters, strict=True))
        call = (inputs, LSTMState(output, cell), layout)
        return torch.func.functional_call(layer, named, call)[0]

    tensors = [vectors[index], start.output, start.cell, *layer.parameters()]
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    assert torch.autograd.gradcheck(outputs, leaves)


@given(st.sampled_from(CASES), LENGTHS, st.booleans(), st.integers(0, 100))
@settings(max_examples=25)
def test_gradients_against_autograd(
    case: Case, lengths: list[int], by_word: bool, seed: int
) -> None:
    layer, layout = build(case, seed), layout_of(*lengths)
    made = state_of(layer, len(lengths), seed)
    start = LSTMState(made.output.requires_grad_(), made.cell.requires_grad_())
    vectors, index = words_of(case, layout, seed)
    leaves = [vectors.requires_grad_(), start.output, start.cell, *layer.parameters()]
    if by_word:
        outputs, _ = layer(vectors, start, layout, index)
    else:
        outputs, _ = layer(vectors[index], start, layout)
    wanted = torch.randn(outputs.shape, dtype=torch.float64)
    found = torch.autograd.grad(outputs, leaves, wanted)
    expected = torch.autograd.grad(each_alone(layer, vectors[index], layout, start), leaves, wanted)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-11)


# The layout, and its chunks


@given(LENGTHS)
def test_the_layout_holds_each_token_of_each_text_once(lengths: list[int]) -> None:
    layout = layout_of(*lengths)
    order = layout.sorted_indices.tolist()
    assert order == sorted(range(len(lengths)), key=lambda text: -lengths[text])
    assert [order[rank] for rank in layout.unsorted_indices.tolist()] == list(range(len(lengths)))
    tokens = list(zip(layout.step.tolist(), layout.text.tolist(), strict=True))
    assert tokens == [(t, b) for t in range(max(lengths)) for b in order if t < lengths[b]]
    assert layout.batch_sizes == [sum(n > t for n in lengths) for t in range(max(lengths))]
    for text, last in zip(order, layout.last.tolist(), strict=True):
        assert lengths[text] == 0 or tokens[last] == (lengths[text] - 1, text)


@given(LENGTHS, st.integers(1, 12))
def test_chunks_follow_each_other_and_hold_as_much_as_they_may(
    lengths: list[int], most: int
) -> None:
    layout = layout_of(*lengths)
    chunks = list(layout.chunks(most))
    assert [size for _, sizes, _ in chunks for size in sizes] == layout.batch_sizes
    start = 0
    for tokens, sizes, ended in chunks:
        assert tokens == slice(start, start + sum(sizes))
        assert len(sizes) == 1 or sum(sizes) <= most
        ranks = range(layout.texts)[ended]
        inside = range(tokens.start, tokens.stop)
        assert list(ranks) == [
            rank
            for rank, last in enumerate(layout.last.tolist())
            if last in inside and lengths[int(layout.sorted_indices[rank])]
        ]
        start = tokens.stop
    for (_, sizes, _), (_, following, _) in pairwise(chunks):
        assert sum(sizes) + following[0] > most
    assert len(list(layout.chunks(None))) == 1


# Each kernel, forced on the CPU, gives the same values and gradients.

HIDDEN = 16


def drawn_layer(seed: int, **settings: float) -> LSTMLayer:
    torch.manual_seed(seed)
    layer = LSTMLayer(HIDDEN, HIDDEN, **settings)  # pyright: ignore[reportArgumentType]
    nn.init.normal_(layer.bias)
    return layer


def forced(uses_torch: bool, layer: LSTMLayer, *args: object) -> tuple[Tensor, LSTMState]:
    layer.uses_torch = lambda inputs, texts: uses_torch  # pyright: ignore
    try:
        return layer(*args)
    finally:
        del layer.uses_torch  # pyright: ignore


def assert_same(
    found: tuple[Tensor, LSTMState], wanted: tuple[Tensor, LSTMState], close: float = 2e-6
) -> None:
    for mine, other in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=close)


@given(LENGTHS, st.integers(0, 99), st.booleans(), st.booleans())
def test_torchs_lstm_on_packed_texts_gives_values_and_gradients_of_the_scan(
    lengths: list[int], seed: int, gradients: bool, by_word: bool
) -> None:
    layer, layout = drawn_layer(seed).double(), layout_of(*lengths)
    start = state_of(layer, len(lengths), seed)
    leaves = [start.output.requires_grad_(), start.cell.requires_grad_(), *layer.parameters()]
    vectors, index = words_of(Case(inputs=HIDDEN), layout, seed)
    leaves.append(vectors.requires_grad_())
    args = (vectors, start, layout, index) if by_word else (vectors[index], start, layout)
    with torch.set_grad_enabled(gradients):
        found, wanted = forced(True, layer, *args), forced(False, layer, *args)
    assert_same(found, wanted, 1e-12)
    if gradients:
        weight = torch.randn(found[0].shape, dtype=torch.float64)
        mine = torch.autograd.grad(found[0], leaves, weight, retain_graph=True)
        other = torch.autograd.grad(wanted[0], leaves, weight)
        for one, expected in zip(mine, other, strict=True):
            torch.testing.assert_close(one, expected, rtol=1e-9, atol=1e-11)


@given(st.integers(1, 40), st.integers(0, 99), st.booleans(), st.sampled_from([2, 2048]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 2e-6), (torch.float64, 1e-12)])
@torch.no_grad()
def test_a_single_text_is_read_by_torch(
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    close: float,
    steps: int,
    seed: int,
    by_word: bool,
    at_once: int,
) -> None:
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", at_once)
    layer, layout = drawn_layer(seed).to(dtype), layout_of(steps)
    layer.bias.mul_(0.3)  # cells stay near 1, so that their last bit is below the tolerance
    inputs = torch.randn(WORDS if by_word else steps, HIDDEN, dtype=dtype)
    index = torch.randint(0, WORDS, (steps,)) if by_word else None
    state = LSTMState(*(part.to(dtype) for part in state_of(layer, 1, seed)))
    assert layer.uses_torch(inputs, 1)
    args = (inputs, state, layout, index)
    assert_same(layer(*args), forced(False, layer, *args), close)


@given(st.sampled_from(CASES), LENGTHS, st.integers(0, 100))
@torch.no_grad()
def test_both_directions_in_one_loop(case: Case, lengths: list[int], seed: int) -> None:
    layout = layout_of(*lengths)
    pair = [build(case, seed), build(case, seed + 1)]
    starts = [state_of(layer, len(lengths), seed + n) for n, layer in enumerate(pair)]
    inputs = torch.randn(2, len(layout.text), case.inputs, dtype=torch.float64)
    outputs, ends = scan_pair(pair, inputs, starts, layout)
    for number, layer in enumerate(pair):
        expected = layer(inputs[number], starts[number], layout)
        assert_same((outputs[number], ends[number]), expected, 1e-12)


@torch.no_grad()
def test_the_choice_is_a_function_of_device_layer_and_texts() -> None:
    inputs = torch.randn(5, HIDDEN)
    assert drawn_layer(0).uses_torch(inputs, 1)
    assert not drawn_layer(0).uses_torch(inputs, 2)
    assert not drawn_layer(0).uses_torch(inputs.bfloat16(), 1)
    assert not drawn_layer(0, cell_clip=1.0).uses_torch(inputs, 1)
    assert not drawn_layer(0, projection=HIDDEN).uses_torch(inputs, 1)
    with torch.inference_mode():
        assert not LSTMLayer(HIDDEN, HIDDEN).uses_torch(inputs, 1)
    accelerator = inputs.to("meta")
    with torch.enable_grad():
        assert not drawn_layer(0).uses_torch(inputs, 1)
        assert drawn_layer(0).uses_torch(accelerator, 7)
        assert not drawn_layer(0, cell_clip=1.0).uses_torch(accelerator, 7)
        assert not drawn_layer(0, projection=HIDDEN).uses_torch(accelerator, 7)


@pytest.mark.parametrize("write", ["in place", "to the data", "by an optimizer"])
@torch.no_grad()
def test_changed_weights_are_noticed(write: str) -> None:
    layer, inputs, layout = drawn_layer(0), torch.randn(5, HIDDEN), layout_of(5)
    args = (inputs, layer.zero_state(1, inputs), layout)
    before, _ = layer(*args)
    if write == "in place":
        layer.recurrent_weight.mul_(0.5)
    elif write == "to the data":
        layer.recurrent_weight.data.mul_(0.5)
    else:
        layer.recurrent_weight.grad = torch.ones_like(layer.recurrent_weight)
        torch.optim.AdamW([layer.recurrent_weight], lr=0.1, fused=True).step()
    after = layer(*args)
    assert not torch.allclose(before, after[0])
    assert_same(after, forced(False, layer, *args))


@torch.no_grad()
def test_a_copy_has_weights_of_its_own() -> None:
    layer, inputs, layout = drawn_layer(0), torch.randn(5, HIDDEN), layout_of(5)
    args = (inputs, layer.zero_state(1, inputs), layout)
    before = layer(*args)
    other = copy.deepcopy(layer)
    other.bias.add_(1.0)
    assert_same(other(*args), forced(False, other, *args))
    assert_same(layer(*args), before)


# tanh


@pytest.mark.parametrize("numbers", [1, module.SIGMOID_FROM - 1, module.SIGMOID_FROM, 100_000])
@pytest.mark.parametrize("reach", [1e-3, 1.0, 20.0, 1e30])
def test_tanh(numbers: int, reach: float) -> None:
    values = torch.linspace(-reach, reach, numbers)
    expected = np.tanh(values.numpy().astype(np.float64))
    found = torch.empty_like(values)
    assert tanh(values, out=found) is found
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=2e-7)
    tanh(values, out=values)
    assert torch.equal(values, found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_tanh_is_torchs_where_the_sigmoid_would_be_too_coarse(dtype: torch.dtype) -> None:
    values = torch.linspace(-1e-3, 1e-3, 2 * module.SIGMOID_FROM, dtype=dtype)
    assert torch.equal(tanh(values, out=torch.empty_like(values)), values.tanh())


def test_many_texts_in_single_precision() -> None:
    layer, texts = LSTMLayer(8, 256), 64
    random = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.1, generator=random)
    inputs = torch.randn(3, texts, 8, generator=random)
    assert texts * layer.hidden >= module.SIGMOID_FROM
    with torch.no_grad():
        found, _ = layer(
            inputs.flatten(0, 1), layer.zero_state(texts, inputs), layout_of(*[3] * texts)
        )
    found = found.view(3, texts, -1)
    exact, nothing = layer.double(), np.zeros(layer.hidden)
    for text in range(texts):
        expected, _, _ = lstm(exact, array(inputs[:, text].double()), nothing, nothing)
        np.testing.assert_allclose(found[:, text].numpy(), expected, rtol=0, atol=1e-6)

"""Steps in rows: texts of different lengths give what each gives alone, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.bilm.numpy_bilm import array, lstm
from tests.bilm.test_lstm import CASES, Case, build, state_of, step_by_step
from torch import Tensor

from elmo.bilm import scan
from elmo.bilm.lstm import LSTMLayer, LSTMState
from elmo.bilm.ragged import Ragged

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any)
WORDS = 5


def words_of(case: Case, ragged: Ragged, seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    vectors = torch.randn(WORDS, case.inputs, generator=random, dtype=torch.float64)
    return vectors, torch.randint(0, WORDS, ragged.step.shape, generator=random)


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
def test_gradients_against_autograd(case: Case, lengths: list[int], seed: int) -> None:
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

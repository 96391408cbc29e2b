"""Cross-entropy in slices against the plain one, values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from elmo.bilm import cross_entropy
from elmo.bilm.cross_entropy import cross_entropy_sum, sampled_cross_entropy_sum, slices

ROWS, WORDS, WIDTH, SAMPLES = 300, 7, 4, 5


@pytest.fixture(params=[1, 200 * WORDS, 1 << 21], ids=["128 rows", "200 rows", "all rows"])
def slice_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "ELEMENTS_PER_SLICE", request.param)


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    return [tensor.requires_grad_() for tensor in made]


def full_case(rows: int = ROWS) -> tuple[list[Tensor], Tensor]:
    targets = torch.randint(WORDS, (rows,), generator=torch.Generator().manual_seed(1))
    return drawn((rows, WIDTH), (WORDS, WIDTH), (WORDS,)), targets


def sampled_case(rows: int = ROWS) -> tuple[list[Tensor], Tensor]:
    hits = torch.randint(-1, SAMPLES, (rows,), generator=torch.Generator().manual_seed(1))
    shapes = [(rows, WIDTH), (rows, WIDTH), (rows,), (SAMPLES, WIDTH), (SAMPLES,)]
    return drawn(*shapes), hits


def plain_sampled(
    states: Tensor,
    true_weight: Tensor,
    true_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    hits: Tensor,
) -> Tensor:
    """A row at a time, the true word first."""
    losses: list[Tensor] = []
    for row, hit in enumerate(hits.tolist()):
        others = [sample for sample in range(len(weight)) if sample != hit]
        true = states[row] @ true_weight[row] + true_bias[row]
        logits = torch.stack([true, *(states[row] @ weight[n] + bias[n] for n in others)])
        losses.append(functional.cross_entropy(logits[None], torch.tensor([0])))
    return torch.stack(losses).sum()


@pytest.mark.usefixtures("slice_size")
def test_values_and_gradients() -> None:
    (states, weight, bias), targets = full_case()
    found = cross_entropy_sum(states, weight, bias, targets)
    logits = states @ weight.t() + bias
    expected = functional.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(found, expected)
    # A factor behind the loss, as the mean over the words is.
    leaves = [states, weight, bias]
    for one, other in zip(
        torch.autograd.grad(found * 0.3, leaves),
        torch.autograd.grad(expected * 0.3, leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("slice_size")
def test_values_and_gradients_with_a_sample() -> None:
    leaves, hits = sampled_case()
    assert (hits < 0).any()
    found = sampled_cross_entropy_sum(*leaves, hits)
    expected = plain_sampled(*leaves, hits)
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad(found * 0.3, leaves),
        torch.autograd.grad(expected * 0.3, leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_gradients_against_differences() -> None:
    leaves, targets = full_case(rows=3)
    assert torch.autograd.gradcheck(lambda *given: cross_entropy_sum(*given, targets), leaves)
    leaves, hits = sampled_case(rows=3)
    assert torch.autograd.gradcheck(lambda *given: sampled_cross_entropy_sum(*given, hits), leaves)


def test_large_logits_do_not_overflow() -> None:
    (states, weight, bias), targets = full_case()
    found = cross_entropy_sum(states * 1e4, weight, bias, targets)
    expected = functional.cross_entropy(states * 1e4 @ weight.t() + bias, targets, reduction="sum")
    torch.testing.assert_close(found, expected)


def test_a_row_whose_sample_is_nothing_but_its_true_word() -> None:
    states, true_weight, true_bias, weight, bias = drawn(
        (1, WIDTH), (1, WIDTH), (1,), (1, WIDTH), (1,)
    )
    leaves = [states, true_weight, true_bias, weight, bias]
    loss = sampled_cross_entropy_sum(*leaves, torch.tensor([0]))
    assert loss == 0
    assert all(gradient.eq(0).all() for gradient in torch.autograd.grad(loss, leaves))


def test_no_rows_have_no_loss() -> None:
    leaves, targets = full_case(rows=0)
    loss = cross_entropy_sum(*leaves, targets)
    assert loss == 0
    assert all(gradient.eq(0).all() for gradient in torch.autograd.grad(loss, leaves))


def test_without_gradients_none_are_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, targets = full_case()
    with_gradients = cross_entropy_sum(*leaves, targets)
    monkeypatch.setattr(Tensor, "addmm_", None)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy_sum(*leaves, targets), with_gradients.detach())
    with pytest.raises(TypeError):
        cross_entropy_sum(*leaves, targets)


def test_half_precision_is_close() -> None:
    leaves, targets = full_case()
    states, weight, bias = (leaf.detach().float().requires_grad_() for leaf in leaves)
    exact = cross_entropy_sum(states, weight, bias, targets)
    rough = cross_entropy_sum(states.bfloat16(), weight.bfloat16(), bias, targets)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=5e-3, atol=0)
    for one, other in zip(
        torch.autograd.grad(rough, [states, weight, bias]),
        torch.autograd.grad(exact, [states, weight, bias]),
        strict=True,
    ):
        assert (one - other).norm() < 0.02 * other.norm()


def test_half_precision_is_close_with_a_sample() -> None:
    leaves, hits = sampled_case()
    singles = [leaf.detach().float().requires_grad_() for leaf in leaves]
    states, true_weight, true_bias, weight, bias = singles
    exact = sampled_cross_entropy_sum(*singles, hits)
    rough = sampled_cross_entropy_sum(
        states.bfloat16(), true_weight.bfloat16(), true_bias, weight.bfloat16(), bias, hits
    )
    torch.testing.assert_close(rough, exact, rtol=5e-3, atol=0)
    for one, other in zip(
        torch.autograd.grad(rough, singles), torch.autograd.grad(exact, singles), strict=True
    ):
        assert (one - other).norm() < 0.02 * other.norm()


@pytest.mark.parametrize("rows", [0, 1, 127, 128, 129, 5000])
def test_slices_cover_every_row_once(rows: int) -> None:
    for columns in (0, 1, 3000, 10**9):
        covered = [row for part in slices(rows, columns) for row in range(rows)[part]]
        assert covered == list(range(rows))

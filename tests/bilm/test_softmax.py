"""Every softmax gives probabilities; the cheap ones are true to the full one."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm import softmax as cross_entropy
from elmo.bilm.config import BiLMConfig, SoftmaxConfig
from elmo.bilm.model import BiLM
from elmo.bilm.softmax import (
    AdaptiveSoftmax,
    FullSoftmax,
    OutputLayer,
    SampledCrossEntropy,
    SampledSoftmax,
    build_output,
    cross_entropy_sum,
    sampling_distribution,
    slices,
)
from elmo.errors import UserError
from elmo.text.vocabulary import SPECIAL_WORDS, Vocabulary

SIZE = 30
ROWS = 6
KINDS = ["full", "sampled", "adaptive"]
samplers = pytest.mark.parametrize("sampler", ["log_uniform", "unigram"])


def words() -> Vocabulary:
    names = tuple(f"w{rank}" for rank in range(SIZE - 3))
    return Vocabulary((*SPECIAL_WORDS, *names), (9, 9, 0, *range(60, 60 - 2 * len(names), -2)))


def build(loss: str, *, width: int = 5, seed: int = 0, **settings: object) -> OutputLayer:
    softmax = SoftmaxConfig(loss=loss, tied=False, **settings)  # pyright: ignore
    config = BiLMConfig(hidden=width, softmax=softmax)
    torch.manual_seed(seed)
    layer = build_output(config, words(), None).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.7)
    return layer


def rows(width: int = 5, number: int = ROWS) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    states = torch.randn(number, width, generator=random, dtype=torch.float64)
    return states, torch.randint(SIZE, (number,), generator=random)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def full_loss(layer: OutputLayer, states: Tensor, targets: Tensor) -> Tensor:
    assert isinstance(layer, FullSoftmax)
    logits = states @ layer.weight.t() + layer.bias
    return functional.cross_entropy(logits, targets, reduction="sum")


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_sum_to_one(kind: str) -> None:
    states, _ = rows()
    found = build(kind, cutoffs=(8, 20)).log_probabilities(states)
    assert found.shape == (ROWS, SIZE)
    torch.testing.assert_close(found.exp().sum(dim=1), torch.ones(ROWS, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_the_exact_losses_are_those_of_the_probabilities(kind: str) -> None:
    layer = build(kind, cutoffs=(8, 20))
    states, targets = rows(number=300)
    assert set(range(SIZE)) == set(targets.tolist())
    states.requires_grad_()
    leaves = [states, *layer.parameters()]
    loss = layer.loss(states, targets, None)
    expected = -layer.log_probabilities(states)[torch.arange(300), targets].sum()
    torch.testing.assert_close(loss, expected)
    for one, other in zip(
        torch.autograd.grad(loss, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_a_sampled_softmax_predicts_with_all_words() -> None:
    layer = build("sampled", samples=2)
    states, targets = rows()
    found = -layer.log_probabilities(states)[torch.arange(ROWS), targets].sum()
    torch.testing.assert_close(found, full_loss(layer, states, targets))


@samplers
def test_the_sampled_loss_tends_to_the_full_one(sampler: str) -> None:
    states, targets = rows()
    errors: list[float] = []
    for samples in (3, 30, 1500):
        layer = build("sampled", samples=samples, sampler=sampler)
        exact = full_loss(layer, states, targets)
        with torch.no_grad():
            found = [layer.loss(states, targets, generator(seed)) for seed in range(25)]
        errors.append(abs(torch.stack(found).mean().item() - exact.item()) / ROWS)
    assert errors[0] > errors[1] > errors[2]
    assert errors[0] > 0.1
    assert errors[2] < 0.01


@samplers
def test_the_estimated_partition_function_is_unbiased(sampler: str) -> None:
    layer = build("sampled", samples=4, sampler=sampler)
    states, targets = rows(number=1)
    exact = full_loss(layer, states, targets).exp().item()
    with torch.no_grad():
        found = [layer.loss(states, targets, generator(seed)).exp().item() for seed in range(1500)]
    error = statistics.stdev(found) / math.sqrt(len(found))
    assert abs(statistics.mean(found) - exact) < 4 * error
    # The bound is tight enough to tell an estimate that forgets the true word's own draws.
    assert error < 0.05 * exact


@samplers
def test_gradients_of_the_sampled_loss_against_differences(sampler: str) -> None:
    layer = build("sampled", samples=8, sampler=sampler)
    states, targets = rows(number=3)
    names = [name for name, _ in layer.named_parameters()]

    def loss(given: Tensor, *parameters: Tensor) -> Tensor:
        with torch.no_grad():
            for name, value in zip(names, parameters, strict=True):
                layer.get_parameter(name).copy_(value)
        return layer.loss(given, targets, generator(3))

    leaves = [states.clone().requires_grad_(), *(p.detach().clone() for p in layer.parameters())]
    value = loss(*leaves)
    analytic = torch.autograd.grad(value, [leaves[0], *layer.parameters()])
    for number, leaf in enumerate(leaves):
        torch.testing.assert_close(
            analytic[number], differences(loss, leaves, number, leaf), rtol=1e-5, atol=1e-7
        )


def differences(loss: object, leaves: list[Tensor], number: int, leaf: Tensor) -> Tensor:
    """The slope of a loss in each element of one of its arguments, from values alone."""
    slope = torch.empty(leaf.numel(), dtype=torch.float64)
    with torch.no_grad():
        for place in range(leaf.numel()):
            values: list[Tensor] = []
            for step in (1e-5, -1e-5):
                moved = leaf.clone()
                moved.view(-1)[place] += step
                given = [*leaves[:number], moved, *leaves[number + 1 :]]
                values.append(loss(*given))  # pyright: ignore
            slope[place] = (values[0] - values[1]) / 2e-5
        loss(*leaves)  # pyright: ignore
    return slope.view_as(leaf)


def test_all_targets_of_a_batch_share_a_sample() -> None:
    states, targets = rows(number=1)
    layer = build("sampled", samples=5)
    one = layer.loss(states, targets, generator(0))
    twice = layer.loss(states.repeat(2, 1), targets.repeat(2), generator(0))
    torch.testing.assert_close(twice, 2 * one)


def test_the_sample_is_a_function_of_the_generator() -> None:
    layer = build("sampled", samples=5)
    first, again, other = (layer.loss(*rows(), generator(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_asks_for_nothing_has_no_loss(kind: str) -> None:
    layer = build(kind, samples=5, cutoffs=(8, 20))
    states = torch.zeros(0, 5, dtype=torch.float64, requires_grad=True)
    loss = layer.loss(states, torch.zeros(0, dtype=torch.long), generator(0))
    loss.backward()
    assert loss == 0
    assert all(p.grad is None or p.grad.eq(0).all() for p in layer.parameters())


def test_what_negatives_are_drawn_from() -> None:
    zipf = [math.log((rank + 2) / (rank + 1)) / math.log(SIZE + 1) for rank in range(SIZE)]
    assert sampling_distribution("log_uniform", words()).tolist() == pytest.approx(zipf)
    smoothed = [max(1, count) ** 0.75 for count in words().counts]
    expected = [chance / sum(smoothed) for chance in smoothed]
    assert sampling_distribution("unigram", words()).tolist() == pytest.approx(expected)


def test_adaptive_agrees_with_torch() -> None:
    # As wide as it takes for both to give the clusters the same sizes.
    width = 128
    ours = build("adaptive", width=width, cutoffs=(8, 20))
    assert isinstance(ours, AdaptiveSoftmax)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(width, SIZE, [8, 20], div_value=4.0, head_bias=True)
    theirs = theirs.double()
    with torch.no_grad():
        theirs.head.weight.copy_(ours.head_weight)
        theirs.head.bias.copy_(ours.head_bias)
        for number, tail in enumerate(theirs.tail):
            tail[0].weight.copy_(ours.projections[number])  # pyright: ignore
            tail[1].weight.copy_(ours.weights[number])  # pyright: ignore
            ours.biases[number].zero_()  # torch has none
    states, targets = rows(width, number=200)
    torch.testing.assert_close(ours.log_probabilities(states), theirs.log_prob(states))
    torch.testing.assert_close(ours.loss(states, targets, None), theirs(states, targets).loss * 200)


@pytest.mark.parametrize("cutoffs", [(), (SIZE,), (SIZE, 10 * SIZE)])
def test_adaptive_without_rare_words_is_full(cutoffs: tuple[int, ...]) -> None:
    adaptive, full = build("adaptive", cutoffs=cutoffs), build("full")
    assert isinstance(adaptive, AdaptiveSoftmax)
    assert isinstance(full, FullSoftmax)
    with torch.no_grad():
        full.weight.copy_(adaptive.head_weight)
        full.bias.copy_(adaptive.head_bias)
    states, targets = rows()
    torch.testing.assert_close(adaptive.log_probabilities(states), full.log_probabilities(states))
    torch.testing.assert_close(
        adaptive.loss(states, targets, None), full_loss(full, states, targets)
    )


def test_adaptive_clusters_have_biases_of_their_own() -> None:
    layer = build("adaptive", cutoffs=(8, 20))
    assert isinstance(layer, AdaptiveSoftmax)
    states, _ = rows()
    before = layer.log_probabilities(states)
    with torch.no_grad():
        layer.biases[0][3] += 1.0
    after = layer.log_probabilities(states)
    # Only inside the cluster, whose own probability stays.
    assert torch.equal(after[:, :8], before[:, :8])
    assert torch.equal(after[:, 20:], before[:, 20:])
    assert (after[:, 11] > before[:, 11]).all()
    torch.testing.assert_close(after[:, 8:20].exp().sum(1), before[:, 8:20].exp().sum(1))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("full", FullSoftmax), ("sampled", SampledSoftmax), ("adaptive", AdaptiveSoftmax)],
)
def test_the_softmax_asked_for_is_built(kind: str, expected: type[OutputLayer]) -> None:
    assert type(build(kind, cutoffs=(8,))) is expected


@pytest.mark.parametrize("kind", ["full", "sampled"])
def test_tied_weights_are_one_parameter(kind: str) -> None:
    softmax = SoftmaxConfig(loss=kind, tied=True)  # pyright: ignore
    model = BiLM(BiLMConfig(word_dim=4, hidden=4, softmax=softmax), words())
    assert isinstance(model.output, FullSoftmax)
    assert model.token_layer.words is not None
    assert model.output.weight is model.token_layer.words.weight
    model.output.weight = nn.Parameter(torch.zeros(SIZE, 4))
    model.tie()
    assert model.output.weight is model.token_layer.words.weight


def test_separate_weights_are_two() -> None:
    softmax = SoftmaxConfig(loss="full", tied=False)
    model = BiLM(BiLMConfig(word_dim=4, hidden=4, softmax=softmax), words())
    assert isinstance(model.output, FullSoftmax)
    assert model.token_layer.words is not None
    before = model.output.weight
    model.tie()
    assert model.output.weight is before is not model.token_layer.words.weight


def test_a_model_without_softmax_predicts_nothing_and_says_so() -> None:
    layer = build("none")
    assert not list(layer.parameters())
    states, targets = rows()
    with pytest.raises(UserError, match="this model has no softmax"):
        layer.loss(states, targets, None)
    with pytest.raises(UserError, match="this model has no softmax"):
        layer.log_probabilities(states)


def test_there_is_nothing_to_tie_without_a_softmax() -> None:
    config = BiLMConfig(hidden=5, softmax=SoftmaxConfig(loss="none"))
    assert list(config.problems()) == [
        "tied: there is no softmax to tie; use --no-tied or another loss"
    ]


# Cross-entropy in slices against the plain one, values and gradients.


ROWS_cross_entropy, WORDS, WIDTH, SAMPLES = 300, 7, 4, 5


@pytest.fixture(params=[1, 200 * WORDS, 1 << 21], ids=["128 rows", "200 rows", "all rows"])
def slice_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "ELEMENTS_PER_SLICE", request.param)


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
    return [tensor.requires_grad_() for tensor in made]


def full_case(rows: int = ROWS_cross_entropy) -> tuple[list[Tensor], Tensor]:
    targets = torch.randint(WORDS, (rows,), generator=torch.Generator().manual_seed(1))
    return drawn((rows, WIDTH), (WORDS, WIDTH), (WORDS,)), targets


def sampled_case(rows: int = ROWS_cross_entropy) -> tuple[list[Tensor], Tensor]:
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
    found = SampledCrossEntropy.apply(*leaves, hits)
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
    assert torch.autograd.gradcheck(lambda *given: SampledCrossEntropy.apply(*given, hits), leaves)


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
    loss = SampledCrossEntropy.apply(*leaves, torch.tensor([0]))
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
    exact = SampledCrossEntropy.apply(*singles, hits)
    rough = SampledCrossEntropy.apply(
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

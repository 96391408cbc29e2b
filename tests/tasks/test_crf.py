"""The CRF against the sum and the maximum over all sequences of tags."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmo.tasks.crf import FORBIDDEN, LinearChainCRF, allowed_transitions
from elmo.tasks.tags import SCHEMES, Scheme, convert


def random_crf(tags: int, seed: int, allowed: Tensor | None = None) -> LinearChainCRF:
    torch.manual_seed(seed)
    crf = LinearChainCRF(tags, allowed).double()
    for parameter in crf.parameters():
        parameter.data = torch.randn_like(parameter)
    return crf


def brute_force(crf: LinearChainCRF, emissions: Tensor) -> dict[tuple[int, ...], float]:
    """The score of every sequence of one sentence, (words, tags)."""
    scores: dict[tuple[int, ...], float] = {}
    for tags in product(range(crf.tags), repeat=len(emissions)):
        total = float(crf.starts[tags[0]] + crf.forbidden[-1, tags[0]])
        total += float(crf.ends[tags[-1]] + crf.forbidden[tags[-1], -1])
        total += sum(float(emissions[idx, tag]) for idx, tag in enumerate(tags))
        for before, after in pairwise(tags):
            total += float(crf.transitions[before, after] + crf.forbidden[before, after])
        scores[tags] = total
    return scores


@torch.no_grad()
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    tags=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_likelihood_and_best_sequence(lengths: list[int], tags: int, seed: int) -> None:
    crf = random_crf(tags, seed)
    emissions = torch.randn(len(lengths), max(lengths), tags).double()
    gold = torch.randint(tags, (len(lengths), max(lengths)))
    sizes = torch.tensor(lengths)
    found = crf.log_likelihood(emissions, gold, sizes)
    best = crf.decode(emissions, sizes)
    for row, length in enumerate(lengths):
        if not length:
            assert float(found[row]) == 0
            assert best[row] == []
            continue
        scores = brute_force(crf, emissions[row, :length])
        total = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
        expected = scores[tuple(gold[row, :length].tolist())] - float(total)
        assert float(found[row]) == pytest.approx(expected, abs=1e-9)
        assert scores[tuple(best[row])] == pytest.approx(max(scores.values()), abs=1e-9)


def test_gradient_is_that_of_finite_differences() -> None:
    crf = random_crf(3, 0)
    emissions = torch.randn(2, 4, 3).double().requires_grad_()
    gold, lengths = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0]]), torch.tensor([4, 2])
    assert torch.autograd.gradcheck(lambda e: crf.log_likelihood(e, gold, lengths), (emissions,))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forbidden_sequences_are_never_predicted(scheme: Scheme) -> None:
    prefixes = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}[scheme]
    names = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("X", "Y"))]
    allowed = allowed_transitions(names, scheme)
    # A sequence is allowed if and only if it is how the scheme writes the spans that it means.
    for tags in product(range(len(names)), repeat=3):
        written = [names[tag] for tag in tags]
        fits = allowed[-1, tags[0]] and allowed[tags[-1], -1]
        fits = fits and all(allowed[a, b] for a, b in pairwise(tags))
        assert bool(fits) == (convert(written, scheme) == written), written
    crf = random_crf(len(names), 1, allowed)
    found = crf.decode(3 * torch.randn(20, 6, len(names)).double(), torch.full((20,), 6))
    for tags in found:
        written = [names[tag] for tag in tags]
        assert convert(written, scheme) == written


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    crf = random_crf(4, 2)
    emissions, lengths = torch.randn(3, 7, 4).double(), torch.tensor([7, 3, 1])
    gold = torch.randint(4, (3, 7))
    together = crf.log_likelihood(emissions, gold, lengths)
    for row, length in enumerate(lengths.tolist()):
        part = slice(row, row + 1)
        alone = crf.log_likelihood(emissions[part, :length], gold[part, :length], lengths[part])
        assert float(alone) == pytest.approx(float(together[row]), abs=1e-12)
        (decoded,) = crf.decode(emissions[part, :length], lengths[part])
        assert decoded == crf.decode(emissions, lengths)[row]
    assert FORBIDDEN < -1000

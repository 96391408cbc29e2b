"""Cross-entropy over many words, a slice of rows at a time, its gradient formed on the way.

Autograd would keep several (rows, words) matrices; here one small buffer is used again and again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ELEMENTS_PER_SLICE = 1 << 21


def cross_entropy_sum(states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Sum of -log softmax(states weightᵀ + bias)[target] over the rows of (rows, d) states."""
    if not torch.is_grad_enabled():
        # A function of autograd is told of every parameter, even where no gradient is wanted.
        states, weight, bias = states.detach(), weight.detach(), bias.detach()
    return _CrossEntropy.apply(states, weight, bias, targets)  # pyright: ignore


def sampled_cross_entropy_sum(
    states: Tensor,
    true_weight: Tensor,
    true_bias: Tensor,
    sample_weight: Tensor,
    sample_bias: Tensor,
    hits: Tensor,
) -> Tensor:
    """The same with a partition function estimated from a sample.

    Each row has its own true word, (rows, d) and (rows,); the sample, (samples, d), is shared.
    `hits` is the place of a row's true word in the sample, or -1: there it is left out.
    """
    return _SampledCrossEntropy.apply(  # pyright: ignore
        states, true_weight, true_bias, sample_weight, sample_bias, hits
    )


def slices(rows: int, columns: int) -> list[slice]:
    """Cut rows so that a slice of the (rows, columns) matrix stays in the cache; at least one."""
    size = min(1024, max(128, ELEMENTS_PER_SLICE // max(1, columns)))
    return [slice(first, first + size) for first in range(0, max(1, rows), size)]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        total = bias.new_zeros(())
        d_states = torch.empty_like(states) if wanted else None
        d_weight = torch.zeros_like(weight) if wanted else None
        d_bias = torch.zeros_like(bias) if wanted else None
        for part in slices(len(states), len(weight)):
            logits = scores_of_words(states[part], weight, bias)
            norm = logits.logsumexp(dim=1, keepdim=True)
            right = targets[part, None]
            total += (norm - logits.gather(1, right)).sum()
            if d_states is not None and d_weight is not None and d_bias is not None:
                d_logits = logits.sub_(norm).exp_()
                d_logits.scatter_add_(1, right, -torch.ones_like(norm))
                d_bias += d_logits.sum(0)
                d_logits = d_logits.to(states.dtype)
                torch.mm(d_logits, weight, out=d_states[part])
                d_weight.addmm_(d_logits.t(), states[part])
        ctx.gradients = (d_states, d_weight, d_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled(ctx.gradients, gradients[0]), None)


class _SampledCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        true_weight: Tensor,
        true_bias: Tensor,
        sample_weight: Tensor,
        sample_bias: Tensor,
        hits: Tensor,
    ) -> Tensor:
        total = sample_bias.new_zeros(())
        d_states = torch.empty_like(states)
        d_true_bias = torch.empty_like(true_bias)
        d_sample_weight = torch.zeros_like(sample_weight)
        d_sample_bias = torch.zeros_like(sample_bias)
        for part in slices(len(states), len(sample_weight)):
            logits = scores_of_words(states[part], sample_weight, sample_bias)
            rows = (hits[part] >= 0).nonzero()[:, 0]
            logits[rows, hits[part][rows]] = -torch.inf
            true = (states[part] * true_weight[part]).sum(1, dtype=logits.dtype) + true_bias[part]
            norm = torch.logaddexp(logits.logsumexp(dim=1), true)
            total += (norm - true).sum()
            d_true = (true - norm).exp_().sub_(1)
            d_logits = logits.sub_(norm[:, None]).exp_()
            d_sample_bias += d_logits.sum(0)
            d_true_bias[part] = d_true
            d_logits = d_logits.to(states.dtype)
            torch.mm(d_logits, sample_weight, out=d_states[part])
            d_states[part] += d_true.to(states.dtype)[:, None] * true_weight[part]
            d_sample_weight.addmm_(d_logits.t(), states[part])
        d_true_weight = d_true_bias.to(states.dtype)[:, None] * states
        ctx.gradients = (d_states, d_true_weight, d_true_bias, d_sample_weight, d_sample_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled(ctx.gradients, gradients[0]), None)


def scores_of_words(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Products in the precision of the states, sums and exponentials in that of the bias."""
    if states.dtype == bias.dtype:
        return torch.addmm(bias, states, weight.t())
    return (states @ weight.t()).to(bias.dtype).add_(bias)


def _scaled(gradients: tuple[Tensor | None, ...], factor: Tensor) -> tuple[Tensor | None, ...]:
    return tuple(None if one is None else one * factor.to(one.dtype) for one in gradients)

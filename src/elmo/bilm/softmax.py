"""The output layer both directions share: from a state to the probability of each word."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from elmo.bilm.config import BiLMConfig
from elmo.errors import UserError
from elmo.text.vocabulary import Vocabulary

# Cross-entropy over many words, a slice of rows at a time, its gradient formed on the way.
#
# Autograd would keep several (rows, words) matrices; here one small buffer is used again and again.


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


WORDS_AT_ONCE = 2048
"""A product over all words at once would leave the cache."""
SMOOTHED_COUNTS = 0.75
"""Power of the counts from which negatives are drawn, as in word2vec: rare words get a chance."""


class OutputLayer(nn.Module, ABC):
    """What every kind of softmax can do."""

    @abstractmethod
    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        """Sum of the training loss over (rows, width) states and (rows,) targets, in nats."""

    @abstractmethod
    def log_probabilities(self, states: Tensor) -> Tensor:
        """The log-probability of every word, (rows, words), always over the full softmax."""


class FullSoftmax(OutputLayer):
    """Every word in every step."""

    def __init__(self, width: int, vocabulary: int, tied_to: nn.Parameter | None) -> None:
        super().__init__()
        self.weight = tied_to if tied_to is not None else _drawn(vocabulary, width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        """Exact cross-entropy."""
        return cross_entropy_sum(states, self.weight.to(states.dtype), self.bias, targets)

    def log_probabilities(self, states: Tensor) -> Tensor:
        """Log-softmax over all words."""
        weights = torch.split(self.weight.to(states.dtype), WORDS_AT_ONCE)
        biases = torch.split(self.bias, WORDS_AT_ONCE)
        parts = [scores_of_words(states, *some) for some in zip(weights, biases, strict=True)]
        return torch.cat(parts, dim=1).log_softmax(dim=1)


class SampledSoftmax(FullSoftmax):
    """The right word against a sample, weighted so that the sum over it estimates the full one.

    A word drawn n times of S with probability p stands for n / (S p) of itself: the partition
    function is unbiased, and the loss tends to the full one as the sample grows.
    """

    def __init__(
        self, config: BiLMConfig, vocabulary: Vocabulary, tied_to: nn.Parameter | None
    ) -> None:
        super().__init__(config.width, len(vocabulary), tied_to)
        self.by_row = False
        self.samples = config.softmax.samples
        self.shared = config.softmax.shared_negatives
        self._sampler = config.softmax.sampler
        self._vocabulary = vocabulary

    @cached_property
    def _chances(self) -> Tensor:
        """Made when first needed: a model that only embeds never draws."""
        chances = sampling_distribution(self._sampler, self._vocabulary)
        return chances.to(self.bias.device)

    @cached_property
    def _cumulative(self) -> Tensor:
        return self._chances.cumsum(0)

    @cached_property
    def _log_expected(self) -> Tensor:
        return (self._chances * self.samples).log().to(self.bias.dtype)

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        """Cross-entropy against the sample."""
        if not self.shared:
            return self._loss_of_own_samples(states, targets, random)
        drawn = self._draw((self.samples,), random)
        negatives, times = cast("tuple[Tensor, Tensor]", drawn.unique(return_counts=True))
        place = torch.full_like(self.bias, -1, dtype=torch.long)
        place[negatives] = torch.arange(len(negatives), device=place.device)
        kind = states.dtype
        return sampled_cross_entropy_sum(
            states,
            functional.embedding(targets, self.weight, sparse=self.by_row).to(kind),
            self.bias[targets],
            functional.embedding(negatives, self.weight, sparse=self.by_row).to(kind),
            self.bias[negatives] - self._log_expected[negatives] + times.log(),
            place[targets],
        )

    def _draw(self, shape: tuple[int, ...], random: torch.Generator | None) -> Tensor:
        device = self._cumulative.device
        points = torch.rand(shape, generator=random, dtype=torch.float64, device=device)
        drawn = torch.searchsorted(self._cumulative, points * self._cumulative[-1], right=True)
        return drawn.clamp_(max=len(self._cumulative) - 1)

    def _loss_of_own_samples(
        self, states: Tensor, targets: Tensor, random: torch.Generator | None
    ) -> Tensor:
        negatives = self._draw((len(states), self.samples), random)
        losses = [
            cast(
                "Tensor",
                checkpoint(
                    self._own_slice, states[part], targets[part], negatives[part],
                    use_reentrant=False,
                ),
            )
            for part in slices(len(states), self.samples * states.shape[1])
        ]  # fmt: skip
        return torch.stack(losses).sum()

    def _own_slice(self, states: Tensor, targets: Tensor, negatives: Tensor) -> Tensor:
        kind = states.dtype
        rows = functional.embedding(negatives, self.weight).to(kind)  # (rows, samples, width)
        logits = torch.einsum("rd,rsd->rs", states, rows).to(self.bias.dtype)
        logits = logits + self.bias[negatives] - self._log_expected[negatives]
        logits = logits.masked_fill(negatives == targets[:, None], -torch.inf)
        true_rows = functional.embedding(targets, self.weight).to(kind)
        true = (states * true_rows).sum(1).to(self.bias.dtype) + self.bias[targets]
        return (torch.cat([true[:, None], logits], dim=1).logsumexp(1) - true).sum()


class AdaptiveSoftmax(OutputLayer):
    """Frequent words and one entry a cluster in the head; each cluster of rarer words is smaller.

    As in Grave et al. 2017: a word's probability is that of its cluster times its share in it.
    """

    def __init__(self, config: BiLMConfig, vocabulary: int) -> None:
        super().__init__()
        edges = [cut for cut in config.softmax.cutoffs if cut < vocabulary]
        self.edges = [*edges, vocabulary]
        head = self.edges[0] + len(edges)
        self.head_weight = _drawn(head, config.width)
        self.head_bias = nn.Parameter(torch.zeros(head))
        self.projections = nn.ParameterList()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for number, (first, last) in enumerate(self._clusters(), start=1):
            size = max(8, config.width // 4**number)
            self.projections.append(_drawn(size, config.width))
            self.weights.append(_drawn(last - first, size))
            self.biases.append(nn.Parameter(torch.zeros(last - first)))

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        """Exact cross-entropy of head and clusters."""
        kind = states.dtype
        in_head = targets.clone()
        total = self.head_bias.new_zeros(())
        for number, (first, last) in enumerate(self._clusters()):
            rows = ((targets >= first) & (targets < last)).nonzero()[:, 0]
            in_head[rows] = self.edges[0] + number
            if len(rows):
                inner = functional.linear(states[rows], self.projections[number].to(kind))
                weight = self.weights[number].to(kind)
                targets_inside = targets[rows] - first
                total = total + cross_entropy_sum(
                    inner, weight, self.biases[number], targets_inside
                )
        head = cross_entropy_sum(states, self.head_weight.to(kind), self.head_bias, in_head)
        return head + total

    def log_probabilities(self, states: Tensor) -> Tensor:
        """Log-probability of each word, clusters put together."""
        kind = states.dtype
        head = functional.linear(states, self.head_weight.to(kind)) + self.head_bias
        head = head.log_softmax(dim=1)
        parts = [head[:, : self.edges[0]]]
        for number in range(len(self.weights)):
            inner = functional.linear(states, self.projections[number].to(kind))
            logits = functional.linear(inner, self.weights[number].to(kind)) + self.biases[number]
            parts.append(logits.log_softmax(dim=1) + head[:, self.edges[0] + number, None])
        return torch.cat(parts, dim=1)

    def _clusters(self) -> list[tuple[int, int]]:
        return list(zip(self.edges[:-1], self.edges[1:], strict=True))


class NoSoftmax(OutputLayer):
    """Stands where official weights have nothing: such a model embeds, but predicts no word."""

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        """There is none."""
        raise _no_softmax()

    def log_probabilities(self, states: Tensor) -> Tensor:
        """There are none."""
        raise _no_softmax()


def build_output(
    config: BiLMConfig, vocabulary: Vocabulary, word_vectors: nn.Parameter | None
) -> OutputLayer:
    """The output layer a configuration asks for."""
    tied = word_vectors if config.softmax.tied else None
    if config.softmax.loss == "none":
        return NoSoftmax()
    if config.softmax.loss == "adaptive":
        return AdaptiveSoftmax(config, len(vocabulary))
    if config.softmax.loss == "sampled":
        output = SampledSoftmax(config, vocabulary, tied)
    else:
        output = FullSoftmax(config.width, len(vocabulary), tied)
    # From the first step on the model knows how frequent each word is, and only learns the rest.
    counts = np.array(vocabulary.counts, np.float64) + 1
    output.bias.data.copy_(torch.from_numpy(np.log(counts / counts.sum())))
    return output


def sampling_distribution(sampler: str, vocabulary: Vocabulary) -> Tensor:
    """How likely each word is to be drawn as a negative."""
    if sampler == "log_uniform":
        ranks = torch.arange(len(vocabulary), dtype=torch.float64)
        chances = ((ranks + 2) / (ranks + 1)).log()
    else:
        counts = torch.tensor(vocabulary.counts, dtype=torch.float64)
        chances = counts.clamp(min=1) ** SMOOTHED_COUNTS
    return chances / chances.sum()


def _no_softmax() -> UserError:
    return UserError(
        "this model has no softmax: its makers never published it, so it can embed words but not "
        "predict them; to score, predict, generate or evaluate, let it learn one from text "
        "(elmo pretrain SOURCE --from MODEL)"
    )


def _drawn(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * columns**-0.5)

"""The softmax that both directions share: full, sampled or adaptive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.config import BiLMConfig
from elmo.errors import UserError
from elmo.text.vocabulary import Vocabulary

ELEMENTS_PER_SLICE = 1 << 21  # logits computed at a time in training: 8 MB in single precision
WORDS_AT_ONCE = 2048
"""Words per product when probabilities are computed; more would leave the cache. One thread made 65
GFLOP/s with 2,048 words, 42 with 8,192 (docs/experiments.md)."""
SMOOTHED_COUNTS = 0.75  # power of the counts that negatives are drawn by, as in word2vec

# Cross-entropy over a slice of rows at a time, with its gradient computed in the same pass.
# Autograd would keep several (rows, words) matrices until the backward pass: for a batch of 4,096
# tokens and 37,122 words 600 MB each. A slice of 8 MB stays in the cache, and its logits become
# their own gradient in place. The backward pass only multiplies by the factor from above.


def cross_entropy_sum(states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Sum of -log softmax(states weightᵀ + bias)[target] over the rows of (rows, d) states."""
    if not torch.is_grad_enabled():
        # needs_input_grad is true for every parameter, even under no_grad.
        states, weight, bias = states.detach(), weight.detach(), bias.detach()
    return _CrossEntropy.apply(states, weight, bias, targets)  # pyright: ignore


def slices(rows: int, columns: int) -> list[slice]:
    """Slices of rows that keep a (rows, columns) matrix in the cache; at least one slice."""
    size = min(1024, max(128, ELEMENTS_PER_SLICE // max(1, columns)))
    return [slice(first, first + size) for first in range(0, max(1, rows), size)]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        needs_grad = any(ctx.needs_input_grad)
        total = bias.new_zeros(())
        d_states = torch.empty_like(states) if needs_grad else None
        d_weight = torch.zeros_like(weight) if needs_grad else None
        d_bias = torch.zeros_like(bias) if needs_grad else None
        for part in slices(len(states), len(weight)):
            logits = word_logits(states[part], weight, bias)  # (rows, words)
            norm = logits.logsumexp(dim=1, keepdim=True)
            target = targets[part, None]
            total += (norm - logits.gather(1, target)).sum()
            if d_states is not None and d_weight is not None and d_bias is not None:
                d_logits = logits.sub_(norm).exp_()
                d_logits.scatter_add_(1, target, -torch.ones_like(norm))
                d_bias += d_logits.sum(0)
                d_logits = d_logits.to(states.dtype)
                torch.mm(d_logits, weight, out=d_states[part])
                d_weight.addmm_(d_logits.t(), states[part])
        ctx.gradients = (d_states, d_weight, d_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (*_scaled(ctx.gradients, gradients[0]), None)


class SampledCrossEntropy(torch.autograd.Function):
    """`cross_entropy_sum` with a partition function that is estimated from a sample.

    Each row has its own target, (rows, d) and (rows,); the sample, (samples, d), is shared. `hits`
    is the index of a row's target in the sample, where it is masked, or -1.
    """

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
            logits = word_logits(states[part], sample_weight, sample_bias)  # (rows, samples)
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


def word_logits(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Logits in the dtype of the bias; the product is computed in the dtype of the states."""
    if states.dtype == bias.dtype:
        return torch.addmm(bias, states, weight.t())
    return (states @ weight.t()).to(bias.dtype).add_(bias)


def _scaled(gradients: tuple[Tensor | None, ...], factor: Tensor) -> tuple[Tensor | None, ...]:
    return tuple(None if grad is None else grad * factor.to(grad.dtype) for grad in gradients)


class OutputLayer(nn.Module, ABC):
    """The interface of every softmax."""

    @abstractmethod
    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        """Sum of the training loss over (rows, width) states and (rows,) targets, in nats."""

    @abstractmethod
    def log_probabilities(self, states: Tensor) -> Tensor:
        """The log-probability of every word, (rows, words), always over the full softmax."""


class FullSoftmax(OutputLayer):
    """A softmax over all words, in training too."""

    def __init__(self, width: int, vocabulary: int, tied_to: nn.Parameter | None) -> None:
        super().__init__()
        self.weight = tied_to if tied_to is not None else _random(vocabulary, width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        return cross_entropy_sum(states, self.weight.to(states.dtype), self.bias, targets)

    def log_probabilities(self, states: Tensor) -> Tensor:
        weights = torch.split(self.weight.to(states.dtype), WORDS_AT_ONCE)
        biases = torch.split(self.bias, WORDS_AT_ONCE)
        logits = [word_logits(states, *part) for part in zip(weights, biases, strict=True)]
        return torch.cat(logits, dim=1).log_softmax(dim=1)


class SampledSoftmax(FullSoftmax):
    """The target against a sample of words, weighted so that their sum estimates the full one.

    A word that is drawn n times out of S with probability p counts n / (S p) times: the estimate of
    the partition function is unbiased, and the loss tends to the full one as the sample grows.
    """

    def __init__(
        self, config: BiLMConfig, vocabulary: Vocabulary, tied_to: nn.Parameter | None
    ) -> None:
        super().__init__(config.width, len(vocabulary), tied_to)
        self.sparse = False  # see BiLM.gradients_by_row
        self.samples = config.softmax.samples
        self._sampler = config.softmax.sampler
        self._vocabulary = vocabulary

    @cached_property
    def _distribution(self) -> tuple[Tensor, Tensor]:
        """Cumulative probabilities to draw from, and the log of each word's expected count.

        Computed on first use: a model that only embeds never draws.
        """
        probabilities = sampling_distribution(self._sampler, self._vocabulary).to(self.bias.device)
        log_expected = (probabilities * self.samples).log().to(self.bias.dtype)
        return probabilities.cumsum(0), log_expected

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        cumulative, log_expected = self._distribution
        points = torch.rand(
            self.samples, generator=random, dtype=torch.float64, device=cumulative.device
        )
        drawn = torch.searchsorted(cumulative, points * cumulative[-1], right=True)
        drawn.clamp_(max=len(cumulative) - 1)
        negatives, counts = cast("tuple[Tensor, Tensor]", drawn.unique(return_counts=True))
        # A word that was drawn several times is computed once: its count enters as a log.
        index = torch.full_like(self.bias, -1, dtype=torch.long)  # of each word in the sample
        index[negatives] = torch.arange(len(negatives), device=index.device)
        dtype = states.dtype
        return SampledCrossEntropy.apply(  # pyright: ignore
            states,
            functional.embedding(targets, self.weight, sparse=self.sparse).to(dtype),
            self.bias[targets],
            functional.embedding(negatives, self.weight, sparse=self.sparse).to(dtype),
            self.bias[negatives] - log_expected[negatives] + counts.log(),
            index[targets],
        )


class AdaptiveSoftmax(OutputLayer):
    """Frequent words in the head, rarer ones in clusters with ever smaller vectors.

    As in Grave et al. 2017: the head has one entry per cluster, and the probability of a rare word
    is that of its cluster times its probability within the cluster.
    """

    def __init__(self, config: BiLMConfig, vocabulary: int) -> None:
        super().__init__()
        edges = [cut for cut in config.softmax.cutoffs if cut < vocabulary]
        self.edges = [*edges, vocabulary]
        head = self.edges[0] + len(edges)
        self.head_weight = _random(head, config.width)
        self.head_bias = nn.Parameter(torch.zeros(head))
        self.projections = nn.ParameterList()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for number, (first, last) in enumerate(self._clusters(), start=1):
            size = max(8, config.width // 4**number)
            self.projections.append(_random(size, config.width))
            self.weights.append(_random(last - first, size))
            self.biases.append(nn.Parameter(torch.zeros(last - first)))

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        dtype = states.dtype
        in_head = targets.clone()
        total = self.head_bias.new_zeros(())
        for number, (first, last) in enumerate(self._clusters()):
            rows = ((targets >= first) & (targets < last)).nonzero()[:, 0]
            in_head[rows] = self.edges[0] + number
            if len(rows):
                inner = functional.linear(states[rows], self.projections[number].to(dtype))
                weight, bias = self.weights[number].to(dtype), self.biases[number]
                total = total + cross_entropy_sum(inner, weight, bias, targets[rows] - first)
        head = cross_entropy_sum(states, self.head_weight.to(dtype), self.head_bias, in_head)
        return head + total

    def log_probabilities(self, states: Tensor) -> Tensor:
        dtype = states.dtype
        head = functional.linear(states, self.head_weight.to(dtype)) + self.head_bias
        head = head.log_softmax(dim=1)
        parts = [head[:, : self.edges[0]]]
        for number in range(len(self.weights)):
            inner = functional.linear(states, self.projections[number].to(dtype))
            logits = functional.linear(inner, self.weights[number].to(dtype)) + self.biases[number]
            parts.append(logits.log_softmax(dim=1) + head[:, self.edges[0] + number, None])
        return torch.cat(parts, dim=1)

    def _clusters(self) -> list[tuple[int, int]]:
        return list(zip(self.edges[:-1], self.edges[1:], strict=True))


class NoSoftmax(OutputLayer):
    """For official weights, which come without a softmax: such a model embeds only."""

    MESSAGE = (
        "this model has no softmax: its authors did not publish it, so it can embed words but not "
        "predict them; to score, predict, generate or evaluate, train a softmax on text: "
        "elmo pretrain SOURCE --from MODEL"
    )

    def loss(self, states: Tensor, targets: Tensor, random: torch.Generator | None) -> Tensor:
        raise UserError(self.MESSAGE)

    def log_probabilities(self, states: Tensor) -> Tensor:
        raise UserError(self.MESSAGE)


def build_output(
    config: BiLMConfig, vocabulary: Vocabulary, word_vectors: nn.Parameter | None
) -> OutputLayer:
    tied = word_vectors if config.softmax.tied else None
    if config.softmax.loss == "none":
        return NoSoftmax()
    if config.softmax.loss == "adaptive":
        return AdaptiveSoftmax(config, len(vocabulary))
    if config.softmax.loss == "sampled":
        output = SampledSoftmax(config, vocabulary, tied)
    else:
        output = FullSoftmax(config.width, len(vocabulary), tied)
    # The bias starts at the log frequencies, so that training need not learn these first.
    counts = np.array(vocabulary.counts, np.float64) + 1
    output.bias.data.copy_(torch.from_numpy(np.log(counts / counts.sum())))
    return output


def sampling_distribution(sampler: str, vocabulary: Vocabulary) -> Tensor:
    """The probability that each word is drawn as a negative."""
    if sampler == "log_uniform":
        ranks = torch.arange(len(vocabulary), dtype=torch.float64)
        weights = ((ranks + 2) / (ranks + 1)).log()
    else:
        counts = torch.tensor(vocabulary.counts, dtype=torch.float64)
        weights = counts.clamp(min=1) ** SMOOTHED_COUNTS
    return weights / weights.sum()


def _random(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * columns**-0.5)

"""The output layer both directions share: from a state to the probability of each word."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint  # pyright: ignore[reportUnknownVariableType]

from elmo.bilm.config import BiLMConfig
from elmo.bilm.cross_entropy import (
    cross_entropy_sum,
    sampled_cross_entropy_sum,
    scores_of_words,
    slices,
)
from elmo.errors import UserError
from elmo.text.vocabulary import Vocabulary

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

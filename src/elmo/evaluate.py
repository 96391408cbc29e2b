"""How well both directions predict held-out text, always over the full softmax."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.softmax import slices
from elmo.text.vocabulary import END, UNKNOWN

if TYPE_CHECKING:
    from elmo.bilm.model import BiLM, BiLMState
    from elmo.text.batching import Batch, Targets

TOP = 5
CONFUSIONS = 30  # this many of the most frequent confusions are listed
MOST_PAIRS = 1 << 20  # confused pairs counted at a time; of more, those seen once are forgotten


@dataclass(frozen=True)
class Averages:
    """Precision, recall and F1 averaged over the words that occur or are predicted."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class DirectionMetrics:
    targets: int
    loss: float  # mean negative log-probability, in nats
    perplexity: float
    accuracy: float
    top5_accuracy: float
    macro: Averages
    weighted: Averages


@dataclass(frozen=True)
class WordConfusion:
    """How often a word was predicted where another one stood, in both directions together."""

    predicted: str
    true: str
    count: int


@dataclass(frozen=True)
class Evaluation:
    """Both directions, and what they achieve together."""

    forward: DirectionMetrics
    backward: DirectionMetrics
    perplexity: float  # the exponential of the two directions' mean loss
    unknown_rate: float  # fraction of the text's words that are not in the vocabulary
    confusions: tuple[WordConfusion, ...] = ()  # the most frequent ones, where asked for


class _Tally:
    def __init__(self, vocabulary: int, *, confusions: bool = False) -> None:
        self.confused: Counter[int] | None = Counter() if confusions else None
        self.loss, self.targets, self.top5 = 0.0, 0, 0
        # How often each word is the target, is predicted, and is predicted rightly.
        self.true, self.predicted, self.right = np.zeros((3, vocabulary), np.int64)

    def add(self, model: BiLM, states: Tensor, targets: Targets) -> None:
        """Predict from (targets, width) states, in slices: (targets, words) is too much memory."""
        size = len(self.true)
        for part in slices(len(states), size):
            log_probabilities = model.output.log_probabilities(states[part])  # (rows, words)
            ids = targets.ids[part]
            best = log_probabilities.topk(min(TOP, size), dim=1).indices
            hit = best == ids[:, None]
            chosen = log_probabilities.gather(1, ids[:, None])
            self.loss -= float(chosen.sum(dtype=torch.float64))
            self.targets += len(ids)
            self.top5 += int(hit.sum())
            self.true += _counts(ids, size)
            self.predicted += _counts(best[:, 0], size)
            self.right += _counts(ids[hit[:, 0]], size)
            if self.confused is not None:
                wrong = ~hit[:, 0]
                pairs = cast("list[int]", (best[wrong, 0] * size + ids[wrong]).tolist())
                self.confused.update(pairs)
                if len(self.confused) > MOST_PAIRS:
                    often = {pair: count for pair, count in self.confused.items() if count > 1}
                    self.confused = Counter(often)

    def add_other_processes(self, all_reduce: Callable[[Tensor], None]) -> None:
        sums = torch.tensor([self.loss, self.targets, self.top5], dtype=torch.float64)
        all_reduce(sums)
        for counts in (self.true, self.predicted, self.right):
            all_reduce(torch.from_numpy(counts))
        self.loss, self.targets, self.top5 = float(sums[0]), int(sums[1]), int(sums[2])

    def metrics(self) -> DirectionMetrics:
        targets = max(1, self.targets)
        macro, weighted = averages(self.true, self.predicted, self.right)
        loss = self.loss / targets
        return DirectionMetrics(
            targets=self.targets,
            loss=loss,
            perplexity=perplexity(loss),
            accuracy=int(self.right.sum()) / targets,
            top5_accuracy=self.top5 / targets,
            macro=macro,
            weighted=weighted,
        )


@torch.no_grad()
def evaluate(
    model: BiLM,
    batches: Iterable[Batch],
    all_reduce: Callable[[Tensor], None] | None = None,
    *,
    confusions: int = 0,
) -> Evaluation:
    """Let both directions predict every word of the batches.

    Args:
        all_reduce: where several processes evaluate, each its own batches: replaces a tensor by its
            sum over all of them.
        confusions: how many of the most frequent confusions to list (of this process).
    """
    size, words_of = len(model.vocabulary), model.vocabulary.words
    forward_tally, backward_tally = (_Tally(size, confusions=confusions > 0) for _ in range(2))
    unknown = words = 0
    state: BiLMState | None = None
    for batch in batches:
        batch = batch.to(model.device)
        outputs = model.layers(batch, None if batch.is_first_window else state)
        state = outputs.state
        forward, backward = outputs.at_targets()  # (targets, width)
        model.in_parallel(
            lambda batch=batch, states=forward: forward_tally.add(model, states, batch.forward),
            lambda batch=batch, states=backward: backward_tally.add(model, states, batch.backward),
        )
        unknown += int((batch.forward.ids == UNKNOWN).sum())
        words += int((batch.forward.ids != END).sum())
    if all_reduce is not None:
        forward_tally.add_other_processes(all_reduce)
        backward_tally.add_other_processes(all_reduce)
        counts = torch.tensor([unknown, words])
        all_reduce(counts)
        unknown, words = int(counts[0]), int(counts[1])
    forward, backward = forward_tally.metrics(), backward_tally.metrics()
    confused = (forward_tally.confused or Counter()) + (backward_tally.confused or Counter())
    return Evaluation(
        forward=forward,
        backward=backward,
        perplexity=perplexity((forward.loss + backward.loss) / 2),
        unknown_rate=unknown / max(1, words),
        confusions=tuple(
            WordConfusion(words_of[pair // size], words_of[pair % size], count)
            for pair, count in sorted(confused.items(), key=lambda item: (-item[1], item[0]))
        )[:confusions],
    )


def averages(
    true: NDArray[np.int64], predicted: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[Averages, Averages]:
    """Macro and weighted averages from counts per word.

    Written out since scikit-learn wants all predictions in memory, and is not in the core.
    """
    present = (true + predicted) > 0
    true, predicted, right = true[present], predicted[present], right[present]
    precision = right / np.maximum(1, predicted)
    recall = right / np.maximum(1, true)
    f1 = 2 * right / np.maximum(1, true + predicted)
    weights = true / max(1, true.sum())
    rates = (precision, recall, f1)
    macro = Averages(*(float(rate.mean()) if len(rate) else 0.0 for rate in rates))
    weighted = Averages(*(float(rate @ weights) for rate in rates))
    return macro, weighted


def perplexity(loss: float) -> float:
    """The exponential of a mean loss; infinite if it is too large for a float."""
    return math.exp(loss) if loss < 700 else math.inf


def averaged(evaluation: Evaluation) -> DirectionMetrics:
    """The mean of both directions; the perplexity is that of their mean loss."""
    forward, backward = evaluation.forward, evaluation.backward

    def mean(a: Averages, b: Averages) -> Averages:
        pairs = zip(astuple(a), astuple(b), strict=True)
        return Averages(*((left + right) / 2 for left, right in pairs))

    loss = (forward.loss + backward.loss) / 2
    return DirectionMetrics(
        targets=(forward.targets + backward.targets) // 2,
        loss=loss,
        perplexity=perplexity(loss),
        accuracy=(forward.accuracy + backward.accuracy) / 2,
        top5_accuracy=(forward.top5_accuracy + backward.top5_accuracy) / 2,
        macro=mean(forward.macro, backward.macro),
        weighted=mean(forward.weighted, backward.weighted),
    )


def _counts(ids: Tensor, size: int) -> NDArray[np.int64]:
    return torch.bincount(ids, minlength=size).cpu().numpy()

"""How well both directions predict held-out text, always over the full softmax."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.model import BiLM, BiLMState
from elmo.bilm.softmax import slices
from elmo.bilm.threads import run_side_by_side
from elmo.config import from_json
from elmo.model_folder import CONFIG, LoadedModel
from elmo.text.batching import Batch, Reading, read_texts
from elmo.text.config import Batching, ReadOptions
from elmo.text.sources import read_documents, resolve
from elmo.text.vocabulary import END, UNKNOWN
from elmo.training.distributed import World

TOP = 5


@dataclass(frozen=True)
class Averages:
    """Precision, recall and F1 averaged over the words that occur or are predicted."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class DirectionMetrics:
    """What one direction achieved."""

    targets: int
    loss: float
    """Mean negative log-probability, in nats."""
    perplexity: float
    accuracy: float
    top5_accuracy: float
    macro: Averages
    weighted: Averages


@dataclass(frozen=True)
class Evaluation:
    """Both directions, and what they achieve together."""

    forward: DirectionMetrics
    backward: DirectionMetrics
    perplexity: float
    """The exponential of the two directions' mean loss."""
    unknown_rate: float
    """Share of the text's words that the vocabulary does not hold."""


class _Tally:
    """Running sums of one direction."""

    def __init__(self, vocabulary: int) -> None:
        self.loss = 0.0
        self.targets = 0
        self.top5 = 0
        self.true = np.zeros(vocabulary, np.int64)
        self.predicted = np.zeros(vocabulary, np.int64)
        self.right = np.zeros(vocabulary, np.int64)

    def add(self, log_probabilities: Tensor, targets: Tensor) -> None:
        """Count a slice of predictions, (rows, words) against (rows,)."""
        size = len(self.true)
        best = log_probabilities.topk(min(TOP, size), dim=1).indices
        hit = best == targets[:, None]
        chosen = log_probabilities.gather(1, targets[:, None])
        self.loss -= float(chosen.sum(dtype=torch.float64))
        self.targets += len(targets)
        self.top5 += int(hit.sum())
        self.true += _counts(targets, size)
        self.predicted += _counts(best[:, 0], size)
        self.right += _counts(targets[hit[:, 0]], size)

    def add_up(self, world: World) -> None:
        """Add what the other processes have counted."""
        self.loss, targets, top5 = world.sums(self.loss, self.targets, self.top5)
        self.targets, self.top5 = int(targets), int(top5)
        for counts in (self.true, self.predicted, self.right):
            world.sum(torch.from_numpy(counts))

    def metrics(self) -> DirectionMetrics:
        """Turn sums into rates."""
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
def evaluate(model: BiLM, batches: Iterable[Batch], world: World | None = None) -> Evaluation:
    """Let both directions predict every word of the batches, of which each process has its own."""
    tallies = (_Tally(len(model.vocabulary)), _Tally(len(model.vocabulary)))
    unknown = words = 0
    for batch, readings in read_through(model, batches):
        forward, backward = (
            partial(_predict, model, tally, *one)
            for tally, one in zip(tallies, readings, strict=True)
        )
        run_side_by_side(forward, backward)
        unknown += int((batch.forward.targets == UNKNOWN).sum())
        words += int((batch.forward.targets != END).sum())
    if world is not None:
        for tally in tallies:
            tally.add_up(world)
        unknown, words = world.sums(unknown, words)
    forward, backward = (tally.metrics() for tally in tallies)
    return Evaluation(
        forward=forward,
        backward=backward,
        perplexity=perplexity((forward.loss + backward.loss) / 2),
        unknown_rate=unknown / max(1, words),
    )


def read_through(
    model: BiLM, batches: Iterable[Batch]
) -> Iterator[tuple[Batch, tuple[tuple[Tensor, Reading], ...]]]:
    """Read batches in order, states carried; yield the top states at the steps asked for."""
    state: BiLMState | None = None
    for given in batches:
        batch = given.to(model.device)
        outputs = model.read(batch, None if batch.starts else state)
        state = BiLMState(*(output.states for output in outputs))
        yield (
            batch,
            tuple(
                (output.layers[-1].flatten(0, 1)[reading.asked], reading)
                for output, reading in zip(outputs, batch.readings, strict=True)
            ),
        )


def _predict(model: BiLM, tally: _Tally, states: Tensor, reading: Reading) -> None:
    for part in slices(len(states), len(model.vocabulary)):
        tally.add(model.output.log_probabilities(states[part]), reading.targets[part])


def averages(
    true: NDArray[np.int64], predicted: NDArray[np.int64], right: NDArray[np.int64]
) -> tuple[Averages, Averages]:
    """Macro and weighted averages from counts a word.

    Written out since scikit-learn wants all predictions in memory, and is not in the core.
    """
    present = (true + predicted) > 0
    true, predicted, right = true[present], predicted[present], right[present]
    precision = right / np.maximum(1, predicted)
    recall = right / np.maximum(1, true)
    f1 = 2 * right / np.maximum(1, true + predicted)
    weights = true / max(1, true.sum())
    macro = Averages(*(float(one.mean()) if len(one) else 0.0 for one in (precision, recall, f1)))
    weighted = Averages(*(float(one @ weights) for one in (precision, recall, f1)))
    return macro, weighted


def perplexity(loss: float) -> float:
    """The exponential of a mean loss; infinite where it is too large for a number."""
    return math.exp(loss) if loss < 700 else math.inf


def _counts(ids: Tensor, size: int) -> NDArray[np.int64]:
    return torch.bincount(ids, minlength=size).cpu().numpy()


# How well a model folder predicts any text: from files to metrics.


def evaluate_text(
    loaded: LoadedModel,
    sources: Sequence[str] | str,
    read: ReadOptions | None = None,
    batching: Batching | None = None,
) -> Evaluation:
    """Let both directions predict every word of files, folders, patterns, '-' or 'ag_news'.

    Only a part of the text is in memory at a time. Without `batching`, text is read as it was in
    training: each document for itself, or as a stream.
    """
    found = resolve([sources] if isinstance(sources, str) else sources)
    words = map(loaded.tokenize, read_documents(found, read or ReadOptions()))
    model = loaded.model
    batches = read_texts(
        (text for text in words if text),
        model.vocabulary,
        batching or batching_of(loaded),
        spelled=model.config.spelled,
    )
    return evaluate(model, batches)


def batching_of(loaded: LoadedModel) -> Batching:
    """How the training text was cut into batches, where the model's settings tell."""
    given = loaded.config.get("batching")
    return Batching() if given is None else from_json(Batching, given, f"{CONFIG}: batching")


def averaged(evaluation: Evaluation) -> DirectionMetrics:
    """The mean of both directions; perplexity is that of their mean loss."""
    forward, backward = evaluation.forward, evaluation.backward
    loss = (forward.loss + backward.loss) / 2
    return DirectionMetrics(
        targets=(forward.targets + backward.targets) // 2,
        loss=loss,
        perplexity=perplexity(loss),
        accuracy=(forward.accuracy + backward.accuracy) / 2,
        top5_accuracy=(forward.top5_accuracy + backward.top5_accuracy) / 2,
        macro=_mean(forward.macro, backward.macro),
        weighted=_mean(forward.weighted, backward.weighted),
    )


def _mean(one: Averages, other: Averages) -> Averages:
    return Averages(
        (one.precision + other.precision) / 2,
        (one.recall + other.recall) / 2,
        (one.f1 + other.f1) / 2,
    )

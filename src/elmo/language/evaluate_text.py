"""How well a model folder predicts any text: from files to metrics."""

from __future__ import annotations

from collections.abc import Sequence

from elmo.checkpoint import CONFIG, LoadedModel
from elmo.config import from_json
from elmo.language.evaluate import (
    Averages,
    DirectionMetrics,
    Evaluation,
    evaluate,
    perplexity,
)
from elmo.text.batching_config import Batching
from elmo.text.in_memory import read_texts
from elmo.text.sources import ReadOptions, read_documents, resolve


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

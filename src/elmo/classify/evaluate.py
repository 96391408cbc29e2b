"""How good a classifier is on labelled texts: figures, mistakes and pictures, written to files."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.classify.classifier import TextClassifier
from elmo.classify.labelled import LabelledTexts
from elmo.classify.metrics import Metrics, measure
from elmo.classify.mistakes import Mistake, most_confident_mistakes
from elmo.classify.text_rows import OnTexts
from elmo.config import to_json
from elmo.errors import UserError
from elmo.files import write_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """What a classifier achieves on some texts."""

    metrics: Metrics
    mistakes: tuple[Mistake, ...]
    """Those it was surest of, the surest first."""
    empty: tuple[int, ...]
    """The rows whose texts have no words."""


def evaluate(
    classifier: TextClassifier, data: LabelledTexts, on_texts: OnTexts | None = None
) -> Evaluation:
    """Classify texts whose labels are known; a label that training did not know is a mistake."""
    if data.labels is None:
        raise UserError("expected labelled texts, but these have no labels")
    gold = classifier.labels.encode(data.labels, data.places)
    started = time.monotonic()
    rows = classifier.rows(data.texts)
    probabilities = classifier.probabilities(rows, on_texts)
    seconds = time.monotonic() - started
    empty = tuple(row for row, words in enumerate(rows.words) if not words)
    return judge(data, gold, probabilities, classifier.labels.names, empty, len(gold) / seconds)


def judge(
    data: LabelledTexts,
    gold: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    names: Sequence[str],
    empty: tuple[int, ...] = (),
    rows_per_second: float | None = None,
) -> Evaluation:
    """Compare probabilities that were computed before with the right classes."""
    metrics = measure(probabilities, gold, names, rows_per_second=rows_per_second)
    mistakes = most_confident_mistakes(probabilities, gold, data.texts, names, places=data.places)
    return Evaluation(metrics, tuple(mistakes), empty)


def write_evaluation(evaluation: Evaluation, part: str, folder: Path) -> None:
    """Write figures and mistakes as JSON and the confusion matrix as a picture."""
    write_json(folder / f"metrics_{part}.json", to_json(evaluation.metrics))
    write_json(folder / f"mistakes_{part}.json", [to_json(one) for one in evaluation.mistakes])
    if can_draw():
        from elmo.classify.figures import draw_confusion

        draw_confusion(evaluation.metrics, part, folder / f"confusion_{part}.png")


def can_draw() -> bool:
    """Whether pictures can be drawn; if not, it is said how they could be."""
    from elmo.errors import require_extra

    try:
        require_extra("matplotlib", "study")
    except UserError as error:
        log.warning("no pictures: %s", error)
        return False
    return True

"""elmo classify evaluate SOURCE… --model CLASSIFIER: measure on labelled texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from elmo.classify.labelled import LabelOptions
from elmo.cli import arguments
from elmo.cli.texts import Flag
from elmo.shipped import CLASSIFIER
from elmo.text.readers.options import ReadOptions

if TYPE_CHECKING:
    from elmo.classify.evaluate import Evaluation


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Measure a classifier on labelled texts: figures, what it confuses, its surest mistakes.

    elmo classify evaluate ag_news:test --model runs/topics --out runs/topics_test
    """

    sources: Annotated[tuple[str, ...], Positional, arg(metavar="SOURCE ...")]
    """Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news."""
    model: Path = CLASSIFIER
    """A classifier's folder; none: the news classifier that comes with elmo."""
    out: Path | None = None
    """Folder for figures and mistakes as JSON, and for the confusion matrix as a picture."""
    mistakes: int = 5
    """How many of the surest mistakes to print."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    threads: int | None = None
    """Processor threads; none: one a core."""
    json: Flag = False
    """Print one JSON object."""
    read: ReadOptions = field(default_factory=ReadOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "classify evaluate", given)


def run(given: Arguments) -> int:
    """Measure, print, write what was asked for."""
    from elmo.classify.evaluate import evaluate, write_evaluation
    from elmo.classify.folder import load_classifier
    from elmo.classify.labelled import read_labelled
    from elmo.cli.classify_tables import show_evaluation
    from elmo.cli.embedding import EmbeddingDisplay
    from elmo.cli.output import print_json
    from elmo.cli.training import set_device
    from elmo.contextual.progress import Pace

    set_device(given.device, given.threads)
    classifier = load_classifier(given.model, given.device)
    data = read_labelled(given.sources, given.read, given.labels.label_column)
    with EmbeddingDisplay() as display:
        evaluation = evaluate(classifier, data, Pace(display.show, len(data.texts)).add)
    if given.out is not None:
        write_evaluation(evaluation, "evaluation", given.out)
    if given.json:
        print_json(asdict(evaluation))
    else:
        show_evaluation(evaluation.metrics, "all")
        _show_mistakes(evaluation, given.mistakes)
    return 0


def _show_mistakes(evaluation: Evaluation, number: int) -> None:
    for one in evaluation.mistakes[:number]:
        print(
            f"{one.place}: {one.gold}, taken for {one.predicted} ({one.probability:.3f})\n"
            f"  {one.text}"
        )
    if evaluation.empty:
        print(f"{len(evaluation.empty):,} texts have no words")

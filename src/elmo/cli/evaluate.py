"""elmo evaluate MODEL [SOURCE…]: how well a model predicts a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from elmo.cli import arguments
from elmo.cli.texts import Flag, ModelFolder, TokenizerName, open_model
from elmo.text.readers.options import ReadOptions

if TYPE_CHECKING:
    from elmo.language.evaluate import DirectionMetrics, Evaluation


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Tell how well a model predicts each word of a text, over the full softmax.

    elmo evaluate runs/news

    elmo evaluate runs/news 'other/*.txt.gz' --json
    """

    model: ModelFolder
    """A model folder."""
    sources: Annotated[tuple[str, ...], Positional, arg(metavar="[SOURCE ...]")] = ()
    """Files, patterns, folders, '-', or ag_news; none: what was held out of the training."""
    tokenizer: TokenizerName = "model"
    """model: cut words as in training; whitespace: they are cut already, with spaces between."""
    cache: Path | None = None
    """Where prepared corpora are kept; none: $ELMO_CACHE or ~/.cache/elmo."""
    json: Flag = False
    """Print one JSON object."""
    read: ReadOptions = field(default_factory=ReadOptions)


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "evaluate", given)


def run(given: Arguments) -> int:
    """Print a table or an object."""
    from elmo.cli.output import print_json
    from elmo.language.evaluate_text import averaged

    evaluation = _evaluate(given)
    average = averaged(evaluation)
    if given.json:
        print_json({**asdict(evaluation), "average": asdict(average)})
    else:
        _show(evaluation, average)
    return 0


def _evaluate(given: Arguments) -> Evaluation:
    from elmo.language.evaluate_text import evaluate_text
    from elmo.pretrain.evaluate_run import evaluate_run

    if not given.sources:
        return evaluate_run(given.model, cache=given.cache)
    return evaluate_text(open_model(given.model, given.tokenizer), given.sources, given.read)


def _show(evaluation: Evaluation, average: DirectionMetrics) -> None:
    from elmo.cli.output import print_table

    columns = [_column(one) for one in (evaluation.forward, evaluation.backward, average)]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    print_table(rows, ["", "forward", "backward", "average"])
    print(f"unknown words: {evaluation.unknown_rate:.2%}")


def _column(metrics: DirectionMetrics) -> dict[str, str]:
    """What is shown of a direction, by the name of the row."""
    macro, weighted = metrics.macro, metrics.weighted
    return {
        "perplexity": f"{metrics.perplexity:,.2f}",
        "loss (nats a word)": f"{metrics.loss:.4f}",
        "accuracy": f"{metrics.accuracy:.4f}",
        "top-5 accuracy": f"{metrics.top5_accuracy:.4f}",
        "precision, macro": f"{macro.precision:.4f}",
        "recall, macro": f"{macro.recall:.4f}",
        "F1, macro": f"{macro.f1:.4f}",
        "precision, weighted": f"{weighted.precision:.4f}",
        "recall, weighted": f"{weighted.recall:.4f}",
        "F1, weighted": f"{weighted.f1:.4f}",
        "predictions": f"{metrics.targets:,}",
    }

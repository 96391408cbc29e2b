"""elmo classify train SOURCE… --model BILM --out FOLDER: learn from labelled texts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from elmo.classify.config import ClassifierConfig
from elmo.classify.labelled import LabelOptions
from elmo.cli import arguments
from elmo.cli.texts import Flag
from elmo.shipped import BILM
from elmo.text.readers.options import ReadOptions

if TYPE_CHECKING:
    from elmo.classify.train_run import ClassifierRun


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train a classifier of texts on top of a biLM, and measure it on train and test.

    elmo classify train ag_news --model runs/news --out runs/topics --test ag_news:test

    elmo classify train mail.csv --label-column folder --out runs/mail --mix function

    elmo classify train ag_news --out runs/tuned --fine-tune-epochs 2

    elmo classify train ag_news --out runs/glove --word-vectors glove.6B.100d.txt
    """

    sources: Annotated[tuple[str, ...], Positional, arg(metavar="SOURCE ...")]
    """Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news."""
    out: Path
    """Folder to write; it must not exist yet. A training that is stopped is kept beside it, and
    goes on when the same command is given again."""
    model: Path = BILM
    """A biLM's folder, or official files; none: the news model that comes with elmo."""
    test: tuple[str, ...] = ()
    """Labelled texts to measure on, in the same columns."""
    word_vectors: Path | None = None
    """Own word vectors begin as those of this file, in word2vec's format or GloVe's; all words of
    it get one, at most 400,000, and serve words with capitals that it does not hold."""
    reference: Flag = False
    """Name the biLM by path and checksum, do not copy it."""
    saved_precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the weights in the folder."""
    checkpoint_minutes: float = 5.0
    """How often to keep how far the training is."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    threads: int | None = None
    """Processor threads; none: one a core."""
    json: Flag = False
    """Print one JSON object."""
    config: ClassifierConfig = field(default_factory=ClassifierConfig)
    read: ReadOptions = field(default_factory=ReadOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags."""
    return arguments.parse(Arguments, "classify train", given)


def run(given: Arguments) -> int:
    """Train, show progress, print the figures."""
    from elmo.classify.train import Surroundings
    from elmo.classify.train_run import train_classifier
    from elmo.cli.classifying import ClassifierDisplay
    from elmo.cli.training import set_device

    set_device(given.device, given.threads)
    with ClassifierDisplay() as display:
        made = train_classifier(
            given.sources,
            given.model,
            given.out,
            given.config,
            test=given.test,
            read=given.read,
            label_column=given.labels.label_column,
            reference=given.reference,
            precision=given.saved_precision,
            device=given.device,
            command=shlex.join(["elmo", *sys.argv[1:]]),
            surroundings=Surroundings(given.out.parent, display.report, display.texts),
            word_vectors=given.word_vectors,
            checkpoint_minutes=given.checkpoint_minutes,
        )
    _tell(made, as_json=given.json)
    if made.trained.trouble is not None:
        sys.stderr.write(f"elmo: {made.trained.trouble}\n")
    return 0 if made.trained.trouble is None else 1


def _tell(made: ClassifierRun, *, as_json: bool) -> None:
    from elmo.cli.classify_tables import show_evaluation
    from elmo.cli.output import print_json

    mix = made.trained.classifier.network.mix
    if as_json:
        parts = {name: asdict(one.metrics) for name, one in made.evaluations.items()}
        print_json(
            {
                "folder": str(made.folder),
                "mix_weights": mix.weights,
                "gamma": mix.gamma,
                "seconds": made.trained.seconds,
                "history": [asdict(report) for report in made.trained.history],
                "metrics": parts,
            }
        )
        return
    for part, evaluation in made.evaluations.items():
        show_evaluation(evaluation.metrics, part)
    if mix.weights is not None:
        shares = ", ".join(f"{share:.3f}" for share in mix.weights)
        print(f"layers weigh {shares}; gamma {mix.gamma:.3f}")
    print(f"{made.folder}: trained in {made.trained.seconds:,.0f} s")

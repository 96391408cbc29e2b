"""elmo classify train SOURCE… --model BILM --out FOLDER: learn from labelled texts."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from elmo.classify.config import ClassifierConfig
from elmo.classify.data import LabelOptions, printable
from elmo.cli import options as arguments
from elmo.cli.display import SECONDS_BETWEEN_LINES, LiveDisplay, clock, line, print_table
from elmo.cli.options import Flag
from elmo.config import BILM, CLASSIFIER, nearest
from elmo.errors import UserError
from elmo.text.config import ReadOptions

if TYPE_CHECKING:
    from elmo.classify.metrics import Evaluation, Metrics
    from elmo.classify.training import ClassifierRun, EpochReport, StepReport
    from elmo.embed.embedder import Progress


# What a person sees while a classifier learns: a bar in a terminal, plain lines elsewhere.


EPOCHS_SHOWN = 10
"""So many at first, then one in so many: few texts are read very often."""


class ClassifierDisplay(LiveDisplay):
    """Shows the reading of the texts, then steps and epochs."""

    def __init__(self) -> None:
        super().__init__("reading")
        self._last = time.monotonic()

    def texts(self, report: Progress) -> None:
        """Show how far the biLM's reading is."""
        self._show(f"layers of the biLM: {line(report)}", report.texts, report.total)

    def report(self, report: StepReport | EpochReport) -> None:
        """Show a step or an epoch."""
        from elmo.classify.training import StepReport

        if isinstance(report, StepReport):
            self._show(_step_line(report), report.done, 1.0)
        elif report.epoch <= EPOCHS_SHOWN or report.epoch % EPOCHS_SHOWN == 0:
            self.line(_epoch_line(report))

    def _show(self, text: str, completed: float, total: float | None) -> None:
        self.update(text, completed, total)
        now = time.monotonic()
        if not self.is_terminal and now - self._last >= SECONDS_BETWEEN_LINES:
            self.line(text)
            self._last = now


def _step_line(report: StepReport) -> str:
    return (
        f"{report.phase}: {report.done:6.1%}  loss {report.loss:.3f}  "
        f"{report.texts_per_second:,.0f} texts/s  {clock(report.seconds_left)} left"
    )


def _epoch_line(report: EpochReport) -> str:
    shares = [f"{share:.2f}" for share in report.mix_weights or ()]
    weights = f"  layers weigh {', '.join(shares)}" if shares else ""
    return (
        f"epoch {report.epoch} ({report.phase}): loss {report.train_loss:.4f}, development loss "
        f"{report.development_loss:.4f}, accuracy {report.development_accuracy:.4f}{weights}"
    )


# elmo classify train|evaluate|predict …: classifiers of texts.


COMMANDS = {
    "train": "learn from labelled texts, on top of a biLM",
    "evaluate": "measure a classifier on labelled texts",
    "predict": "labels of texts, with probabilities",
}


def parse_classify(given: Sequence[str]) -> Callable[[], int]:
    """Read what to do and the flags of it; gives what does it."""
    name, *rest = given or ["--help"]
    if name in ("-h", "--help"):
        return _show_overview
    if name not in COMMANDS:
        raise UserError(
            f"unknown command 'classify {name}'{nearest(name, COMMANDS)}; see elmo classify --help"
        )
    parse, run = {
        "train": (parse_classify_train, run_classify_train),
        "evaluate": (parse_classify_evaluate, run_classify_evaluate),
        "predict": (parse_classify_predict, run_classify_predict),
    }[name]
    settings: Any = parse(rest)
    return lambda: run(settings)


def run_classify(given: Callable[[], int]) -> int:
    """Do it."""
    return given()


def _show_overview() -> int:
    lines = [f"  {name:<10} {what}" for name, what in COMMANDS.items()]
    print("\n".join(["usage: elmo classify COMMAND …", "", *lines, ""]))
    print("elmo classify COMMAND --help tells more.")
    return 0


@dataclass(frozen=True, kw_only=True)
class ClassifyTrainArguments:
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


def parse_classify_train(given: Sequence[str]) -> ClassifyTrainArguments:
    """Read the flags."""
    return arguments.parse(ClassifyTrainArguments, "classify train", given)


def run_classify_train(given: ClassifyTrainArguments) -> int:
    """Train, show progress, print the figures."""
    from elmo.classify.training import Surroundings, train_classifier
    from elmo.cli.display import set_device

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
    from elmo.cli.display import print_json

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


# elmo classify evaluate SOURCE… --model CLASSIFIER: measure on labelled texts.


@dataclass(frozen=True, kw_only=True)
class ClassifyEvaluateArguments:
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


def parse_classify_evaluate(given: Sequence[str]) -> ClassifyEvaluateArguments:
    """Read the flags."""
    return arguments.parse(ClassifyEvaluateArguments, "classify evaluate", given)


def run_classify_evaluate(given: ClassifyEvaluateArguments) -> int:
    """Measure, print, write what was asked for."""
    from elmo.classify.classifier import load_classifier, write_evaluation
    from elmo.classify.data import read_labelled
    from elmo.cli.display import EmbeddingDisplay, print_json, set_device
    from elmo.embed.embedder import Pace

    set_device(given.device, given.threads)
    classifier = load_classifier(given.model, given.device)
    data = read_labelled(given.sources, given.read, given.labels.label_column)
    with EmbeddingDisplay() as display:
        evaluation = classifier.evaluate(
            data.texts,
            data.labels or (),
            locations=data.locations,
            on_texts=Pace(display.show, len(data.texts)).add,
        )
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
            f"{one.place}: {printable(one.gold)}, taken for {printable(one.predicted)} "
            f"({one.probability:.3f})\n"
            f"  {one.text}"
        )
    if evaluation.empty:
        print(f"{len(evaluation.empty):,} texts have no words")


# elmo classify predict TEXT…: labels of texts, with probabilities.


@dataclass(frozen=True, kw_only=True)
class ClassifyPredictArguments:
    """Tell the label of each text, and how probable each label is.

    elmo classify predict "Oil prices fell on Monday as supply fears eased ."

    elmo classify predict --files mail.csv --column body --model runs/mail --json
    """

    texts: Annotated[tuple[str, ...], Positional, arg(metavar="[TEXT ...]")] = ()
    """Texts, each in quotes; '-' stands for standard input, a text a line."""
    files: tuple[str, ...] = ()
    """Files to read texts from: a text a line, or a row of a table; every line gives a label."""
    model: Path = CLASSIFIER
    """A classifier's folder; none: the news classifier that comes with elmo."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    threads: int | None = None
    """Processor threads; none: one a core."""
    json: Flag = False
    """Print one JSON object a text, each on a line."""
    read: ReadOptions = field(default_factory=ReadOptions)


def parse_classify_predict(given: Sequence[str]) -> ClassifyPredictArguments:
    """Read the flags."""
    return arguments.parse(ClassifyPredictArguments, "classify predict", given)


def run_classify_predict(given: ClassifyPredictArguments) -> int:
    """Print a line or an object a text."""
    from elmo.classify.classifier import load_classifier
    from elmo.cli.display import print_json, set_device

    texts = _texts(given)
    set_device(given.device, given.threads)
    classifier = load_classifier(given.model, given.device)
    tokenized = classifier.tokenize(texts)
    for row, (text, probabilities) in enumerate(
        zip(texts, classifier.predict_proba(tokenized), strict=True)
    ):
        best, is_empty = int(probabilities.argmax()), not tokenized.words[row]
        if given.json:
            by_label = dict(zip(classifier.labels, probabilities.tolist(), strict=True))
            label = classifier.labels[best]
            print_json({"text": text, "label": label, "probabilities": by_label, "empty": is_empty})
        else:
            label, shown = printable(classifier.labels[best]), "(no words)" if is_empty else text
            print(f"{label}\t{probabilities[best]:.3f}\t{shown}")
    return 0


def _texts(given: ClassifyPredictArguments) -> list[str]:
    from elmo.classify.data import read_unlabelled
    from elmo.cli.options import checked
    from elmo.errors import UserError

    sources = [text for text in given.texts if text == "-"] + list(given.files)
    texts = [checked(text) for text in given.texts if text != "-"]
    if sources:
        texts += read_unlabelled(sources, given.read).texts
    if not texts:
        raise UserError("no text was given; put one in quotes, or use '-' or --files")
    return texts


# How the classify commands show figures: a line, a table by class, what was taken for what.


MOST_COLUMNS = 12


def show_evaluation(metrics: Metrics, part: str) -> None:
    """Print what a classifier achieves on a part of the rows."""
    accuracy, macro_f1 = metrics.accuracy, metrics.macro_f1
    print(
        f"{part}: {metrics.count:,} rows, accuracy {accuracy.value:.4f} "
        f"({accuracy.low:.4f} to {accuracy.high:.4f}), macro F1 {macro_f1.value:.4f} "
        f"({macro_f1.low:.4f} to {macro_f1.high:.4f}), calibration error "
        f"{metrics.calibration_error:.4f}"
    )
    names = [printable(one.label) for one in metrics.classes]
    # Many classes would not fit side by side; they are in the files.
    shown = names if len(names) <= MOST_COLUMNS else []
    print_table(_rows(metrics, shown), ["", "precision", "recall", "F1", "rows", *shown])
    print()


def _rows(metrics: Metrics, shown: list[str]) -> list[list[str]]:
    rows = [
        [printable(one.label), *_shares(one.precision, one.recall, one.f1), f"{one.support:,}"]
        + [f"{number:,}" for number in (metrics.confusion[index] if shown else ())]
        for index, one in enumerate(metrics.classes)
    ]
    for name, mean in (("macro", metrics.macro), ("weighted", metrics.weighted)):
        empty = [""] * (1 + len(shown))
        rows.append([name, *_shares(mean.precision, mean.recall, mean.f1), *empty])
    return rows


def _shares(*values: float) -> list[str]:
    return [f"{value:.4f}" for value in values]

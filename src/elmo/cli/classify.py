"""elmo classify train, evaluate, predict: text classifiers on top of a biLM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.classify.config import ClassifierConfig
from elmo.classify.data import LabelOptions
from elmo.cli.display import ProgressDisplay, clock, print_json, print_table, safe
from elmo.cli.embed import embedding_progress
from elmo.cli.options import (
    Arguments,
    Command,
    add_device,
    add_model,
    add_reading,
    checked_text,
)
from elmo.errors import UserError

if TYPE_CHECKING:
    from elmo.classify.metrics import Metrics
    from elmo.classify.training import EpochReport, StepReport

LABELLED = "Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news."
EPOCHS_SHOWN = 10
"""All of the first ten epochs, then one in ten: small data sets take hundreds of them."""
MOST_COLUMNS = 12


def classify_train_command() -> Command:
    """What `elmo classify train` accepts."""
    command = Command(
        "classify train",
        run_train,
        "Train a text classifier on top of a biLM, and measure it on train and test. The same "
        "command resumes a training that was stopped.",
        [
            "ag_news --model runs/news --out runs/topics --test ag_news:test",
            "mail.csv --label-column folder --out runs/mail --mix function",
            "ag_news --out runs/tuned --fine-tune-epochs 2",
            "ag_news --out runs/glove --word-vectors glove.6B.100d.txt",
        ],
    )
    command.option("SOURCE ...", LABELLED, name="sources")
    command.option("--out FOLDER", "Folder to write; must be new.", type=Path, required=True)
    add_model(command)
    command.option("--test SOURCE ...", "Labelled texts to measure on.")
    command.option("--fresh", "Start over: delete the classifier that the folder holds.")
    command.option(
        "--word-vectors FILE",
        "Initialise task embeddings from this file (word2vec or GloVe format); its first "
        "400,000 words get one.",
        type=Path,
    )
    add_device(command)
    command.option(
        "--reference", "Refer to the biLM by path and checksum, do not copy it.", rare=True
    )
    command.option(
        "--saved-precision fp32|bf16",
        "Of the weights in the folder (default: fp32).",
        default="fp32",
        rare=True,
    )
    command.option(
        "--checkpoint-minutes N",
        "How often to save the training state (default: 5).",
        type=float,
        default=5.0,
        rare=True,
    )
    shown = "mix epochs learning_rate batch_texts dropout own_words encoder hidden seed"
    command.settings("config", ClassifierConfig(), f"{shown} fine_tune_epochs")
    _add_table(command)
    return command


def _add_table(command: Command) -> None:
    """Which columns hold the text and the label, as `args.read` and `args.labels`."""
    add_reading(command)
    command.settings("labels", LabelOptions(), "label_column", section="labels")


def run_train(args: Arguments) -> int:
    """Train, show progress, print the metrics."""
    from elmo.classify.training import train_classifier
    from elmo.runtime import set_device

    set_device(args.device, args.threads)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        texts = embedding_progress(display, "texts read by the biLM")
        run = train_classifier(
            args.sources,
            args.model,
            args.out,
            args.config,
            test=args.test,
            read=args.read,
            label_column=args.labels.label_column,
            reference=args.reference,
            precision=args.saved_precision,
            device=args.device,
            command=args.command_line,
            on_report=training_progress(display),
            on_texts=texts,
            word_vectors=args.word_vectors,
            fresh=args.fresh,
            checkpoint_minutes=args.checkpoint_minutes,
        )
    trained, mix = run.trained, run.trained.classifier.network.mix
    if args.json:
        print_json(
            {
                "folder": str(run.folder),
                "mix_weights": mix.weights,
                "gamma": mix.gamma,
                "seconds": trained.seconds,
                "history": [asdict(report) for report in trained.history],
                "metrics": {name: asdict(it.metrics) for name, it in run.evaluations.items()},
            }
        )
    else:
        for name, evaluation in run.evaluations.items():
            print_metrics(evaluation.metrics, name)
        if mix.weights is not None:
            weights = ", ".join(f"{weight:.3f}" for weight in mix.weights)
            print(f"layer weights {weights}; gamma {mix.gamma:.3f}")
        print(f"{run.folder}: trained in {trained.seconds:,.0f} s")
    if trained.trouble is not None:
        sys.stderr.write(f"elmo: {trained.trouble}\n")
    return 0 if trained.trouble is None else 1


def training_progress(display: ProgressDisplay) -> Callable[[StepReport | EpochReport], None]:
    """Progress display for a classifier: steps move the bar, epochs are lines."""
    from elmo.classify.training import StepReport

    def show(report: StepReport | EpochReport) -> None:
        if isinstance(report, StepReport):
            text = (
                f"{report.phase}: {report.done:6.1%}  loss {report.loss:.3f}  "
                f"{report.texts_per_second:,.0f} texts/s  {clock(report.seconds_left)} left"
            )
            display.show(text, report.done, 1.0)
        elif report.epoch <= EPOCHS_SHOWN or report.epoch % EPOCHS_SHOWN == 0:
            weights = ", ".join(f"{weight:.2f}" for weight in report.mix_weights or ())
            display.line(
                f"epoch {report.epoch} ({report.phase}): loss {report.train_loss:.4f}, development "
                f"loss {report.development_loss:.4f}, accuracy {report.development_accuracy:.4f}"
                + (f"  layer weights {weights}" if weights else "")
            )

    return show


def classify_evaluate_command() -> Command:
    """What `elmo classify evaluate` accepts."""
    command = Command(
        "classify evaluate",
        run_evaluate,
        "Measure a classifier on labelled texts: metrics, confusions, its most confident mistakes.",
        ["ag_news:test", "mail.csv --label-column folder --model runs/mail --out figures"],
    )
    command.option("SOURCE ...", LABELLED, name="sources")
    add_model(command, classifier=True)
    command.option(
        "--out FOLDER",
        "Folder for metrics and mistakes as JSON, and the confusion matrix as a picture.",
        type=Path,
    )
    command.option(
        "--mistakes N",
        "How many of the most confident mistakes to print (default: 5).",
        type=int,
        default=5,
    )
    add_device(command)
    _add_table(command)
    return command


def run_evaluate(args: Arguments) -> int:
    """Measure, print, write the files asked for."""
    from elmo.classify.classifier import load_classifier, write_evaluation
    from elmo.classify.data import read_labelled
    from elmo.embed.embedder import Pace
    from elmo.runtime import set_device

    set_device(args.device, args.threads)
    classifier = load_classifier(args.model, args.device)
    data = read_labelled(args.sources, args.read, args.labels.label_column)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        pace = Pace(embedding_progress(display), len(data.texts))
        evaluation = classifier.evaluate(
            data.texts, data.labels or (), locations=data.locations, on_texts=pace.add
        )
    if args.out is not None:
        write_evaluation(evaluation, "evaluation", args.out)
    if args.json:
        print_json(asdict(evaluation))
        return 0
    print_metrics(evaluation.metrics, "all")
    for mistake in evaluation.mistakes[: args.mistakes]:
        labels = f"{mistake.gold}, predicted {mistake.predicted} ({mistake.probability:.3f})"
        print(safe(f"{mistake.place}: {labels}"))
        print(safe(f"  {mistake.text}"))
    if evaluation.empty:
        print(f"{len(evaluation.empty):,} texts have no words")
    return 0


def print_metrics(metrics: Metrics, name: str) -> None:
    """Print a line of totals, and a table by class with the confusion matrix."""
    accuracy, macro_f1 = metrics.accuracy, metrics.macro_f1
    print(
        f"{name}: {metrics.count:,} rows, accuracy {accuracy.value:.4f} "
        f"({accuracy.low:.4f} to {accuracy.high:.4f}), macro F1 {macro_f1.value:.4f} "
        f"({macro_f1.low:.4f} to {macro_f1.high:.4f}), calibration error "
        f"{metrics.calibration_error:.4f}"
    )
    labels = [scores.label for scores in metrics.classes]
    shown = labels if len(labels) <= MOST_COLUMNS else []  # more are in the files
    rows: list[list[str]] = []
    for index, scores in enumerate(metrics.classes):
        values = [f"{value:.4f}" for value in (scores.precision, scores.recall, scores.f1)]
        confused = metrics.confusion[index] if shown else ()
        counts = [f"{count:,}" for count in (scores.support, *confused)]
        rows.append([scores.label, *values, *counts])
    for title, mean in (("macro", metrics.macro), ("weighted", metrics.weighted)):
        rows.append([title, *(f"{value:.4f}" for value in (mean.precision, mean.recall, mean.f1))])
    print_table(rows, ["", "precision", "recall", "F1", "rows", *shown])
    print()


def classify_predict_command() -> Command:
    """What `elmo classify predict` accepts."""
    command = Command(
        "classify predict",
        run_predict,
        "Print the label of each text, and how probable each label is.",
        [
            '"Oil prices fell on Monday as supply fears eased ."',
            "--files mail.csv --column body --model runs/mail --json",
        ],
    )
    command.option(
        "[TEXT ...]", "Texts in quotes; '-': one per line of standard input.", name="texts"
    )
    command.option(
        "--files FILE ...", "Files with one text per line or row; every line gets a label."
    )
    add_model(command, classifier=True)
    add_device(command)
    add_reading(command)
    return command


def run_predict(args: Arguments) -> int:
    """Print a line or an object per text."""
    from elmo.classify.classifier import load_classifier
    from elmo.classify.data import read_unlabelled
    from elmo.runtime import set_device

    sources = [text for text in args.texts if text == "-"] + args.files
    texts = [checked_text(text) for text in args.texts if text != "-"]
    if sources:
        texts += read_unlabelled(sources, args.read).texts
    if not texts:
        raise UserError("no text was given; put one in quotes, or use '-' or --files")
    set_device(args.device, args.threads)
    classifier = load_classifier(args.model, args.device)
    tokenized = classifier.tokenize(texts)
    for index, row in enumerate(classifier.predict_proba(tokenized).tolist()):
        text, is_empty = texts[index], not tokenized.words[index]
        probabilities = dict(zip(classifier.labels, row, strict=True))
        label = max(probabilities, key=lambda name: probabilities[name])
        if args.json:
            details = {"label": label, "probabilities": probabilities, "empty": is_empty}
            print_json({"text": text, **details})
        else:
            shown = "(no words)" if is_empty else safe(text)
            print(f"{safe(label)}\t{probabilities[label]:.3f}\t{shown}")
    return 0

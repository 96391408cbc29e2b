"""elmo classify train, evaluate, predict: text classifiers on top of a biLM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.classify.config import ClassifierConfig
from elmo.classify.data import LabelOptions
from elmo.cli.display import (
    ProgressDisplay,
    clock,
    embedding_progress,
    print_json,
    print_table,
    safe,
    say,
    shortened,
)
from elmo.cli.main import Arguments, Command, add_device, add_model, add_reading, checked_text
from elmo.errors import UserError

if TYPE_CHECKING:
    from elmo.classify.loop import EpochReport, StepReport
    from elmo.classify.metrics import Metrics, Mistake
    from elmo.embed.mix import LayerMix

LABELLED = "Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news."
EPOCHS_SHOWN = 10
"""All of the first ten epochs, then one in ten: small data sets take hundreds of them."""
MOST_COLUMNS = 12
TEXT_SHOWN = 200
LABELS_TO_CHECK = 5
"""Most confident mistakes on held-out texts that are printed: many are wrong labels."""


def classify_train_command() -> Command:
    page = f"""
        Train a text classifier on top of a biLM, and measure it on train and test. The same
        command resumes a training that was stopped.

        elmo classify train ag_news --model runs/news --out runs/topics --test ag_news:test
        elmo classify train mail.csv --label-column folder --out runs/mail --mix function
        elmo classify train news.csv --label-column topics --labels-separator ';' --out runs/topics
        elmo classify train ag_news --out runs/tuned --fine-tune-epochs 2
        elmo classify train ag_news --out runs/glove --word-vectors glove.6B.100d.txt

        SOURCE ...  {LABELLED}
        --out FOLDER  Folder to write; must be new (required).
        --test SOURCE ...  Labelled texts to measure on.

        --saved-precision fp32|bf16=fp32  Of the weights in the folder.
    """
    command = Command("classify train", run_train, page)
    add_model(command)
    add_training(command)
    shown = "parts mix epochs learning_rate dropout task_dim encoder hidden seed"
    command.settings("config", ClassifierConfig(), f"{shown} fine_tune_epochs")
    _add_table(command)
    return command


def add_training(command: Command) -> None:
    """Options of every training on top of a biLM: vectors, device, what is written, how often."""
    command.options("""
        --fresh  Start over: delete what the folder holds.
        --word-vectors FILE  Initialise task embeddings from this file (word2vec or GloVe format);
            its first 400,000 words get one.
    """)
    add_device(command)
    command.options(
        """
        --tensorboard  Write TensorBoard logs of the network's training to OUT.tensorboard (extra:
            track).
        --reference  Refer to the biLM by path and checksum, do not copy it.
        --checkpoint-minutes X=1  How often to save the training state.
        """,
        rare=True,
    )


def _add_table(command: Command) -> None:
    add_reading(command)
    command.settings("labels", LabelOptions(), "label_column labels_separator", section="labels")


def run_train(args: Arguments) -> int:
    from elmo.classify.training import train_classifier
    from elmo.runtime import set_device

    set_device(args.device, args.threads)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        run = train_classifier(
            args.sources, args.model, args.out, args.config, test=args.test, read=args.read,
            label_column=args.labels.label_column, labels_separator=args.labels.labels_separator,
            reference=args.reference, precision=args.saved_precision, device=args.device,
            command=args.command_line, word_vectors=args.word_vectors, fresh=args.fresh,
            on_report=training_progress(display, args, "accuracy"),
            on_texts=embedding_progress(display, "texts read by the biLM"),
            checkpoint_minutes=args.checkpoint_minutes,
        )  # fmt: skip
    trained, network = run.trained, run.trained.classifier.network
    mix = None if network is None else network.mix
    before, after = trained.calibration
    if args.json:
        print_json(
            {
                "folder": str(run.folder),
                "part_weights": trained.classifier.part_weights,
                "mix_weights": mix and mix.weights,
                "gamma": mix and mix.gamma,
                "calibration_error": {"before": before, "after": after},
                "stopped": trained.stopped,
                "seconds": trained.seconds,
                "history": [asdict(report) for report in trained.history],
                "metrics": {name: asdict(it.metrics) for name, it in run.evaluations.items()},
            }
        )
    else:
        for name, evaluation in run.evaluations.items():
            print_metrics(evaluation.metrics, name)
        for mistake in run.evaluations["development"].mistakes[:LABELS_TO_CHECK]:
            if mistake.probability > 0.9:
                print(f"check the label: {mistake_line(mistake)}")
        weights = trained.classifier.part_weights.items()
        parts = ", ".join(f"{name} {weight:.3f}" for name, weight in weights)
        print(f"weights of the parts: {parts}")
        shown = f"{before:.4f} before weighting, {after:.4f} after"
        print(f"calibration error on held-out texts: {shown}")
        print_ending(mix, trained.stopped, trained.seconds, run.folder)
    return exit_code(trained.trouble)


def print_ending(mix: LayerMix | None, stopped: str, seconds: float, folder: Path) -> None:
    """The last lines of a training: learned layer weights, why it ended, where the model is."""
    if mix is not None and mix.weights is not None:
        shown = ", ".join(f"{weight:.3f}" for weight in mix.weights)
        print(f"layer weights {shown}; gamma {mix.gamma:.3f}")
    say(f"{stopped}; trained in {seconds:,.0f} s: {folder}")


def exit_code(trouble: str | None) -> int:
    """1, and a line on standard error, if a training ended early because its loss became NaN."""
    if trouble is not None:
        sys.stderr.write(f"elmo: {trouble}\n")
    return 0 if trouble is None else 1


def training_progress(
    display: ProgressDisplay, args: Arguments, measure: str
) -> Callable[[StepReport | EpochReport], None]:
    """Progress display for a training: steps move the bar, epochs are lines; TensorBoard if asked.

    Args:
        measure: What decides between epochs, such as "accuracy".
    """
    from elmo.classify.loop import StepReport

    def show(report: StepReport | EpochReport) -> None:
        if isinstance(report, StepReport):
            text = (
                f"{report.phase}: {report.done:6.1%}  loss {report.loss:.3f}  "
                f"{report.texts_per_second:,.0f} texts/s  at most {clock(report.seconds_left)} left"
            )
            display.show(text, report.done, 1.0)
        elif report.epoch <= EPOCHS_SHOWN or report.epoch % EPOCHS_SHOWN == 0:
            weights = ", ".join(f"{weight:.2f}" for weight in report.mix_weights or ())
            display.line(
                f"epoch {report.epoch} ({report.phase}): loss {report.train_loss:.4f}, development "
                f"loss {report.development_loss:.4f}, {measure} {report.development_accuracy:.4f}"
                + (f"  layer weights {weights}" if weights else "")
            )

    if args.tensorboard:
        from elmo.integrations.tracking import log_to_tensorboard

        return log_to_tensorboard(args.out.with_name(f"{args.out.name}.tensorboard"), show)
    return show


def classify_evaluate_command() -> Command:
    page = f"""
        Measure a classifier on labelled texts: metrics, confusions, its most confident mistakes.

        elmo classify evaluate ag_news:test
        elmo classify evaluate mail.csv --label-column folder --model runs/mail --out figures

        SOURCE ...  {LABELLED}
        --out FOLDER  Folder for metrics and mistakes as JSON, and the confusion matrix as a
            picture.
        --mistakes N=5  How many of the most confident mistakes to print.
    """
    command = Command("classify evaluate", run_evaluate, page)
    add_model(command, classifier=True)
    add_device(command)
    _add_table(command)
    return command


def run_evaluate(args: Arguments) -> int:
    from elmo.classify.classifier import TextClassifier, write_evaluation
    from elmo.classify.data import read_labelled
    from elmo.embed.embedder import Pace
    from elmo.files import claim_folder
    from elmo.runtime import set_device

    set_device(args.device, args.threads)
    if args.out is not None:
        claim_folder(args.out)
    classifier = TextClassifier.from_pretrained(args.model, device=args.device)
    separator = args.labels.labels_separator or classifier.labels_separator
    data = read_labelled(args.sources, args.read, args.labels.label_column, separator)
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
        print(mistake_line(mistake))
        print(f"  {shortened(safe(mistake.text), TEXT_SHOWN)}")  # whole in the file of mistakes
    if evaluation.empty:
        print(f"{len(evaluation.empty):,} texts have no words")
    return 0


def mistake_line(mistake: Mistake) -> str:
    predicted = f"{mistake.predicted} ({mistake.probability:.3f})"
    return safe(f"{mistake.place}: {mistake.gold}, predicted {predicted}")


def print_metrics(metrics: Metrics, name: str) -> None:
    """Print a line of totals, and a table by class with the confusion matrix."""
    accuracy, macro_f1, micro = metrics.accuracy, metrics.macro_f1, metrics.micro
    print(
        f"{name}: {metrics.count:,} rows, {'accuracy' if micro is None else 'exact match'} "
        f"{accuracy.value:.4f} ({accuracy.low:.4f} to {accuracy.high:.4f}), macro F1 "
        f"{macro_f1.value:.4f} ({macro_f1.low:.4f} to {macro_f1.high:.4f}), calibration error "
        f"{metrics.calibration_error:.4f}"
    )
    labels = [scores.label for scores in metrics.classes]
    shown = labels if len(labels) <= MOST_COLUMNS and metrics.confusion else []  # see the files
    rows: list[list[str]] = []
    for index, scores in enumerate(metrics.classes):
        values = [f"{value:.4f}" for value in (scores.precision, scores.recall, scores.f1)]
        confused = metrics.confusion[index] if shown else ()
        counts = [f"{count:,}" for count in (scores.support, *confused)]
        rows.append([scores.label, *values, *counts])
    means = {"micro": micro, "macro": metrics.macro, "weighted": metrics.weighted}
    for title, mean in ((title, mean) for title, mean in means.items() if mean is not None):
        rows.append([title, *(f"{value:.4f}" for value in (mean.precision, mean.recall, mean.f1))])
    print_table(rows, ["", "precision", "recall", "F1", "rows", *shown])
    print()


def classify_predict_command() -> Command:
    page = """
        Print the label or labels of each text, and how probable each label is.

        elmo classify predict "Oil prices fell on Monday as supply fears eased ."
        elmo classify predict --files mail.csv --column body --model runs/mail --json

        [TEXT ...]  Texts in quotes; '-': one per line of standard input.
        --files FILES ...  Files with one text per line or row; every line gets a label.
        --explain  Show what each word contributes to the label (Shapley values).
    """
    command = Command("classify predict", run_predict, page)
    add_model(command, classifier=True)
    add_device(command)
    add_reading(command)
    return command


def run_predict(args: Arguments) -> int:
    from elmo.classify.classifier import TextClassifier
    from elmo.classify.data import read_unlabelled
    from elmo.classify.label_sets import label_sets
    from elmo.explore.shapley import contributions
    from elmo.language_model import UnknownWords
    from elmo.runtime import set_device

    sources = [text for text in args.texts if text == "-"] + args.files
    texts: list[str] = [checked_text(text) for text in args.texts if text != "-"]
    if not texts and not sources:
        raise UserError("no text was given; put one in quotes, or use '-' or --files")
    set_device(args.device, args.threads)
    classifier = TextClassifier.from_pretrained(args.model, device=args.device)
    every_text = chain(texts, read_unlabelled(sources, args.read) if sources else ())
    number = 0
    unknown = UnknownWords(classifier.language_model.vocabulary)
    for text, row in classifier.predict_iter(every_text):
        number += 1
        words = classifier.language_model.words(text)
        rate, is_empty = unknown.add(words), not words
        probabilities = dict(zip(classifier.labels, row.tolist(), strict=True))
        separator = classifier.labels_separator
        (labels,) = label_sets(
            row[None], classifier.labels, classifier.thresholds, several=separator is not None
        )
        if args.json:
            which = {"label": labels[0]} if separator is None else {"labels": labels}
            details = {**which, "probabilities": probabilities, "empty": is_empty}
            if args.explain and not is_empty:
                details["contributions"] = asdict(contributions(classifier, text))
            print_json({"text": text, **details, "unknown_rate": rate})
        else:
            shown = "(no words)" if is_empty else safe(str(text))
            chances = " ".join(f"{probabilities[label]:.3f}" for label in labels)
            print(f"{safe((separator or '').join(labels))}\t{chances}\t{shown}", flush=True)
            if args.explain and not is_empty:
                explained = contributions(classifier, text)
                pairs = zip(explained.words, explained.values, strict=True)
                print_table([[word, f"{value:+.3f}"] for word, value in pairs])
    if not number:
        raise UserError("no text was given; put one in quotes, or use '-' or --files")
    unknown.tell()
    return 0

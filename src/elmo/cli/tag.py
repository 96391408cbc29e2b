"""elmo tag train, evaluate, predict: one tag per word, on top of a biLM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from elmo.cli.classify import add_training, exit_code, print_ending, training_progress
from elmo.cli.display import ProgressDisplay, embedding_progress, print_json, print_table, safe
from elmo.cli.main import Arguments, Command, add_device, add_model, checked_text
from elmo.errors import UserError
from elmo.tasks.config import ReadTags, TaggerConfig
from elmo.text.config import ReadOptions

if TYPE_CHECKING:
    from elmo.tasks.tags import TaggedText, TagMetrics
    from elmo.tasks.training import TaskModel

SOURCES = "Tagged sentences: files of CoNLL columns, or CoNLL-U if they are named .conllu."
STYLES = ("bold blue", "bold yellow", "bold green", "bold magenta", "bold red", "bold cyan")


def tag_train_command() -> Command:
    page = """
        Train a tagger on top of a biLM: parts of speech, names, chunks. The same command resumes a
        training that was stopped.

        elmo tag train en_ewt-ud-train.conllu --development en_ewt-ud-dev.conllu --out runs/pos
        elmo tag train train.conll --test test.conll --out runs/names --model runs/general
        elmo tag train train.conll --out runs/baseline --elmo none
    """
    command = Command("tag train", run_train, page)
    add_task_training(command, SOURCES, "Sentences")
    shown = "elmo encoder encoder_dim decoder mix epochs learning_rate dropout task_dim seed"
    command.settings("config", TaggerConfig(), f"{shown} fine_tune_epochs")
    _add_columns(command)
    return command


def _add_columns(command: Command) -> None:
    command.settings("columns", ReadTags(), "tag_column", section="columns")
    command.settings("read", ReadOptions(), section="read")


def add_task_training(command: Command, sources: str, rows: str) -> None:
    """What the train command of a task reads, on which model, and what it writes."""
    command.options(f"""
        SOURCE ...  {sources}
        --out FOLDER  Folder to write; must be new (required).
        --development SOURCE ...  {rows} to choose the epoch by (default: a fraction of the others).
        --test SOURCE ...  {rows} to measure on.
    """)
    add_model(command)
    add_training(command)


def add_task_model(command: Command, what: str) -> None:
    """The folder that the train command wrote, as `args.model`."""
    command.options(f"--model FOLDER  A {what}'s folder (required).")


def run_train(args: Arguments) -> int:
    from elmo.tasks.tagger import TokenTagger

    return train_task(args, TokenTagger, "accuracy or F1", "sentences", print_tag_metrics)


def train_task(
    args: Arguments,
    task: type[TaskModel[Any, Any, Any]],
    measure: str,
    rows: str,
    print_metrics: Callable[[Any, str], None],
) -> int:
    """Train a tagger or a pair classifier from files, show progress, print the metrics."""
    from elmo.runtime import set_device

    set_device(args.device, args.threads)
    model = task(args.model, args.config, word_vectors=args.word_vectors, device=args.device)
    with ProgressDisplay("reading", quiet=args.quiet) as display:
        run = model.train_files(
            args.sources,
            args.out,
            development=args.development,
            test=args.test,
            columns=args.columns,
            read=args.read,
            reference=args.reference,
            fresh=args.fresh,
            checkpoint_minutes=args.checkpoint_minutes,
            on_report=training_progress(display, args, measure),
            on_texts=embedding_progress(display, f"{rows} read by the biLM"),
            command=args.command_line,
        )
    fitted, mix = run.fitted, next(iter(model.network.mixes), None)
    if args.json:
        print_json(
            {
                "folder": str(run.folder),
                "metrics": {name: asdict(metrics) for name, metrics in run.metrics.items()},
                "mix_weights": mix and mix.weights,
                "stopped": fitted.stopped,
                "seconds": run.seconds,
                "history": [asdict(report) for report in fitted.history],
            }
        )
    else:
        for name, metrics in run.metrics.items():
            print_metrics(metrics, name)
        print_ending(mix, fitted.stopped, run.seconds, run.folder)
    return exit_code(fitted.trouble)


def print_tag_metrics(metrics: TagMetrics, name: str) -> None:
    """Print what a tagger achieved, and the labels or tags it finds hardest."""
    shown = f"{name}: {metrics.words:,} words, accuracy {metrics.accuracy.value:.4f}"
    shown += f" ({metrics.accuracy.low:.4f} to {metrics.accuracy.high:.4f})"
    if metrics.unknown_word_accuracy is not None:
        shown += f", {metrics.unknown_word_accuracy:.4f} of unknown words"
    if metrics.words_per_second is not None:
        shown += f"; {metrics.words_per_second:,.0f} words/s"
    print(shown)
    if metrics.f1 is not None:
        print(
            f"{name}: spans: precision {metrics.precision:.4f}, recall {metrics.recall:.4f}, F1 "
            f"{metrics.f1.value:.4f} ({metrics.f1.low:.4f} to {metrics.f1.high:.4f})"
        )
    rows = [
        [one.label, *(f"{value:.4f}" for value in (one.precision, one.recall, one.f1)),
         f"{one.support:,}"]
        for one in sorted(metrics.classes, key=lambda one: -one.support)
    ]  # fmt: skip
    print_table(rows, ["label" if metrics.f1 else "tag", "precision", "recall", "F1", "count"])


def tag_evaluate_command() -> Command:
    page = f"""
        Measure a tagger: accuracy of words; precision, recall and F1 of spans as conlleval counts
        them.

        elmo tag evaluate test.conll --model runs/names
        elmo tag evaluate en_ewt-ud-test.conllu --model runs/pos --json

        SOURCE ...  {SOURCES}
    """
    command = Command("tag evaluate", run_evaluate, page)
    add_task_model(command, "tagger")
    add_device(command)
    _add_columns(command)
    return command


def run_evaluate(args: Arguments) -> int:
    from elmo.runtime import set_device
    from elmo.tasks.data import read_tagged
    from elmo.tasks.tagger import TokenTagger

    set_device(args.device, args.threads)
    tagger = TokenTagger.from_pretrained(args.model, device=args.device)
    data = read_tagged(args.sources, args.columns, args.read)
    metrics = tagger.evaluate(data.words, data.tags, locations=data.locations)
    if args.json:
        print_json(asdict(metrics))
    else:
        print_tag_metrics(metrics, "evaluation")
    return 0


def tag_predict_command() -> Command:
    page = """
        The tags of texts: words with their tags, in colour in a terminal; CoNLL columns or JSON.

        elmo tag predict "Angela Merkel visited Paris ." --model runs/names
        elmo tag predict --files letters.txt --model runs/names --format conll
        elmo tag predict --conll test.conll --model runs/pos --json

        [TEXT ...]  Texts in quotes; '-': one per line.
        --files FILES ...  Files with one text per line, or in column 'text'.
        --conll FILES ...  Files of CoNLL columns or CoNLL-U to tag anew.
        --format text|conll=text  text: [Paris]/LOC or Paris/PROPN; conll: one word per line.
    """
    command = Command("tag predict", run_predict, page)
    add_task_model(command, "tagger")
    add_device(command, precision=True)
    _add_columns(command)
    return command


def run_predict(args: Arguments) -> int:
    from elmo.classify.data import read_unlabelled
    from elmo.language_model import UnknownWords
    from elmo.runtime import compute_precision, set_device
    from elmo.tasks.data import conll_text, read_tagged
    from elmo.tasks.tagger import TokenTagger

    sources = [text for text in args.texts if text == "-"] + args.files
    typed = [checked_text(text) for text in args.texts if text != "-"]
    if not typed and not sources and not args.conll:
        raise UserError("no text was given; put one in quotes, or use '-', --files or --conll")
    set_device(args.device, args.threads)
    tagger = TokenTagger.from_pretrained(args.model, device=args.device)
    model = tagger.language_model.model
    model.compute_dtype = compute_precision(args.precision, model.device)

    def sentences() -> Iterator[str | list[str]]:
        yield from typed
        if sources:
            yield from read_unlabelled(sources, args.read)
        if args.conll:
            yield from read_tagged(args.conll, args.columns, args.read).words

    console, unknown = Console(), UnknownWords(tagger.language_model.vocabulary)
    for text in tagger.tag_iter(sentences()):
        rate = unknown.add(text.words)
        if args.json:
            spans = [span._asdict() for span in text.spans]
            found = {"words": text.words, "tags": text.tags, "spans": spans}
            print_json({**found, "unknown_rate": rate})
        elif args.format == "conll":
            columns = ([safe(one) for one in some] for some in (text.words, text.tags))
            sys.stdout.write(conll_text(*columns))
        elif not text.words:
            print("(no words)")
        elif console.is_terminal:
            console.print(coloured(text), soft_wrap=True, highlight=False)
        else:
            print(safe(str(text)))
    unknown.tell()
    return 0


def coloured(text: TaggedText) -> Text:
    """A sentence for a terminal: each label or tag in its colour."""
    result = Text()
    labels = list(dict.fromkeys(span.label for span in text.spans) or dict.fromkeys(text.tags))
    tags: list[tuple[str, str]] = [("", "")] * len(text.words)  # label to print, label to colour by
    if text.spans:
        for span in text.spans:
            tags[span.start : span.end] = [("", span.label)] * (span.end - span.start)
            tags[span.end - 1] = (span.label, span.label)
    elif set(text.tags) != {"O"}:
        tags = [(tag, tag) for tag in text.tags]
    for word, (shown, label) in zip(text.words, tags, strict=True):
        style = STYLES[labels.index(label) % len(STYLES)] if label else ""
        result.append(safe(word), style=style if text.spans else "")
        result.append(f"/{safe(shown)}" if shown else "", style=f"not bold {style}")
        result.append(" ")
    result.rstrip()
    return result

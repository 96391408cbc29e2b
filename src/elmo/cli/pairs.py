"""elmo pairs train, evaluate, predict: two texts to a label or a score, on top of a biLM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from elmo.cli.display import print_json, safe
from elmo.cli.main import Arguments, Command, add_device, checked_text
from elmo.cli.tag import add_task_model, add_task_training, train_task
from elmo.errors import UserError
from elmo.tasks.config import PairConfig, ReadPairs
from elmo.text.config import ReadOptions

SOURCES = "Tables of pairs: .csv, .tsv, .jsonl or .parquet files."


def pairs_train_command() -> Command:
    page = """
        Train a classifier of pairs (inference, paraphrase) or a scorer (relatedness) on top of a
        biLM. The same command resumes a training that was stopped.

        elmo pairs train snli.tsv --development dev.tsv --test test.tsv --out runs/nli
        elmo pairs train sts.jsonl --target score --out runs/sts --elmo both
    """
    command = Command("pairs train", run_train, page)
    add_task_training(command, SOURCES, "Pairs")
    shown = "target elmo encoder_dim mix epochs learning_rate dropout task_dim seed"
    command.settings("config", PairConfig(), f"{shown} fine_tune_epochs")
    _add_columns(command)
    return command


def _add_columns(command: Command) -> None:
    shown = "first_column second_column target_column"
    command.settings("columns", ReadPairs(), shown, section="columns")
    command.settings("read", ReadOptions(), section="read")


def run_train(args: Arguments) -> int:
    from elmo.tasks.pairs import PairClassifier, describe_metrics

    return train_task(
        args, PairClassifier, "accuracy or Pearson", "texts",
        lambda metrics, name: print(f"{name}: {describe_metrics(metrics)}"),
    )  # fmt: skip


def pairs_evaluate_command() -> Command:
    page = f"""
        Measure a classifier of pairs, or the correlation of scores.

        elmo pairs evaluate test.tsv --model runs/nli
        elmo pairs evaluate sts-test.jsonl --model runs/sts --json

        SOURCE ...  {SOURCES}
    """
    command = Command("pairs evaluate", run_evaluate, page)
    add_task_model(command, "pair classifier")
    add_device(command)
    _add_columns(command)
    return command


def run_evaluate(args: Arguments) -> int:
    from elmo.runtime import set_device
    from elmo.tasks.data import read_pairs
    from elmo.tasks.pairs import PairClassifier, describe_metrics

    set_device(args.device, args.threads)
    classifier = PairClassifier.from_pretrained(args.model, device=args.device)
    metrics = classifier.evaluate(read_pairs(args.sources, args.columns, args.read))
    if args.json:
        print_json(asdict(metrics))
    else:
        print(f"evaluation: {describe_metrics(metrics)}")
    return 0


def pairs_predict_command() -> Command:
    page = """
        Labels with probabilities, or scores, of pairs of texts.

        elmo pairs predict "A man sleeps ." "Nobody is awake ." --model runs/nli
        elmo pairs predict --files new.tsv --model runs/nli

        [TEXT ...]  Two texts in quotes.
        --files FILES ...  Tables of pairs; labels are not needed.
    """
    command = Command("pairs predict", run_predict, page)
    add_task_model(command, "pair classifier")
    add_device(command)
    _add_columns(command)
    return command


def run_predict(args: Arguments) -> int:
    from elmo.language_model import UnknownWords
    from elmo.runtime import set_device
    from elmo.tasks.data import read_pairs
    from elmo.tasks.pairs import PairClassifier

    if len(args.texts) not in (0, 2) or not (args.texts or args.files):
        raise UserError(f"expected two texts in quotes, or --files; got {len(args.texts)} texts")
    set_device(args.device, args.threads)
    classifier = PairClassifier.from_pretrained(args.model, device=args.device)

    def pairs() -> Iterator[tuple[str, str]]:
        if args.texts:
            yield checked_text(args.texts[0]), checked_text(args.texts[1])
        if args.files:
            data = read_pairs(args.files, args.columns, args.read, labelled=False)
            yield from zip(data.first, data.second, strict=True)

    model = classifier.language_model
    unknown = UnknownWords(model.vocabulary)
    for (first, second), found in classifier.predict_iter(pairs()):
        rate = unknown.add([*model.words(first), *model.words(second)])
        result: dict[str, object] = {"first": first, "second": second, "unknown_rate": rate}
        if classifier.labels:
            probabilities = dict(zip(classifier.labels, found.tolist(), strict=True))
            label = max(probabilities, key=lambda name: probabilities[name])
            result |= {"label": label, "probabilities": probabilities}
            shown = f"{safe(label)}\t{probabilities[label]:.3f}"
        else:
            result |= {"score": float(found)}
            shown = f"{float(found):.3f}"
        if args.json:
            print_json(result)
        else:
            print(f"{shown}\t{safe(str(first))}\t{safe(str(second))}")
    unknown.tell()
    return 0

"""elmo pretrain, evaluate, info: train a biLM, measure it, look at it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo.cli import main
from elmo.cli.display import ProgressDisplay, clock, print_json, print_table, say
from elmo.cli.main import Arguments, Command
from elmo.errors import UserError
from elmo.training.config import PretrainConfig

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from elmo.training.loop import Report
    from elmo.training.pretrain import Result


def pretrain_command() -> Command:
    page = f"""
        Train a bidirectional language model on text. The same command resumes a run that was
        stopped, exactly as if it had not been.

        elmo pretrain ag_news --out runs/news
        elmo pretrain 'corpus/*.jsonl.gz' --column body --out runs/mine --preset characters
        elmo pretrain notes.txt --from runs/news --out runs/notes --epochs 2
        elmo pretrain ag_news --out runs/wide --set model.hidden=512 model.word_dim=512

        [SOURCE ...]  {main.SOURCES}
        --out FOLDER  Folder for the run and its model.
        --word-vectors FILE  Initialise word embeddings from this file (word2vec or GloVe format).
        --held-out SOURCE ...  Text to validate on (default: a fraction of the sources).
        --fresh  Start over: delete the run that the folder holds.

        --resume FOLDER  Resume the run in this folder.
        --tensorboard  Write TensorBoard logs (extra: track).
    """
    command = Command("pretrain", run_pretrain, page)
    text = "Fine-tune this model (a folder, a name, …); its vocabulary grows by the new words."
    command.option("--from MODEL", text, name="start_from")
    main.add_device(command)
    main.add_cache(command)
    main.add_preset(
        command,
        "epochs learning_rate batch_tokens hidden layers input min_count max_vocabulary "
        "held_out_share column lowercase seed",
    )
    return command


def run_pretrain(args: Arguments) -> int:
    """Train and show progress; of several processes, only the first one prints."""
    from elmo.runtime import set_device
    from elmo.training.distributed import joined, own_device
    from elmo.training.pretrain import TENSORBOARD, pretrain, resume

    if args.resume is None and not args.sources:
        raise UserError("no text to train on; name files, a folder, '-' or ag_news")
    if args.resume is None and args.out is None:
        raise UserError("where should the model go? use --out FOLDER")
    device = own_device(args.device)
    set_device(device, args.threads)
    with joined(device) as world:
        quiet = args.quiet or not world.is_first
        if quiet:
            logging.getLogger("elmo").setLevel(logging.WARNING)
        with ProgressDisplay("preparing the text", quiet=quiet) as display:
            on_report: Callable[[Report], None] = partial(show_report, display=display)
            if args.tensorboard:
                from elmo.integrations.tracking import log_to_tensorboard

                folder = Path(args.resume or args.out) / TENSORBOARD
                on_report = log_to_tensorboard(folder, on_report)

            def on_documents(count: int) -> None:
                display.show(f"preparing the text: {count:,} documents")

            options: dict[str, Any] = {"device": device, "cache": args.cache, "world": world}
            options["on_report"] = on_report
            if args.resume is not None:
                _refuse_settings(args)
                result = resume(args.resume, **options)
            else:
                result = pretrain(
                    args.sources, args.out, args.config, held_out=args.held_out,
                    init_from=args.start_from, word_vectors=args.word_vectors, fresh=args.fresh,
                    on_documents=on_documents, command=args.command_line, **options,
                )  # fmt: skip
    if world.is_first:
        _print_result(result, as_json=args.json)
    return 0 if result.finished else 130


def _refuse_settings(args: Arguments) -> None:
    """A resumed run has its settings: none may be changed, or seem to be."""
    typed = {
        "sources": args.sources,
        "out": args.out,
        "preset": args.preset != "default",
        "start_from": args.start_from,
        "word_vectors": args.word_vectors,
        "held_out": args.held_out,
        "fresh": args.fresh,
        "config": args.config != PretrainConfig(),
    }
    changed = [name for name, value in typed.items() if value]
    if changed:
        raise UserError(
            f"--resume uses the run's own settings, but {', '.join(changed)} came with it; "
            "leave that out, or start a new run"
        )


def show_report(report: Report, display: ProgressDisplay) -> None:
    """Progress display for pre-training: steps move the bar, evaluations are lines."""
    from elmo.training.loop import EvaluationReport

    if not isinstance(report, EvaluationReport):
        loss = (report.loss_forward + report.loss_backward) / 2
        text = (
            f"{report.done:6.1%}  epoch {report.epoch + 1}  step {report.step:,}  loss {loss:.3f}  "
            f"perplexity {math.exp(min(loss, 50)):,.0f}  {report.tokens_per_second:,.0f} tokens/s  "
            f"{clock(report.seconds_left)} left"
        )
        display.show(text, completed=report.done, total=1.0, now=report.done >= 1)
        return
    quality = report.evaluation
    mark = "best so far" if report.is_best else "not better"
    if report.ends_freeze:
        mark += "; the softmax is trained, from here on the whole model is"
    display.line(
        f"held-out text after step {report.step:,}: perplexity {quality.perplexity:.2f} (forward "
        f"{quality.forward.perplexity:.2f}, backward {quality.backward.perplexity:.2f}), {mark}"
    )


def _print_result(result: Result, *, as_json: bool) -> None:
    position = result.position
    if as_json:
        print_json(
            {
                "folder": str(result.folder),
                "finished": result.finished,
                "steps": position.step,
                "predictions": position.targets,
                "best_perplexity": position.best_perplexity,
                "best_step": position.best_step,
                "frozen_perplexity": position.frozen_perplexity,
                "vocabulary": len(result.model.vocabulary),
                "training_tokens": result.corpus.tokens,
            }
        )
    elif result.finished:
        best, before = position.best_perplexity, position.frozen_perplexity
        quality = "" if best is None else f", held-out perplexity {best:.2f}"
        quality += "" if before is None else f" ({before:.2f} with only its softmax trained)"
        say(f"{result.folder}: a model after {position.step:,} steps{quality}")
        say(f"next: elmo evaluate {result.folder}")
    else:
        print(f"stopped after {position.step:,} steps; the same command resumes, or:")
        say(f"  elmo pretrain --resume {result.folder}")


def evaluate_command() -> Command:
    page = f"""
        Measure how well a model predicts each word of a text, over the full softmax.

        elmo evaluate runs/news
        elmo evaluate 'other/*.txt.gz' --model runs/news --out figures

        [SOURCE ...]  {main.SOURCES} Default: what was held out of the training. A model folder may
            come first.
        --out FOLDER  Folder for metrics and confusions as JSON, and a heat map of the confusions.
    """
    command = Command("evaluate", run_evaluate, page)
    main.add_model(command)
    main.add_tokenizer(command)
    main.add_cache(command)
    main.add_reading(command)
    return command


def run_evaluate(args: Arguments) -> int:
    from elmo.evaluate import averaged
    from elmo.language_model import UnknownWords
    from elmo.text.sources import read_documents, resolve
    from elmo.training.pretrain import evaluate_run

    sources = main.take_model(args, args.sources)
    if sources:
        documents = read_documents(resolve(sources), args.read)
        evaluation = main.open_model(args).evaluate(documents)
    else:
        evaluation = evaluate_run(args.model, cache=args.cache)
    average = averaged(evaluation)
    if args.out is not None:
        from elmo.files import claim_folder, write_json, write_text
        from elmo.study.plots import on_white, word_confusions

        claim_folder(args.out)
        write_json(args.out / "evaluation.json", asdict(evaluation))
        if evaluation.confusions:
            drawing = word_confusions([asdict(pair) for pair in evaluation.confusions])
            write_text(args.out / "confusions.svg", on_white(drawing))
    if args.json:
        print_json({**asdict(evaluation), "average": asdict(average)})
        return 0
    columns = (evaluation.forward, evaluation.backward, average)
    rows = [["perplexity", *(f"{metrics.perplexity:,.2f}" for metrics in columns)]]
    names = {"loss": "loss (nats per word)", "accuracy": "accuracy"}
    for name, label in {**names, "top5_accuracy": "top-5 accuracy"}.items():
        rows.append([label, *(f"{getattr(metrics, name):.4f}" for metrics in columns)])
    for average in ("macro", "weighted"):
        for name, label in (("precision",) * 2, ("recall",) * 2, ("f1", "F1")):
            values = [getattr(getattr(metrics, average), name) for metrics in columns]
            rows.append([f"{label}, {average}", *(f"{value:.4f}" for value in values)])
    rows.append(["predictions", *(f"{metrics.targets:,}" for metrics in columns)])
    print_table(rows, ["", "forward", "backward", "average"])
    print(f"unknown words: {evaluation.unknown_rate:.2%}")
    confused = [[pair.true, pair.predicted, f"{pair.count:,}"] for pair in evaluation.confusions]
    print_table(confused, ["confused: true word", "predicted", "times"])
    if evaluation.unknown_rate > UnknownWords.MANY:
        log.warning("most words of this text are unknown: the model was trained on other text")
    return 0


def info_command() -> Command:
    page = """
        Show what is in a model folder (sizes, settings, vocabulary, how it was made) or in a
        classifier's (labels, parts, measured quality, its biLM).

        elmo info
        elmo info runs/news --json
        elmo info runs/topics
    """
    command = Command("info", run_info, page)
    command.option("[MODEL]", "The same as --model.", name="folder", type=str)
    main.add_model(command)
    return command


def run_info(args: Arguments) -> int:
    from elmo.model_folder import CONFIG, WEIGHTS, describe_model

    name = args.model if args.folder is None else main.model_argument(args.folder)
    if (Path(name) / "classifier.json").exists():
        return _print_classifier(Path(name), as_json=args.json)
    if (Path(name) / CONFIG).exists() and (Path(name) / WEIGHTS).exists():
        described = describe_model(name)  # without torch, which takes seconds to import
    else:
        from elmo.language_model import describe

        described = describe(name)
    if args.json:
        print_json(asdict(described))
        return 0
    model, tokenizer, run = described.model, described.tokenizer, described.stages.get("run", {})
    projection = "" if model.projection is None else f", projected to {model.projection}"
    tied = ", tied to the word embeddings" if model.softmax.tied else ""
    rows = [
        ["input", model.input],
        ["layers", f"{model.layers} per direction, {model.hidden} cells{projection}"],
        ["softmax", model.softmax.loss + tied],
        ["parameters", f"{described.parameters:,} ({described.number_format})"],
        *([f"  {name}", f"{parameters:,}"] for name, parameters in described.parts.items()),
        ["vocabulary", f"{described.vocabulary:,} words"],
    ]
    if described.training_tokens:
        rows.append(["unknown words", f"{described.unknown_rate:.2%} of the training text"])
    case = "lower-cased" if tokenizer.lowercase else "case kept"
    rows.append(["tokenizer", f"{tokenizer.tokenizer}, {case}"])
    origin = {
        "trained on": ", ".join(run.get("sources", ())),
        "corpus": str(run.get("digest", ""))[:16],
        "started from": run.get("start_from"),
        "made with": run.get("command"),
    }
    rows += [[name, value] for name, value in origin.items() if value]
    quality = described.held_out_perplexity
    if quality is not None:
        both = f"forward {quality['forward']:,.2f}, backward {quality['backward']:,.2f}"
        rows.append(["held-out perplexity", both])
    rows.append(["files", described.folder])
    rows += [[f"  {name}", f"{size:,} bytes"] for name, size in described.files.items()]
    print_table(rows)
    return 0


def _print_classifier(folder: Path, *, as_json: bool) -> int:
    from elmo.classify.classifier import describe_classifier
    from elmo.files import read_json

    described = describe_classifier(folder)
    config = described.config
    measured = {
        path.stem.removeprefix("metrics_"): read_json(path)
        for path in sorted(folder.glob("metrics_*.json"))
    }
    if as_json:
        print_json({"folder": str(folder), **asdict(described), "metrics": measured})
        return 0
    rows = [
        ["labels", f"{len(described.labels):,}: {', '.join(described.labels[:20])}"],
        ["parts", "network" if described.format == 1 else "+".join(config.resolved_parts())],
        ["biLM", f"{described.bilm.path}, sha256 {described.bilm.sha256[:16]}"],
        ["fine-tuned", f"for {config.learning.fine_tuning.fine_tune_epochs} epochs"],
    ]
    for part, metrics in measured.items():
        accuracy, count = metrics["accuracy"], metrics["count"]
        interval = f"{accuracy['low']:.4f} to {accuracy['high']:.4f}"
        quality = f"accuracy {accuracy['value']:.4f} ({interval}) on {count:,} rows"
        rows.append([f"{part} rows", quality])
    rows.append(["files", str(folder)])
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    rows += [[f"  {path.relative_to(folder)}", f"{path.stat().st_size:,} bytes"] for path in files]
    print_table(rows)
    return 0

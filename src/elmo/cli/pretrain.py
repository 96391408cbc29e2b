"""elmo pretrain, evaluate, info: train a biLM, measure it, look at it."""

from __future__ import annotations

import logging
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.cli.display import ProgressDisplay, clock, print_json, print_table
from elmo.cli.options import (
    SOURCES,
    Arguments,
    Command,
    add_cache,
    add_device,
    add_model,
    add_preset,
    add_reading,
    add_tokenizer,
    open_model,
    take_model,
)
from elmo.errors import UserError
from elmo.training.config import PretrainConfig

if TYPE_CHECKING:
    from elmo.evaluate import DirectionMetrics
    from elmo.training.pretrain import Result
    from elmo.training.reports import Report


def pretrain_command() -> Command:
    """What `elmo pretrain` accepts."""
    command = Command(
        "pretrain",
        run_pretrain,
        "Train a bidirectional language model on text. The same command resumes a run that was "
        "stopped, exactly as if it had not been.",
        [
            "ag_news --out runs/news",
            "'corpus/*.jsonl.gz' --column body --out runs/mine --preset characters",
            "notes.txt --from runs/news --out runs/notes --epochs 2",
            "ag_news --out runs/wide --set model.hidden=512 model.word_dim=512",
        ],
    )
    command.option("[SOURCE ...]", SOURCES, name="sources")
    command.option("--out FOLDER", "Folder for the run and its model.", type=Path)
    command.option(
        "--from MODEL",
        "Fine-tune this model, ours or official; its vocabulary grows by the new words.",
        name="start_from",
        type=Path,
    )
    command.option(
        "--word-vectors FILE",
        "Initialise word embeddings from this file (word2vec or GloVe format).",
        type=Path,
    )
    command.option(
        "--held-out SOURCE ...", "Text to validate on (default: a fraction of the sources)."
    )
    add_device(command)
    command.option("--tensorboard", "Write TensorBoard logs (extra: track).", rare=True)
    command.option("--fresh", "Start over: delete the run that the folder holds.")
    command.option("--resume FOLDER", "Resume the run in this folder.", type=Path, rare=True)
    add_cache(command)
    add_preset(
        command,
        "epochs learning_rate batch_tokens hidden layers input min_count max_vocabulary "
        "held_out_share column lowercase seed",
    )
    return command


def run_pretrain(args: Arguments) -> int:
    """Train and show progress; of several processes, only the first one prints."""
    from elmo.runtime import set_device
    from elmo.training.distributed import joined, own_device
    from elmo.training.pretrain import pretrain, resume

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

            def on_report(report: Report) -> None:
                show_report(report, display)

            if args.resume is not None:
                _refuse_settings(args)
                result = resume(
                    args.resume,
                    device=device,
                    cache=args.cache,
                    world=world,
                    tensorboard=args.tensorboard,
                    on_report=on_report,
                )
            else:
                result = pretrain(
                    args.sources,
                    args.out,
                    args.config,
                    held_out=args.held_out,
                    init_from=args.start_from,
                    word_vectors=args.word_vectors,
                    fresh=args.fresh,
                    device=device,
                    cache=args.cache,
                    world=world,
                    tensorboard=args.tensorboard,
                    on_report=on_report,
                    on_documents=lambda count: display.show(
                        f"preparing the text: {count:,} documents"
                    ),
                    command=args.command_line,
                )
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
    from elmo.training.reports import EvaluationReport

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
        print(f"{result.folder}: a model after {position.step:,} steps{quality}")
        print(f"next: elmo evaluate {result.folder}")
    else:
        print(f"stopped after {position.step:,} steps; the same command resumes, or:")
        print(f"  elmo pretrain --resume {result.folder}")


def evaluate_command() -> Command:
    """What `elmo evaluate` accepts."""
    command = Command(
        "evaluate",
        run_evaluate,
        "Measure how well a model predicts each word of a text, over the full softmax.",
        ["runs/news", "'other/*.txt.gz' --model runs/news --json"],
    )
    command.option(
        "[SOURCE ...]",
        f"{SOURCES} Default: what was held out of the training. A model folder may come first.",
        name="sources",
    )
    add_model(command)
    add_tokenizer(command)
    add_cache(command)
    add_reading(command)
    return command


def run_evaluate(args: Arguments) -> int:
    """Print a table or an object."""
    from elmo.evaluate import averaged
    from elmo.language_model import evaluate_text
    from elmo.training.pretrain import evaluate_run

    sources = take_model(args, args.sources)
    if sources:
        evaluation = evaluate_text(open_model(args), sources, args.read)
    else:
        evaluation = evaluate_run(args.model, cache=args.cache)
    average = averaged(evaluation)
    if args.json:
        print_json({**asdict(evaluation), "average": asdict(average)})
        return 0
    columns = [_figures(metrics) for metrics in (evaluation.forward, evaluation.backward, average)]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    print_table(rows, ["", "forward", "backward", "average"])
    print(f"unknown words: {evaluation.unknown_rate:.2%}")
    return 0


def _figures(metrics: DirectionMetrics) -> dict[str, str]:
    macro, weighted = metrics.macro, metrics.weighted
    return {
        "perplexity": f"{metrics.perplexity:,.2f}",
        "loss (nats per word)": f"{metrics.loss:.4f}",
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


def info_command() -> Command:
    """What `elmo info` accepts."""
    command = Command(
        "info",
        run_info,
        "Show what is in a model folder: sizes, settings, vocabulary, how it was made.",
        ["", "runs/news --json"],
    )
    command.option("[MODEL]", "The same as --model.", name="folder")
    add_model(command)
    return command


def run_info(args: Arguments) -> int:
    """Print what the folder holds."""
    from elmo.model_folder import describe_model, is_official

    folder = args.model if args.folder is None else Path(args.folder)
    if is_official(folder):
        from elmo.official.format import describe_official

        described = describe_official(folder)
    else:
        described = describe_model(folder)  # without torch, which takes seconds to import
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

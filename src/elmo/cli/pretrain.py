"""elmo pretrain SOURCE… --out RUN: train a biLM, or go on with a run that was stopped."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional as Positional_of_conf
from tyro.conf import arg

from elmo.cli import options as arguments
from elmo.cli.options import ArgumentsPositional as Positional
from elmo.cli.options import Flag, ModelFolder, TokenizerName, open_model
from elmo.errors import UserError
from elmo.text.config import ReadOptions
from elmo.training.config import PretrainConfig

if TYPE_CHECKING:
    from elmo.config import Json
    from elmo.evaluate import DirectionMetrics, Evaluation
    from elmo.model_folder import ModelDescription
    from elmo.training.pretrain import Result


Preset = Literal["default", "quick", "characters", "stream", "paper"]


@dataclass(frozen=True, kw_only=True)
class PretrainArguments:
    """Train a bidirectional language model on text, or go on with a run that was stopped.

    elmo pretrain ag_news --out runs/news
    elmo pretrain 'corpus/*.txt.gz' --out runs/mine --preset characters
    elmo pretrain --resume runs/mine
    torchrun --nproc-per-node 4 -m elmo pretrain 'corpus/*.txt.gz' --out runs/mine
    """

    sources: Positional[tuple[str, ...]] = ()
    """Files, patterns, folders, '-' for standard input, or ag_news."""
    out: Path | None = None
    """Folder to write; it must not hold a run yet."""
    resume: Path | None = None
    """Go on with the run in this folder, exactly as if it had never stopped."""
    preset: Preset = "default"
    """Settings to start from; flags change single ones."""
    start_from: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """Go on from this model on new text; its vocabulary grows by the new words. An official model
    first learns a softmax for the words of the text (--frozen-share), then all of it is trained."""
    word_vectors: Path | None = None
    """Initialise the words from this file, in word2vec's format or GloVe's."""
    held_out: tuple[str, ...] = ()
    """Texts to validate on, instead of a part of the sources."""
    cache: Path | None = None
    """Where prepared corpora are kept; none: $ELMO_CACHE or ~/.cache/elmo."""
    device: str = "cpu"
    """cpu, cuda, cuda:1, …"""
    threads: int | None = None
    """Processor threads; none: one a core."""
    tensorboard: bool = False
    """Write TensorBoard logs too (extra: track)."""
    json: bool = False
    """Print the result as JSON."""
    config: PretrainConfig = field(default_factory=PretrainConfig)


def parse_pretrain(given: Sequence[str]) -> PretrainArguments:
    """Read the flags on top of a preset, or of the settings of the model to go on from."""
    first = _Beginning.of(given)
    return arguments.parse(
        PretrainArguments, "pretrain", given, PretrainArguments(config=first.settings())
    )


def run_pretrain(given: PretrainArguments) -> int:
    """Train, show progress, say how it ended; of several processes, only the first one speaks."""
    from elmo.cli.display import TrainingDisplay, set_device
    from elmo.training.distributed import joined, own_device
    from elmo.training.pretrain import Surroundings, pretrain, resume

    device = own_device(given.device)
    set_device(device, given.threads)
    with joined(device) as world, TrainingDisplay(quiet=not world.is_first) as display:
        if not world.is_first:
            logging.getLogger("elmo").setLevel(logging.WARNING)
        around = Surroundings(
            cache=given.cache,
            device=device,
            world=world,
            tensorboard=given.tensorboard,
            listener=display.report,
            on_documents=display.documents,
        )
        if given.resume is not None:
            _refuse_settings(given)
            result = resume(given.resume, around)
        else:
            result = pretrain(
                given.sources,
                _out(given),
                given.config,
                held_out=given.held_out,
                start_from=given.start_from,
                word_vectors=given.word_vectors,
                command=shlex.join(["elmo", *sys.argv[1:]]),
                surroundings=around,
            )
    if world.is_first:
        _tell(result, given.json)
    return 0 if result.finished else 130


@dataclass(frozen=True)
class _Beginning:
    """The two flags that decide what the other ones default to."""

    preset: str
    start_from: Path | None

    @classmethod
    def of(cls, given: Sequence[str]) -> _Beginning:
        start_from = _value(given, "--from")
        return cls(_value(given, "--preset") or "default", Path(start_from) if start_from else None)

    def settings(self) -> PretrainConfig:
        """The settings to change by flags; a preset that does not exist is reported later."""
        from elmo.training.config import PRESETS

        if self.start_from is not None:
            from elmo.training.pretrain import settings_of

            return settings_of(self.start_from)
        return PRESETS.get(self.preset, PretrainConfig())


def _value(given: Sequence[str], flag: str) -> str | None:
    for place, one in enumerate(given):
        if one == flag and place + 1 < len(given):
            return given[place + 1]
        if one.startswith(f"{flag}="):
            return one.removeprefix(f"{flag}=")
    return None


def _refuse_settings(given: PretrainArguments) -> None:
    """A resumed run has its settings already: none may be changed, or seem to be."""
    fresh = PretrainArguments(config=PretrainConfig())
    names = ("sources", "out", "preset", "start_from", "word_vectors", "held_out", "config")
    changed = [name for name in names if getattr(given, name) != getattr(fresh, name)]
    if changed:
        raise UserError(
            f"--resume goes on with the run's own settings, but {', '.join(changed)} came with it; "
            "leave that out, or start a new run"
        )


def _out(given: PretrainArguments) -> Path:
    if not given.sources:
        raise UserError("no text to train on; name files, a folder, '-' or ag_news")
    if given.out is None:
        raise UserError("where should the model go? give --out FOLDER")
    return given.out


def _tell(result: Result, as_json: bool) -> None:
    position = result.position
    if as_json:
        summary = {
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
        print(json.dumps(summary))
    elif result.finished:
        best = position.best_perplexity
        quality = "" if best is None else f", held-out perplexity {best:.2f}"
        before = position.frozen_perplexity
        quality += "" if before is None else f" ({before:.2f} with only its softmax trained)"
        print(f"{result.folder}: a model after {position.step:,} steps{quality}")
        print(f"next: elmo evaluate {result.folder}")
    else:
        print(f"stopped after {position.step:,} steps; go on with:")
        print(f"  elmo pretrain --resume {result.folder}")


# elmo evaluate MODEL [SOURCE…]: how well a model predicts a text.


@dataclass(frozen=True, kw_only=True)
class EvaluateArguments:
    """Tell how well a model predicts each word of a text, over the full softmax.

    elmo evaluate runs/news

    elmo evaluate runs/news 'other/*.txt.gz' --json
    """

    model: ModelFolder
    """A model folder."""
    sources: Annotated[tuple[str, ...], Positional_of_conf, arg(metavar="[SOURCE ...]")] = ()
    """Files, patterns, folders, '-', or ag_news; none: what was held out of the training."""
    tokenizer: TokenizerName = "model"
    """model: cut words as in training; whitespace: they are cut already, with spaces between."""
    cache: Path | None = None
    """Where prepared corpora are kept; none: $ELMO_CACHE or ~/.cache/elmo."""
    json: Flag = False
    """Print one JSON object."""
    read: ReadOptions = field(default_factory=ReadOptions)


def parse_evaluate(given: Sequence[str]) -> EvaluateArguments:
    """Read the flags."""
    return arguments.parse(EvaluateArguments, "evaluate", given)


def run_evaluate(given: EvaluateArguments) -> int:
    """Print a table or an object."""
    from elmo.cli.display import print_json
    from elmo.evaluate import averaged

    evaluation = _evaluate(given)
    average = averaged(evaluation)
    if given.json:
        print_json({**asdict(evaluation), "average": asdict(average)})
    else:
        _show(evaluation, average)
    return 0


def _evaluate(given: EvaluateArguments) -> Evaluation:
    from elmo.evaluate import evaluate_text
    from elmo.training.pretrain import evaluate_run

    if not given.sources:
        return evaluate_run(given.model, cache=given.cache)
    return evaluate_text(open_model(given.model, given.tokenizer), given.sources, given.read)


def _show(evaluation: Evaluation, average: DirectionMetrics) -> None:
    from elmo.cli.display import print_table

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


# elmo info MODEL: what is in a model folder.


@dataclass(frozen=True, kw_only=True)
class InfoArguments:
    """Show what is in a model folder: sizes, settings, vocabulary, how it was made."""

    model: ModelFolder
    """A model folder, ours or official."""
    json: Flag = False
    """Print one JSON object, all settings included."""


def parse_info(given: Sequence[str]) -> InfoArguments:
    """Read the flags."""
    return arguments.parse(InfoArguments, "info", given)


def run_info(given: InfoArguments) -> int:
    """Print what the folder holds."""
    from elmo.cli.display import print_json, print_table
    from elmo.language_model import describe

    description = describe(given.model)
    if given.json:
        print_json(asdict(description))
        return 0
    print_table([*_model_rows(description), *_text_rows(description), *_file_rows(description)])
    return 0


def _model_rows(found: ModelDescription) -> list[list[str]]:
    model = found.model
    projection = "" if model.projection is None else f", projected to {model.projection}"
    rows = [
        ["input", model.input],
        ["layers", f"{model.layers} a direction, {model.hidden} cells{projection}"],
        [
            "softmax",
            model.softmax.loss + (", tied to the word vectors" if model.softmax.tied else ""),
        ],
        ["parameters", f"{found.parameters:,} ({found.number_format})"],
    ]
    rows += [[f"  {part.name}", f"{part.parameters:,}"] for part in found.parts]
    return rows


def _text_rows(found: ModelDescription) -> list[list[str]]:
    case = "lower-cased" if found.tokenizer.lowercase else "case kept"
    rows = [["vocabulary", f"{found.vocabulary:,} words"]]
    if found.training_tokens:
        rows.append(["unknown words", f"{found.unknown_rate:.2%} of the training text"])
    rows.append(["tokenizer", f"{found.tokenizer.tokenizer}, {case}"])
    rows += _run_rows(found.stages.get("run", {}))
    quality = found.held_out_perplexity
    if quality is not None:
        both = f"forward {quality.forward:,.2f}, backward {quality.backward:,.2f}"
        rows.append(["held-out perplexity", both])
    return rows


def _run_rows(run: Json) -> list[list[str]]:
    """What the settings of a run tell of where a model comes from."""
    shown = {
        "trained on": ", ".join(run.get("sources", ())),
        "corpus": str(run.get("digest", ""))[:16],
        "started from": run.get("start_from"),
        "made with": run.get("command"),
    }
    return [[name, value] for name, value in shown.items() if value]


def _file_rows(found: ModelDescription) -> list[list[str]]:
    sizes = [[f"  {file.name}", f"{file.size:,} bytes"] for file in found.files]
    return [["files", found.folder], *sizes]

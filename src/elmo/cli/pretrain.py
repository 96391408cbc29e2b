"""elmo pretrain SOURCE… --out RUN: train a biLM, or go on with a run that was stopped."""

from __future__ import annotations

import json
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from elmo.cli import arguments
from elmo.cli.arguments import Positional
from elmo.errors import UserError
from elmo.pretrain.config import PretrainConfig

if TYPE_CHECKING:
    from elmo.pretrain.run import Result

Preset = Literal["default", "quick", "characters", "stream", "paper"]


@dataclass(frozen=True, kw_only=True)
class Arguments:
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


def parse(given: Sequence[str]) -> Arguments:
    """Read the flags on top of a preset, or of the settings of the model to go on from."""
    first = _Beginning.of(given)
    return arguments.parse(Arguments, "pretrain", given, Arguments(config=first.settings()))


def run(given: Arguments) -> int:
    """Train, show progress, say how it ended; of several processes, only the first one speaks."""
    from elmo.cli.training import TrainingDisplay, set_device
    from elmo.distributed import joined, own_device
    from elmo.pretrain.run import Surroundings, pretrain, resume

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
        from elmo.pretrain.presets import PRESETS

        if self.start_from is not None:
            from elmo.pretrain.run_config import settings_of

            return settings_of(self.start_from)
        return PRESETS.get(self.preset, PretrainConfig())


def _value(given: Sequence[str], flag: str) -> str | None:
    for place, one in enumerate(given):
        if one == flag and place + 1 < len(given):
            return given[place + 1]
        if one.startswith(f"{flag}="):
            return one.removeprefix(f"{flag}=")
    return None


def _refuse_settings(given: Arguments) -> None:
    """A resumed run has its settings already: none may be changed, or seem to be."""
    fresh = Arguments(config=PretrainConfig())
    names = ("sources", "out", "preset", "start_from", "word_vectors", "held_out", "config")
    changed = [name for name in names if getattr(given, name) != getattr(fresh, name)]
    if changed:
        raise UserError(
            f"--resume goes on with the run's own settings, but {', '.join(changed)} came with it; "
            "leave that out, or start a new run"
        )


def _out(given: Arguments) -> Path:
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

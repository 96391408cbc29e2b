"""Checkpoints of a run: each whole or not there; the newest with a right checksum is used."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from elmo import files
from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState
from elmo.config import from_json, to_json
from elmo.errors import UserError
from elmo.files import folder_written_whole, read_json, remove_whole, sha256, write_json
from elmo.model_folder import load_tensors, model_tensors, save_tensors
from elmo.training.config import TrainingConfig
from elmo.training.optim import optimizer_tensors, restore_optimizer

# A training at a step, in a folder: whole or not there; the newest sound one is used.


T = TypeVar("T")

log = logging.getLogger(__name__)


@contextmanager
def snapshot_written(folder: Path, step: int, kept: int) -> Generator[Path]:
    """Give a folder to write to; when all went well, only the newest `kept` ones stay."""
    with folder_written_whole(folder / f"step-{step:09d}") as beside:
        yield beside
    for old in sorted(folder.glob("step-*"))[:-kept]:
        remove_whole(old)


def next_step(folder: Path) -> int:
    """A step after all that are there, damaged ones too."""
    names = (path.name.removeprefix("step-") for path in folder.glob("step-*"))
    return 1 + max((int(name) for name in names if name.isdecimal()), default=0)


def newest_snapshot(folder: Path, load: Callable[[Path], T]) -> T | None:
    """The newest that can be loaded; damaged ones are named and passed over."""
    for path in sorted(folder.glob("step-*"), reverse=True):
        try:
            return load(path)
        except UserError as error:
            log.warning("passing over a damaged checkpoint: %s", error)
    return None


def check_whole(path: Path, checksum: str) -> None:
    """Make sure that a file is as it was written."""
    if not path.is_file() or sha256(path) != checksum:
        raise UserError(f"{path}: does not have the checksum it was written with")


# Stopping well: one process a run folder, and signals that end a run after the current step.


@contextmanager
def stopped_by_signals() -> Generator[Callable[[], bool]]:
    """Give a function that tells whether Ctrl-C or SIGTERM came; a second Ctrl-C stops at once."""
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keep other processes out of a run folder; the lock ends with the process that holds it."""
    with files.locked(folder / ".lock", f"{folder}: another process is training here"):
        yield


# Where a run stands: everything, besides tensors, that it needs to go on exactly as before.


@dataclass(frozen=True, kw_only=True)
class Position:
    """What lies behind a run. Random numbers need no place here: they follow from seed and step."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch already read."""
    targets: int = 0
    """Words each direction has been asked for."""
    evaluations: int = 0
    best_perplexity: float | None = None
    best_step: int = 0
    worse_evaluations: int = 0
    """Evaluations since the best one."""
    frozen_perplexity: float | None = None
    """Of the held-out text when the softmax alone had learned: what the biLM is trained on from."""
    finished: bool = False

    def after_batch(self, targets: int) -> Position:
        """One step further."""
        return replace(
            self, step=self.step + 1, batch=self.batch + 1, targets=self.targets + targets
        )

    def after_epoch(self, settings: TrainingConfig) -> Position:
        """At the start of the next epoch, or at the end."""
        epoch = self.epoch + 1
        finished = epoch >= settings.epochs or self.has_lost_patience(settings.patience)
        return replace(self, epoch=epoch, batch=0, finished=finished)

    def has_lost_patience(self, patience: int | None) -> bool:
        """Whether enough evaluations in a row were worse than the best one."""
        return patience is not None and self.worse_evaluations >= patience

    def after_evaluation(self, perplexity: float, *, ends_freeze: bool = False) -> Position:
        """With one more evaluation, which may be the best one, or the last of a frozen biLM."""
        frozen = perplexity if ends_freeze else self.frozen_perplexity
        seen = replace(self, evaluations=self.evaluations + 1, frozen_perplexity=frozen)
        if self.best_perplexity is None or perplexity < self.best_perplexity:
            return replace(
                seen, best_perplexity=perplexity, best_step=self.step, worse_evaluations=0
            )
        return replace(seen, worse_evaluations=self.worse_evaluations + 1)


KEPT = 2
WEIGHTS, TRAINING, PROGRESS = "model.safetensors", "training.safetensors", "progress.json"


@dataclass(frozen=True)
class Checkpoint:
    """A run at one step."""

    position: Position
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: BiLMState | None
    """Where the model stands in a text that goes on."""


@dataclass(frozen=True, kw_only=True)
class _Progress:
    """What progress.json holds: the position, and the checksums of the other two files."""

    position: Position
    weights: str
    training: str


def save_checkpoint(
    folder: Path, model: BiLM, optimizer: Optimizer, state: BiLMState | None, position: Position
) -> None:
    """Write a checkpoint, then delete all but the newest few."""
    with snapshot_written(folder, position.step, KEPT) as beside:
        save_tensors(beside / WEIGHTS, model_tensors(model))
        training = {**optimizer_tensors(optimizer), **_state_tensors(state)}
        save_tensors(beside / TRAINING, training)
        progress = _Progress(
            position=position,
            weights=sha256(beside / WEIGHTS),
            training=sha256(beside / TRAINING),
        )
        write_json(beside / PROGRESS, to_json(progress))


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is sound; damaged ones are named and passed over."""
    return newest_snapshot(folder, _load)


def restore(model: BiLM, optimizer: Optimizer, checkpoint: Checkpoint) -> None:
    """Put model and optimizer into the state of a checkpoint."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(checkpoint.weights[name])
    restore_optimizer(optimizer, checkpoint.optimizer)


def _load(path: Path) -> Checkpoint:
    progress = from_json(_Progress, read_json(path / PROGRESS), str(path / PROGRESS))
    check_whole(path / WEIGHTS, progress.weights)
    check_whole(path / TRAINING, progress.training)
    training = load_tensors(path / TRAINING)
    return Checkpoint(
        position=progress.position,
        weights=load_tensors(path / WEIGHTS),
        optimizer={name: one for name, one in training.items() if name.startswith("optimizer.")},
        state=_state(training),
    )


def _state_tensors(state: BiLMState | None) -> dict[str, Tensor]:
    if state is None:
        return {}
    return {
        f"carried.{direction}.{number}.{part}": tensor
        for direction, layers in zip(("forward", "backward"), state, strict=True)
        for number, layer in enumerate(layers)
        for part, tensor in (("output", layer.output), ("cell", layer.cell))
    }


def _state(tensors: dict[str, Tensor]) -> BiLMState | None:
    count = sum(name.startswith("carried.forward.") for name in tensors) // 2
    if not count:
        return None
    return BiLMState(*(_layers(tensors, side, range(count)) for side in ("forward", "backward")))


def _layers(
    tensors: dict[str, Tensor], direction: str, numbers: Iterable[int]
) -> tuple[LSTMState, ...]:
    return tuple(
        LSTMState(
            tensors[f"carried.{direction}.{number}.output"],
            tensors[f"carried.{direction}.{number}.cell"],
        )
        for number in numbers
    )

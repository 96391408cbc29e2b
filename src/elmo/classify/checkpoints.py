"""A training that stops goes on: where it stands is kept beside its folder until that is there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from torch import Tensor

import elmo
from elmo.checkpoint import load_tensors, save_tensors
from elmo.classify.config import ClassifierConfig
from elmo.classify.reports import EpochReport
from elmo.classify.standing import EpochSoFar, Standing
from elmo.config import from_json, to_json
from elmo.errors import UserError
from elmo.files import (
    read_json,
    remove_leftovers,
    remove_leftovers_of,
    remove_whole,
    sha256,
    write_json,
)
from elmo.pretrain.interruption import locked, stopped_by_signals
from elmo.pretrain.run_folder import make_run_folder
from elmo.snapshots import check_whole, newest_snapshot, next_step, snapshot_written

TENSORS, PROGRESS = "training.safetensors", "progress.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a training began with; one that goes on must be given the same."""

    config: ClassifierConfig
    texts: str
    """Checksum of the texts and their labels."""
    bilm: str
    """Of the biLM's weights."""
    word_vectors: str | None
    """Of the file that own word vectors begin with, if there is one."""
    version: str = elmo.__version__
    """Of elmo: another one may compute otherwise."""


@dataclass(frozen=True, kw_only=True)
class _Progress:
    """What progress.json holds."""

    origin: Origin
    phase: str
    history: tuple[EpochReport, ...]
    epoch: EpochSoFar
    seconds: float
    """That the whole training has taken so far."""
    tensors: str
    """Checksum of the file beside this one."""


@dataclass(frozen=True)
class _Saved:
    progress: _Progress
    tensors: dict[str, Tensor]


class Checkpoints:
    """Keeps where a training stands, every few minutes and when it is asked to stop."""

    def __init__(self, folder: Path, origin: Origin, minutes: float) -> None:
        self._folder, self._origin, self._between = folder, origin, 60 * minutes
        self._began = self._last = time.monotonic()
        self._stop: Callable[[], bool] = lambda: False
        self._saved = newest_snapshot(folder, _load)
        self._seconds_before = 0.0
        self.phase: str | None = None
        """The phase to go on with; none: begin."""
        self.history: list[EpochReport] = []
        """What earlier sessions have brought."""
        if self._saved is not None:
            progress = self._saved.progress
            _refuse_other(folder, progress.origin, origin)
            self._seconds_before = progress.seconds
            self.phase, self.history = progress.phase, list(progress.history)
            log.info("going on in epoch %d (%s)", len(self.history) + 1, self.phase)

    @property
    def seconds(self) -> float:
        """That the training has taken so far, earlier sessions too."""
        return self._seconds_before + time.monotonic() - self._began

    @contextmanager
    def watched(self) -> Generator[None]:
        """In here Ctrl-C and SIGTERM wait for the end of a step, after which it is saved."""
        with stopped_by_signals() as self._stop:
            yield

    def restore(self, standing: Standing) -> None:
        """Bring a phase to where it was, if it is the one that was stopped."""
        if self._saved is None or standing.phase != self._saved.progress.phase:
            return
        standing.restore(self._saved.tensors)
        standing.epoch = self._saved.progress.epoch
        self._saved = None

    def look_after(self, standing: Standing) -> None:
        """Save where a training stands, if it is time to; if it is to stop, save and stop."""
        stops = self._stop()
        if stops or time.monotonic() - self._last >= self._between:
            self._save(standing)
        if stops:
            raise KeyboardInterrupt(
                f"stopped in epoch {len(standing.history) + 1} ({standing.phase}); the same "
                f"command goes on from there, with what is kept in {self._folder}"
            )

    def _save(self, standing: Standing) -> None:
        with snapshot_written(self._folder, next_step(self._folder), kept=1) as beside:
            save_tensors(beside / TENSORS, standing.tensors())
            progress = _Progress(
                origin=self._origin,
                phase=standing.phase,
                history=tuple(standing.history),
                epoch=standing.epoch,
                seconds=self.seconds,
                tensors=sha256(beside / TENSORS),
            )
            write_json(beside / PROGRESS, to_json(progress))
        self._last = time.monotonic()


@contextmanager
def kept_beside(out: Path, origin: Origin, minutes: float) -> Generator[Checkpoints]:
    """Checkpoints of a training that is to become the folder `out`; once it is, they go."""
    folder = unfinished(out)
    make_run_folder(folder)
    origin = replace(origin, config=_decisive(origin.config))
    with locked(folder):
        is_done = False
        try:
            remove_leftovers(folder)
            remove_leftovers_of(out)
            remove_leftovers_of(folder)
            yield Checkpoints(folder, origin, minutes)
            is_done = True
        finally:
            if is_done or not any(folder.glob("step-*")):
                remove_whole(folder)


def unfinished(out: Path) -> Path:
    """Where the checkpoints of a training are."""
    return out.with_name(f"{out.name}.unfinished")


def _decisive(config: ClassifierConfig) -> ClassifierConfig:
    """Where layers are kept changes nothing, so that a smaller machine may go on."""
    return replace(config, learning=replace(config.learning, feature_memory=None))


def _load(path: Path) -> _Saved:
    progress = from_json(_Progress, read_json(path / PROGRESS), str(path / PROGRESS))
    check_whole(path / TENSORS, progress.tensors)
    return _Saved(progress, load_tensors(path / TENSORS))


def _refuse_other(folder: Path, before: Origin, now: Origin) -> None:
    old, new = dict(_flat(to_json(before))), dict(_flat(to_json(now)))
    changed = [
        name.rpartition(".")[2] for name in sorted({*old, *new}) if old.get(name) != new.get(name)
    ]
    if changed:
        raise UserError(
            f"{folder}: holds a training that was stopped, and that began with other "
            f"{', '.join(changed)}; give what it began with, choose another --out, or remove this "
            "folder to begin anew"
        )


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(cast("Mapping[str, object]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

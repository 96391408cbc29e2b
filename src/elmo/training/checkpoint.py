"""Checkpoints: the same command resumes an interrupted job exactly where it was.

One module for every kind of job:

- a *job* is identified by what decides its result, as JSON: settings and checksums of its inputs
  (`check_same_job` names what differs);
- `files.locked_folder` keeps a second process out of the job's folder;
- `stop_requested` turns signals into a flag that is looked at after each step;
- `save_checkpoint` writes `step-000001234/` with tensors and a progress.json that holds their
  checksums, to a temporary path that is synced and renamed, so a checkpoint is complete or absent;
- `newest_checkpoint` loads the newest one whose checksums are right; if none is, it stops.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, cast

from torch import Tensor
from torch.optim import Optimizer

from elmo.config import Json
from elmo.errors import UserError
from elmo.files import atomic_folder, read_json, remove_folder, sha256, write_json
from elmo.model_folder import load_tensors, save_tensors

P = TypeVar("P")
Tensors = Mapping[str, Tensor]

PROGRESS = "progress.json"
TENSOR_FILES = {
    "weights": "model.safetensors",
    "training": "training.safetensors",
    "tensors": "training.safetensors",
}
"""The files of a checkpoint, by the key under which progress.json holds their checksum.
Pre-training has `training`, classifiers have `tensors`."""
STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGXCPU")
"""Ctrl-C, kill, a lost terminal, and what batch systems send before time runs out."""

log = logging.getLogger(__name__)


def differences(before: Json, now: Json) -> list[str]:
    """The settings and inputs in which two jobs differ, such as "seed: 0 before, 1 now"."""

    def flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
        for name, value in values.items():
            if isinstance(value, Mapping):
                yield from flat(cast("Json", value), f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", value

    def shown(value: object) -> str:
        text = "unset" if value is None else str(value)
        return text if len(text) <= 24 else f"{text[:10]}…"

    old, new = dict(flat(before)), dict(flat(now))
    return [
        f"{name.rpartition('.')[2]}: {shown(old.get(name))} before, {shown(new.get(name))} now"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def check_same_job(folder: Path, before: Json, now: Json) -> None:
    """Refuse to resume a job with other settings or inputs than it was started with."""
    if changed := differences(before, now):
        raise UserError(
            f"{folder}: holds a job that differs from this command:\n  "
            + "\n  ".join(changed)
            + "\nGive what it was started with to resume it, use --fresh to start over, or choose "
            "another --out"
        )


def save_checkpoint(
    folder: Path, step: int, progress: Json, tensors: Mapping[str, Tensors], keep: int = 2
) -> None:
    """Write a checkpoint, then delete all but the newest `keep`: one damaged file loses little.

    `progress` is written to progress.json together with the checksums of `tensors`, which have keys
    of TENSOR_FILES. Later steps were damaged when the job was resumed before them; they go, too.
    """
    assert not {"training", "tensors"} <= tensors.keys(), "both are written to one file"
    with atomic_folder(folder / f"step-{step:09d}") as temporary:
        checksums: Json = {}
        for key, content in tensors.items():
            save_tensors(temporary / TENSOR_FILES[key], content)
            checksums[key] = sha256(temporary / TENSOR_FILES[key])
        write_json(temporary / PROGRESS, {**progress, **checksums})
    saved = sorted(folder.glob("step-*"))
    newest = saved.index(folder / f"step-{step:09d}")
    for old in (*saved[newest + 1 :], *saved[: max(0, newest + 1 - keep)]):
        remove_folder(old)


def newest_checkpoint(
    folder: Path, read_progress: Callable[[Json], P]
) -> tuple[P, dict[str, dict[str, Tensor]]] | None:
    """Load the newest sound checkpoint; damaged ones are logged and skipped.

    `read_progress` gets what `save_checkpoint` was given as `progress` and may raise a UserError.

    Returns:
        What `read_progress` returned, and the tensors by key; None without a checkpoint.

    Raises:
        UserError: all are damaged; starting over would overwrite the best weights.
    """
    paths = sorted(folder.glob("step-*"), reverse=True)
    for path in paths:
        try:
            progress: Any = read_json(path / PROGRESS)
            if not isinstance(progress, dict):
                raise UserError(f"{path / PROGRESS}: expected an object")
            progress = cast("Json", progress)
            tensors: dict[str, dict[str, Tensor]] = {}
            for key in TENSOR_FILES.keys() & progress.keys():
                file, checksum = path / TENSOR_FILES[key], progress.pop(key)
                if not file.is_file() or sha256(file) != checksum:
                    raise UserError(f"{file}: does not have the checksum it was written with")
                tensors[key] = load_tensors(file)
            return read_progress(progress), tensors
        except UserError as error:
            log.warning("skipping a damaged checkpoint: %s", error)
    if paths:
        raise UserError(
            f"{folder}: no checkpoint can be read ({', '.join(path.name for path in paths)}); "
            "restore one of them, or start over with --fresh"
        )
    return None


# The state of an optimizer as tensors by name, for checkpoints.


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as `optimizer.<index of the parameter>.<key>`."""
    return {
        f"optimizer.{idx}.{key}": value
        for idx, parameter in enumerate(_parameters(optimizer))
        for key, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Set the optimizer's state from what `optimizer_tensors` returned."""
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        _, idx, key = name.split(".")
        states.setdefault(int(idx), {})[key] = tensor
    for idx, parameter in enumerate(_parameters(optimizer)):
        # The step count of a fused optimizer lives on the parameter's device.
        optimizer.state[parameter] = {
            key: tensor.to(parameter.device) for key, tensor in states.get(idx, {}).items()
        }


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


@contextmanager
def stop_requested() -> Generator[Callable[[], bool]]:
    """Within this block, signals that end a process set a flag instead; yields its getter.

    A second Ctrl-C stops at once. Signals that were ignored before (SIGHUP under nohup) stay
    ignored. Only the main thread can handle signals; in others the flag is never set.
    """
    flag = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        flag.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in STOP_SIGNALS:
            number = getattr(signal, name, None)  # Windows does not know all of them
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handle)
    try:
        yield flag.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

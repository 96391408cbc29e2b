"""Checkpoints of a run: each whole or not there; the newest with a right checksum is used."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import Optimizer

from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoint import load_tensors, model_tensors, save_tensors
from elmo.config import from_json, to_json
from elmo.errors import UserError
from elmo.files import folder_written_whole, read_json, remove_whole, sha256, write_json
from elmo.pretrain.position import Position

KEPT = 2
WEIGHTS, TRAINING, PROGRESS = "model.safetensors", "training.safetensors", "progress.json"

log = logging.getLogger(__name__)


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
    with folder_written_whole(folder / f"step-{position.step:09d}") as beside:
        save_tensors(beside / WEIGHTS, model_tensors(model))
        training = {**optimizer_tensors(optimizer), **_state_tensors(state)}
        save_tensors(beside / TRAINING, training)
        progress = _Progress(
            position=position,
            weights=sha256(beside / WEIGHTS),
            training=sha256(beside / TRAINING),
        )
        write_json(beside / PROGRESS, to_json(progress))
    for old in sorted(folder.glob("step-*"))[:-KEPT]:
        remove_whole(old)


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is sound; damaged ones are named and passed over."""
    for path in sorted(folder.glob("step-*"), reverse=True):
        try:
            return _load(path)
        except UserError as error:
            log.warning("passing over a damaged checkpoint: %s", error)
    return None


def restore(model: BiLM, optimizer: Optimizer, checkpoint: Checkpoint) -> None:
    """Put model and optimizer into the state of a checkpoint."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(checkpoint.weights[name])
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in checkpoint.optimizer.items():
        _, number, key = name.split(".")
        slots.setdefault(int(number), {})[key] = tensor
    for number, parameter in enumerate(_trained(optimizer)):
        # The step count of a fused optimizer lives where the parameter does.
        optimizer.state[parameter] = {
            key: tensor.to(parameter.device) for key, tensor in slots.get(number, {}).items()
        }


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's memory by name."""
    return {
        f"optimizer.{number}.{key}": value
        for number, parameter in enumerate(_trained(optimizer))
        for key, value in optimizer.state[parameter].items()
        if isinstance(value, Tensor)
    }


def _trained(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _load(path: Path) -> Checkpoint:
    progress = from_json(_Progress, read_json(path / PROGRESS), str(path / PROGRESS))
    for name, expected in ((WEIGHTS, progress.weights), (TRAINING, progress.training)):
        if not (path / name).is_file() or sha256(path / name) != expected:
            raise UserError(f"{path / name}: does not have the checksum it was written with")
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

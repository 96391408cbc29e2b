"""Checkpoints of a run: each whole or not there; the newest with a right checksum is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import Optimizer

from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoint import load_tensors, model_tensors, save_tensors
from elmo.config import from_json, to_json
from elmo.files import read_json, sha256, write_json
from elmo.pretrain.optimizer_state import optimizer_tensors, restore_optimizer
from elmo.pretrain.position import Position
from elmo.snapshots import check_whole, newest_snapshot, snapshot_written

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

"""The state texts are read from, if not zeros: computed once, stored with the model if wished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from elmo.bilm.lstm import LSTMState
from elmo.bilm.model import BiLM, BiLMState, StackState
from elmo.checkpoint import WEIGHTS, load_tensors, save_tensors
from elmo.errors import UserError
from elmo.files import sha256
from elmo.text.batches import whole_batch
from elmo.text.vocabulary import SPECIAL_WORDS

FILE = "start_state.safetensors"
CONTEXT_WORDS = 32
"""So many of the most frequent words are read to warm up; they say nothing in particular."""
CHECKSUM = "model_sha256"


@torch.no_grad()
def warm_state(model: BiLM, context: Sequence[str] | None = None) -> BiLMState:
    """The state, of one row, after reading a neutral context and the boundary behind it.

    The context is given, or else the model's most frequent words in their order.
    """
    first = len(SPECIAL_WORDS)
    words = model.vocabulary.words[first : first + CONTEXT_WORDS] if context is None else context
    batch = whole_batch([list(words)], model.vocabulary, spelled=model.config.spelled)
    return BiLMState(*(read.states for read in model.read(batch.to(model.device))))


def repeated(state: BiLMState, rows: int) -> BiLMState:
    """A state of one row, for so many texts."""
    return _changed(state, lambda one: one.expand(rows, -1))


def first_rows(state: BiLMState, rows: int) -> BiLMState:
    """The state of the first so many texts."""
    return _changed(state, lambda one: one[:rows])


def save_start_state(folder: Path, state: BiLMState) -> None:
    """Store a state in a model folder, with the checksum of the weights it belongs to."""
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder}: expected a model folder with {WEIGHTS}, but it has none")
    checksum = torch.frombuffer(bytearray.fromhex(sha256(folder / WEIGHTS)), dtype=torch.uint8)
    save_tensors(folder / FILE, {**state_tensors(state), CHECKSUM: checksum})


def load_start_state(folder: Path, model: BiLM) -> BiLMState | None:
    """The state stored in a model folder, if there is one and it belongs to these weights."""
    path = folder / FILE
    if not path.exists():
        return None
    tensors = load_tensors(path)
    checksum = tensors.pop(CHECKSUM, torch.zeros(0, dtype=torch.uint8))
    if checksum.numpy().tobytes().hex() != sha256(folder / WEIGHTS):
        raise UserError(
            f"{path} belongs to other weights than {folder / WEIGHTS}; delete it, or store it anew"
        )
    return state_of_tensors(tensors, model, path)


def state_tensors(state: BiLMState) -> dict[str, Tensor]:
    """A state as named tensors."""
    return {
        f"{direction}.{number}.{part}": tensor
        for direction, layers in zip(BiLMState._fields, state, strict=True)
        for number, layer in enumerate(layers)
        for part, tensor in (("output", layer.output), ("cell", layer.cell))
    }


def state_of_tensors(tensors: dict[str, Tensor], model: BiLM, path: Path) -> BiLMState:
    """What `state_tensors` wrote, on the model's device."""

    def of(direction: str) -> StackState:
        return tuple(
            LSTMState(
                tensors[f"{direction}.{number}.output"].to(model.device),
                tensors[f"{direction}.{number}.cell"].to(model.device),
            )
            for number in range(model.config.layers)
        )

    found = {name: tensor.shape[1:] for name, tensor in tensors.items()}
    sizes = {"output": (model.config.width,), "cell": (model.config.hidden,)}
    expected = {
        f"{direction}.{number}.{part}": size
        for direction in BiLMState._fields
        for number in range(model.config.layers)
        for part, size in sizes.items()
    }
    if found != expected:
        raise UserError(f"{path} is not a state of this model; delete it, or store it anew")
    return BiLMState(of("forward"), of("backward"))


def _changed(state: BiLMState, change: Callable[[Tensor], Tensor]) -> BiLMState:
    def of(layers: StackState) -> StackState:
        return tuple(LSTMState(change(one.output), change(one.cell)) for one in layers)

    return BiLMState(of(state.forward), of(state.backward))

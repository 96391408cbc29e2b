"""The state in which a batch is left, kept by those who read its parts, whole in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import torch

from elmo.bilm.lstm import LSTMLayer, LSTMState
from elmo.bilm.model import BiLM, BiLMState
from elmo.distributed import World
from elmo.text.batches import Rows
from elmo.text.steps import Share


class CarriedState:
    """Where the model stands in each part of a batch that is read here."""

    def __init__(self, share: Share, device: torch.device, whole: BiLMState | None = None) -> None:
        """Start from nothing, or from the state of a whole batch."""
        self.share = share
        self.rows = 0
        """How many rows the whole batch has."""
        self.parts: list[BiLMState | None] = [None] * share.parts
        if whole is not None:
            self.rows = len(whole.forward[0].cell)
            self.parts = [_part(whole, one, device) for one in share.rows(self.rows)]

    def whole(self, model: BiLM, world: World) -> BiLMState | None:
        """The state of all rows of the batch, from all processes."""
        if self.share.of == 1:
            return self.parts[0]
        whole = _zeros(model, self.rows)
        for part, rows in zip(self.parts, self.share.rows(self.rows), strict=True):
            if part is not None and len(rows):
                for mine, all_rows in zip(_layers(part), _layers(whole), strict=True):
                    all_rows.output[rows.places] = mine.output.float()
                    all_rows.cell[rows.places] = mine.cell
        world.sum(*(one for layer in _layers(whole) for one in (layer.output, layer.cell)))
        return whole


def _layers(state: BiLMState) -> Iterator[LSTMState]:
    return (layer for direction in state for layer in direction)


def _part(whole: BiLMState, rows: Rows, device: torch.device) -> BiLMState:
    def cut(layers: Iterable[LSTMState]) -> tuple[LSTMState, ...]:
        tensors = ((one.output[rows.places], one.cell[rows.places]) for one in layers)
        return tuple(LSTMState(output.to(device), cell.to(device)) for output, cell in tensors)

    return BiLMState(cut(whole.forward), cut(whole.backward))


def _zeros(model: BiLM, rows: int) -> BiLMState:
    like = torch.empty(0, device=model.device)
    directions = [
        tuple(cast("LSTMLayer", layer).start(rows, like) for layer in stack.layers)
        for stack in model.directions
    ]
    return BiLMState(*directions)

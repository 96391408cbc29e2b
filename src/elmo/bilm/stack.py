"""One direction: LSTM layers on top of each other, with dropout and skip connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMLayer, LSTMState
from elmo.text.batches import Rows


@dataclass(frozen=True)
class StackOutput:
    """What each layer put out, and where each one stands."""

    layers: tuple[Tensor, ...]  # each (time, batch, width)
    states: tuple[LSTMState, ...]


class LSTMStack(nn.Module):
    """The layers of one direction; the other direction's are never seen."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.skip = config.skip
        self.dropout = config.dropout
        self.layers = nn.ModuleList(
            LSTMLayer(
                config.width,
                config.hidden,
                config.projection,
                config.cell_clip,
                config.projection_clip,
            )
            for _ in range(config.layers)
        )

    def forward(
        self,
        tokens: Tensor,
        states: Sequence[LSTMState | None] | None,
        lengths: Tensor,
        random: torch.Generator | None = None,
        rows: Rows | None = None,
    ) -> StackOutput:
        """Read (time, batch, width); `random` draws the dropout, and without it none is dropped."""
        outputs: list[Tensor] = []
        ends: list[LSTMState] = []
        states = states or [None] * len(self.layers)
        output = tokens
        for number, (module, state) in enumerate(zip(self.layers, states, strict=True)):
            layer = cast("LSTMLayer", module)
            layer_input = variational_dropout(output, self.dropout, random, rows)
            output, end = layer(layer_input, state, lengths)
            if self.skip and number > 0:
                output = output + layer_input
            outputs.append(output)
            ends.append(end)
        return StackOutput(tuple(outputs), tuple(ends))


def variational_dropout(
    values: Tensor, share: float, random: torch.Generator | None, rows: Rows | None = None
) -> Tensor:
    """Drop the same features at every step of a text, (time, batch, features).

    Part of a batch drops what it would drop in the whole: a mask is drawn for all of its rows.
    """
    if random is None or share == 0:
        return values
    _, batch, features = values.shape
    shape = (1, batch if rows is None else rows.total, features)
    kept = torch.rand(shape, generator=random, device=values.device) >= share
    if rows is not None:
        kept = kept[:, rows.places]
    return values * (kept.to(values.dtype) / (1 - share))

"""One direction: LSTM layers on top of each other, with dropout and skip connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.config import BiLMConfig
from elmo.bilm.lstm import LSTMLayer, LSTMState
from elmo.bilm.ragged import Ragged
from elmo.text.batches import Rows

End = TypeVar("End")


@dataclass(frozen=True)
class StackOutput:
    """What each layer put out, and where each one stands."""

    layers: tuple[Tensor, ...]  # each (time, batch, width), or (rows, width)
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

        def drop(values: Tensor) -> Tensor:
            return variational_dropout(values, self.dropout, random, rows)

        def read(number: int, inputs: Tensor) -> tuple[Tensor, LSTMState]:
            return self.layer(number)(inputs, None if states is None else states[number], lengths)

        return StackOutput(*climb(tokens, drop, read, len(self.layers), skip=self.skip))

    def read_ragged(
        self,
        vectors: Tensor,
        places: Tensor,
        ragged: Ragged,
        states: Sequence[LSTMState] | None = None,
        random: torch.Generator | None = None,
        depth: int | None = None,
    ) -> StackOutput:
        """Read texts in rows, each the vector at its place, (rows,), among distinct words' vectors.

        States are in the order of the texts. With a depth, only so many lower layers read.
        """
        by_word = random is None  # dropout would make the same word different in each text
        tokens = vectors if by_word else functional.embedding(places, vectors)

        def drop(values: Tensor) -> Tensor:
            return ragged_dropout(values, self.dropout, random, ragged)

        def read(number: int, inputs: Tensor) -> tuple[Tensor, LSTMState]:
            state = None if states is None else states[number].of_texts(ragged.order)
            below = places if by_word and number == 0 else None
            output, end = self.layer(number).read(inputs, state, ragged.way, below)
            return output, end.of_texts(ragged.order.argsort())

        layers = len(self.layers) if depth is None else depth
        return StackOutput(*climb(tokens, drop, read, layers, skip=self.skip))

    def layer(self, number: int) -> LSTMLayer:
        """One of the layers, the lowest being number 0."""
        return cast("LSTMLayer", self.layers[number])


def climb(
    tokens: Tensor,
    drop: Callable[[Tensor], Tensor],
    read: Callable[[int, Tensor], tuple[Tensor, End]],
    depth: int,
    *,
    skip: bool,
) -> tuple[tuple[Tensor, ...], tuple[End, ...]]:
    """Layer by layer: outputs, with what was read added where connections skip, and ends."""
    outputs: list[Tensor] = []
    ends: list[End] = []
    output = tokens
    for number in range(depth):
        layer_input = drop(output)
        output, end = read(number, layer_input)
        if skip and number > 0:
            output = output + layer_input
        outputs.append(output)
        ends.append(end)
    return tuple(outputs), tuple(ends)


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


def ragged_dropout(
    values: Tensor, share: float, random: torch.Generator | None, ragged: Ragged
) -> Tensor:
    """Drop of (rows, features) what `variational_dropout` drops of the same texts with padding."""
    if random is None or share == 0:
        return values
    ones = values.new_ones(1, len(ragged.order), values.shape[1])
    return values * variational_dropout(ones, share, random)[0, ragged.text]

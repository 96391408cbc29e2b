"""Both directions of a few texts in one loop, with one product for both at each step.

The steps of a few texts are so short that two threads would do little but take turns at the
interpreter. Without gradients; all else is as in `scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from elmo.bilm.lstm import LSTMLayer, LSTMState, at_end
from elmo.bilm.ragged import Ragged
from elmo.bilm.scan import shifted, turn
from elmo.bilm.stack import LSTMStack, StackOutput, climb

FEW_TEXTS = 4
"""Of more texts, a step is long enough for a thread a direction."""

States = Sequence[LSTMState]


def read_paired(
    stacks: tuple[LSTMStack, LSTMStack],
    vectors: Tensor,
    places: tuple[Tensor, Tensor],
    ragged: Ragged,
    states: tuple[States | None, States | None] = (None, None),
    depth: int | None = None,
) -> tuple[StackOutput, StackOutput]:
    """What each stack's `read_ragged` gives; texts are equally long for both."""

    def read(number: int, inputs: Tensor) -> tuple[Tensor, list[LSTMState]]:
        pair = [stack.layer(number) for stack in stacks]
        start = [
            layer.start(len(ragged.order), vectors)
            if given is None
            else given[number].of_texts(ragged.order)
            for layer, given in zip(pair, states, strict=True)
        ]
        outputs, cells = _scan(pair, inputs, start, ragged.way.sizes)
        return outputs, [
            at_end(one, cell, before, ragged.way).of_texts(ragged.order.argsort())
            for one, cell, before in zip(outputs, cells, start, strict=True)
        ]

    tokens = torch.stack([vectors[one] for one in places])  # (2, rows, width)
    layers = len(stacks[0].layers) if depth is None else depth
    outputs, ends = climb(tokens, lambda values: values, read, layers, skip=stacks[0].skip)
    ahead, behind = (
        StackOutput(tuple(one[n] for one in outputs), tuple(one[n] for one in ends)) for n in (0, 1)
    )
    return ahead, behind


def _scan(
    pair: Sequence[LSTMLayer], inputs: Tensor, start: Sequence[LSTMState], sizes: list[int]
) -> tuple[Tensor, Tensor]:
    """The outputs and the cells of both directions, (2, rows, …)."""
    layer, kind = pair[0], inputs.dtype
    recurrent = _stacked([one.recurrent_weight for one in pair], kind)
    projection = None
    if layer.projection_weight is not None:
        projection = _stacked([cast("Tensor", one.projection_weight) for one in pair], kind)
    order = _by_step(sizes, inputs.device)
    gates = torch.cat(
        [
            torch.addmm(shifted(one.bias).to(kind), words, one.input_weight.to(kind))
            for one, words in zip(pair, inputs, strict=True)
        ]
    )[order]
    output = _stacked([one.output for one in start], kind)
    cell = torch.stack([one.cell for one in start])
    outputs = inputs.new_empty(len(order), layer.width)
    cells = cell.new_empty(len(order), layer.hidden)
    squashed = inputs.new_empty(len(order), layer.hidden)
    doubled = [2 * size for size in sizes]
    for *step, some in zip(
        torch.split(gates, doubled),
        torch.split(squashed, doubled),
        torch.split(cells, doubled),
        torch.split(outputs, doubled),
        sizes,
        strict=True,
    ):
        gate, squash, new_cell, new_output = (one.view(2, some, -1) for one in step)
        gate.baddbmm_(output[:, :some], recurrent)
        o = turn(gate, cell[:, :some], layer.cell_clip, new_cell, squash)
        if projection is None:
            torch.mul(o, squash, out=new_output)
        else:
            torch.bmm(o * squash, projection, out=new_output)
            if layer.projection_clip is not None:
                new_output.clamp_(-layer.projection_clip, layer.projection_clip)
        output, cell = new_output, new_cell
    back = order.argsort()
    return outputs[back].view(2, -1, layer.width), cells[back].view(2, -1, layer.hidden)


def _by_step(sizes: list[int], device: torch.device) -> Tensor:
    """Rows of both directions, one behind the other, as steps need them: a step's lie together."""
    steps = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)
    return torch.cat([steps, steps]).argsort(stable=True)


def _stacked(tensors: Sequence[Tensor], kind: torch.dtype) -> Tensor:
    return torch.stack([one.to(kind) for one in tensors])

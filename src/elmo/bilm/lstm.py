"""One LSTM layer with optional projection and clipping: the one definition of its semantics.

    i, f, o = sigmoid(x W + h R + b),  with 1 added to f's argument     j = tanh(…)
    c = clip(f c + i j)
    h = clip((o tanh c) P)             or o tanh c, without projection

Written out rather than `nn.LSTM`, which knows no clipping and is no faster: the product of the
inputs is taken for all steps at once, and the gradient is formed by hand, one product a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

FORGET_OFFSET = 1.0


@dataclass(frozen=True)
class LSTMState:
    """Where a direction stands after reading: of each text, the last output and cells."""

    output: Tensor  # (batch, width)
    cell: Tensor  # (batch, hidden)

    def detach(self) -> LSTMState:
        """The same state, with no memory of how it came about."""
        return LSTMState(self.output.detach(), self.cell.detach())


class LSTMLayer(nn.Module):
    """Reads a padded batch, (time, batch, inputs), in one direction."""

    def __init__(
        self,
        inputs: int,
        hidden: int,
        projection: int | None = None,
        cell_clip: float | None = None,
        projection_clip: float | None = None,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.width = hidden if projection is None else projection
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        # Gates in the order input, forget, output, candidate.
        self.input_weight = nn.Parameter(torch.empty(inputs, 4 * hidden))
        self.recurrent_weight = nn.Parameter(torch.empty(self.width, 4 * hidden))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        self.projection_weight = (
            None if projection is None else nn.Parameter(torch.empty(hidden, projection))
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw fresh weights."""
        nn.init.xavier_uniform_(self.input_weight)
        for gate in self.recurrent_weight.data.chunk(4, dim=1):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            nn.init.xavier_uniform_(self.projection_weight)

    def start(self, batch: int, like: Tensor) -> LSTMState:
        """The state before the first word: zeros."""
        return LSTMState(like.new_zeros(batch, self.width), _zeros32(batch, self.hidden, like))

    def forward(
        self, inputs: Tensor, state: LSTMState | None, lengths: Tensor
    ) -> tuple[Tensor, LSTMState]:
        """Return the outputs of all steps, and the state of each text after its own last one."""
        state = state or self.start(inputs.shape[1], inputs)
        kind = inputs.dtype
        projection = self.projection_weight
        outputs, cells = _scan(
            inputs,
            state.output.to(kind),
            state.cell,
            self.input_weight.to(kind),
            self.recurrent_weight.to(kind),
            self.bias.to(kind),
            None if projection is None else projection.to(kind),
            self.cell_clip,
            self.projection_clip,
        )
        return outputs, LSTMState(
            _at_end(outputs, state.output, lengths), _at_end(cells, state.cell, lengths)
        )


def _scan(*arguments: Tensor | float | None) -> tuple[Tensor, Tensor]:
    return cast("tuple[Tensor, Tensor]", _Scan.apply(*arguments))


class _Scan(torch.autograd.Function):
    """All steps of a layer, and their gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,  # (time, batch, inputs)
        start_output: Tensor,
        start_cell: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        cell_clip: float | None,
        projection_clip: float | None,
    ) -> tuple[Tensor, Tensor]:
        steps, batch, _ = inputs.shape
        width, gates_size = recurrent_weight.shape
        hidden = gates_size // 4
        gates = torch.addmm(_shifted(bias), inputs.flatten(0, 1), input_weight)
        gates = gates.view(steps, batch, gates_size)
        outputs = inputs.new_empty(steps, batch, width)
        cells = start_cell.new_empty(steps, batch, hidden)
        squashed = inputs.new_empty(steps, batch, hidden)
        output, cell = start_output, start_cell
        for t in range(steps):
            gate = gates[t].addmm_(output, recurrent_weight)
            gate[:, : 3 * hidden].sigmoid_()
            gate[:, 3 * hidden :].tanh_()
            i, f, o, j = gate.chunk(4, dim=1)
            cell = torch.mul(f, cell, out=cells[t]).add_(i * j)
            if cell_clip is not None:
                cell.clamp_(-cell_clip, cell_clip)
            squashed[t] = cell.tanh()
            if projection is None:
                output = torch.mul(o, squashed[t], out=outputs[t])
            else:
                output = torch.mm(o * squashed[t], projection, out=outputs[t])
                if projection_clip is not None:
                    output.clamp_(-projection_clip, projection_clip)
        ctx.save_for_backward(
            inputs, start_output, start_cell, input_weight, recurrent_weight, projection,
            gates, outputs, cells, squashed,
        )  # fmt: skip
        ctx.clips = (cell_clip, projection_clip)
        ctx.mark_non_differentiable(cells)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (
            inputs, start_output, start_cell, input_weight, recurrent_weight, projection,
            gates, outputs, cells, squashed,
        ) = ctx.saved_tensors  # fmt: skip
        cell_clip, projection_clip = ctx.clips
        steps, _, hidden = cells.shape
        d_outputs = gradients[0]
        d_gates = torch.empty_like(gates)
        d_projected = None if projection is None else torch.empty_like(outputs)
        d_output = torch.zeros_like(start_output)
        d_cell = torch.zeros_like(start_cell)
        back = recurrent_weight.t()
        for t in reversed(range(steps)):
            i, f, o, j = gates[t].chunk(4, dim=1)
            d_i, d_f, d_o, d_j = d_gates[t].chunk(4, dim=1)
            d_output = d_output + d_outputs[t]
            if projection is not None and d_projected is not None:
                if projection_clip is not None:
                    d_output = d_output * (outputs[t].abs() < projection_clip)
                d_projected[t] = d_output
                d_output = d_output @ projection.t()
            torch.mul(d_output, squashed[t], out=d_o)
            d_cell = d_cell + d_output * o * (1 - squashed[t] * squashed[t])
            if cell_clip is not None:
                d_cell = d_cell * (cells[t].abs() < cell_clip)
            before = cells[t - 1] if t else start_cell
            d_i.copy_(d_cell * j)
            d_f.copy_(d_cell * before)
            d_j.copy_(d_cell * i * (1 - j * j))
            sigmoids = gates[t][:, : 3 * hidden]
            d_gates[t][:, : 3 * hidden].mul_(torch.addcmul(sigmoids, sigmoids, sigmoids, value=-1))
            d_cell = d_cell * f
            d_output = d_gates[t] @ back
        flat = d_gates.flatten(0, 1)
        earlier = torch.cat([start_output[None], outputs[:-1]]).flatten(0, 1)
        return (
            (flat @ input_weight.t()).view_as(inputs),
            d_output,
            d_cell,
            inputs.flatten(0, 1).t() @ flat,
            earlier.t() @ flat,
            flat.sum(0),
            _projection_gradient(gates, squashed, d_projected),
            None,
            None,
        )


def _projection_gradient(
    gates: Tensor, squashed: Tensor, d_projected: Tensor | None
) -> Tensor | None:
    if d_projected is None:
        return None
    unprojected = gates.chunk(4, dim=2)[2] * squashed
    return unprojected.flatten(0, 1).t() @ d_projected.flatten(0, 1)


def _shifted(bias: Tensor) -> Tensor:
    """The bias with the constant that keeps a new model from forgetting."""
    hidden = len(bias) // 4
    shifted = bias.clone()
    shifted[hidden : 2 * hidden] += FORGET_OFFSET
    return shifted


def _at_end(steps: Tensor, start: Tensor, lengths: Tensor) -> Tensor:
    """Of each text, the value at its last step; the start value if it has none."""
    last = steps[(lengths - 1).clamp(min=0), torch.arange(steps.shape[1], device=steps.device)]
    return torch.where((lengths > 0)[:, None], last, start.to(last.dtype))


def _zeros32(batch: int, hidden: int, like: Tensor) -> Tensor:
    """Cells are kept in single precision (or better) whatever the outputs are computed in."""
    kind = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros(batch, hidden, dtype=kind, device=like.device)

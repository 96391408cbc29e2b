"""All steps of an LSTM layer, and their gradient, formed by hand, one product a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from elmo.bilm.input_products import InputProducts, product_gradients
from elmo.bilm.ragged import Way

FORGET_OFFSET = 1.0
ROWS_AT_ONCE = 2048
"""Where no gradient is wanted, the gates of so many words are held, not those of a whole batch."""
MANY_NUMBERS = 8192
"""From so many on, a tanh takes less time as a sigmoid."""


@dataclass(frozen=True)
class ScanSettings:
    """What a layer is told besides the numbers that can have a gradient."""

    way: Way
    places: Tensor | None
    cell_clip: float | None
    projection_clip: float | None
    keeps_gates: bool
    """A gradient may be wanted, for which the gates of all steps are needed."""


def scan(*arguments: Tensor | ScanSettings | None) -> tuple[Tensor, Tensor]:
    """The outputs and the cells, a row each, given the arguments of `_Scan.forward`."""
    return cast("tuple[Tensor, Tensor]", _Scan.apply(*arguments))


class _Scan(torch.autograd.Function):
    """All steps of a layer, and their gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,  # (rows, inputs), or (words, inputs)
        start_output: Tensor,
        start_cell: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        settings: ScanSettings,
    ) -> tuple[Tensor, Tensor]:
        width, gates_size = recurrent_weight.shape
        hidden = gates_size // 4
        products = InputProducts(inputs, settings.places, input_weight, shifted(bias))
        stretches = list(settings.way.stretches(None if settings.keeps_gates else ROWS_AT_ONCE))
        total, most = sum(settings.way.sizes), max(sum(stretch.sizes) for stretch in stretches)
        outputs = inputs.new_empty(total, width)
        cells = start_cell.new_empty(total, hidden)
        gates = inputs.new_empty(most, gates_size)
        squashed = inputs.new_empty(most, hidden)
        output, cell = start_output, start_cell
        for stretch in stretches:
            here = gates[: sum(stretch.sizes)]
            products.write(stretch.rows, here)
            for gate, squash, new_cell, new_output in zip(
                torch.split(here, stretch.sizes),
                torch.split(squashed[: len(here)], stretch.sizes),
                torch.split(cells[stretch.rows], stretch.sizes),
                torch.split(outputs[stretch.rows], stretch.sizes),
                strict=True,
            ):
                gate.addmm_(output[: len(gate)], recurrent_weight)
                o = turn(gate, cell[: len(gate)], settings.cell_clip, new_cell, squash)
                cell = new_cell
                if projection is None:
                    output = torch.mul(o, squash, out=new_output)
                else:
                    output = torch.mm(o * squash, projection, out=new_output)
                    if settings.projection_clip is not None:
                        output.clamp_(-settings.projection_clip, settings.projection_clip)
        if settings.keeps_gates:
            ctx.save_for_backward(
                inputs, start_output, start_cell, input_weight, recurrent_weight, projection,
                gates, outputs, cells, squashed,
            )  # fmt: skip
            ctx.settings = settings
        ctx.mark_non_differentiable(cells)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (
            inputs, start_output, start_cell, input_weight, recurrent_weight, projection,
            gates, outputs, cells, squashed,
        ) = ctx.saved_tensors  # fmt: skip
        settings: ScanSettings = ctx.settings
        sizes = settings.way.sizes
        hidden = cells.shape[1]
        d_gates = torch.empty_like(gates)
        d_projected = torch.empty_like(outputs)
        d_output = torch.zeros_like(start_output)
        d_cell = torch.zeros_like(start_cell)
        back = recurrent_weight.t()
        earlier_cells = (start_cell, *torch.split(cells, sizes)[:-1])
        steps = zip(
            torch.split(gates, sizes),
            torch.split(d_gates, sizes),
            torch.split(outputs, sizes),
            torch.split(gradients[0], sizes),
            torch.split(d_projected, sizes),
            torch.split(cells, sizes),
            earlier_cells,
            torch.split(squashed, sizes),
            strict=True,
        )
        for gate, d_gate, output, d_here, d_unclipped, cell, earlier, squash in reversed([*steps]):
            some = len(gate)
            i, f, o, j = gate.chunk(4, dim=1)
            d_i, d_f, d_o, d_j = d_gate.chunk(4, dim=1)
            d_h = d_output[:some] + d_here
            if projection is not None:
                if settings.projection_clip is not None:
                    d_h = d_h * (output.abs() < settings.projection_clip)
                d_unclipped.copy_(d_h)
                d_h = d_h @ projection.t()
            torch.mul(d_h, squash, out=d_o)
            d_c = d_cell[:some] + d_h * o * (1 - squash * squash)
            if settings.cell_clip is not None:
                d_c = d_c * (cell.abs() < settings.cell_clip)
            d_i.copy_(d_c * j)
            d_f.copy_(d_c * earlier[:some])
            d_j.copy_(d_c * i * (1 - j * j))
            sigmoids = gate[:, : 3 * hidden]
            d_gate[:, : 3 * hidden].mul_(torch.addcmul(sigmoids, sigmoids, sigmoids, value=-1))
            torch.mul(d_c, f, out=d_cell[:some])
            torch.mm(d_gate, back, out=d_output[:some])
        below = product_gradients(inputs, settings.places, input_weight, d_gates)
        before = (start_output, *torch.split(outputs, sizes)[:-1])
        heard = torch.cat([one[:some] for one, some in zip(before, sizes, strict=True)])
        return (
            below.inputs,
            d_output,
            d_cell,
            below.weight,
            heard.t() @ d_gates,
            d_gates.sum(0),
            None if projection is None else _projection_gradient(gates, squashed, d_projected),
            None,
        )


def _projection_gradient(gates: Tensor, squashed: Tensor, d_projected: Tensor) -> Tensor:
    unprojected = gates.chunk(4, dim=1)[2] * squashed
    return unprojected.t() @ d_projected


def turn(
    gate: Tensor, earlier: Tensor, cell_clip: float | None, cell: Tensor, squashed: Tensor
) -> Tensor:
    """One step from the gates' arguments, (…, 4 * hidden), and the earlier cells to new ones.

    Writes the cells and their tanh, turns the arguments into gates, and gives the output gate.
    """
    hidden = cell.shape[-1]
    i, f, o, j = gate.chunk(4, dim=-1)
    gate[..., : 3 * hidden].sigmoid_()
    tanh(j, out=j)
    torch.mul(f, earlier, out=cell).add_(i * j)
    if cell_clip is not None:
        cell.clamp_(-cell_clip, cell_clip)
    tanh(cell, out=squashed)
    return o


def tanh(values: Tensor, out: Tensor) -> Tensor:
    """Write the tanh of values into `out`, which may be the values themselves.

    On a processor torch's tanh takes three times as long as its sigmoid, and 2 sigmoid(2x) - 1 is
    within 2e-7 of it: as good as exact in single precision, too coarse in any other. A few numbers
    are not worth the four calls.
    """
    if out.device.type != "cpu" or out.dtype != torch.float32 or out.numel() < MANY_NUMBERS:
        return torch.tanh(values, out=out)
    return torch.mul(values, 2, out=out).sigmoid_().mul_(2).sub_(1)


def shifted(bias: Tensor) -> Tensor:
    """The bias with the constant that keeps a new model from forgetting."""
    hidden = len(bias) // 4
    shifted = bias.clone()
    shifted[hidden : 2 * hidden] += FORGET_OFFSET
    return shifted

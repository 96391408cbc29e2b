"""All steps of an LSTM layer, and their gradient, formed by hand, one product a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from elmo.bilm.tokens import WeightsSeen

# Texts of different lengths side by side without padding: in rows, a step below the other.


@dataclass(frozen=True)
class Stretch:
    """Some steps in a row."""

    rows: slice
    sizes: list[int]


@dataclass(frozen=True)
class Way:
    """Which row is which step of which text: each step reads the first so many texts."""

    sizes: list[int]
    """How many texts each step reads, never more than the step before."""
    last: Tensor  # (batch,), the row of each text's last step; negative if it has none

    @property
    def is_filled(self) -> bool:
        """Whether the last step of all is that of the last text: no padding follows."""
        return int(self.last[-1]) == sum(self.sizes) - 1

    def stretches(self, rows: int | None) -> Iterator[Stretch]:
        """Cut the way where so many rows would be exceeded; none: not at all."""
        first, end = 0, 0
        sizes: list[int] = []
        for size in self.sizes:
            if sizes and rows is not None and end + size - first > rows:
                yield Stretch(slice(first, end), sizes)
                first, sizes = end, []
            end += size
            sizes.append(size)
        yield Stretch(slice(first, end), sizes)


def padded_way(steps: int, lengths: Tensor) -> Way:
    """The way through texts that are padded to so many steps."""
    batch = len(lengths)
    texts = torch.arange(batch, device=lengths.device)
    return Way([batch] * steps, (lengths - 1) * batch + texts)


@dataclass(frozen=True)
class Ragged:
    """Texts without padding: a step reads only those that are not at their end, longest first."""

    way: Way
    order: Tensor  # (batch,), the texts, longest first
    step: Tensor  # (rows,), which step each row is …
    text: Tensor  # (rows,), … of which text

    @classmethod
    def of(cls, lengths: Tensor) -> Ragged:
        """Of texts of so many steps, one of which at least has a step."""
        longest, order = lengths.sort(descending=True, stable=True)
        reads = torch.arange(int(longest[0]), device=lengths.device)[:, None] < longest
        step, place = reads.nonzero(as_tuple=True)
        rows = reads.flatten().cumsum(0).view_as(reads) - 1
        texts = torch.arange(len(lengths), device=lengths.device)
        last = torch.where(longest > 0, rows[(longest - 1).clamp(min=0), texts], -1)
        sizes: list[int] = reads.sum(1).cpu().numpy().tolist()
        return cls(Way(sizes, last), order, step, order[place])


# What inputs add to the gates of an LSTM layer: some rows at a time, each distinct word once.


class InputProducts:
    """Input times weight plus bias, written where the gates are to be.

    Inputs have a vector a row or, with places, (rows,), a vector a distinct word.
    """

    def __init__(self, inputs: Tensor, places: Tensor | None, weight: Tensor, bias: Tensor) -> None:
        self._inputs = inputs
        self._places = places
        self._weight = weight
        self._bias = bias
        self._words = None if places is None else torch.addmm(bias, inputs, weight)

    def write(self, rows: slice, gates: Tensor) -> None:
        """Fill (rows, gates)."""
        if self._places is None or self._words is None:
            torch.addmm(self._bias, self._inputs[rows], self._weight, out=gates)
        else:
            torch.index_select(self._words, 0, self._places[rows], out=gates)


@dataclass(frozen=True)
class ProductGradients:
    """The gradients of what was multiplied."""

    inputs: Tensor
    weight: Tensor


def product_gradients(
    inputs: Tensor, places: Tensor | None, weight: Tensor, d_gates: Tensor
) -> ProductGradients:
    """What inputs and weight are told by the gradient of the gates, (rows, gates)."""
    if places is not None:
        # A word that is read several times gathers what it is told each time.
        room = d_gates.new_zeros(len(inputs), d_gates.shape[1])
        d_gates = room.index_add_(0, places, d_gates)
    return ProductGradients(d_gates @ weight.t(), inputs.t() @ d_gates)


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


# A text alone read by torch's own LSTM, in one call instead of a loop over its steps.
#
# It knows no projection and no clipping, and of the cells it gives only the last. Its weights are
# the transposed of ours, with the gates in the order input, forget, candidate, output.


class FusedWeights:
    """The weights of a layer in torch's order, kept until they change."""

    def __init__(self) -> None:
        self._kept: tuple[WeightsSeen, list[Tensor]] | None = None

    def __reduce__(self) -> tuple[type[FusedWeights], tuple[()]]:
        """A copy of a layer keeps nothing yet."""
        return FusedWeights, ()

    def of(self, input_weight: Tensor, recurrent_weight: Tensor, bias: Tensor) -> list[Tensor]:
        """As `torch.lstm` wants them."""
        seen, kept = WeightsSeen.of([input_weight, recurrent_weight, bias]), self._kept
        if kept is None or not kept[0].are_still(seen):
            with torch.inference_mode(False):
                kept = seen, _in_torchs_order(input_weight, recurrent_weight, bias)
            self._kept = kept
        return kept[1]


def read_in_one_call(
    inputs: Tensor, output: Tensor, cell: Tensor, weights: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs of all steps, (steps, width), then output and cell, (1, …), after the last."""
    outputs, last_output, last_cell = torch.lstm(
        input=inputs[:, None],
        hx=(output[None], cell[None]),
        params=weights,
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=False,
        bidirectional=False,
        batch_first=False,
    )
    return outputs[:, 0], last_output[0], last_cell[0]


def _in_torchs_order(input_weight: Tensor, recurrent_weight: Tensor, bias: Tensor) -> list[Tensor]:
    def ordered(gates: Tensor) -> Tensor:
        i, f, o, j = gates.detach().chunk(4, dim=-1)
        return torch.cat([i, f, j, o], dim=-1)

    weights = [ordered(one).t().contiguous() for one in (input_weight, recurrent_weight)]
    return [*weights, ordered(shifted(bias)), torch.zeros_like(bias)]


# One LSTM layer with optional projection and clipping: the one definition of its semantics.
#
#     i, f, o = sigmoid(x W + h R + b),  with 1 added to f's argument     j = tanh(…)
#     c = clip(f c + i j)
#     h = clip((o tanh c) P)             or o tanh c, without projection
#
# Written out rather than `nn.LSTM`, which knows no clipping and is no faster: the product of the
# inputs is taken for many steps at once, and the gradient is formed by hand, one product a step.


@dataclass(frozen=True)
class LSTMState:
    """Where a direction stands after reading: of each text, the last output and cells."""

    output: Tensor  # (batch, width)
    cell: Tensor  # (batch, hidden)

    def detach(self) -> LSTMState:
        """The same state, with no memory of how it came about."""
        return LSTMState(self.output.detach(), self.cell.detach())

    def of_texts(self, texts: Tensor) -> LSTMState:
        """The state of these texts, in this order."""
        return LSTMState(self.output[texts], self.cell[texts])


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
        self.fused = FusedWeights()
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
        way = padded_way(len(inputs), lengths)
        outputs, end = self.read(inputs.flatten(0, 1), state, way)
        return outputs.view(*inputs.shape[:2], self.width), end

    def read(
        self, inputs: Tensor, state: LSTMState | None, way: Way, places: Tensor | None = None
    ) -> tuple[Tensor, LSTMState]:
        """The same for texts in rows: (rows, inputs) or, with places in them, (words, inputs)."""
        state = state or self.start(len(way.last), inputs)
        kind = inputs.dtype
        projection = self.projection_weight
        if self.reads_in_one_call(inputs, len(way.last)) and way.is_filled:
            return self._read_in_one_call(inputs, state, places)
        outputs, cells = scan(
            inputs,
            state.output.to(kind),
            state.cell,
            self.input_weight.to(kind),
            self.recurrent_weight.to(kind),
            self.bias.to(kind),
            None if projection is None else projection.to(kind),
            ScanSettings(
                way, places, self.cell_clip, self.projection_clip, torch.is_grad_enabled()
            ),
        )
        return outputs, at_end(outputs, cells, state, way)

    def reads_in_one_call(self, inputs: Tensor, texts: int) -> bool:
        """Whether torch's own LSTM can read so many texts: one that nothing is learned from."""
        weight = self.input_weight
        return (
            texts == 1
            and self.projection_weight is None
            and self.cell_clip is None
            and inputs.dtype == weight.dtype
            and not torch.is_grad_enabled()
            and not weight.is_inference()
            and not torch.is_autocast_enabled(inputs.device.type)
        )

    def _read_in_one_call(
        self, inputs: Tensor, state: LSTMState, places: Tensor | None
    ) -> tuple[Tensor, LSTMState]:
        weights = self.fused.of(self.input_weight, self.recurrent_weight, self.bias)
        words = inputs if places is None else inputs[places]
        outputs, output, cell = read_in_one_call(words, state.output, state.cell, weights)
        return outputs, LSTMState(output, cell)


def at_end(outputs: Tensor, cells: Tensor, start: LSTMState, way: Way) -> LSTMState:
    """Of each text, where its last step left it; where it started if it has none."""
    return LSTMState(_last(outputs, start.output, way), _last(cells, start.cell, way))


def _last(rows: Tensor, start: Tensor, way: Way) -> Tensor:
    last = rows[way.last.clamp(min=0)]
    return torch.where((way.last >= 0)[:, None], last, start.to(last.dtype))


def _zeros32(batch: int, hidden: int, like: Tensor) -> Tensor:
    """Cells are kept in single precision (or better) whatever the outputs are computed in."""
    kind = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros(batch, hidden, dtype=kind, device=like.device)

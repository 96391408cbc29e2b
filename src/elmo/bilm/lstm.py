"""One LSTM layer with optional projection and clipping: the one definition of its semantics.

    i, f, o = sigmoid(x W + h R + b),  with 1 added to f's argument     j = tanh(…)
    c = clip(f c + i j)
    h = clip((o tanh c) P)             or o tanh c, without projection

Written out rather than `nn.LSTM`, which knows no clipping and is no faster: the product of the
inputs is taken for many steps at once, and the gradient is formed by hand, one product a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from elmo.bilm.fused import FusedWeights, read_in_one_call
from elmo.bilm.ragged import Way, padded_way
from elmo.bilm.scan import ScanSettings, scan


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

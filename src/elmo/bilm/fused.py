"""A text alone read by torch's own LSTM, in one call instead of a loop over its steps.

It knows no projection and no clipping, and of the cells it gives only the last. Its weights are the
transposed of ours, with the gates in the order input, forget, candidate, output.
"""

from __future__ import annotations

import torch
from torch import Tensor

from elmo.bilm.scan import shifted
from elmo.bilm.weights_seen import WeightsSeen


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

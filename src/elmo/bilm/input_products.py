"""What inputs add to the gates of an LSTM layer: some rows at a time, each distinct word once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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

"""An optimizer that torch does not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer

EPSILON = 1e-8


class RowAdam(Optimizer):
    """Adam without momentum that touches only the rows named by a sparse gradient.

    Momentum would move a word after its batch, which a row that is not touched cannot be; without
    it a rare word moves as far at once as momentum would take it. torch's SparseAdam has momentum.
    """

    def __init__(self, params: Iterable[dict[str, Any]], lr: float, decay: float) -> None:
        super().__init__(params, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                decay, gradient, state = group["decay"], table.grad.coalesce(), self.state[table]
                if not state:
                    state.update(steps=torch.tensor(0), squares=torch.zeros_like(table))
                state["steps"] += 1
                rows, slopes = gradient.indices()[0], gradient.values()
                squares = state["squares"].index_select(0, rows)
                squares.mul_(decay).addcmul_(slopes, slopes, value=1 - decay)
                state["squares"].index_copy_(0, rows, squares)
                # Adam's bias correction: the mean of squares starts at zero.
                size = group["lr"] * math.sqrt(1 - decay ** int(state["steps"]))
                updated = table.index_select(0, rows)
                updated.addcdiv_(slopes, squares.sqrt_().add_(EPSILON), value=-size)
                table.index_copy_(0, rows, updated)

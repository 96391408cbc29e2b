"""An optimizer for tables of which a step touches a few rows: Adam without momentum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

TINY = 1e-8


class RowAdam(Optimizer):
    """Steps as long as those of Adam, of the rows alone that a sparse gradient names.

    Momentum would go on with a word after its batch, which a row that is not touched cannot:
    without it a rare word goes as far at once as momentum would take it.
    """

    def __init__(self, params: Iterable[dict[str, Any]], lr: float, decay: float) -> None:
        super().__init__(params, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Go one step; rows without a gradient stay as they are."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._go(table, table.grad.coalesce(), group["lr"], group["decay"])

    def _go(self, table: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        state = self.state[table]
        if not state:
            state.update(steps=torch.tensor(0), squares=torch.zeros_like(table))
        state["steps"] += 1
        rows, slopes = gradient.indices()[0], gradient.values()
        squares = state["squares"].index_select(0, rows)
        squares.mul_(decay).addcmul_(slopes, slopes, value=1 - decay)
        state["squares"].index_copy_(0, rows, squares)
        # As if the mean of the squares had begun with what it has seen, not with zero.
        length = rate * math.sqrt(1 - decay ** int(state["steps"]))
        gone = table.index_select(0, rows)
        gone.addcdiv_(slopes, squares.sqrt_().add_(TINY), value=-length)
        table.index_copy_(0, rows, gone)

"""Rows that a gradient names move as with torch's own optimizer for them; all others stay."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SparseAdam

from elmo.training.optim import RowAdam

ROWS = st.lists(st.integers(0, 5), min_size=1, max_size=8)


def gradient(rows: list[int], seed: int) -> Tensor:
    return sparse(rows, torch.randn(len(rows), 3, generator=torch.Generator().manual_seed(seed)), 6)


def sparse(rows: list[int], values: Tensor, count: int) -> Tensor:
    shape = (count, values.shape[1])
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape, check_invariants=True)


@given(steps=st.lists(ROWS, min_size=1, max_size=5), rate=st.floats(1e-4, 0.1))
def test_it_steps_like_torch_without_momentum(steps: list[list[int]], rate: float) -> None:
    first = torch.randn(6, 3, generator=torch.Generator().manual_seed(9))
    ours, theirs = nn.Parameter(first.clone()), nn.Parameter(first.clone())
    optimizers = (
        RowAdam([{"params": [ours]}], lr=rate, decay=0.99),
        SparseAdam([theirs], lr=rate, betas=(0.0, 0.99)),
    )
    for number, rows in enumerate(steps):
        for table, optimizer in zip((ours, theirs), optimizers, strict=True):
            table.grad = gradient(rows, number)
            optimizer.step()
    torch.testing.assert_close(ours, theirs)
    touched = {row for rows in steps for row in rows}
    for row in range(6):
        assert torch.equal(ours[row], first[row]) is (row not in touched)


def test_a_table_without_a_gradient_stays() -> None:
    table = nn.Parameter(torch.ones(2, 2))
    RowAdam([{"params": [table]}], lr=0.1, decay=0.9).step()
    assert torch.equal(table, torch.ones(2, 2))


def test_the_rate_can_change_from_step_to_step() -> None:
    table = nn.Parameter(torch.zeros(1, 1))
    optimizer = RowAdam([{"params": [table]}], lr=1.0, decay=0.9)
    went: list[float] = []
    for rate in (0.5, 0.25):
        optimizer.param_groups[0]["lr"] = rate
        before = table.item()
        table.grad = sparse([0], torch.ones(1, 1), 1)
        optimizer.step()
        went.append(before - table.item())
    # The same slope twice: steps as long as the rate.
    assert went == pytest.approx([0.5, 0.25], rel=1e-6)

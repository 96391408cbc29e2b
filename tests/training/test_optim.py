"""Optimizers, schedules and number formats."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SparseAdam

from elmo.training.config import TrainingConfig
from elmo.training.optim import (
    RowAdam,
    build_optimizer,
    compute_precision,
    has_bf16_units,
    learning_rate,
)

# Rows that a gradient names go as with torch's own optimizer for them; all others stay.


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


SHARES = st.floats(0, 1)


@given(SHARES, st.sampled_from(["plateau", "one_cycle", "cosine", "constant"]), st.floats(0, 0.9))
def test_the_rate_is_positive_and_never_above_its_peak(done, schedule, warmup):
    config = TrainingConfig(learning_rate=0.5, schedule=schedule, warmup=warmup)
    rate = learning_rate(config, done)
    assert 0 <= rate <= 0.5 * (1 + 1e-12)
    if schedule != "cosine" or done < 1:
        assert rate > 0


def test_the_schedules_at_places_worked_out_by_hand():
    half = {"learning_rate": 1.0, "warmup": 0.2}
    assert learning_rate(TrainingConfig(schedule="constant", **half), 0.1) == pytest.approx(0.5)
    assert learning_rate(TrainingConfig(schedule="constant", **half), 0.7) == 1.0
    # Behind the warm-up, a quarter of a wave is cos(45°).
    cosine = learning_rate(TrainingConfig(schedule="cosine", **half), 0.2 + 0.8 / 4)
    assert cosine == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    one_cycle = TrainingConfig(schedule="one_cycle", **half)
    assert learning_rate(one_cycle, 0.0) == pytest.approx(0.04)
    assert learning_rate(one_cycle, 0.2) == pytest.approx(1.0)
    assert learning_rate(one_cycle, 1.0) == pytest.approx(1e-3)

    plateau = TrainingConfig(schedule="plateau", **half)
    places = {0.0: 0.04, 0.1: 0.52, 0.2: 1.0, 0.6: 1.0, 0.8: 0.5, 0.9: 0.25, 1.0: 1e-3}
    for done, rate in places.items():
        assert learning_rate(plateau, done) == pytest.approx(rate)


def test_the_rate_follows_from_optimizer_and_schedule_where_none_is_given():
    assert TrainingConfig(optimizer="adamw", schedule="plateau").peak_rate == 0.008
    assert TrainingConfig(optimizer="adamw", schedule="one_cycle").peak_rate == 0.004
    assert TrainingConfig(optimizer="adagrad", schedule="plateau").peak_rate == 0.2
    assert TrainingConfig(learning_rate=0.5, schedule="plateau").peak_rate == 0.5


@given(SHARES, SHARES)
def test_after_the_warm_up_the_rate_only_falls(first, second):
    early, late = sorted((0.1 + 0.9 * first, 0.1 + 0.9 * second))
    for schedule in ("plateau", "one_cycle", "cosine"):
        config = TrainingConfig(schedule=schedule, warmup=0.1)
        assert learning_rate(config, early) >= learning_rate(config, late)


@pytest.mark.parametrize("name", ["adamw", "adagrad", "sgd"])
def test_each_optimizer_lowers_a_simple_loss(name):
    model = nn.Linear(3, 1)
    optimizer = build_optimizer(model, TrainingConfig(optimizer=name, learning_rate=0.05))
    inputs = torch.eye(3)
    losses: list[float] = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(inputs) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_only_matrices_between_layers_decay_and_frozen_ones_are_left_out():
    model = nn.ModuleDict({"stack": nn.Linear(2, 2), "output": nn.Linear(2, 2)})
    model["stack"].bias.requires_grad_(False)
    decayed, kept = build_optimizer(model, TrainingConfig(weight_decay=0.1)).param_groups
    assert decayed["weight_decay"] == 0.1
    assert [one is model["stack"].weight for one in decayed["params"]] == [True]
    assert kept["weight_decay"] == 0
    assert len(kept["params"]) == 2


def test_bf16_is_used_where_it_is_asked_for_or_the_processor_has_it(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    assert not has_bf16_units(cpu)
    assert compute_precision("auto", cpu) == torch.float32
    assert compute_precision("bf16", cpu) == torch.bfloat16
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    assert compute_precision("auto", cpu) == torch.bfloat16
    assert compute_precision("fp32", cpu) == torch.float32

"""Losses and speed between reports."""

from __future__ import annotations

import pytest
import torch

from elmo.bilm.model import BatchLoss, BiLMState
from elmo.errors import UserError
from elmo.pretrain import meter as module
from elmo.pretrain.meter import Meter
from elmo.pretrain.position import Position


def batch_loss(forward: float, backward: float, targets: int) -> BatchLoss:
    state = BiLMState((), ())
    return BatchLoss(torch.tensor(forward), torch.tensor(backward), targets, targets, state)


def test_a_report_averages_over_words_not_over_batches(monkeypatch):
    clock = iter([0.0, 2.0, 2.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    meter = Meter(total_targets=400)
    meter.add(batch_loss(30.0, 60.0, 10))
    meter.add(batch_loss(90.0, 90.0, 90))
    report = meter.take(Position(step=2, targets=100), rate=0.5)
    assert report.loss_forward == pytest.approx(1.2)
    assert report.loss_backward == pytest.approx(1.5)
    assert report.tokens_per_second == pytest.approx(50)
    assert report.done == 0.25
    assert report.seconds_left == pytest.approx(6)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_an_error_that_says_where(loss):
    meter = Meter(10)
    meter.add(batch_loss(1.0, loss, 1))
    with pytest.raises(UserError, match="step 3 "):
        meter.check(Position(step=3))

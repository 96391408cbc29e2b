"""What a person sees of a training run."""

from __future__ import annotations

import pytest
import torch

from elmo.cli.training import TrainingDisplay, set_device
from elmo.errors import UserError
from elmo.pretrain.reports import StepReport


def report(done: float) -> StepReport:
    return StepReport(
        step=1234, epoch=1, done=done, targets=10, loss_forward=2.0, loss_backward=4.0,
        learning_rate=0.1, tokens_per_second=5432.1, seconds_left=3723.0,
    )  # fmt: skip


def test_a_line_says_how_far_how_good_how_fast_and_how_long(capsys):
    with TrainingDisplay() as display:
        display.report(report(0.25))
    line = capsys.readouterr().err
    for part in ("25.0%", "epoch 2", "step 1,234", "loss 3.000", "perplexity 20", "5,432 tokens/s",
                 "1:02:03 left"):  # fmt: skip
        assert part in line


def test_a_log_file_gets_one_line_in_ten_and_the_last_one(capsys):
    with TrainingDisplay() as display:
        for number in range(25):
            display.report(report(number / 100))
        display.report(report(1.0))
    assert len(capsys.readouterr().err.splitlines()) == 4


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with TrainingDisplay() as display:
        display.documents(1000)
        display.report(report(0.5))
    assert "5,432 tokens/s" in capsys.readouterr().err


def test_threads_are_set_and_devices_checked():
    before = torch.get_num_threads()
    set_device("cpu", 1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    with pytest.raises(UserError, match="cannot be used here"):
        set_device("cuda:77", None)

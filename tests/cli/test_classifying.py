"""What is shown while a classifier learns."""

from __future__ import annotations

import pytest

from elmo.classify.reports import EpochReport
from elmo.cli.classifying import ClassifierDisplay


def test_of_many_epochs_one_in_ten_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    display = ClassifierDisplay()
    for epoch in range(1, 35):
        display.report(
            EpochReport(
                phase="network",
                epoch=epoch,
                train_loss=0.5,
                development_loss=0.25,
                development_accuracy=0.75,
                development_rows=4,
                mix_weights=(0.2, 0.8),
                gamma=1.0,
                seconds=1.0,
            )
        )
    lines = capsys.readouterr().err.splitlines()
    shown = [int(line.split()[1]) for line in lines]
    assert shown == [*range(1, 11), 20, 30]
    assert lines[0] == (
        "epoch 1 (network): loss 0.5000, development loss 0.2500, accuracy 0.7500"
        "  layers weigh 0.20, 0.80"
    )

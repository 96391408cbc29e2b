"""The best epoch is the most accurate one; of equals that of lower loss, then the first."""

from __future__ import annotations

from elmo.classify.reports import EpochReport, best_epoch


def report(epoch: int, accuracy: float, loss: float) -> EpochReport:
    return EpochReport(
        phase="network", epoch=epoch, train_loss=1.0, development_loss=loss,
        development_accuracy=accuracy, mix_weights=None, gamma=None, seconds=1.0,
    )  # fmt: skip


def test_best() -> None:
    assert best_epoch([]) is None
    history = [report(1, 0.8, 0.5), report(2, 0.9, 0.7), report(3, 0.9, 0.6), report(4, 0.9, 0.6)]
    assert best_epoch(history) is history[2]

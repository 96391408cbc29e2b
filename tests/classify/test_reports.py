"""The best epoch is the most accurate one; kept is the last that rows cannot tell from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elmo.classify.reports import EpochReport, best_epoch, kept_epoch


def report(epoch: int, accuracy: float, loss: float = 1.0, rows: int = 1000) -> EpochReport:
    return EpochReport(
        phase="network", epoch=epoch, train_loss=1.0, development_loss=loss,
        development_accuracy=accuracy, development_rows=rows, mix_weights=None, gamma=None,
        seconds=1.0,
    )  # fmt: skip


def test_best() -> None:
    assert best_epoch([]) is None
    history = [report(1, 0.8, 0.5), report(2, 0.9, 0.7), report(3, 0.9, 0.6), report(4, 0.9, 0.6)]
    assert best_epoch(history) is history[2]


def test_kept_is_the_last_that_is_as_good_as_the_best() -> None:
    assert kept_epoch([]) is None
    history = [report(1, 0.891), report(2, 0.9), report(3, 0.891), report(4, 0.89)]
    assert kept_epoch(history) is history[2]  # one standard error is 0.0095
    sure = [report(one.epoch, one.development_accuracy, rows=100_000) for one in history]
    assert kept_epoch(sure) is sure[1]


def test_of_epochs_without_a_mistake_the_last_is_kept() -> None:
    history = [report(1, 1.0), report(2, 1.0), report(3, 0.999)]
    assert kept_epoch(history) is history[1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(1, 10_000))
def test_what_is_kept_changes_only_to_the_newest(accuracies: list[float], rows: int) -> None:
    """The loop has no other network than the newest to keep."""
    history = [report(number, one, rows=rows) for number, one in enumerate(accuracies)]
    for count in range(1, len(history) + 1):
        before, now = kept_epoch(history[: count - 1]), kept_epoch(history[:count])
        assert now is before or now is history[count - 1]

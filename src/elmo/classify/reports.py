"""What the training of a classifier tells those who watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elmo.classify.intervals import standard_error


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """How far a phase is."""

    phase: str
    done: float
    """Share of the phase that lies behind."""
    loss: float
    texts_per_second: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class EpochReport:
    """What an epoch brought."""

    phase: str
    epoch: int
    """Counted from 1, over all phases."""
    train_loss: float
    development_loss: float
    development_accuracy: float
    development_rows: int
    mix_weights: tuple[float, ...] | None
    """The share of each layer after the epoch; none where layers are not summed."""
    gamma: float | None
    seconds: float

    @property
    def rank(self) -> tuple[float, float]:
        """The better of two epochs has the higher one."""
        return self.development_accuracy, -self.development_loss


Listener = Callable[[StepReport | EpochReport], None]


def best_epoch(history: Sequence[EpochReport]) -> EpochReport | None:
    """The most accurate epoch; of equals that of lower loss, then the first."""
    return max(history, key=lambda report: report.rank, default=None)


def kept_epoch(history: Sequence[EpochReport]) -> EpochReport | None:
    """The epoch whose network is kept: the last that is within a standard error of the best.

    Development rows cannot tell such epochs apart, and the later one has learned at a lower rate.
    """
    best = best_epoch(history)
    if best is None:
        return None
    least = best.development_accuracy - standard_error(
        best.development_accuracy, best.development_rows
    )
    return next(report for report in reversed(history) if report.development_accuracy >= least)

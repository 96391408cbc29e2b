"""What the training of a classifier tells those who watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


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
    """The epoch whose network is kept; of equals the first."""
    return max(history, key=lambda report: report.rank, default=None)

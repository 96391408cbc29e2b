"""Loss and speed between two reports."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from torch import Tensor

from elmo.bilm.model import BatchLoss
from elmo.distributed import World
from elmo.errors import UserError
from elmo.pretrain.position import Position
from elmo.pretrain.reports import StepReport

SECONDS_BETWEEN_REPORTS = 1.0
MEMORY = 0.9
"""Weight of the past in the speed from which the time left is estimated."""


class _Sums(NamedTuple):
    """Losses and words of all processes."""

    forward: float
    backward: float
    forward_targets: float
    backward_targets: float


class Meter:
    """Sums losses on their device; they are looked at only when a report is due."""

    def __init__(self, total_targets: int, world: World | None = None) -> None:
        self._total = total_targets
        self._world = world or World()
        self._speed: float | None = None
        self.restart()

    def restart(self) -> None:
        """Start counting anew, as after a pause."""
        self._forward: Tensor | float = 0.0
        self._backward: Tensor | float = 0.0
        self._forward_targets = 0
        self._backward_targets = 0
        self._since = time.monotonic()

    def add(self, loss: BatchLoss) -> None:
        """Count a step."""
        self._forward = self._forward + loss.forward.detach()
        self._backward = self._backward + loss.backward.detach()
        self._forward_targets += loss.forward_targets
        self._backward_targets += loss.backward_targets

    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return time.monotonic() - self._since >= SECONDS_BETWEEN_REPORTS

    def check(self, position: Position) -> None:
        """Refuse to go on with a loss that is no number: its weights are worth nothing."""
        self._refuse_no_number(self._sums(), position)

    def _sums(self) -> _Sums:
        return _Sums(
            *self._world.sums(
                float(self._forward),
                float(self._backward),
                self._forward_targets,
                self._backward_targets,
            )
        )

    def _refuse_no_number(self, sums: _Sums, position: Position) -> None:
        if not math.isfinite(sums.forward + sums.backward):
            raise UserError(
                f"the loss is no longer a number at step {position.step} (epoch "
                f"{position.epoch + 1}); the last checkpoint is intact. Start anew with a smaller "
                "--learning-rate, or a smaller --clip"
            )

    def take(self, position: Position, rate: float) -> StepReport:
        """Report what was counted, and start anew."""
        sums = self._sums()
        self._refuse_no_number(sums, position)
        elapsed = max(1e-9, time.monotonic() - self._since)
        speed = sums.forward_targets / elapsed
        self._speed = speed if self._speed is None else MEMORY * self._speed + (1 - MEMORY) * speed
        report = StepReport(
            step=position.step,
            epoch=position.epoch,
            done=position.targets / self._total,
            targets=position.targets,
            loss_forward=sums.forward / max(1, sums.forward_targets),
            loss_backward=sums.backward / max(1, sums.backward_targets),
            learning_rate=rate,
            tokens_per_second=speed,
            seconds_left=(self._total - position.targets) / max(1e-9, self._speed),
        )
        self.restart()
        return report

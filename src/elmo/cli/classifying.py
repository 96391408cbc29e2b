"""What a person sees while a classifier learns: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from elmo.classify.reports import EpochReport, StepReport
from elmo.cli.embedding import line
from elmo.cli.live import SECONDS_BETWEEN_LINES, LiveDisplay, clock
from elmo.contextual.progress import Progress

EPOCHS_SHOWN = 10
"""So many at first, then one in so many: few texts are read very often."""


class ClassifierDisplay(LiveDisplay):
    """Shows the reading of the texts, then steps and epochs."""

    def __init__(self) -> None:
        super().__init__("reading")
        self._last = time.monotonic()

    def texts(self, report: Progress) -> None:
        """Show how far the biLM's reading is."""
        self._show(f"layers of the biLM: {line(report)}", report.texts, report.total)

    def report(self, report: StepReport | EpochReport) -> None:
        """Show a step or an epoch."""
        if isinstance(report, StepReport):
            self._show(_step_line(report), report.done, 1.0)
        elif report.epoch <= EPOCHS_SHOWN or report.epoch % EPOCHS_SHOWN == 0:
            self.line(_epoch_line(report))

    def _show(self, text: str, completed: float, total: float | None) -> None:
        self.update(text, completed, total)
        now = time.monotonic()
        if not self.is_terminal and now - self._last >= SECONDS_BETWEEN_LINES:
            self.line(text)
            self._last = now


def _step_line(report: StepReport) -> str:
    return (
        f"{report.phase}: {report.done:6.1%}  loss {report.loss:.3f}  "
        f"{report.texts_per_second:,.0f} texts/s  {clock(report.seconds_left)} left"
    )


def _epoch_line(report: EpochReport) -> str:
    shares = [f"{share:.2f}" for share in report.mix_weights or ()]
    weights = f"  layers weigh {', '.join(shares)}" if shares else ""
    return (
        f"epoch {report.epoch} ({report.phase}): loss {report.train_loss:.4f}, development loss "
        f"{report.development_loss:.4f}, accuracy {report.development_accuracy:.4f}{weights}"
    )

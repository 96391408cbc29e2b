"""What a person sees while texts are embedded: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from elmo.cli.live import SECONDS_BETWEEN_LINES, LiveDisplay, clock
from elmo.contextual.progress import Progress as Report


class EmbeddingDisplay(LiveDisplay):
    """Shows how many texts are done, or how many words if they are embedded for themselves."""

    def __init__(self, what: str = "texts") -> None:
        super().__init__("reading")
        self._what = what
        self._last = time.monotonic()

    def show(self, report: Report) -> None:
        """Show how far the job is."""
        text = line(report, self._what)
        self.update(text, report.texts, report.total)
        now = time.monotonic()
        if not self.is_terminal and now - self._last >= SECONDS_BETWEEN_LINES:
            self.line(text)
            self._last = now


def line(report: Report, what: str = "texts") -> str:
    """A report in one line."""
    of = "" if report.total is None else f" of {report.total:,}"
    left = "" if report.seconds_left is None else f"  {clock(report.seconds_left)} left"
    return f"{report.texts:,}{of} {what}  {report.tokens_per_second:,.0f} words/s{left}"

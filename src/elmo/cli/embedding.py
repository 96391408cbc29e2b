"""What a person sees while texts are embedded: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from elmo.contextual.progress import Progress as Report

SECONDS_BETWEEN_LINES = 10.0


class EmbeddingDisplay:
    """Shows progress on standard error, so that standard output stays a script's."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn())
        self._bar = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("reading", total=None)
        self._last = time.monotonic()

    def __enter__(self) -> EmbeddingDisplay:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, report: Report) -> None:
        """Show how far the job is."""
        text = line(report)
        self._bar.update(self._task, description=text, completed=report.texts, total=report.total)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._last >= SECONDS_BETWEEN_LINES:
            self._console.print(text, highlight=False, soft_wrap=True)
            self._last = now


def line(report: Report) -> str:
    """A report in one line."""
    of = "" if report.total is None else f" of {report.total:,}"
    left = "" if report.seconds_left is None else f"  {_clock(report.seconds_left)} left"
    return f"{report.texts:,}{of} texts  {report.tokens_per_second:,.0f} words/s{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"

"""What a person sees of a training run: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import os
from types import TracebackType

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from elmo.errors import UserError
from elmo.pretrain.reports import EvaluationReport, Report, StepReport

SECONDS_BETWEEN_LINES = 10.0


class TrainingDisplay:
    """Shows reports on standard error, so that standard output stays a script's."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), console=self._console
            )
            self._task = self._bar.add_task("preparing the text", total=None)
        self._reports = 0

    def __enter__(self) -> TrainingDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def documents(self, number: int) -> None:
        """Show how far the preparation is."""
        text = f"preparing the text: {number:,} documents"
        if self._bar is not None:
            self._bar.update(self._task, description=text)
        elif number % 100_000 == 0:
            self._line(text)

    def report(self, report: Report) -> None:
        """Show a step or an evaluation."""
        if isinstance(report, EvaluationReport):
            self._line(_evaluation_line(report))
        else:
            self._step(report)

    def _step(self, report: StepReport) -> None:
        text = _step_line(report)
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=report.done, total=1.0)
            return
        # Reports come about once a second; a log file wants fewer of them.
        if self._reports % int(SECONDS_BETWEEN_LINES) == 0 or report.done >= 1:
            self._line(text)
        self._reports += 1

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


def set_device(device: str, threads: int | None) -> None:
    """Make sure that the device exists, and take as many threads as asked for, or all cores."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {device!r} cannot be used here: {reason}") from None
    if threads is not None and threads < 1:
        raise UserError(f"--threads: must be positive, got {threads}")
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)))


def _step_line(report: StepReport) -> str:
    loss = (report.loss_forward + report.loss_backward) / 2
    return (
        f"{report.done:6.1%}  epoch {report.epoch + 1}  step {report.step:,}  loss {loss:.3f}  "
        f"perplexity {math.exp(min(loss, 50)):,.0f}  {report.tokens_per_second:,.0f} tokens/s  "
        f"{_clock(report.seconds_left)} left"
    )


def _evaluation_line(report: EvaluationReport) -> str:
    one = report.evaluation
    mark = "best so far" if report.is_best else "not better"
    return (
        f"held-out text after step {report.step:,}: perplexity {one.perplexity:.2f} "
        f"(forward {one.forward.perplexity:.2f}, backward {one.backward.perplexity:.2f}), {mark}"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"

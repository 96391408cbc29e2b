"""What a person sees of a training run: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import os

import torch

from elmo.cli.live import SECONDS_BETWEEN_LINES, LiveDisplay, clock
from elmo.distributed import processes_here
from elmo.errors import UserError
from elmo.pretrain.reports import EvaluationReport, Report, StepReport


class TrainingDisplay(LiveDisplay):
    """Shows steps and evaluations."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__("preparing the text", quiet=quiet)
        self._reports = 0

    def documents(self, number: int) -> None:
        """Show how far the preparation is."""
        text = f"preparing the text: {number:,} documents"
        self.update(text)
        if not self.is_terminal and number % 100_000 == 0:
            self.line(text)

    def report(self, report: Report) -> None:
        """Show a step or an evaluation."""
        if isinstance(report, EvaluationReport):
            self.line(_evaluation_line(report))
        else:
            self._step(report)

    def _step(self, report: StepReport) -> None:
        text = _step_line(report)
        self.update(text, completed=report.done, total=1.0)
        # Reports come about once a second; a log file wants fewer of them.
        due = self._reports % int(SECONDS_BETWEEN_LINES) == 0 or report.done >= 1
        if not self.is_terminal and due:
            self.line(text)
        self._reports += 1


def set_device(device: str, threads: int | None) -> None:
    """Make sure that the device exists, and take as many threads as asked for, or all cores.

    Processes that torchrun has started on one machine divide its cores among them.
    """
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {device!r} cannot be used here: {reason}") from None
    if threads is not None and threads < 1:
        raise UserError(f"--threads: must be positive, got {threads}")
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads or max(1, cores // processes_here()))


def _step_line(report: StepReport) -> str:
    loss = (report.loss_forward + report.loss_backward) / 2
    return (
        f"{report.done:6.1%}  epoch {report.epoch + 1}  step {report.step:,}  loss {loss:.3f}  "
        f"perplexity {math.exp(min(loss, 50)):,.0f}  {report.tokens_per_second:,.0f} tokens/s  "
        f"{clock(report.seconds_left)} left"
    )


def _evaluation_line(report: EvaluationReport) -> str:
    one = report.evaluation
    mark = "best so far" if report.is_best else "not better"
    if report.ends_freeze:
        mark += "; the softmax is learned, from here on all of the model is trained"
    return (
        f"held-out text after step {report.step:,}: perplexity {one.perplexity:.2f} "
        f"(forward {one.forward.perplexity:.2f}, backward {one.backward.perplexity:.2f}), {mark}"
    )

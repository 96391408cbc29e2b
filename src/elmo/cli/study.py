"""What a person sees of a study: a live table of its rows, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

from elmo.cli.live import SECONDS_BETWEEN_LINES, Display, clock
from elmo.study.plan import PlannedRow, planned
from elmo.study.progress import StepProgress
from elmo.study.request import StudyRequest

if TYPE_CHECKING:
    from elmo.study.results import StudyResults

ENDED = ("done", "kept", "failed")
ANALYSES = {
    "sweeps": "Sweeps",
    "words": "Ambiguous words",
    "senses": "Senses",
}


class StudyDisplay(Display):
    """Follows the steps of a study."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Live(console=self._console, refresh_per_second=2, transient=True)
        self._live = self._table
        self._titles: dict[str, str] = {}
        self._work: dict[str, float] = {}
        self._steps: dict[str, StepProgress] = {}
        self._started = self._last = time.monotonic()

    def begin(self, request: StudyRequest) -> None:
        """Say what is studied, and take in what is to come."""
        plan: Sequence[PlannedRow] = planned(request)
        self._titles = {row.name: row.title for row in plan} | ANALYSES
        self._work = {row.name: row.work for row in plan}
        parts = request.parts
        what = "texts that elmo generates" if parts.name == "generated" else parts.name
        train, test = len(parts.train.texts), len(parts.test.texts)
        self.line(f"study of {what}: {train:,} rows to train on, {test:,} to test on")

    def show(self, step: StepProgress) -> None:
        """Show how far a step is."""
        before = self._steps.get(step.name)
        self._steps[step.name] = step
        if step.state == "failed":
            self.line(f"{self._title(step.row)}: failed: {step.note}")
        if self.is_terminal:
            self._table.update(self.table())
            return
        ended = step.state == "done" and (before is None or before.state != "done")
        due = time.monotonic() - self._last >= SECONDS_BETWEEN_LINES
        if ended or (step.state == "running" and due):
            self._last = time.monotonic()
            state = "done" if ended else f"{step.share:.0%}"
            self.line(f"{self.overall()}  {step.name}: {state}")

    def table(self) -> Table:
        """A line a row: how many of its steps are done, and which one is running."""
        table = Table(title=self.overall(), title_justify="left", box=None)
        for column in ("row", "steps", "now"):
            table.add_column(column, overflow="ellipsis", no_wrap=True)
        for name in dict.fromkeys([*self._work, *(one.row for one in self._steps.values())]):
            steps = [one for one in self._steps.values() if one.row == name]
            done = sum(one.state in ENDED for one in steps)
            counted = f"{done} of {len(steps)}" if steps else "to come"
            table.add_row(self._title(name), counted, _now(steps))
        return table

    def _title(self, row: str) -> str:
        return self._titles.get(row, row)

    def overall(self) -> str:
        """How much of all work is done, and how long the rest will take."""
        done, kept, total = self._amounts()
        elapsed = time.monotonic() - self._started
        left = "" if done <= kept else f", about {clock(elapsed * (total - done) / (done - kept))}"
        left += " left" if left else ""
        return f"{done / max(total, 1e-9):6.1%} done in {clock(elapsed)}{left}"

    def _amounts(self) -> tuple[float, float, float]:
        """Work that is done, of it what was done before, and all of it."""
        steps = self._steps.values()
        done = sum(one.weight * _behind(one) for one in steps)
        kept = sum(one.weight for one in steps if one.state == "kept")
        known = dict.fromkeys(self._work, 0.0)
        for one in steps:
            known[one.row] = known.get(one.row, 0.0) + one.weight
        # Of a row whose last stage has begun all steps are known; before, what was planned counts.
        total = sum(max(work, self._work.get(row, 0.0)) for row, work in known.items())
        return done, kept, total


def show_results(results: StudyResults, folder: Path) -> None:
    """Print the main table, and where the report is."""
    table = Table(box=None)
    for name in ("row", "test accuracy", "±", "macro F1", "train", "p"):
        table.add_column(name, justify="left" if name == "row" else "right")
    for row in results.rows:
        table.add_row(
            row.title,
            f"{row.test_accuracy.mean:.4f}",
            f"{row.test_accuracy.deviation:.4f}",
            f"{row.test_macro_f1.mean:.4f}",
            f"{row.train_accuracy.mean:.4f}",
            "" if row.paired is None else f"{row.paired.p:.1g}",
        )
    # A path must stay in one piece, however narrow the terminal is.
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(table)
    against = next((row.paired.against for row in results.rows if row.paired is not None), None)
    if against is not None:
        console.print(f"p: McNemar's test against {against}, the best static row on development")
    console.print(f"{folder / 'report.html'}, report.pdf and results.json")


def _behind(step: StepProgress) -> float:
    return 1.0 if step.state in ENDED else step.share


def _now(steps: Sequence[StepProgress]) -> str:
    if any(one.state == "failed" for one in steps):
        return "failed"
    running = [one for one in steps if one.state == "running"]
    return ", ".join(f"{one.name} {one.share:.0%}" for one in running)

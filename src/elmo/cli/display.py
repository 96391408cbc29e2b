"""What a person sees of a training run: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from elmo.errors import UserError
from elmo.runtime import cpu_cores

if TYPE_CHECKING:
    from elmo.embed.embedder import Progress as Report
    from elmo.training.reports import EvaluationReport, StepReport
    from elmo.training.reports import Report as Report_of_reports

# A long job on standard error: a bar in a terminal, plain lines elsewhere.


SECONDS_BETWEEN_LINES = 10.0


class Display:
    """What a person sees of a long job, live in a terminal; standard output stays a script's."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._live: Progress | Live | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether somebody sees what is live."""
        return self._console.is_terminal

    def __enter__(self) -> Self:
        if self._live is not None and self.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None and self.is_terminal:
            self._live.stop()

    def line(self, text: str) -> None:
        """Print a line, above what is live if anything is."""
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class LiveDisplay(Display):
    """A bar."""

    def __init__(self, description: str, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn())
        self._bar = Progress(*columns, console=self._console, disable=not self.is_terminal)
        self._live = self._bar
        self._task = self._bar.add_task(description, total=None)

    def update(self, text: str, completed: float | None = None, total: float | None = None) -> None:
        """Move the bar."""
        self._bar.update(self._task, description=text, completed=completed, total=total)


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


# How commands print: tables for people, JSON for scripts.


def print_json(content: Mapping[str, object]) -> None:
    """Print one object on one line."""
    print(json.dumps(content, ensure_ascii=False))


def print_table(rows: Sequence[Sequence[str]], columns: Sequence[str] = ()) -> None:
    """Print rows; under names of columns, all but the first column go to the right."""
    table = Table(box=None, pad_edge=False, show_header=bool(columns))
    for place, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if place else "left")
    for row in rows:
        # Not strings: rich would take words in square brackets for markup.
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, soft_wrap=True).print(table)


# What a person sees while texts are embedded: a bar in a terminal, plain lines elsewhere.


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

    def report(self, report: Report_of_reports) -> None:
        """Show a step or an evaluation."""
        from elmo.training.reports import EvaluationReport

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
    import torch

    from elmo.training.distributed import processes_here

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {device!r} cannot be used here: {reason}") from None
    if threads is not None and threads < 1:
        raise UserError(f"--threads: must be positive, got {threads}")
    torch.set_num_threads(threads or max(1, cpu_cores() // processes_here()))


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


# Words in their sentences, one below the other, the sentences cut to fit the terminal.


GAP = "  "


@dataclass(frozen=True)
class Line:
    """A word in its sentence, and what is told of it."""

    label: str
    words: Sequence[str]
    position: int

    @property
    def word(self) -> str:
        """The word that is marked."""
        return self.words[self.position]


def print_concordance(lines: Sequence[Line], console: Console | None = None) -> None:
    """Print a line each, the words below each other: bold in a terminal, in «» elsewhere."""
    console = console or Console()
    labels = _aligned([line.label for line in lines])
    words = _aligned([line.word if console.is_terminal else f"«{line.word}»" for line in lines])
    room = console.width - cell_len(labels[0] + words[0]) - 3 * len(GAP)
    before = _aligned([_before(line, room // 2) for line in lines], right=True)
    behind = [_behind(line, room - cell_len(before[0])) for line in lines]
    for label, left, word, right in zip(labels, before, words, behind, strict=True):
        text = Text.assemble(label, GAP, left, GAP, (word, "bold"), GAP, right)
        text.rstrip()
        console.print(text, soft_wrap=True, highlight=False)


def _before(line: Line, width: int) -> str:
    return " ".join(reversed(fitting(reversed(line.words[: line.position]), width)))


def _behind(line: Line, width: int) -> str:
    return " ".join(fitting(line.words[line.position + 1 :], width))


def fitting(words: Iterable[str], width: int) -> list[str]:
    """As many of the words as fit, with a sign behind them if not all do."""
    found: list[str] = []
    for word in words:
        if cell_len(" ".join((*found, word))) > width:
            return _with_sign(found, width)
        found.append(word)
    return found


def _with_sign(words: list[str], width: int) -> list[str]:
    """Leave words out until there is room for the sign."""
    while words and cell_len(" ".join((*words, "…"))) > width:
        words = words[:-1]
    return [*words, "…"]


def _aligned(texts: Sequence[str], *, right: bool = False) -> list[str]:
    """Make all as wide as the widest; some characters take two cells."""
    widest = max(map(cell_len, texts))
    blanks = [" " * (widest - cell_len(text)) for text in texts]
    pairs = zip(texts, blanks, strict=True)
    return [blank + text if right else text + blank for text, blank in pairs]

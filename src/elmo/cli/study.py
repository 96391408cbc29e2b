"""What a person sees of a study: a live table of its rows, plain lines elsewhere."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from rich.live import Live
from rich.table import Table
from tyro.conf import Positional, arg

from elmo.classify.data import LabelOptions
from elmo.cli import options as arguments
from elmo.cli.display import SECONDS_BETWEEN_LINES, Display, clock
from elmo.cli.options import Flag
from elmo.study.config import PRESETS, StudyConfig
from elmo.text.config import ReadOptions

if TYPE_CHECKING:
    from elmo.study.jobs import StepProgress, StudyRequest
    from elmo.study.results import StudyResults
    from elmo.study.rows import PlannedRow


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
        from elmo.study.rows import planned

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


# elmo study [SOURCE…]: the whole comparison, from text to a report.


Preset = Literal["quick", "standard", "full"]


@dataclass(frozen=True, kw_only=True)
class StudyArguments:
    """Compare ELMo with static embeddings and TF-IDF on labelled texts, and write a report.

    elmo study

    elmo study ag_news --out runs/study --model runs/news

    elmo study mail.csv --label-column folder --rows tfidf svd mixes --seeds 0 1

    Without texts, the study runs on a corpus of news-like items that elmo generates itself. A study
    that was stopped goes on where it was: give the same command again.
    """

    sources: Annotated[tuple[str, ...], Positional, arg(metavar="[SOURCE ...]")] = ()
    """Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news; none: generated ones."""
    out: Path = Path("study")
    """Folder for the report and for all finished steps."""
    test: tuple[str, ...] = ()
    """Labelled texts to test on; none: those of AG News, or a part cut off the sources."""
    model: Path | None = None
    """A biLM's folder, or official files; none: one is trained on the training texts."""
    preset: Preset | None = None
    """Settings to start from: quick (the default for generated texts), standard or full."""
    report_only: Flag = False
    """Draw the report again from results.json in the folder; nothing is computed."""
    no_texts: Flag = False
    """Show row numbers instead of sentences, where texts may not be published."""
    feature_memory: float | None = None
    """Gigabytes that the biLM's layers of all texts may take, beyond which they are kept on disk;
    none: half of the machine's."""
    json: Flag = False
    """Print results as one JSON object."""
    config: StudyConfig = field(default_factory=StudyConfig)
    read: ReadOptions = field(default_factory=ReadOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)


def parse_study(given: Sequence[str]) -> StudyArguments:
    """Read the flags on top of a preset."""
    first = arguments.parse(StudyArguments, "study", given)
    return arguments.parse(
        StudyArguments, "study", given, StudyArguments(config=PRESETS[preset_of(first)])
    )


def preset_of(given: StudyArguments) -> Preset:
    """The preset asked for; generated texts are few, and quickly studied."""
    return given.preset or ("standard" if given.sources else "quick")


def run_study(given: StudyArguments) -> int:
    """Run the study, show a live table, write the report, print the main table."""
    from elmo.cli.display import print_json
    from elmo.config import to_json
    from elmo.study.report import write_report
    from elmo.study.results import read_results

    if given.report_only:
        results = read_results(given.out / "results.json")
    else:
        with StudyDisplay() as display:
            results = _studied(given, display)
    write_report(results, given.out)
    if given.json:
        print_json(to_json(results))
    else:
        show_results(results, given.out)
    return 1 if results.failed else 0


def _studied(given: StudyArguments, display: StudyDisplay) -> StudyResults:
    from elmo.study.runner import begin_study, run_study

    request = begin_study(
        given.sources,
        given.out,
        given.config,
        test=given.test,
        model=given.model,
        read=given.read,
        label_column=given.labels.label_column,
        preset=preset_of(given),
        feature_memory=given.feature_memory,
        shows_texts=not given.no_texts,
        command=shlex.join(["elmo", *sys.argv[1:]]),
    )
    display.begin(request)
    return run_study(request, display.show)

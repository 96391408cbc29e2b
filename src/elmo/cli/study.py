"""elmo study: compare embeddings, from text to a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

from elmo.classify.data import LabelOptions
from elmo.cli.display import SECONDS_BETWEEN_LINES, Display, clock, print_json, print_table, safe
from elmo.cli.options import Arguments, Command, add_reading
from elmo.study.config import PRESETS, StudyConfig

if TYPE_CHECKING:
    from elmo.study.jobs import StepProgress, StudyRequest
    from elmo.study.results import StudyResults

ENDED = ("done", "kept", "failed")
ANALYSES = {"sweeps": "Sweeps", "words": "Ambiguous words", "senses": "Senses"}


def study_command() -> Command:
    """What `elmo study` accepts."""
    command = Command(
        "study",
        run_study,
        "Compare ELMo with static embeddings and TF-IDF on labelled texts, and write a report. "
        "Without texts, the study runs on news-like items that elmo generates. The same command "
        "resumes a study that was stopped.",
        [
            "",
            "ag_news --out runs/study --model runs/news",
            "mail.csv --label-column folder --rows tfidf svd mixes --seeds 0 1",
        ],
    )
    command.option(
        "[SOURCE ...]",
        "Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news (default: generated "
        "texts).",
        name="sources",
    )
    command.option(
        "--out FOLDER",
        "Folder for the report and all finished steps (default: study).",
        type=Path,
        default=Path("study"),
    )
    command.option(
        "--test SOURCE ...",
        "Labelled texts to test on (default: those of AG News, or a fraction of the sources).",
    )
    command.option(
        "--model FOLDER",
        "A biLM's folder, or official files (default: one is trained on the training texts).",
        type=Path,
    )
    command.option(
        f"--preset {'|'.join(PRESETS)}",
        "Settings to start from (default: quick for generated texts, standard for others).",
    )
    command.option("--report-only", "Write the report again from results.json in the folder.")
    command.option("--no-texts", "Show row numbers where texts may not be published.")
    command.option(
        "--feature-memory GB",
        "Memory for the biLM's layers of all texts, more is kept on disk (default: half of "
        "the machine's).",
        type=float,
        rare=True,
    )
    command.settings(
        "config",
        StudyConfig(),
        "rows seeds windows epochs samples draws sweeps words",
        choose=lambda args: PRESETS[preset_of(args)],
    )
    add_reading(command)
    command.settings("labels", LabelOptions(), "label_column", section="labels")
    return command


def preset_of(args: Arguments) -> str:
    """The preset asked for; generated texts are few, and quickly studied."""
    return args.preset or ("standard" if args.sources else "quick")


def run_study(args: Arguments) -> int:
    """Run the study with a live table, write the report, print the main table."""
    from elmo.config import to_json
    from elmo.study.report import write_report
    from elmo.study.results import read_results
    from elmo.study.runner import begin_study
    from elmo.study.runner import run_study as run

    if args.report_only:
        results = read_results(args.out / "results.json")
    else:
        with StudyDisplay(quiet=args.quiet) as display:
            request = begin_study(
                args.sources,
                args.out,
                args.config,
                test=args.test,
                model=args.model,
                read=args.read,
                label_column=args.labels.label_column,
                preset=preset_of(args),
                feature_memory=args.feature_memory,
                shows_texts=not args.no_texts,
                command=args.command_line,
            )
            display.begin(request)
            results = run(request, display.show)
    write_report(results, args.out)
    if args.json:
        print_json(to_json(results))
    else:
        _print_results(results, args.out)
    return 1 if results.failed else 0


def _print_results(results: StudyResults, folder: Path) -> None:
    rows = [
        [
            row.title,
            f"{row.test_accuracy.mean:.4f}",
            f"{row.test_accuracy.deviation:.4f}",
            f"{row.test_macro_f1.mean:.4f}",
            f"{row.train_accuracy.mean:.4f}",
            "" if row.paired is None else f"{row.paired.p:.1g}",
        ]
        for row in results.rows
    ]
    print_table(rows, ["row", "test accuracy", "±", "macro F1", "train", "p"])
    against = next((row.paired.against for row in results.rows if row.paired is not None), None)
    if against is not None:
        print(f"p: McNemar's test against {against}, the best static row on development")
    print(f"{safe(str(folder / 'report.html'))}, report.pdf and results.json")


class StudyDisplay(Display):
    """Progress display for a study: a table of its rows in a terminal, lines elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._table = Live(console=self._console, refresh_per_second=2, transient=True)
        self._live = self._table
        self._titles: dict[str, str] = {}
        self._planned: dict[str, float] = {}
        self._steps: dict[str, StepProgress] = {}
        self._started = self._last = time.monotonic()

    def begin(self, request: StudyRequest) -> None:
        """Say what is studied, and note the rows to come."""
        from elmo.study.rows import planned

        plan = planned(request)
        self._titles = {row.name: row.title for row in plan} | ANALYSES
        self._planned = {row.name: row.work for row in plan}
        parts = request.parts
        what = "texts that elmo generates" if parts.name == "generated" else parts.name
        train, test = len(parts.train.texts), len(parts.test.texts)
        self.line(f"study of {what}: {train:,} rows to train on, {test:,} to test on")

    def show(self, step: StepProgress) -> None:
        """Show the progress of a step."""
        before = self._steps.get(step.name)
        self._steps[step.name] = step
        if step.state == "failed":
            self.line(f"{self._titles.get(step.row, step.row)}: failed: {step.note}")
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
        """One line per row: how many of its steps are done, and which ones are running."""
        table = Table(title=self.overall(), title_justify="left", box=None)
        for column in ("row", "steps", "now"):
            table.add_column(column, overflow="ellipsis", no_wrap=True)
        for name in dict.fromkeys([*self._planned, *(step.row for step in self._steps.values())]):
            steps = [step for step in self._steps.values() if step.row == name]
            done = sum(step.state in ENDED for step in steps)
            counted = f"{done} of {len(steps)}" if steps else "to come"
            table.add_row(self._titles.get(name, name), counted, _running(steps))
        return table

    def overall(self) -> str:
        """How much of all work is done, and how long the rest will take."""
        steps = self._steps.values()
        done = sum(step.weight * (1.0 if step.state in ENDED else step.share) for step in steps)
        kept = sum(step.weight for step in steps if step.state == "kept")  # by an earlier session
        known = dict.fromkeys(self._planned, 0.0)
        for step in steps:
            known[step.row] = known.get(step.row, 0.0) + step.weight
        # All steps of a row are known once its last stage has started; until then the plan counts.
        total = sum(max(work, self._planned.get(row, 0.0)) for row, work in known.items())
        elapsed = time.monotonic() - self._started
        left = clock(elapsed * (total - done) / (done - kept)) if done > kept else ""
        shown = f", about {left} left" if left else ""
        return f"{done / max(total, 1e-9):6.1%} done in {clock(elapsed)}{shown}"


def _running(steps: Sequence[StepProgress]) -> str:
    if any(step.state == "failed" for step in steps):
        return "failed"
    running = [step for step in steps if step.state == "running"]
    return ", ".join(f"{step.name} {step.share:.0%}" for step in running)

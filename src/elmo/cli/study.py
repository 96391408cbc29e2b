"""elmo study: compare embeddings, from text to a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

from elmo.classify.data import LabelOptions
from elmo.cli.display import SECONDS_BETWEEN_LINES, Display, clock, print_json, print_table, safe
from elmo.cli.options import Arguments, Command, add_reading
from elmo.study.config import PRESETS, StudyConfig

if TYPE_CHECKING:
    from elmo.config import Json
    from elmo.study.data import LabelledParts
    from elmo.study.runner import CellProgress

ENDED = ("done", "cached", "failed")


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
        "Folder for the report and all finished cells (default: study).",
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
    command.option("--fresh", "Start over, forgetting what the folder holds of an earlier study.")
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
    from elmo.study.data import read_parts
    from elmo.study.report import write_report
    from elmo.study.results import read_results, write_results
    from elmo.study.runner import run_study as run

    if args.report_only:
        results = read_results(args.out / "results.json")
    else:
        with StudyDisplay(quiet=args.quiet) as display:
            parts = read_parts(
                args.sources,
                args.test,
                args.config,
                args.read,
                args.labels.label_column,
                folder=args.out / "news",
            )
            display.begin(parts)
            results = run(
                parts,
                args.out,
                args.config,
                model=args.model,
                preset=preset_of(args),
                feature_memory=args.feature_memory,
                shows_texts=not args.no_texts,
                command=args.command_line,
                fresh=args.fresh,
                on_progress=display.show,
            )
        # Before the figures: whatever happens to them, the numbers are not lost.
        write_results(results, args.out)
    write_report(results, args.out)
    if args.json:
        print_json(results)
    else:
        _print_results(results, args.out)
    return 1 if results["failed"] else 0


def _print_results(results: Json, folder: Path) -> None:
    rows = [
        [
            row["title"],
            f"{row['test_accuracy']['mean']:.4f}",
            f"{row['test_accuracy']['deviation']:.4f}",
            f"{row['test_macro_f1']['mean']:.4f}",
            f"{row['train_accuracy']['mean']:.4f}",
            f"{row['paired']['p']:.1g}" if row["paired"] else "",
        ]
        for row in results["rows"]
    ]
    print_table(rows, ["row", "test accuracy", "±", "macro F1", "train", "p"])
    for against in {row["paired"]["against"] for row in results["rows"] if row["paired"]}:
        print(f"p: McNemar's test against {against}, the best static row on development")
    print(f"{safe(str(folder / 'report.html'))}, report.pdf and results.json")


class StudyDisplay(Display):
    """Progress display for a study: a table of its rows in a terminal, lines elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._table = Live(console=self._console, refresh_per_second=2, transient=True)
        self._live = self._table
        self._cells: dict[str, CellProgress] = {}
        self._started = self._last = time.monotonic()

    def begin(self, parts: LabelledParts) -> None:
        """Say what is studied."""
        what = "texts that elmo generates" if parts.name == "generated" else parts.name
        train, test = len(parts.train.texts), len(parts.test.texts)
        self.line(f"study of {what}: {train:,} rows to train on, {test:,} to test on")

    def show(self, cell: CellProgress) -> None:
        """Show the progress of a cell."""
        before = self._cells.get(cell.name)
        self._cells[cell.name] = cell
        if cell.state == "failed":
            self.line(f"{cell.row}: {cell.name} failed: {cell.note}")
        if self.is_terminal:
            self._table.update(self.table())
            return
        ended = cell.state == "done" and (before is None or before.state != "done")
        due = time.monotonic() - self._last >= SECONDS_BETWEEN_LINES
        if ended or (cell.state == "running" and due):
            self._last = time.monotonic()
            state = "done" if ended else f"{cell.fraction:.0%}"
            self.line(f"{self.overall()}  {cell.name}: {state}")

    def table(self) -> Table:
        """One line per row: how many of its cells are done, and which are running."""
        table = Table(title=self.overall(), title_justify="left", box=None)
        for column in ("row", "cells", "now"):
            table.add_column(column, overflow="ellipsis", no_wrap=True)
        for row in dict.fromkeys(cell.row for cell in self._cells.values()):
            cells = [cell for cell in self._cells.values() if cell.row == row]
            done = sum(cell.state in ENDED for cell in cells)
            running = [f"{c.name} {c.fraction:.0%}" for c in cells if c.state == "running"]
            failed = ["failed"] if any(cell.state == "failed" for cell in cells) else []
            table.add_row(row, f"{done} of {len(cells)}", ", ".join(failed or running))
        return table

    def overall(self) -> str:
        """What fraction of the work is done, and about how long the rest takes."""
        cells = self._cells.values()
        total = sum(cell.work for cell in cells)
        done = sum(c.work * (1.0 if c.state in ENDED else c.fraction) for c in cells)
        cached = sum(cell.work for cell in cells if cell.state == "cached")
        elapsed = time.monotonic() - self._started
        text = f"{done / max(total, 1e-9):6.1%} done in {clock(elapsed)}"
        if done <= cached:
            return text
        return f"{text}, about {clock(elapsed * (total - done) / (done - cached))} left"

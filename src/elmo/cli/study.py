"""elmo study: compare embeddings, from text to a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.classify.data import LabelOptions
from elmo.cli.display import ProgressDisplay, clock, print_json, print_table, say
from elmo.cli.main import Arguments, Command, add_reading
from elmo.study.config import PRESETS, StudyConfig

if TYPE_CHECKING:
    from elmo.config import Json
    from elmo.study.pool import CellProgress

ENDED = ("done", "cached", "failed")


def study_command() -> Command:
    page = f"""
        Compare ELMo with static embeddings and TF-IDF on labelled texts, alone and beside task
        embeddings, and write a report. Without texts, the study runs on news-like items that elmo
        generates. The same command resumes a study that was stopped.

        elmo study
        elmo study ag_news --out runs/study --model runs/news
        elmo study mail.csv --label-column folder --model default --rows tfidf svd mixes
        elmo study ag_news --model default --word-vectors glove.6B.100d.txt

        [SOURCE ...]  Labelled texts: .csv, .tsv, .jsonl or .parquet files, or ag_news (default:
            generated texts).
        --out FOLDER=study  Folder for the report and all finished cells.
        --test SOURCE ...  Labelled texts to test on (default: those of AG News, or a fraction of
            the sources).
        --model MODEL  A biLM's folder or name; default: the one that comes with elmo (default: one
            is trained on the training texts).
        --title TITLE  Title of the report.
        --preset {"|".join(PRESETS)}  Settings to start from (default: quick for generated texts,
            standard for others).
        --report-only  Write the report again from results.json in the folder.
        --fresh  Start over, forgetting what the folder holds of an earlier study.
        --no-texts  Show row numbers where texts may not be published.

        --feature-memory X  Gigabytes for the biLM's layers of all texts, more is kept on disk
            (default: half of the machine's memory).
    """
    command = Command("study", run_study, page)
    command.settings(
        "config",
        StudyConfig(),
        "rows seeds windows word_vectors task_dim epochs samples draws",
        choose=lambda args: PRESETS[preset_of(args)],
    )
    add_reading(command)
    command.settings("labels", LabelOptions(), "label_column", section="labels")
    return command


def preset_of(args: Arguments) -> str:
    """The preset asked for; generated texts are few, and quickly studied."""
    return args.preset or ("standard" if args.sources else "quick")


def run_study(args: Arguments) -> int:
    from elmo.study.data import read_parts
    from elmo.study.report import write_report
    from elmo.study.results import read_results, write_results
    from elmo.study.runner import run_study as run

    if args.report_only:
        results = read_results(args.out / "results.json")
    else:
        with StudyDisplay(quiet=args.quiet) as display:
            column = args.labels.label_column
            parts = read_parts(args.sources, args.test, args.config, args.read, column)
            what = "texts that elmo generates" if parts.name == "generated" else parts.name
            train, test = len(parts.train.texts), len(parts.test.texts)
            display.line(f"study of {what}: {train:,} rows to train on, {test:,} to test on")
            results = run(
                parts, args.out, args.config, model=args.model, preset=preset_of(args),
                title=args.title or "", feature_memory=args.feature_memory,
                shows_texts=not args.no_texts, command=args.command_line, fresh=args.fresh,
                on_progress=display.show_cell,
            )  # fmt: skip
        # Before the figures: whatever happens to them, the numbers are not lost.
        write_results(results, args.out)
    ProgressDisplay(quiet=args.quiet).line("drawing report.html and report.pdf")
    if args.title:
        results["about"]["title"] = args.title
    write_report(results, args.out)
    if args.json:
        print_json(results)
    else:
        _print_results(results, args.out)
    return 1 if results["failed"] else 0


def _print_results(results: Json, folder: Path) -> None:
    about = results["about"]
    for note in about["notes"]:
        say(f"note: {note}")
    print(f"{about['train_rows']:,} training rows, {about['test_rows']:,} test rows")
    lines: list[list[str]] = []
    for row in results["rows"]:
        alone, beside = row["alone"], row["beside"]
        compared = alone and alone["compared"]
        lines.append(
            [
                row["title"],
                f"{alone['test_accuracy']['mean']:.4f}" if alone else "",
                f"{alone['test_accuracy']['deviation']:.4f}" if alone else "",
                f"{compared['difference']:+.4f}" if compared else "",
                f"{compared['holm']:.1g}" if compared else "",
                f"{beside['test_accuracy']['mean']:.4f}" if beside else "",
            ]
        )
    heads = ["row", "test accuracy, alone", "±", "difference", "p (Holm)", "beside task embeddings"]
    print_table(lines, heads)
    alone = [row["alone"]["compared"] for row in results["rows"] if row["alone"]]
    for against in {compared["against"] for compared in alone if compared}:
        print(
            f"difference from {against}, the best static row on development rows; permutation "
            "test over rows and all seeds; found with a probability of 0.8: "
            f"{about['detectable']:.4f}"
        )
    say(f"{folder / 'report.html'}, report.pdf and results.json")


class StudyDisplay(ProgressDisplay):
    """A bar over the work of all cells; without a terminal, a line for each that is done, too."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__("study", quiet=quiet)
        self._cells: dict[str, CellProgress] = {}
        self._started = time.monotonic()

    def show_cell(self, cell: CellProgress) -> None:
        was_done = cell.name in self._cells and self._cells[cell.name].state == "done"
        self._cells[cell.name] = cell
        ended = cell.state == "done" and not was_done
        if cell.state == "failed":
            self.line(f"{cell.row}: {cell.name} failed: {cell.note}")
        elif ended or cell.state == "running":
            done, text = self.overall()
            state = "done" if ended else f"{cell.fraction:.0%}"
            self.show(f"{text}  {cell.name}: {state}", done, 1.0, now=ended)

    def overall(self) -> tuple[float, str]:
        """What fraction of the work is done, and about how long the rest takes."""
        cells = self._cells.values()
        total = sum(cell.work for cell in cells)
        done = sum(c.work * (1.0 if c.state in ENDED else c.fraction) for c in cells)
        cached = sum(cell.work for cell in cells if cell.state == "cached")
        elapsed, fraction = time.monotonic() - self._started, done / max(total, 1e-9)
        text = f"{fraction:6.1%} done in {clock(elapsed)}"
        if done > cached:
            text += f", about {clock(elapsed * (total - done) / (done - cached))} left"
        return fraction, text

"""The comparison itself: settings chosen row by row, then every row trained with every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmo.study.choices import Choice, choose, row_jobs, tries, tuning_jobs
from elmo.study.comparison import Row
from elmo.study.embeddings import do, embedding_facts
from elmo.study.fine_tuned import fine_tuned_jobs
from elmo.study.jobs import Failure, Job
from elmo.study.outcome import Outcome
from elmo.study.progress import Watcher
from elmo.study.results import FailedRow, RowResult
from elmo.study.row_results import best_static, compared, row_result
from elmo.study.workbench import Workbench


@dataclass(frozen=True)
class Comparison:
    """What every row gave."""

    rows: tuple[Row, ...]
    choices: dict[str, Choice]
    outcomes: dict[str, list[Outcome]]
    """One a seed, of the rows that gave any."""
    failed: dict[str, str]
    """Messages of the rows that failed, with all seeds or with some."""

    def has(self, embedding: str) -> bool:
        """Whether some row reads this embedding."""
        return any(row.embedding == embedding for row in self.rows if row.name in self.outcomes)

    def best_static(self) -> Row | None:
        """The static row that was best on development rows."""
        return best_static(self.rows, self.outcomes)

    def table(self, bench: Workbench, *, shows_texts: bool) -> tuple[RowResult, ...]:
        """The rows with all their figures."""
        other = self.best_static()
        return tuple(
            row_result(
                row,
                self.outcomes[row.name],
                self.choices.get(row.name),
                embedding_facts(bench, row.embedding),
                bench.data,
                bench.config.seeds,
                compared(row, self.outcomes, other, bench.data),
                shows_texts=shows_texts,
            )
            for row in self.rows
            if row.name in self.outcomes
        )

    def failures(self) -> tuple[FailedRow, ...]:
        """The rows that failed, in the order of the table."""
        return tuple(
            FailedRow(name=row.name, title=row.title, message=self.failed[row.name])
            for row in self.rows
            if row.name in self.failed
        )


def compare(
    bench: Workbench, rows: Sequence[Row], no_vectors: Mapping[str, str], watcher: Watcher
) -> Comparison:
    """Train every row; one that fails stops no other."""
    failed = {row.name: no_vectors[row.embedding] for row in rows if row.embedding in no_vectors}
    able = [row for row in rows if row.name not in failed]
    choices = _choices(bench, able, failed, watcher)
    able = [row for row in able if row.name not in failed]
    jobs = {row.name: _row_jobs(bench, row, choices) for row in able}
    results = do(bench, [job for some in jobs.values() for job in some], watcher)
    outcomes = {name: _good(some, results) for name, some in jobs.items()}
    for name, some in jobs.items():
        messages = [results[job.name].message for job in some if _has_failed(job, results)]
        if messages:
            failed[name] = messages[0]
    good = {name: some for name, some in outcomes.items() if some}
    return Comparison(tuple(rows), choices, good, failed)


def _choices(
    bench: Workbench, rows: Sequence[Row], failed: dict[str, str], watcher: Watcher
) -> dict[str, Choice]:
    jobs = tuning_jobs(bench, rows)
    results = do(bench, jobs, watcher)
    choices: dict[str, Choice] = {}
    for row in rows:
        if not tries(row):
            continue
        choice = choose(row, results, len(bench.data.split.development))
        if choice is None:
            own = [results[job.name] for job in jobs if job.row == row.name]
            failed[row.name] = own[0].message
        else:
            choices[row.name] = choice
    return choices


def _row_jobs(bench: Workbench, row: Row, choices: Mapping[str, Choice]) -> list[Job]:
    if row.kind == "fine-tuned":
        return fine_tuned_jobs(bench, row, choices.get("trainable"))
    return row_jobs(bench, row, choices.get(row.name))


def _has_failed(job: Job, results: Mapping[str, Any]) -> bool:
    return isinstance(results[job.name], Failure)


def _good(jobs: Sequence[Job], results: Mapping[str, Any]) -> list[Outcome]:
    return [results[job.name] for job in jobs if not _has_failed(job, results)]

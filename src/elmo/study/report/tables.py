"""The tables of the comparison: all rows, those that failed, and each class on its own."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Literal

from elmo.classify.metrics import Metrics
from elmo.language.evaluate import Averages
from elmo.study.report.analysis import verdict
from elmo.study.report.blocks import Part, Span, Table, columns, one_part
from elmo.study.report.formats import (
    SIGNIFICANT,
    duration,
    interval,
    listed,
    p_cell,
    score,
    speed,
    spread,
    whole,
)
from elmo.study.report.found_rows import GROUPS, of_group, reference
from elmo.study.results import FailedRow, RowResult, SeedResult, StudyResults

Split = Literal["train", "test"]
CLASSES_A_TABLE = 4
_ARROWS = {"above": "↑ ", "below": "↓ ", "unclear": ""}


def main_table(results: StudyResults) -> Table:
    """Every row: how good, how sure, how fast, how large."""
    spans = (
        Span(title="", width=6),
        Span(title="time", width=2),
        Span(title="", width=1),
        Span(title="parameters", width=2),
    )
    return Table(
        name="main",
        caption=_main_caption(results),
        columns=columns(
            "", "test accuracy", "95% interval", "macro F1", "train accuracy", "paired p",
            "embedding", "training", "texts/s", "learned", "embedding",
        ),
        parts=by_group(results, lambda row: _main_line(row, results)),
        over=spans,
        dense=True,
    )  # fmt: skip


def failed_table(failed: tuple[FailedRow, ...]) -> Table:
    """What could not be computed, and why."""
    return Table(
        name="failed",
        caption="Rows that could not be computed, with the message of each.",
        columns=columns("row", "message", left=2),
        parts=one_part([(one.title, one.message) for one in failed]),
    )


def class_tables(results: StudyResults, split: Split) -> list[Table]:
    """Precision, recall and F1 of every row, a few classes a table, means of them in the first."""
    places = [None, *range(len(results.about.labels))]
    size = CLASSES_A_TABLE + 1
    return [
        _class_table(results, split, places[first : first + size])
        for first in range(0, len(places), size)
    ]


def by_group(
    results: StudyResults, line: Callable[[RowResult], tuple[str, ...]]
) -> tuple[Part, ...]:
    """A line a row, the groups apart."""
    return tuple(
        Part(title=title, group=group, lines=tuple(line(row) for row in rows))
        for group, title in GROUPS.items()
        if (rows := of_group(results, group))
    )


def _main_caption(results: StudyResults) -> str:
    other = reference(results)
    text = (
        "Means over seeds ± their standard deviation, with Wilson's 95% interval of the mean over "
        f"the {whole(results.about.test_rows)} test rows. "
    )
    if other:
        text += (
            f"Paired p: McNemar's test of the first seed against {other.title}, the static "
            "embedding that was best on the development rows; ↑ above and ↓ below it where p < "
            f"{SIGNIFICANT}. "
        )
    return text + (
        "Time: to make the embedding, and to train one classifier. Texts/s: from words to classes."
    )


def _main_line(row: RowResult, results: StudyResults) -> tuple[str, ...]:
    seeds = len(row.seeds)
    made = "" if row.embedding_seconds is None else duration(row.embedding_seconds)
    return (
        row.title,
        spread(row.test_accuracy, seeds),
        interval(row.test_accuracy.low, row.test_accuracy.high),
        score(row.test_macro_f1.mean),
        score(row.train_accuracy.mean),
        _paired_cell(row, results),
        made,
        duration(fmean(one.training_seconds for one in row.seeds)),
        speed(row.texts_per_second),
        whole(row.parameters),
        whole(row.embedding_parameters) if row.embedding_parameters else "",
    )


def _paired_cell(row: RowResult, results: StudyResults) -> str:
    other = reference(results)
    if row.paired is None or other is None:
        return "reference" if row is other else ""
    return _ARROWS[verdict(row, other)] + p_cell(row.paired.p)


def _class_table(results: StudyResults, split: Split, places: list[int | None]) -> Table:
    labels = results.about.labels
    names = ["mean of classes" if place is None else labels[place] for place in places]
    what = "Training" if split == "train" else "Test"
    return Table(
        name=f"classes-{split}-{places[0] or 0}",
        caption=f"{what} rows: precision (P), recall (R) and F1 of {listed(names)}; means over "
        "seeds.",
        columns=columns("", *["P", "R", "F1"] * len(places)),
        parts=by_group(results, lambda row: (row.title, *_class_cells(row, split, places))),
        over=(Span(title="", width=1), *(Span(title=name, width=3) for name in names)),
        dense=True,
    )


def _class_cells(row: RowResult, split: Split, places: list[int | None]) -> list[str]:
    found = [[_class(_metrics(one, split), place) for one in row.seeds] for place in places]
    return [
        score(fmean(getattr(one, figure) for one in seeds))
        for seeds in found
        for figure in ("precision", "recall", "f1")
    ]


def _class(metrics: Metrics, place: int | None) -> Averages:
    if place is None:
        return metrics.macro
    one = metrics.classes[place]
    return Averages(one.precision, one.recall, one.f1)


def _metrics(seed: SeedResult, split: Split) -> Metrics:
    return seed.train if split == "train" else seed.test

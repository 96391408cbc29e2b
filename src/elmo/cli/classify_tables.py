"""How the classify commands show figures: a line, a table by class, what was taken for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elmo.cli.output import print_table

if TYPE_CHECKING:
    from elmo.classify.metrics import Metrics

MOST_COLUMNS = 12


def show_evaluation(metrics: Metrics, part: str) -> None:
    """Print what a classifier achieves on a part of the rows."""
    accuracy, macro_f1 = metrics.accuracy, metrics.macro_f1
    print(
        f"{part}: {metrics.count:,} rows, accuracy {accuracy.value:.4f} "
        f"({accuracy.low:.4f} to {accuracy.high:.4f}), macro F1 {macro_f1.value:.4f} "
        f"({macro_f1.low:.4f} to {macro_f1.high:.4f}), calibration error "
        f"{metrics.calibration_error:.4f}"
    )
    names = [one.label for one in metrics.classes]
    # Many classes would not fit side by side; they are in the files.
    shown = names if len(names) <= MOST_COLUMNS else []
    print_table(_rows(metrics, shown), ["", "precision", "recall", "F1", "rows", *shown])
    print()


def _rows(metrics: Metrics, shown: list[str]) -> list[list[str]]:
    rows = [
        [one.label, *_shares(one.precision, one.recall, one.f1), f"{one.support:,}"]
        + [f"{number:,}" for number in confused[: len(shown)]]
        for one, confused in zip(metrics.classes, metrics.confusion, strict=True)
    ]
    for name, mean in (("macro", metrics.macro), ("weighted", metrics.weighted)):
        empty = [""] * (1 + len(shown))
        rows.append([name, *_shares(mean.precision, mean.recall, mean.f1), *empty])
    return rows


def _shares(*values: float) -> list[str]:
    return [f"{value:.4f}" for value in values]

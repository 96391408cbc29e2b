"""The numbers behind the figures: weights of layers, draws, curves, settings, perplexities."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from elmo.study.report.blocks import Part, Table, columns, one_part
from elmo.study.report.curve_analysis import curves
from elmo.study.report.formats import score, setting, spread, whole
from elmo.study.report.found_rows import group_of, title
from elmo.study.results import (
    Draws,
    LanguageModel,
    RowResult,
    SamplePoint,
    StudyResults,
    Sweep,
)


def weights_table(rows: Sequence[RowResult]) -> Table:
    """Weights of layers and the scale of their sum, over seeds."""
    layers = max(len(one.layer_weights or ()) for row in rows for one in row.seeds)
    names = [f"layer {layer}" for layer in range(layers)]
    return Table(
        name="weights-table",
        caption="Normalised weights of the layers, and γ, which scales their sum: means over seeds "
        "± their standard deviation.",
        columns=columns("", "seeds", *names, "γ"),
        parts=one_part([_weights_line(row, layers) for row in rows]),
    )


def draws_table(draws: Draws) -> Table:
    """Every draw, the best on the development rows first."""
    ordered = sorted(draws.draws, key=lambda one: -one.development_accuracy)
    names = [f"layer {layer}" for layer in range(len(ordered[0].layer_weights))]
    lines = [
        (
            str(one.seed),
            *map(score, one.layer_weights),
            score(one.development_accuracy),
            score(one.test_accuracy),
        )
        for one in ordered
    ]
    return Table(
        name="draws-table",
        caption="Draws of frozen weights, the best on the development rows first.",
        columns=columns("seed", *names, "development", "test"),
        parts=one_part(lines),
    )


def samples_table(results: StudyResults) -> Table:
    """Accuracy by number of labels, a line a row."""
    found = curves(results)
    sizes = sorted({(one.train_rows, one.per_class or 0) for one in results.samples})
    names = [f"{whole(per_class)} a class" if per_class else "all" for _, per_class in sizes]
    lines = [
        (title(results, name), *(_sample_cell(points, rows) for rows, _ in sizes))
        for name, points in found.items()
    ]
    return Table(
        name="samples-table",
        caption="Test accuracy by number of labels; means over seeds ± their standard deviation.",
        columns=columns("", *names),
        parts=one_part(lines),
    )


def sweeps_table(sweeps: Sequence[Sweep], results: StudyResults) -> Table:
    """What each value of each setting gave."""
    return Table(
        name="sweeps-table",
        caption="Accuracy by value of a setting, all others kept.",
        columns=columns("value", "development", "test", "note"),
        parts=tuple(_sweep_part(sweep, results) for sweep in sweeps),
    )


def history_table(model: LanguageModel) -> Table:
    """Perplexity by epoch and direction."""
    lines = [
        (
            f"{one.epoch:g}",
            f"{one.forward_perplexity:,.2f}",
            f"{one.backward_perplexity:,.2f}",
            f"{one.perplexity:,.2f}",
        )
        for one in model.history
    ]
    return Table(
        name="history",
        caption="Perplexity on held-out text after each epoch.",
        columns=columns("epoch", "forward", "backward", "both"),
        parts=one_part(lines),
    )


def _weights_line(row: RowResult, layers: int) -> tuple[str, ...]:
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    gammas = [one.gamma for one in row.seeds if one.gamma is not None]
    cells = [_over_seeds([one[layer] for one in weights]) for layer in range(len(weights[0]))]
    empty = [""] * (layers - len(cells))
    return (row.title, str(len(weights)), *cells, *empty, _over_seeds(gammas) if gammas else "")


def _over_seeds(values: Sequence[float]) -> str:
    return score(fmean(values)) + (f" ± {score(stdev(values))}" if len(values) > 1 else "")


def _sample_cell(points: Sequence[SamplePoint], rows: int) -> str:
    found = [one.test_accuracy for one in points if one.train_rows == rows]
    return spread(found[0], 2 if found[0].deviation else 1) if found else ""


def _sweep_part(sweep: Sweep, results: StudyResults) -> Part:
    return Part(
        title=f"{sweep.setting}, {title(results, sweep.row)}, {whole(sweep.train_rows)} rows",
        group=group_of(results, sweep.row),
        lines=tuple(
            (
                setting(point.value),
                score(point.development_accuracy),
                score(point.test_accuracy),
                point.note or "",
            )
            for point in sweep.points
        ),
    )

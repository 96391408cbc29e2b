"""Figures of curves: accuracy against labels, accuracy against a setting, perplexity by epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from elmo.study.report.blocks import Figure
from elmo.study.report.curve_analysis import curves
from elmo.study.report.drawing import (
    SMALL,
    End,
    head,
    name_axes,
    name_ends,
    new_figure,
    panels,
    plain,
    quiet,
    to_svg,
)
from elmo.study.report.formats import score, setting, whole, within
from elmo.study.report.found_rows import group_of, title
from elmo.study.report.palette import CONTROL, ELMO, FAINT, MARKERS, OF_GROUP, PAPER
from elmo.study.results import Group, LanguageModel, SamplePoint, StudyResults, Sweep

_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


def samples_figure(results: StudyResults) -> Figure:
    """Accuracy against the number of labels, a line a row."""
    figure = new_figure(3.6)
    axes = figure.add_subplot(xscale="log")
    quiet(axes, "both")
    seen: Counter[Group] = Counter()
    ends: list[End] = []
    found = curves(results)
    for name, points in found.items():
        group = group_of(results, name)
        _draw_curve(axes, points, group, _DASHES[seen[group] % len(_DASHES)])
        seen[group] += 1
        end = points[-1].test_accuracy.mean
        ends.append(End(title(results, name), end, OF_GROUP[group].light))
    name_ends(axes, ends)
    _tick_sizes(axes, found)
    name_axes(axes, "rows to learn from", "test accuracy")
    return Figure(
        name="samples",
        caption="Test accuracy against the number of labelled rows, on a logarithmic axis; bands "
        "are 95% intervals.",
        alt=f"Accuracy by number of labels. {'; '.join(_curve_alt(results, found))}.",
        svg=to_svg(figure, "samples"),
    )


def sweeps_figure(results: StudyResults) -> Figure:
    """A panel a setting: development and test accuracy against its values."""
    sweeps = [sweep for sweep in results.sweeps if sweep.points]
    grid = panels(len(sweeps), 2.2)
    for axes, sweep in zip(grid.axes, sweeps, strict=True):
        _draw_sweep(axes, sweep, results)
    return Figure(
        name="sweeps",
        caption="Accuracy against the values of a setting, evenly spaced; all others are kept. "
        "Filled: test; open: development.",
        alt=f"Accuracy by setting. {'; '.join(map(_sweep_alt, sweeps))}.",
        svg=to_svg(grid.figure, "sweeps"),
    )


def perplexity_figure(model: LanguageModel) -> Figure:
    """Perplexity on held-out text, epoch by epoch."""
    figure = new_figure(2.5)
    axes = figure.add_subplot()
    quiet(axes, "y")
    epochs = [one.epoch for one in model.history]
    lines = {
        "forward": ([one.forward_perplexity for one in model.history], CONTROL.light, _DASHES[1]),
        "backward": ([one.backward_perplexity for one in model.history], CONTROL.light, _DASHES[2]),
        "both": ([one.perplexity for one in model.history], ELMO.light, _DASHES[0]),
    }
    for values, colour, dashes in lines.values():
        axes.plot(epochs, values, color=colour, linestyle=dashes, linewidth=1.4)
    axes.plot(epochs, lines["both"][0], **_marker("elmo", ELMO.light))
    name_ends(axes, [End(name, values[-1], colour) for name, (values, colour, _) in lines.items()])
    axes.set_xticks(epochs, [setting(float(one)) for one in epochs])
    name_axes(axes, "epoch", "perplexity")
    return Figure(
        name="perplexity",
        caption="Perplexity of the biLM on held-out text after each epoch.",
        alt="Perplexity by epoch. "
        + "; ".join(f"epoch {one.epoch:g} {one.perplexity:,.2f}" for one in model.history)
        + ".",
        svg=to_svg(figure, "perplexity"),
    )


def _draw_curve(axes: Any, points: Sequence[SamplePoint], group: Group, dashes: object) -> None:
    colour = OF_GROUP[group].light
    rows = [point.train_rows for point in points]
    spreads = [point.test_accuracy for point in points]
    low, high = [one.low for one in spreads], [one.high for one in spreads]
    axes.fill_between(rows, low, high, color=colour, alpha=0.13, linewidth=0)
    means = [one.mean for one in spreads]
    axes.plot(rows, means, color=colour, linewidth=1.4, linestyle=dashes)
    axes.plot(rows, means, **_marker(group, colour))


def _tick_sizes(axes: Any, found: dict[str, list[SamplePoint]]) -> None:
    """Name the numbers that were tried, in rows and in labels a class."""
    sizes = {point.train_rows: point for points in found.values() for point in points}
    names = [
        f"{whole(rows)}\n{'all' if one.per_class is None else f'{whole(one.per_class)} a class'}"
        for rows, one in sizes.items()
    ]
    axes.set_xticks(list(sizes), names, **plain(SMALL, FAINT.light))
    axes.minorticks_off()


def _draw_sweep(axes: Any, sweep: Sweep, results: StudyResults) -> None:
    quiet(axes, "both")
    head(axes, f"{sweep.setting}\n{title(results, sweep.row)}")
    group = group_of(results, sweep.row)
    colour = OF_GROUP[group].light
    points = sorted(sweep.points, key=lambda point: point.value)
    values = range(len(points))
    development = [point.development_accuracy for point in points]
    test = [point.test_accuracy for point in points]
    axes.plot(values, development, color=colour, linewidth=1, linestyle=_DASHES[1], alpha=0.6)
    axes.plot(values, development, **_marker(group, PAPER.light) | {"mec": colour})
    axes.plot(values, test, color=colour, linewidth=1.4)
    axes.plot(values, test, **_marker(group, colour))
    axes.set_xticks(values, [setting(point.value) for point in points])
    axes.margins(0.1)


def _marker(group: Group, colour: str) -> dict[str, Any]:
    style = {"linestyle": "none", "color": colour, "markersize": 5, "mew": 0.8, "zorder": 3}
    return {"marker": MARKERS[group], "mec": PAPER.light, **style}


def _curve_alt(results: StudyResults, found: dict[str, list[SamplePoint]]) -> list[str]:
    return [
        f"{title(results, name)}: "
        + ", ".join(f"{whole(one.train_rows)} rows {within(one.test_accuracy)}" for one in points)
        for name, points in found.items()
    ]


def _sweep_alt(sweep: Sweep) -> str:
    values = (f"{setting(one.value)} {score(one.test_accuracy)}" for one in sweep.points)
    return f"{sweep.setting}: {', '.join(values)}"

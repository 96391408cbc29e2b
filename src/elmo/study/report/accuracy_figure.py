"""The figure of the comparison: test accuracy with its interval, row by row, group by group."""

from __future__ import annotations

from typing import Any

from elmo.study.report.blocks import Figure
from elmo.study.report.drawing import SMALL, name_axes, new_figure, plain, quiet, to_svg
from elmo.study.report.formats import called, score, within
from elmo.study.report.found_rows import GROUPS, in_groups, of_group, reference
from elmo.study.report.palette import FAINT, LINES, MARKERS, OF_GROUP, PAPER
from elmo.study.results import RowResult, StudyResults

_LINE = 0.225
"""Inches a row."""


def accuracy_figure(results: StudyResults) -> Figure:
    """Draw every row, those far below the embeddings as an arrow."""
    places = _places(results)
    left, right = _bounds(results)
    height = max(places.values()) + 1.2
    figure = new_figure(0.5 + _LINE * height)
    axes = figure.add_subplot(xlim=(left, right), ylim=(height - 0.4, -0.6))
    quiet(axes, "x")
    _name_rows(axes, results, places)
    for row in results.rows:
        _draw_row(axes, row, places[row.name], left)
    _draw_reference(axes, results)
    name_axes(axes, "test accuracy")
    return Figure(
        name="accuracy",
        caption=_caption(results, left),
        alt=f"Test accuracy by row. {'; '.join(_reached(row) for row in results.rows)}.",
        svg=to_svg(figure, "accuracy"),
        floats=True,
    )


def _places(results: StudyResults) -> dict[str, float]:
    """Where each row is drawn: under the title of its group."""
    places: dict[str, float] = {}
    at = 0.0
    for group in GROUPS:
        rows = of_group(results, group)
        places |= {row.name: at + 1 + number for number, row in enumerate(rows)}
        at += len(rows) + 1.4 if rows else 0
    return places


def _bounds(results: StudyResults) -> tuple[float, float]:
    rows = [row for row in results.rows if row.group != "control"] or list(results.rows)
    low = min(row.test_accuracy.low for row in rows)
    high = max(row.test_accuracy.high for row in results.rows)
    room = 0.06 * max(high - low, 0.01)
    return low - room, high + room


def _name_rows(axes: Any, results: StudyResults, places: dict[str, float]) -> None:
    titles = [row.title for row in in_groups(results)]
    axes.set_yticks(list(places.values()), titles, **plain(SMALL))
    for group, title in GROUPS.items():
        rows = of_group(results, group)
        if rows:
            at = places[rows[0].name] - 1
            style = plain(SMALL, OF_GROUP[group].light) | {"fontweight": "bold"}
            axes.annotate(title, (0, at), (-6, 0), ha="right", **_AT_THE_EDGE, **style)
            axes.axhline(at + 0.5, color=LINES.light, linewidth=0.7)


def _draw_row(axes: Any, row: RowResult, at: float, left: float) -> None:
    colour, spread = OF_GROUP[row.group].light, row.test_accuracy
    axes.annotate(score(spread.mean), (1, at), (6, 0), **_AT_THE_EDGE, **plain(SMALL))
    if spread.mean < left:
        axes.annotate("◂", (0, at), (1, 0), **_AT_THE_EDGE, **plain(9, colour))
        return
    ends = [max(left, spread.low), spread.high]
    axes.plot(ends, [at, at], color=colour, linewidth=1.8, alpha=0.5, solid_capstyle="butt")
    style = {"color": colour, "markersize": 6, "mec": PAPER.light, "mew": 0.8, "zorder": 3}
    axes.plot([spread.mean], [at], MARKERS[row.group], **style)


def _draw_reference(axes: Any, results: StudyResults) -> None:
    row = reference(results)
    if row:
        style = {"color": FAINT.light, "linewidth": 0.8, "linestyle": (0, (4, 3)), "zorder": 1}
        axes.axvline(row.test_accuracy.mean, **style)


def _caption(results: StudyResults, left: float) -> str:
    text = "Test accuracy: mean over seeds and its 95% interval."
    row = reference(results)
    if row:
        text += f" Dashed: {row.title}, which the others are compared with."
    if any(row.test_accuracy.mean < left for row in results.rows):
        text += " An arrow: further to the left."
    return text


def _reached(row: RowResult) -> str:
    return f"{called(row.title)} {within(row.test_accuracy)}"


_AT_THE_EDGE: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"),
    "textcoords": "offset points",
    "va": "center_baseline",
    "annotation_clip": False,
}

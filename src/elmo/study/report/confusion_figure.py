"""Confusion matrices of all rows side by side: mistakes in colour, so that they stand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from elmo.errors import require_extra
from elmo.study.report.blocks import Figure
from elmo.study.report.drawing import SMALL, Margins, panels, plain, to_svg
from elmo.study.report.formats import shortened, whole
from elmo.study.report.palette import FAINT, INK, LINES, OF_GROUP, ON_STRONG
from elmo.study.results import RowResult

Split = Literal["train", "test"]
ACROSS = 4
MOST_CLASSES_WITH_NUMBERS = 8
_HEIGHT = 1.72
_MARGINS = Margins(left=0.52, right=0.06, top=0.2, bottom=0.17)
Matrix = tuple[tuple[int, ...], ...]
_GAP = 0.05
"""Between cells."""
_COUNT = 5.8
"""Points, of the figures in cells."""
_STRONG_MISTAKE = 0.15
"""A mistake of this share of a class, or more, has the full colour."""
_NEEDS_OTHER_LETTERS = 0.65


def confusion_figure(rows: Sequence[RowResult], labels: Sequence[str], split: Split) -> Figure:
    """The first seed's matrix of every row."""
    grid = panels(len(rows), _HEIGHT, ACROSS, margins=_MARGINS)
    names = [shortened(label, 10) for label in labels]
    for axes, row in zip(grid.axes, rows, strict=True):
        colour = OF_GROUP[row.group].light
        _draw_cells(axes, _matrix(row, split), colour)
        _name_cells(axes, names)
        axes.set_title(row.title, loc="left", pad=5, **plain(SMALL, colour))
    what = "Training rows" if split == "train" else "Test rows"
    return Figure(
        name=f"confusion-{split}",
        caption=f"{what}, first seed: a line is a label, a column what was predicted. Mistakes "
        f"are coloured, fully from {_STRONG_MISTAKE:.0%} of a class on.",
        alt=f"{what}: confusion matrices. {'; '.join(_described(row, split) for row in rows)}.",
        svg=to_svg(grid.figure, f"confusion-{split}"),
    )


def _matrix(row: RowResult, split: Split) -> Matrix:
    return (row.seeds[0].train if split == "train" else row.seeds[0].test).confusion


def _draw_cells(axes: Any, matrix: Matrix, colour: str) -> None:
    size = len(matrix)
    for line, counts in enumerate(matrix):
        for column, count in enumerate(counts):
            share = count / max(1, sum(counts))
            strength = 0 if line == column else min(1.0, share / _STRONG_MISTAKE)
            _draw_cell(axes, line, column, colour, strength)
            if size <= MOST_CLASSES_WITH_NUMBERS:
                _write_count(axes, line, column, count, strength)
    axes.set(xlim=(0, size), ylim=(size, 0), aspect="equal")


def _draw_cell(axes: Any, line: int, column: int, colour: str, strength: float) -> None:
    patches: Any = require_extra("matplotlib.patches", "study")
    if line == column:
        style = {"facecolor": LINES.light, "alpha": 0.55}
    else:
        style = {"facecolor": colour, "alpha": strength}
    corner = (column + _GAP / 2, line + _GAP / 2)
    axes.add_patch(patches.Rectangle(corner, 1 - _GAP, 1 - _GAP, linewidth=0, **style))


def _write_count(axes: Any, line: int, column: int, count: int, strength: float) -> None:
    colour = ON_STRONG if strength > _NEEDS_OTHER_LETTERS else INK
    place = {"ha": "center", "va": "center_baseline"}
    axes.text(column + 0.5, line + 0.5, whole(count), **place, **plain(_COUNT, colour.light))


def _name_cells(axes: Any, names: Sequence[str]) -> None:
    places = [place + 0.5 for place in range(len(names))]
    style = plain(_COUNT, FAINT.light)
    axes.set_yticks(places, names, **style)
    axes.set_xticks(places, [name[:3] for name in names], **style)
    axes.tick_params(length=0, pad=1.5)
    axes.spines[:].set_visible(False)


def _described(row: RowResult, split: Split) -> str:
    matrix = _matrix(row, split)
    right = sum(counts[place] for place, counts in enumerate(matrix))
    return f"{row.title} {whole(right)} of {whole(sum(map(sum, matrix)))} right"

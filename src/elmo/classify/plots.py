"""Figures of a classifier as PNG files: what it confuses, and how it learned; extra `study`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.classify.data import printable
from elmo.classify.loop import EpochReport
from elmo.classify.metrics import Metrics
from elmo.files import atomic_write
from elmo.runtime import require_extra

_INK, _FAINT, _GRID = "#1f2933", "#6b7785", "#e4e8ec"
_BLUE, _ORANGE = "#1c5d99", "#c4571a"
_BLUES = ("#f3f7fb", "#a9c9e8", "#3f83c1", "#123f6d")
_ORANGES = ("#fdf9f5", "#f8d9bd", "#e9904c", "#b34a12")
_STRONG_MISTAKE = 0.25
"""Fraction of a class shown in the strongest orange. Mistakes are seldom more; on the scale of the
diagonal, from 0 to 1, they would all look alike."""
_MAX_NAME = 28


class _Style(NamedTuple):
    """Sizes for a number of classes; without `large` and `small`, cells hold no numbers."""

    most_classes: float
    cell: float  # inches
    name: float  # points, as below
    large: float = 0
    small: float = 0


_STYLES = (_Style(8, 0.95, 10, 12, 8.5), _Style(40, 0.58, 8, 7.5, 5.5), _Style(np.inf, 0.2, 5))


def draw_confusion(metrics: Metrics, title: str, path: Path) -> None:
    """Draw how often each label (row) was predicted as each (column), the diagonal in blue."""
    confusion = np.array(metrics.confusion)
    fractions = confusion / np.maximum(1, confusion.sum(1, keepdims=True))
    names = [printable(scores.label) for scores in metrics.classes]
    names = [name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…" for name in names]
    style = next(style for style in _STYLES if len(names) <= style.most_classes)
    size = 1.1 + len(names) * style.cell
    figure = _figure(size, size)
    axes = figure.add_subplot()

    palettes: Any = require_extra("matplotlib.colors", "study")
    palette: Any = palettes.LinearSegmentedColormap.from_list
    right: NDArray[np.float64] = palette("right", _BLUES)(fractions)
    wrong: NDArray[np.float64] = palette("wrong", _ORANGES)(
        np.minimum(1, fractions / _STRONG_MISTAKE)
    )
    colours = np.where(np.eye(len(names), dtype=bool)[:, :, None], right, wrong)
    axes.imshow(colours)  # (classes, classes, 4)

    text = {"fontsize": style.name, "color": _INK, "parse_math": False}
    if max(map(len, names)) > 12 or style is not _STYLES[0]:
        slant = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    else:
        slant = {}
    axes.set_xticks(range(len(names)), names, **text, **slant)
    axes.set_yticks(range(len(names)), names, **text)
    axes.set_xlabel("predicted", fontsize=style.name + 1, color=_FAINT, labelpad=8)
    axes.set_ylabel("label", fontsize=style.name + 1, color=_FAINT, labelpad=8)
    axes.set_xticks(np.arange(1, len(names)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(names)) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)

    for row, column in np.argwhere(confusion > 0).tolist() if style.large else ():
        is_dark = colours[row, column, :3] @ [0.299, 0.587, 0.114] < 0.55  # luminance
        look = {"ha": "center", "va": "center", "color": "white" if is_dark else _INK}
        count, fraction = f"{confusion[row, column]:,}", f"{fractions[row, column]:.1%}"
        axes.text(column, row - 0.09, count, fontsize=style.large, **look)
        axes.text(column, row + 0.19, fraction, fontsize=style.small, **look)
    accuracy = metrics.accuracy
    summary = (
        f"accuracy {accuracy.value:.2%} ({accuracy.low:.2%} to {accuracy.high:.2%}), "
        f"{metrics.count:,} texts"
    )
    _write_titles(axes, title, summary)
    _save(figure, path)


def draw_learning_curve(
    history: Sequence[EpochReport], kept: EpochReport, path: Path, title: str = "Learning curve"
) -> None:
    """Draw losses above and accuracy below, epoch by epoch, with the epoch marked that is kept."""
    epochs = [report.epoch for report in history]
    percent = [100 * report.development_accuracy for report in history]
    losses = {
        "training": [report.train_loss for report in history],
        "development": [report.development_loss for report in history],
    }
    figure = _figure(6.4, 5.2)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"hspace": 0.14})
    for axes, lines, unit in (
        (above, losses, "loss"),
        (below, {"development": percent}, "accuracy, %"),
    ):
        _draw_lines(axes, epochs, lines, unit)
        value = lines["development"][epochs.index(kept.epoch)]
        axes.axvline(kept.epoch, color=_FAINT, linewidth=0.9, linestyle=(0, (3, 3)), zorder=1)
        ring = {"color": "white", "markeredgecolor": _BLUE, "markersize": 8, "zorder": 4}
        axes.plot([kept.epoch], [value], "o", **ring)
        axes.plot([kept.epoch], [value], "o", color=_BLUE, markersize=4, zorder=5)
    ticker: Any = require_extra("matplotlib.ticker", "study")
    whole = ticker.MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
    below.xaxis.set_major_locator(whole)
    below.set_xlabel("epoch", fontsize=10, color=_FAINT)
    accuracy = f"{kept.development_accuracy:.2%}"
    _write_titles(above, title, f"epoch {kept.epoch} is kept: development accuracy {accuracy}")
    _save(figure, path)


def _draw_lines(
    axes: Any, epochs: Sequence[int], lines: Mapping[str, Sequence[float]], unit: str
) -> None:
    colours = {"training": _ORANGE, "development": _BLUE}
    marker = "o" if len(epochs) <= 30 else None
    for name, values in lines.items():
        style = {"color": colours[name], "linewidth": 1.8, "marker": marker, "markersize": 3.5}
        axes.plot(epochs, values, label=name, **style)
    axes.margins(x=0.03, y=0.12)
    axes.set_ylabel(unit, fontsize=10, color=_FAINT)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
    axes.tick_params(length=0, labelsize=9, labelcolor=_FAINT)
    axes.locator_params(axis="y", nbins=6)
    legend = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "labelcolor": "linecolor"}
    axes.legend(frameon=False, fontsize=9.5, handlelength=0, **legend)


def _figure(width: float, height: float) -> Any:
    # Not pyplot, which keeps every figure and may want a window system.
    module: Any = require_extra("matplotlib.figure", "study")
    return module.Figure(figsize=(width, height), facecolor="white")


def _write_titles(axes: Any, title: str, summary: str) -> None:
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "parse_math": False}
    axes.annotate(title, (0, 1), (0, 26), **place, fontsize=13, fontweight="bold", color=_INK)
    axes.annotate(summary, (0, 1), (0, 10), **place, fontsize=9.5, color=_FAINT)


def _save(figure: Any, path: Path) -> None:
    with atomic_write(path) as temporary:
        # Without matplotlib's version, so that the same figure gives the same file.
        metadata = {"Software": None}
        layout = {"dpi": 150, "bbox_inches": "tight", "pad_inches": 0.2}
        figure.savefig(temporary, format="png", metadata=metadata, **layout)

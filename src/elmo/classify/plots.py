"""Figures of a classifier as PNG files: what it confuses, and how it learned; extra `study`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.classify.metrics import Metrics
from elmo.errors import require_extra
from elmo.files import written_whole

DOTS_PER_INCH = 150
MOST_CLASSES_AT_EASE = 8
MOST_CLASSES_WITH_NUMBERS = 40
LONGEST_NAME = 28

_INK, _FAINT, _GRID = "#1f2933", "#6b7785", "#e4e8ec"
_BLUE, _ORANGE = "#1c5d99", "#c4571a"
_BLUES = ("#f3f7fb", "#a9c9e8", "#3f83c1", "#123f6d")
_ORANGES = ("#fdf9f5", "#f8d9bd", "#e9904c", "#b34a12")
# Mistakes are seldom more than this share of a class; on the scale of the right ones, from 0 to
# 1, they would all look alike.
_STRONG_MISTAKE = 0.25
_NAME_HEIGHT = 0.1


@dataclass(frozen=True)
class LearningCurves:
    """One value an epoch."""

    train_loss: Sequence[float]
    development_loss: Sequence[float]
    development_accuracy: Sequence[float]
    """From 0 to 1."""


def draw_confusion(metrics: Metrics, title: str, path: Path) -> None:
    """Draw how often each label (row) was taken for each (column): in blue what was right."""
    confusion = np.array(metrics.confusion)
    shares = confusion / np.maximum(1, confusion.sum(1, keepdims=True))
    names = [_shortened(one.label) for one in metrics.classes]
    size = 1.1 + len(names) * _cell_inches(len(names))
    figure = _figure(size, size)
    axes = figure.add_subplot()
    colours = _cell_colours(shares)
    axes.imshow(colours)
    _name_cells(axes, names)
    if len(names) <= MOST_CLASSES_WITH_NUMBERS:
        _number_cells(axes, confusion, shares, colours)
    _write_titles(axes, title, _summary(metrics))
    _save(figure, path)


def draw_learning_curve(
    epochs: Sequence[float],
    curves: LearningCurves,
    kept_epoch: float,
    path: Path,
    title: str = "Learning curve",
) -> None:
    """Draw losses above and accuracy below, epoch by epoch, with the epoch marked that is kept."""
    kept = list(epochs).index(kept_epoch)
    percent = [100 * value for value in curves.development_accuracy]
    figure = _figure(6.4, 5.2)
    above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"hspace": 0.14})
    losses = {"training": curves.train_loss, "development": curves.development_loss}
    _draw_lines(above, epochs, losses, "loss")
    _draw_lines(below, epochs, {"development": percent}, "accuracy, %")
    _mark_kept(above, kept_epoch, curves.development_loss[kept])
    _mark_kept(below, kept_epoch, percent[kept])
    _tick_whole_epochs(below)
    summary = f"epoch {kept_epoch:g} is kept: development accuracy {percent[kept]:.2f}%"
    _write_titles(above, title, summary)
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    """A figure of its own: pyplot would keep it, and take a window system for granted."""
    module: Any = require_extra("matplotlib.figure", "study")
    return module.Figure(figsize=(width, height), facecolor="white")


def _save(figure: Any, path: Path) -> None:
    with written_whole(path) as beside:
        figure.savefig(
            beside,
            format="png",
            dpi=DOTS_PER_INCH,
            bbox_inches="tight",
            pad_inches=0.2,
            # No version number: the same figures give the same file.
            metadata={"Software": None},
        )


def _write_titles(axes: Any, title: str, summary: str) -> None:
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "parse_math": False}
    axes.annotate(title, (0, 1), (0, 26), **place, fontsize=13, fontweight="bold", color=_INK)
    axes.annotate(summary, (0, 1), (0, 10), **place, fontsize=9.5, color=_FAINT)


def _summary(metrics: Metrics) -> str:
    accuracy = metrics.accuracy
    return (
        f"accuracy {accuracy.value:.2%} ({accuracy.low:.2%} to {accuracy.high:.2%}), "
        f"{metrics.count:,} texts"
    )


def _cell_inches(classes: int) -> float:
    if classes <= MOST_CLASSES_AT_EASE:
        return 0.95
    return 0.58 if classes <= MOST_CLASSES_WITH_NUMBERS else 0.2


def _cell_colours(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """A colour a cell, (classes, classes, 4): blue on the diagonal, elsewhere orange."""
    colours: Any = require_extra("matplotlib.colors", "study")
    maps: Any = colours.LinearSegmentedColormap
    right: NDArray[np.float64] = maps.from_list("right", _BLUES)(shares)
    strength = np.minimum(1, shares / _STRONG_MISTAKE)
    wrong: NDArray[np.float64] = maps.from_list("wrong", _ORANGES)(strength)
    return np.where(np.eye(len(shares), dtype=bool)[:, :, None], right, wrong)


def _name_size(classes: int) -> float:
    if classes <= MOST_CLASSES_AT_EASE:
        return 10
    return 8 if classes <= MOST_CLASSES_WITH_NUMBERS else 5


def _name_cells(axes: Any, names: Sequence[str]) -> None:
    places = range(len(names))
    size = _name_size(len(names))
    style = {"fontsize": size, "color": _INK, "parse_math": False}
    slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    fits = max(map(len, names)) <= 12 and len(names) <= MOST_CLASSES_AT_EASE
    axes.set_xticks(places, names, **style, **({} if fits else slanted))
    axes.set_yticks(places, names, **style)
    axes.set_xlabel("predicted", fontsize=size + 1, color=_FAINT, labelpad=8)
    axes.set_ylabel("label", fontsize=size + 1, color=_FAINT, labelpad=8)
    axes.set_xticks(np.arange(1, len(names)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(names)) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)


def _number_cells(
    axes: Any,
    confusion: NDArray[np.int64],
    shares: NDArray[np.float64],
    colours: NDArray[np.float64],
) -> None:
    large, small = (12, 8.5) if len(confusion) <= MOST_CLASSES_AT_EASE else (7.5, 5.5)
    for row, column in np.argwhere(confusion > 0).tolist():
        dark = _luminance(colours[row, column]) < 0.55
        style = {"ha": "center", "color": "white" if dark else _INK}
        count, share = confusion[row, column], shares[row, column]
        axes.text(column, row - 0.09, f"{count:,}", va="center", fontsize=large, **style)
        axes.text(column, row + 0.19, f"{share:.1%}", va="center", fontsize=small, **style)


def _luminance(colour: NDArray[np.float64]) -> float:
    return float(colour[:3] @ [0.299, 0.587, 0.114])


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _draw_lines(
    axes: Any, epochs: Sequence[float], lines: dict[str, Sequence[float]], what: str
) -> None:
    colours = {"training": _ORANGE, "development": _BLUE}
    marker = "o" if len(epochs) <= 30 else None
    for name, values in lines.items():
        axes.plot(epochs, values, color=colours[name], linewidth=1.8, marker=marker, markersize=3.5)
    axes.margins(x=0.03, y=0.12)
    axes.set_ylabel(what, fontsize=10, color=_FAINT)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
    axes.tick_params(length=0, labelsize=9, labelcolor=_FAINT)
    axes.locator_params(axis="y", nbins=6)
    # A loss that has become infinite has no place in a figure: its name stands where it last had.
    finite = {
        name: [value for value in values if isfinite(value)] for name, values in lines.items()
    }
    _label_ends(axes, {name: values[-1] for name, values in finite.items() if values}, colours)


def _label_ends(axes: Any, ends: dict[str, float], colours: dict[str, str]) -> None:
    """Write each line's name beside its end, the names apart where the ends are not."""
    low, high = axes.get_ylim()
    below = -_NAME_HEIGHT
    for name, value in sorted(ends.items(), key=lambda end: end[1]):
        height = max((value - low) / (high - low), below + _NAME_HEIGHT)
        below = height
        place = {"xycoords": "axes fraction", "textcoords": "offset points"}
        style = {"va": "center", "fontsize": 9.5, "color": colours[name]}
        axes.annotate(name, (1, height), (4, 0), **place, **style)


def _mark_kept(axes: Any, epoch: float, value: float) -> None:
    axes.axvline(epoch, color=_FAINT, linewidth=0.9, linestyle=(0, (3, 3)), zorder=1)
    axes.plot([epoch], [value], "o", color="white", markeredgecolor=_BLUE, markersize=8, zorder=4)
    axes.plot([epoch], [value], "o", color=_BLUE, markersize=4, zorder=5)


def _tick_whole_epochs(axes: Any) -> None:
    ticker: Any = require_extra("matplotlib.ticker", "study")
    axes.xaxis.set_major_locator(
        ticker.MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
    )
    axes.set_xlabel("epoch", fontsize=10, color=_FAINT)

"""The benchmarks as pictures: SVG files on white, the same bytes for the same figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from bench_files import BenchFile, Curve, Figure, shown
from elmo.files import written_whole
from training import PLAIN

INK, FAINT, GRID, BLUE, ORANGE = "#1f2933", "#6b7785", "#e4e8ec", "#1c5d99", "#c4571a"
SETTINGS = {"svg.hashsalt": "elmo", "svg.fonttype": "none", "font.family": "sans-serif"}
SCALES = {
    "vocabulary": "words in the vocabulary",
    "cells": "cells of an LSTM layer",
    "sentence length": "words in a sentence",
    "batch": "tokens in a batch",
    "threads": "threads",
    "documents": "documents of the text",
}


def draw_training(found: BenchFile, path: Path) -> None:
    """A dot a case, its spread as a line; a scale on which tenfold is always as far."""
    figures = found.figures[::-1]
    picture = Picture(figsize=(7.2, 0.8 + 0.36 * len(figures)), layout="constrained")
    axes = picture.add_subplot()
    for one in figures:
        colour = _colour(one.name)
        axes.plot([one.lowest, one.highest], [one.name] * 2, color=colour, linewidth=2)
        axes.plot([one.median], [one.name], "o", color=colour, markersize=6)
        _note(axes, shown(one.median), (one.median, one.name))
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.12)
    _tidy(axes, "tokens/s", "")
    _save(picture, path)


def draw_quality(curves: Sequence[Curve], path: Path) -> None:
    """Perplexity of held-out text against seconds of training."""
    picture = Picture(figsize=(7.2, 3.8), layout="constrained")
    axes = picture.add_subplot()
    for curve in curves:
        colour = _colour(curve.name)
        axes.plot(curve.seconds, curve.perplexity, "o-", color=colour, markersize=3, linewidth=1.4)
    for curve in curves[:2]:
        _note(axes, curve.name.partition(",")[0], (curve.seconds[0], curve.perplexity[0]))
    end = curves[0].perplexity[-1]
    axes.axhline(end, color=FAINT, linewidth=0.9, linestyle=(0, (3, 3)))
    _note(axes, shown(end), (curves[0].seconds[-1], end))
    axes.set(xscale="log", yscale="log")
    _tidy(axes, "seconds of training", "held-out perplexity")
    _save(picture, path)


def draw_growth(found: BenchFile, path: Path) -> None:
    """A panel a scale."""
    scales = [name for name in SCALES if found.scale(name)]
    rows = -(-len(scales) // 2)
    picture = Picture(figsize=(7.6, 2.6 * rows), layout="constrained")
    for number, name in enumerate(scales, start=1):
        _draw_scale(picture.add_subplot(rows, 2, number), found.scale(name), SCALES[name])
    _save(picture, path)


def _draw_scale(axes: Any, figures: Sequence[Figure], title: str) -> None:
    places = [one.at for one in figures]
    lowest, highest = ([getattr(one, name) for one in figures] for name in ("lowest", "highest"))
    axes.fill_between(places, lowest, highest, color=BLUE, alpha=0.15, linewidth=0)
    medians = [one.median for one in figures]
    axes.plot(places, medians, "o-", color=BLUE, markersize=3.5, linewidth=1.4)
    if figures[0].unit == "tokens/s":
        axes.set_xscale("log")
    else:  # seconds grow with the text: a straight line, if all is well
        axes.set_xlim(0, 1.05 * max(places))
    axes.set_ylim(0, 1.12 * max(highest))
    _tidy(axes, title, figures[0].unit)
    axes.set_xticks(places)


def _colour(name: str) -> str:
    return ORANGE if name == PLAIN else BLUE


def _note(axes: Any, text: str, place: tuple[Any, Any]) -> None:
    axes.annotate(text, place, (4, 6), textcoords="offset points", color=INK, fontsize=9)


def _tidy(axes: Any, below: str, beside: str) -> None:
    """Round numbers in full, a faint grid, no frame."""
    for axis, numbers in ((axes.xaxis, True), (axes.yaxis, bool(beside))):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_minor_locator(NullLocator())
        if numbers:
            axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:,g}"))
    axes.set_xlabel(below, fontsize=9, color=FAINT)
    axes.set_ylabel(beside, fontsize=9, color=FAINT)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelsize=8, labelcolor=INK)
    axes.spines[:].set_visible(False)


def _save(picture: Picture, path: Path) -> None:
    # Without a date and with fixed names inside, a picture changes only if its figures do.
    with matplotlib.rc_context(SETTINGS), written_whole(path) as beside:
        picture.savefig(beside, format="svg", facecolor="white", metadata={"Date": None})

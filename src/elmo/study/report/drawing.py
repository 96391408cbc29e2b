"""Drawings as SVG text: transparent, with letters that stay letters; extra `study`."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

from elmo.errors import require_extra
from elmo.study.report.palette import FAINT, INK, LINES

WIDTH = 7.1
"""Inches: as wide as the text of a page."""
SIZE, SMALL = 8.5, 7.5
"""Points, of letters."""

_STYLE = {"svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": SIZE}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_LINE_INCHES = 0.15
_SHARE_OF_AXES = 0.8
"""Of a figure's height, about."""
_TAG = re.compile(r"<[^>]+>")
_ID = re.compile(r' id="([^"]+)"')
_LINK = re.compile(r'(?:url\(#|href="#)([^")]+)')


@dataclass(frozen=True)
class Panels:
    """A figure of several axes."""

    figure: Any
    axes: list[Any]


@dataclass(frozen=True, kw_only=True)
class Margins:
    """Inches left free in a panel, where measuring all letters would take too long."""

    left: float
    right: float
    top: float
    bottom: float

    def shares(self, width: float, height: float, across: int, lines: int) -> dict[str, float]:
        """The same as matplotlib wants it: as shares of the whole figure, and of axes."""
        beside, above = self.left + self.right, self.top + self.bottom
        return {
            "left": self.left / (width * across),
            "right": 1 - self.right / (width * across),
            "bottom": self.bottom / (height * lines),
            "top": 1 - self.top / (height * lines),
            "wspace": beside / (width - beside),
            "hspace": above / (height - above),
        }


@dataclass(frozen=True)
class End:
    """The end of a line, to be named."""

    name: str
    value: float
    colour: str


def new_figure(height: float, layout: str = "constrained") -> Any:
    """A figure of its own: pyplot would keep it, and take a window system for granted."""
    module: Any = require_extra("matplotlib.figure", "study")
    return module.Figure(figsize=(WIDTH, height), layout=layout)


def panels(
    count: int,
    height: float,
    across: int = 3,
    *,
    share_y: bool = False,
    margins: Margins | None = None,
) -> Panels:
    """Panels side by side, each so many inches high, in as many lines as it takes."""
    lines = ceil(count / across)
    figure = new_figure(lines * height, "none" if margins else "constrained")
    grid = figure.subplots(lines, across, squeeze=False, sharey=share_y).ravel().tolist()
    if margins:
        figure.subplots_adjust(**margins.shares(WIDTH / across, height, across, lines))
    for unused in grid[count:]:
        unused.set_visible(False)
    return Panels(figure, grid[:count])


def to_svg(figure: Any, name: str) -> str:
    """The figure as an <svg> element whose identifiers no other figure has."""
    matplotlib: Any = require_extra("matplotlib", "study")
    stream = io.StringIO()
    style = {**_STYLE, "svg.hashsalt": name}  # the same figures give the same file
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # The letters are drawn by a browser, with fonts that have them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure.savefig(stream, format="svg", transparent=True, metadata=_NO_METADATA)
    return _bare(stream.getvalue(), name)


def quiet(axes: Any, grid: str) -> None:
    """Leave of the axes what is needed to read values: thin lines along one or both."""
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", length=0, labelsize=SMALL, labelcolor=FAINT.light)
    axes.grid(axis=grid, color=LINES.light, linewidth=0.7)
    axes.set_axisbelow(True)


def plain(size: float = SIZE, colour: str = INK.light) -> dict[str, Any]:
    """The style of letters that are no formula, whatever dollar signs they hold."""
    return {"fontsize": size, "color": colour, "parse_math": False}


def name_axes(axes: Any, x: str = "", y: str = "") -> None:
    """Say what is along the axes."""
    axes.set_xlabel(x, **plain(SMALL, FAINT.light))
    axes.set_ylabel(y, **plain(SMALL, FAINT.light))


def head(axes: Any, text: str) -> None:
    """Write what a panel shows above it."""
    axes.set_title(text, loc="left", pad=7, **plain())


def name_ends(axes: Any, ends: Sequence[End]) -> None:
    """Write names beside the ends of lines, apart where the ends are not."""
    low, high = axes.get_ylim()
    heights = [(one.value - low) / (high - low) for one in ends]
    inches = axes.figure.get_size_inches()[1] * _SHARE_OF_AXES
    for one, height in zip(ends, spaced(heights, _LINE_INCHES / inches), strict=True):
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center"}
        style = plain(SMALL, one.colour) | {"annotation_clip": False}
        axes.annotate(one.name, (1, height), (6, 0), **place, **style)


def spaced(heights: Sequence[float], least: float) -> list[float]:
    """Move heights apart until each has room, in their order, their mean where it was."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    moved = list(heights)
    for before, place in pairwise(order):
        moved[place] = max(moved[place], moved[before] + least)
    shift = (sum(moved) - sum(heights)) / max(1, len(moved))
    return [height - shift for height in moved]


def in_tags(svg: str, change: Callable[[str], str]) -> str:
    """Change the tags of a drawing, but not the letters between them."""
    return _TAG.sub(lambda found: change(found[0]), svg)


def _bare(svg: str, name: str) -> str:
    """Without what only files of their own need, and with identifiers that are used."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    used = {link for tag in _TAG.findall(svg) for link in _LINK.findall(tag)}

    def renamed(tag: str) -> str:
        tag = _ID.sub(lambda found: found[0] if found[1] in used else "", tag)
        return re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-", tag)

    return in_tags(svg, renamed)

"""Figures of curves: accuracy against labels, accuracy against a setting, perplexity by epoch."""

from __future__ import annotations

import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from statistics import fmean
from typing import Any, Literal

from elmo.classify.metrics import wilson
from elmo.errors import require_extra
from elmo.study.formats import (
    GROUPS,
    Figure,
    best,
    called,
    counted,
    duration,
    group_of,
    in_groups,
    listed,
    named,
    of_group,
    reference,
    score,
    setting,
    shortened,
    title,
    whole,
    within,
)
from elmo.study.results import (
    Draws,
    Group,
    LanguageModel,
    RowResult,
    SamplePoint,
    StudyResults,
    Sweep,
)

# What curves show: how far few labels go, what settings change, how the language model learned.


@dataclass(frozen=True)
class Saving:
    """Few labels with which one row does what another does with many."""

    few: SamplePoint
    many: SamplePoint


def curve(results: StudyResults, name: str) -> list[SamplePoint]:
    """The points of a row, from few labels to all."""
    return sorted((p for p in results.samples if p.row == name), key=lambda point: point.train_rows)


def curves(results: StudyResults) -> dict[str, list[SamplePoint]]:
    """The points of every row that has some, in their order."""
    names = dict.fromkeys(point.row for point in results.samples)
    return {name: curve(results, name) for name in names}


def savings_sentences(results: StudyResults) -> list[str]:
    """How many labels ELMo saves against each row that is not ELMo."""
    rows = [row for name in curves(results) if (row := named(results, name))]
    elmo = best([row for row in rows if row.group == "elmo"])
    if elmo is None:
        return []
    return [_saving_sentence(elmo, row, results) for row in rows if row.group != "elmo"]


def savings(fewer: Sequence[SamplePoint], more: Sequence[SamplePoint]) -> list[Saving]:
    """For each size of the other row, the smallest of the one that does no worse, if smaller."""
    return [Saving(few[0], many) for many in more if (few := _enough(fewer, many))]


def sweep_sentence(sweep: Sweep, results: StudyResults) -> str:
    """Which value of a setting was best, and whether the test rows can tell the values apart."""
    points = sweep.points
    chosen = max(points, key=lambda point: point.development_accuracy)
    reached = [point.test_accuracy for point in points]
    start = (
        f"{sweep.setting} of {called(title(results, sweep.row))}: {setting(chosen.value)} was "
        f"best on the development rows ({score(chosen.development_accuracy)}; test "
        f"{score(chosen.test_accuracy)})"
    )
    if len(points) == 1:
        return f"{start}, the only value there is."
    low, high = min(reached), max(reached)
    if _separate(low, high, results.about.test_rows):
        return f"{start}; test accuracies go from {score(low)} to {score(high)}."
    rows = whole(results.about.test_rows)
    return f"{start}; the values make no difference in test accuracy that {rows} rows can show."


def language_model_sentence(model: LanguageModel) -> str:
    """What the biLM is, and what it reached."""
    text = (
        f"The biLM ({model.source}) has {counted(model.layers, 'LSTM layer')} of "
        f"{whole(model.width)} numbers a direction, {counted(model.parameters, 'parameter')} and "
        f"a vocabulary of {counted(model.vocabulary, 'word')}."
    )
    if model.perplexity is not None:
        text += f" Its perplexity on held-out text is {model.perplexity:,.2f}."
    if model.accuracy is not None:
        text += f" Of the held-out words, it predicts {score(model.accuracy)} first."
    return text if model.seconds is None else f"{text} Training took {duration(model.seconds)}."


def history_sentence(model: LanguageModel) -> str:
    """How perplexity went, epoch by epoch."""
    if len(model.history) < 2:
        return ""
    values = [epoch.perplexity for epoch in model.history]
    lowest = min(range(len(values)), key=lambda place: values[place])
    epoch = setting(float(model.history[lowest].epoch))
    if lowest == len(values) - 1:
        return f"Perplexity was lowest ({values[-1]:,.2f}) at the end: more epochs were not tried."
    return f"Perplexity was lowest ({values[lowest]:,.2f}) after epoch {epoch}, then rose."


def _saving_sentence(elmo: RowResult, other: RowResult, results: StudyResults) -> str:
    found = savings(curve(results, elmo.name), curve(results, other.name))
    ours, theirs = called(elmo.title), called(other.title)
    if not found:
        return f"At no size tried does {ours} do with fewer labels what {theirs} does with more."
    pairs = [f"{_labels(one.few)} instead of {_labels(one.many)}" for one in found]
    return (
        f"{ours} gets at least as many test rows right as {theirs} (mean over seeds) with fewer "
        f"labels: {listed(pairs)}."
    )


def _enough(points: Sequence[SamplePoint], many: SamplePoint) -> list[SamplePoint]:
    return [
        few
        for few in points
        if few.train_rows < many.train_rows and few.test_accuracy.mean >= many.test_accuracy.mean
    ]


def _labels(point: SamplePoint) -> str:
    if point.per_class is None:
        return f"all {whole(point.train_rows)}"
    return f"{whole(point.per_class)} a class"


def _separate(low: float, high: float, rows: int) -> bool:
    lower, upper = wilson(round(low * rows), rows), wilson(round(high * rows), rows)
    return lower.high < upper.low


# The colours of the report: few, told apart by the colour-blind too, a pair for light and dark.


@dataclass(frozen=True)
class Colour:
    """A colour by the name of its CSS variable."""

    name: str
    light: str
    """Also that of paper."""
    dark: str


PAPER = Colour("paper", "#fefefe", "#14181d")
INK = Colour("ink", "#1f2933", "#e4e9ee")
FAINT = Colour("faint", "#5c6875", "#a3aeba")
LINES = Colour("lines", "#dde3e8", "#343d47")
SHADE = Colour("shade", "#f3f6f8", "#1c2229")
ON_STRONG = Colour("on-strong", "#fffffe", "#10151a")
"""Of text on a strong colour."""
CONTROL = Colour("control", "#66717d", "#a9b4bf")
STATIC = Colour("static", "#b8500f", "#f0a067")
ELMO = Colour("elmo", "#1c5d99", "#74b3ec")

COLOURS = (PAPER, INK, FAINT, LINES, SHADE, ON_STRONG, CONTROL, STATIC, ELMO)
OF_GROUP: dict[Group, Colour] = {"control": CONTROL, "static": STATIC, "elmo": ELMO}
# Shapes too, for those who print in grey.
MARKERS: dict[Group, str] = {"control": "s", "static": "D", "elmo": "o"}


def css_variables(dark: bool) -> str:
    """Declarations of all colours."""
    return " ".join(f"--{one.name}: {one.dark if dark else one.light};" for one in COLOURS)


def with_variables(tag: str) -> str:
    """A tag of a drawing whose colours follow those of the page it stands in."""
    for colour in COLOURS:
        tag = tag.replace(colour.light, f"var(--{colour.name})")
    return tag


# Drawings as SVG text: transparent, with letters that stay letters; extra `study`.


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


# The figure of the comparison: test accuracy with its interval, row by row, group by group.


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
    for group, heading in GROUPS.items():
        rows = of_group(results, group)
        if rows:
            at = places[rows[0].name] - 1
            style = plain(SMALL, OF_GROUP[group].light) | {"fontweight": "bold"}
            axes.annotate(heading, (0, at), (-6, 0), ha="right", **_AT_THE_EDGE, **style)
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


# Confusion matrices of all rows side by side: mistakes in colour, so that they stand out.


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


# Figures of the weights of layers: learned ones seed by seed, drawn ones with what they gave.


_DOT: dict[str, Any] = {
    "marker": "o",
    "linestyle": "none",
    "color": ELMO.light,
    "markersize": 6,
    "mec": PAPER.light,
    "mew": 0.8,
    "zorder": 3,
}
_DASHED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (4, 3)), "zorder": 1}


def weights_figure(rows: Sequence[RowResult]) -> Figure:
    """Weights of layers, a panel a row, a dot a seed."""
    grid = panels(len(rows), 2.1, 4 if len(rows) > 3 else 3, share_y=True)
    for axes, row in zip(grid.axes, rows, strict=True):
        _draw_weights(axes, row)
    grid.axes[0].set_ylim(0, None)
    return Figure(
        name="weights",
        caption="Normalised weights of the layers: a dot a seed, a line through their means. "
        "Dashed: a plain average. Layer 0 is the word alone.",
        alt=f"Weights of layers by seed. {'; '.join(_listed(row) for row in rows)}.",
        svg=to_svg(grid.figure, "weights"),
    )


def draws_figure(draws: Draws) -> Figure:
    """Test accuracy of each draw against the weight it gave to each layer."""
    layers = len(draws.draws[0].layer_weights)
    reached = [one.test_accuracy for one in draws.draws]
    grid = panels(layers, 2.3, share_y=True)
    for layer, axes in enumerate(grid.axes):
        quiet(axes, "both")
        axes.axhline(draws.trainable_test_accuracy, color=INK.light, **_DASHED)
        axes.plot([one.layer_weights[layer] for one in draws.draws], reached, **_DOT)
        axes.margins(0.1)
        axes.set_xlim(0, None)
        name_axes(axes, f"weight of layer {layer}", "" if layer % 3 else "test accuracy")
    return Figure(
        name="draws",
        caption="Each dot is a draw of frozen weights, once in every panel. Dashed: weights "
        f"learned on the same {whole(draws.train_rows)} rows.",
        alt=f"Test accuracy by draw. {listed([score(one) for one in reached])}; learned weights "
        f"{score(draws.trainable_test_accuracy)}.",
        svg=to_svg(grid.figure, "draws"),
    )


def _draw_weights(axes: Any, row: RowResult) -> None:
    quiet(axes, "y")
    head(axes, row.title)
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    layers = range(len(weights[0]))
    axes.axhline(1 / len(layers), color=FAINT.light, **_DASHED)
    means = [fmean(one[layer] for one in weights) for layer in layers]
    axes.plot(layers, means, color=ELMO.light, linewidth=1.2, alpha=0.5)
    for one in weights:
        axes.plot(layers, one, **_DOT)
    axes.set_xticks(layers, [f"layer {layer}" for layer in layers])
    axes.set_xlim(-0.4, len(layers) - 0.6)


def _listed(row: RowResult) -> str:
    weights = [one.layer_weights for one in row.seeds if one.layer_weights]
    by_seed = (", ".join(score(share) for share in one) for one in weights)
    return f"{row.title} {' and '.join(by_seed)}"

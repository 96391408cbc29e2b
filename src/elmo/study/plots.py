"""The figures of a report as SVG: transparent, text that stays text, colours that follow the page.

Every function takes the plain values of results.json and returns an `<svg>` element in the colours
of paper; `inline` turns it into one that follows the light or dark colours of a page.
"""

from __future__ import annotations

import io
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import Any

from elmo.config import Json
from elmo.runtime import require_extra

# Name: (light, dark). Few, and told apart by the colour-blind too; contrast at least 4.5 for text.
COLOURS = {
    "paper": ("#fefefe", "#14181d"),
    "ink": ("#1f2933", "#e4e9ee"),
    "faint": ("#5c6875", "#a3aeba"),
    "lines": ("#dde3e8", "#343d47"),
    "shade": ("#f3f6f8", "#1c2229"),
    "on-strong": ("#fffffe", "#10151a"),  # text on a strong colour
    "control": ("#66717d", "#a9b4bf"),
    "static": ("#b8500f", "#f0a067"),
    "elmo": ("#1c5d99", "#74b3ec"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
GROUPS = {"control": "Controls", "static": "Static embeddings", "elmo": "ELMo"}
MARKERS = {"control": "s", "static": "D", "elmo": "o"}  # shapes too, for those who print in grey
WIDTH = 7.1  # inches: the width of a page's text
SIZE, SMALL, TINY = 8.5, 7.5, 5.8  # points
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
DASHED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (4, 3)), "zorder": 1}
AT_EDGE: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"),
    "textcoords": "offset points",
    "va": "center_baseline",
    "annotation_clip": False,
}
FULL_COLOUR = 0.15
"""A mistake that is this fraction of a class, or more, has the full colour."""
_TAG = re.compile(r"<[^>]+>")


def css_variables(*, dark: bool) -> str:
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in COLOURS.items())


def inline(svg: str) -> str:
    """An <svg> for a page: as wide as its container, coloured by the page's CSS variables."""

    def with_variables(tag: re.Match[str]) -> str:
        text = tag[0]
        for name, (light, _) in COLOURS.items():
            text = text.replace(light, f"var(--{name})")
        return text

    opening, rest = svg.split(">", 1)
    # An <svg> in a page needs no namespaces, and no size of its own.
    opening = re.sub(r' (?:xmlns(?::xlink)?|version|width|height)="[^"]*"', "", opening)
    # Only in tags: a text of the figure that happens to read #1f2933 stays as it is.
    return f'{opening} aria-hidden="true">{_TAG.sub(with_variables, rest)}'


def on_white(svg: str) -> str:
    """A drawing with a ground of its own, for files: a reader's may be dark."""
    opening, rest = svg.split(">", 1)
    return f'{opening}><rect width="100%" height="100%" fill="#ffffff"/>{rest}\n'


def accuracy(rows: Sequence[Json]) -> str:
    """Test accuracy and its interval, one line per row, grouped.

    Filled: the embedding alone; open: beside task embeddings.
    """
    positions: dict[str, float] = {}
    bottom = 0.0
    for group in GROUPS:
        members = [row for row in rows if row["group"] == group]
        positions |= {row["name"]: bottom + 1 + idx for idx, row in enumerate(members)}
        bottom += len(members) + 1.4 if members else 0
    columns = ("alone", "beside")
    shown = [
        (row, name, row[name]["test_accuracy"]) for row in rows for name in columns if row[name]
    ]
    # The embeddings decide the scale: the majority class is far below, and becomes an arrow.
    scaled = [test for row, _, test in shown if row["group"] != "control"]
    low = min(test["low"] for test in scaled or [test for _, _, test in shown])
    high = max(test["high"] for _, _, test in shown)
    room = 0.06 * max(high - low, 0.01)
    left, right = low - room, high + room

    height = max(positions.values()) + 1.2
    figure = _figure(0.5 + 0.225 * height)
    axes = figure.add_subplot(xlim=(left, right), ylim=(height - 0.4, -0.6))
    _quiet(axes, "x")
    _label(axes, "test accuracy")
    titles = {row["name"]: row["title"] for row in rows}
    axes.set_yticks(list(positions.values()), [titles[n] for n in positions], **_text(SMALL))
    for idx, head in enumerate(dict.fromkeys(name for _, name, _ in shown)):
        style = _text(SMALL, LIGHT["faint"])
        axes.annotate(head, (1, -0.35), (6 + 34 * idx, 0), **AT_EDGE, **style)
    for group, heading in GROUPS.items():
        tops = [positions[row["name"]] for row in rows if row["group"] == group]
        if tops:
            style = _text(SMALL, LIGHT[group]) | {"fontweight": "bold"}
            axes.annotate(heading, (0, min(tops) - 1), (-6, 0), ha="right", **AT_EDGE, **style)
            axes.axhline(min(tops) - 0.5, color=LIGHT["lines"], linewidth=0.7)
    for row, name, test in shown:
        colour = LIGHT[row["group"]]
        at = positions[row["name"]] + (0.17 if name == "beside" else -0.1 if row["beside"] else 0)
        beside = 34 if name == "beside" else 0
        number = {"color": LIGHT["ink" if name == "alone" else "faint"]}
        text = f"{test['mean']:.4f}"
        edge = (1, positions[row["name"]])
        axes.annotate(text, edge, (6 + beside, 0), **AT_EDGE, **(_text(SMALL) | number))
        if test["mean"] < left:
            axes.annotate("◂", (0, at), (1, 0), **AT_EDGE, **_text(9, colour))
            continue
        style = {"linewidth": 1.8 if name == "alone" else 0.9, "alpha": 0.5}
        axes.plot([max(left, test["low"]), test["high"]], [at, at], color=colour, **style)
        marker = _marker(row["group"], colour if name == "alone" else LIGHT["paper"])
        axes.plot([test["mean"]], [at], **(marker | {"mec": colour}))
    for row in rows:
        compared = [other["alone"]["compared"] for other in rows if other["alone"]]
        if any(comparison and comparison["against"] == row["name"] for comparison in compared):
            axes.axvline(row["alone"]["test_accuracy"]["mean"], color=LIGHT["faint"], **DASHED)
    return _svg(figure, "accuracy")


def confusion(rows: Sequence[Json], labels: Sequence[str], split: str) -> str:
    """The first seed's confusion matrix of every row; mistakes are coloured."""
    lines, height = ceil(len(rows) / 4), 1.72
    figure = _figure(lines * height, layout="none")
    grid = figure.subplots(lines, 4, squeeze=False).ravel().tolist()
    # By hand: to measure the text of 68 matrices would take a constrained layout half a minute.
    width, total = WIDTH / 4, lines * height
    figure.subplots_adjust(
        left=0.52 / WIDTH,
        right=1 - 0.06 / WIDTH,
        bottom=0.17 / total,
        top=1 - 0.2 / total,
        wspace=0.58 / (width - 0.58),
        hspace=0.37 / (height - 0.37),
    )
    names = [label if len(label) <= 10 else f"{label[:9].rstrip()}…" for label in labels]
    for axes in grid[len(rows) :]:
        axes.set_visible(False)
    for axes, row in zip(grid, rows, strict=False):
        colour = LIGHT[row["group"]]
        matrix = row["seeds"][0][split]["confusion"]
        for line, counts in enumerate(matrix):
            for column, count in enumerate(counts):
                rate = count / max(1, sum(counts))
                look = (colour, min(1.0, rate / FULL_COLOUR))
                if line == column:
                    look = (LIGHT["lines"], 0.55)
                text = f"{count:,}" if len(labels) <= 8 else ""  # more cannot be read
                _cell(axes, line, column, text, *look)
        axes.set(xlim=(0, len(labels)), ylim=(len(labels), 0), aspect="equal")
        ticks = [idx + 0.5 for idx in range(len(labels))]
        axes.set_yticks(ticks, names, **_text(TINY, LIGHT["faint"]))
        axes.set_xticks(ticks, [name[:3] for name in names], **_text(TINY, LIGHT["faint"]))
        axes.tick_params(length=0, pad=1.5)
        axes.spines[:].set_visible(False)
        axes.set_title(row["title"].partition(" (")[0], loc="left", pad=5, **_text(SMALL, colour))
    return _svg(figure, f"confusion-{split}")


def weights(rows: Sequence[Json]) -> str:
    """Weights of layers, one panel per row, one dot per seed."""
    figure, panels = _panels(len(rows), 2.1, 4 if len(rows) > 3 else 3, share_y=True)
    for axes, row in zip(panels, rows, strict=True):
        _quiet(axes, "y")
        axes.set_title(row["title"], loc="left", pad=7, **_text())
        seeds = [seed["layer_weights"] for seed in row["seeds"] if seed["layer_weights"]]
        layers = range(len(seeds[0]))
        axes.axhline(1 / len(layers), color=LIGHT["faint"], **DASHED)
        means = [fmean(seed[layer] for seed in seeds) for layer in layers]
        axes.plot(layers, means, color=LIGHT["elmo"], linewidth=1.2, alpha=0.5)
        for seed in seeds:
            axes.plot(layers, seed, **_marker("elmo"))
        axes.set_xticks(layers, [f"layer {layer}" for layer in layers])
        axes.set_xlim(-0.4, len(layers) - 0.6)
    panels[0].set_ylim(0, None)
    return _svg(figure, "weights")


def word_confusions(confusions: Sequence[Json]) -> str:
    """A heat map of the words that a biLM confuses: true words down, predicted ones across."""
    true = list(dict.fromkeys(pair["true"] for pair in confusions))
    predicted = list(dict.fromkeys(pair["predicted"] for pair in confusions))
    figure = _figure(0.9 + 0.19 * len(true))
    axes = figure.add_subplot(xlim=(0, len(predicted)), ylim=(len(true), 0))
    most = max(pair["count"] for pair in confusions)
    for pair in confusions:
        column, line = predicted.index(pair["predicted"]), true.index(pair["true"])
        strength = 0.12 + 0.88 * pair["count"] / most
        _cell(axes, line, column, f"{pair['count']:,}", LIGHT["elmo"], strength)
    axes.set_yticks([idx + 0.5 for idx in range(len(true))], true, **_text(SMALL))
    ticks = [idx + 0.5 for idx in range(len(predicted))]
    axes.set_xticks(
        ticks, predicted, rotation=50, ha="right", rotation_mode="anchor", **_text(SMALL)
    )
    axes.tick_params(length=0, pad=2)
    axes.spines[:].set_visible(False)
    axes.set_xticks(range(len(predicted) + 1), minor=True)
    axes.set_yticks(range(len(true) + 1), minor=True)
    axes.grid(which="minor", color=LIGHT["lines"], linewidth=0.4)
    axes.tick_params(which="minor", length=0)
    axes.set_axisbelow(True)
    _label(axes, "predicted word", "true word")
    return _svg(figure, "word-confusions")


def draws(results: Json) -> str:
    """Test accuracy of each draw of frozen weights against its weight of each layer."""
    layers = len(results["draws"][0]["layer_weights"])
    reached = [draw["test_accuracy"] for draw in results["draws"]]
    figure, panels = _panels(layers, 2.3, share_y=True)
    for layer, axes in enumerate(panels):
        _quiet(axes, "both")
        axes.axhline(results["trainable_test_accuracy"], color=LIGHT["ink"], **DASHED)
        weights_of = [draw["layer_weights"][layer] for draw in results["draws"]]
        axes.plot(weights_of, reached, **_marker("elmo"))
        axes.margins(0.1)
        axes.set_xlim(0, None)
        _label(axes, f"weight of layer {layer}", "" if layer % 3 else "test accuracy")
    return _svg(figure, "draws")


def best_of(results: Json) -> str:
    """Expected test accuracy of the best of several draws on development rows."""
    figure = _figure(2.2)
    axes = figure.add_subplot()
    _quiet(axes, "y")
    sizes = range(1, len(results["best_of"]) + 1)
    trained = {"color": LIGHT["ink"], "label": "trainable λs"}
    axes.axhline(results["trainable_test_accuracy"], **trained, **DASHED)
    _curve(axes, sizes, results["best_of"], "elmo", label="best draw")
    _legend(axes)
    axes.margins(0.06, 0.2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    _label(axes, "draws of frozen λs to choose from", "test accuracy")
    return _svg(figure, "best-of")


def samples(
    points: Sequence[Json], names: Mapping[str, tuple[str, str]], measure: str = "test accuracy"
) -> str:
    """Test accuracy against the number of labelled rows; `names`: title and group by row."""
    figure = _figure(3.6)
    axes = figure.add_subplot(xscale="log")
    _quiet(axes, "both")
    seen: Counter[str] = Counter()
    for row in dict.fromkeys(point["row"] for point in points):
        title, group = names[row]
        curve = sorted(
            (point for point in points if point["row"] == row),
            key=lambda point: point["train_rows"],
        )
        sizes = [point["train_rows"] for point in curve]
        tests = [point["test_accuracy"] for point in curve]
        means = [test["mean"] for test in tests]
        colour, dashes = LIGHT[group], DASHES[seen[group] % len(DASHES)]
        low, high = [test["low"] for test in tests], [test["high"] for test in tests]
        axes.fill_between(sizes, low, high, color=colour, alpha=0.13, linewidth=0)
        _curve(axes, sizes, means, group, dashes, label=title)
        seen[group] += 1
    _legend(axes)
    ticks = {point["train_rows"]: point.get("per_class", 0) for point in points}
    labels = [
        f"{size:,}\n{'all' if per_class is None else f'{per_class:,} per class' * (per_class > 0)}"
        for size, per_class in ticks.items()
    ]
    axes.set_xticks(list(ticks), labels, **_text(SMALL, LIGHT["faint"]))
    axes.minorticks_off()
    _label(axes, "labelled training rows", measure)
    return _svg(figure, "samples")


def sweep(curves: Sequence[Json], names: Mapping[str, tuple[str, str]], setting: str) -> str:
    """Development and test accuracy against the values of one setting, one panel per row."""
    figure, panels = _panels(len(curves), 1.9, max(2, len(curves)), share_y=True)
    for axes, curve in zip(panels, curves, strict=True):
        title, group = names[curve["row"]]
        colour = LIGHT[group]
        _quiet(axes, "both")
        axes.set_title(title, loc="left", pad=6, **_text())
        points = sorted(curve["points"], key=lambda point: point["value"])
        at = range(len(points))
        development = [point["development_accuracy"] for point in points]
        test = [point["test_accuracy"] for point in points]
        axes.plot(at, development, color=colour, linewidth=1, linestyle=DASHES[1], alpha=0.6)
        axes.plot(at, development, **_marker(group, LIGHT["paper"]) | {"mec": colour})
        _curve(axes, at, test, group)
        axes.set_xticks(at, [f"{point['value']:g}" for point in points])
        axes.margins(0.1)
        _label(axes, setting, "accuracy" if axes is panels[0] else "")
    return _svg(figure, f"sweep-{curves[0]['setting']}")


def perplexity(history: Sequence[Json]) -> str:
    figure = _figure(2.5)
    axes = figure.add_subplot()
    _quiet(axes, "y")
    epochs = [report["epoch"] for report in history]
    for name, key, group, dashes in (
        ("forward", "forward_perplexity", "control", DASHES[1]),
        ("backward", "backward_perplexity", "control", DASHES[2]),
        ("both", "perplexity", "elmo", DASHES[0]),
    ):
        values = [report[key] for report in history]
        axes.plot(epochs, values, color=LIGHT[group], linestyle=dashes, linewidth=1.4, label=name)
        if group == "elmo":
            axes.plot(epochs, values, **_marker(group))
    _legend(axes)
    axes.set_xticks(epochs, [f"{epoch:g}" for epoch in epochs])
    _label(axes, "epoch", "perplexity")
    return _svg(figure, "perplexity")


def _cell(axes: Any, line: int, column: int, text: str, colour: str, strength: float) -> None:
    """A coloured cell of a heat map, with a number that can be read on it."""
    patches: Any = require_extra("matplotlib.patches", "study")
    box = patches.Rectangle((column + 0.025, line + 0.025), 0.95, 0.95, linewidth=0)
    box.set(facecolor=colour, alpha=strength)
    axes.add_patch(box)
    if text:
        ink = LIGHT["on-strong" if strength > 0.6 else "ink"]
        style = {"ha": "center", "va": "center_baseline", **_text(TINY, ink)}
        axes.text(column + 0.5, line + 0.5, text, **style)


def _curve(
    axes: Any,
    x: Sequence[float],
    y: Sequence[float],
    group: str,
    line: Any = "-",
    label: str | None = None,
) -> None:
    """A line in the colour of its group, with its markers above all other lines."""
    axes.plot(x, y, color=LIGHT[group], linewidth=1.4, linestyle=line, label=label)
    axes.plot(x, y, **_marker(group))


def _figure(height: float, layout: str = "constrained") -> Any:
    # Not pyplot: it would keep every figure, and may look for a window system.
    module: Any = require_extra("matplotlib.figure", "study")
    return module.Figure(figsize=(WIDTH, height), layout=layout)


def _panels(
    count: int, height: float, across: int = 3, *, share_y: bool = False
) -> tuple[Any, list[Any]]:
    figure = _figure(ceil(count / across) * height)
    lines = ceil(count / across)
    grid = figure.subplots(lines, across, squeeze=False, sharey=share_y).ravel().tolist()
    for unused in grid[count:]:
        unused.set_visible(False)
    return figure, grid[:count]


def _quiet(axes: Any, grid: str) -> None:
    axes.spines[:].set_visible(False)
    axes.tick_params(which="both", length=0, labelsize=SMALL, labelcolor=LIGHT["faint"])
    axes.grid(axis=grid, color=LIGHT["lines"], linewidth=0.7)
    axes.set_axisbelow(True)


def _text(size: float = SIZE, colour: str = LIGHT["ink"]) -> dict[str, Any]:
    # parse_math: a title with two dollar signs is no formula.
    return {"fontsize": size, "color": colour, "parse_math": False}


def _label(axes: Any, x: str, y: str = "") -> None:
    axes.set_xlabel(x, **_text(SMALL, LIGHT["faint"]))
    axes.set_ylabel(y, **_text(SMALL, LIGHT["faint"]))


def _marker(group: str, colour: str = "") -> dict[str, Any]:
    style = {"linestyle": "none", "markersize": 5.5, "mew": 0.8, "zorder": 3}
    return {
        "marker": MARKERS[group],
        "color": colour or LIGHT[group],
        "mec": LIGHT["paper"],
        **style,
    }


def _legend(axes: Any) -> None:
    """The names of the lines beside them, in their colours."""
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False}
    legend = axes.legend(fontsize=SMALL, labelcolor="linecolor", **place)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _svg(figure: Any, name: str) -> str:
    """The figure as an <svg> element; its ids begin with `name`, so that no two figures share any.

    The same figure gives the same text (no date, and ids that do not depend on chance).
    """
    matplotlib: Any = require_extra("matplotlib", "study")
    stream = io.StringIO()
    style = {"svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": SIZE}
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context(style | {"svg.hashsalt": name}), warnings.catch_warnings():
        # The text is drawn by a browser or by typst, with fonts that have these characters.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    link = re.compile(r'(?:url\(#|href="#)([^")]+)')
    used = {target for tag in _TAG.findall(svg) for target in link.findall(tag)}

    def renamed(tag: re.Match[str]) -> str:
        text = re.sub(r' id="([^"]+)"', lambda id: id[0] if id[1] in used else "", tag[0])
        return re.sub(r'( id="|url\(#|href="#)', rf"\1{name}-", text)

    return _TAG.sub(renamed, svg)

"""Makes docs/performance.md and its pictures from what the benchmarks have written.

    python benchmarks/performance_page.py [--folder docs/performance] [--out docs/performance.md]

What has not been measured says so; nothing on the page comes from anywhere else.
"""

from __future__ import annotations

import argparse
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from elmo.files import atomic_write, write_text
from harness import BenchFile, Curve, Figure, read_bench, shown
from time_to_quality import OURS
from time_to_quality import PLAIN as PLAIN_CURVE
from training import CORE_TAKEN, PLAIN, preset_name
from using import CLASSIFIER, EMBEDDING, FILE, IMPORTING, POOLED, PREDICTION, WORD_FILE

# The benchmarks as pictures: SVG files on white, the same bytes for the same figures.


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
    with matplotlib.rc_context(SETTINGS), atomic_write(path) as beside:
        picture.savefig(beside, format="svg", facecolor="white", metadata={"Date": None})


# What is to be reached, and what the files of the benchmarks say of it.


DEFAULT_FP32, DEFAULT_BF16 = (preset_name("default", one) for one in ("fp32", "bf16"))
LARGE_FILE = 1000
"""Megabytes: a smaller file tells nothing of a large one's memory."""


@dataclass(frozen=True)
class Found:
    """A measured value and how far repeats lie apart."""

    value: float
    lowest: float
    highest: float


Find = Callable[[BenchFile], Found | None]


@dataclass(frozen=True)
class Bound:
    """What a value must be."""

    value: float
    unit: str
    is_lower: bool

    def holds(self, found: Found) -> bool:
        """Whether the median keeps to it."""
        return found.value >= self.value if self.is_lower else found.value < self.value

    def __str__(self) -> str:
        return f"{'≥' if self.is_lower else '<'} {self.value:,g} {self.unit}"


def at_least(value: float, unit: str) -> Bound:
    """More is better."""
    return Bound(value, unit, is_lower=True)


def below(value: float, unit: str) -> Bound:
    """Less is better."""
    return Bound(value, unit, is_lower=False)


@dataclass(frozen=True)
class Target:
    """What is to be reached, which benchmark measures it, and how to find it in its file."""

    what: str
    bound: Bound
    bench: str
    find: Find


def ratio(one: Figure | None, other: Figure | None) -> Found | None:
    """How many times the other it is; what was measured in the same turn is compared."""
    if one is None or other is None:
        return None
    # What was measured only once is the same in every turn.
    turns = max(len(one.values), len(other.values))
    ones, others = (each * turns if len(each) == 1 else each for each in (one.values, other.values))
    ratios = [mine / theirs for mine, theirs in zip(ones, others, strict=True)]
    return Found(statistics.median(ratios), min(ratios), max(ratios))


def _value(*names: str) -> Find:
    """The first figure of these names that was measured."""

    def find(file: BenchFile) -> Found | None:
        one = next(filter(None, map(file.figure, names)), None)
        return None if one is None else Found(one.median, one.lowest, one.highest)

    return find


def _ratio(name: str, other: str) -> Find:
    return lambda file: ratio(file.figure(name), file.figure(other))


def _share_kept(file: BenchFile) -> Found | None:
    for alone in (DEFAULT_BF16, DEFAULT_FP32):
        found = ratio(file.figure(f"{alone}, {CORE_TAKEN}"), file.figure(alone))
        if found is not None:
            return Found(100 * found.value, 100 * found.lowest, 100 * found.highest)
    return None


def _training_memory(file: BenchFile) -> Found | None:
    return _peak([one for one in file.figures if one.name in (DEFAULT_BF16, DEFAULT_FP32)])


def _file_memory(file: BenchFile) -> Found | None:
    files = [*file.scale(FILE), *file.scale(WORD_FILE)]
    return _peak([one for one in files if (one.at or 0) >= LARGE_FILE])


def _peak(figures: Sequence[Figure]) -> Found | None:
    if not figures:
        return None
    most = max(one.peak_megabytes for one in figures) / 1000
    return Found(most, most, most)


TARGETS = (
    Target(
        "pre-training, default preset, bf16 units",
        at_least(20_000, "tokens/s"),
        "training",
        _value(DEFAULT_BF16),
    ),
    Target(
        "with bf16 units, against the plain implementation",
        at_least(40, "×"),
        "training",
        _ratio(DEFAULT_BF16, PLAIN),
    ),
    Target(
        "without bf16 units, against the plain implementation",
        at_least(15, "×"),
        "training",
        _ratio(DEFAULT_FP32, PLAIN),
    ),
    Target(
        "pre-training from characters, bf16 units",
        at_least(8_000, "tokens/s"),
        "training",
        _value(preset_name("characters", "bf16")),
    ),
    Target(
        "speed kept beside a process that takes a core", at_least(40, "%"), "training", _share_kept
    ),
    Target(
        "memory of pre-training, default preset", below(2.5, "GB"), "training", _training_memory
    ),
    Target(
        "as good as the plain implementation, sooner by",
        at_least(30, "×"),
        "time_to_quality",
        _ratio(PLAIN_CURVE, OURS),
    ),
    Target(
        "embedding with the biLM of the news classifier",
        at_least(60_000, "tokens/s"),
        "using",
        _value(f"{EMBEDDING}, bf16", f"{EMBEDDING}, fp32"),
    ),
    Target("7,600 pooled vectors, with start-up", below(10, "s"), "using", _value(POOLED)),
    Target("a classifier on AG News, frozen biLM", below(300, "s"), "using", _value(CLASSIFIER)),
    Target("prediction of a sentence", below(15, "ms"), "using", _value(PREDICTION)),
    Target("`import elmo`", below(0.3, "s"), "using", _value(IMPORTING)),
    Target("memory of embedding a text file of 1 GB", below(2, "GB"), "using", _file_memory),
)


NAMES = ("training", "time_to_quality", "growth", "using")
NOT_MEASURED = "not measured"
BUSY = "others were busy: does not count"

Files = Mapping[str, BenchFile]
HEAD = """# Performance

Made by `make bench` (`benchmarks/performance_page.py`) from what the scripts in `benchmarks/` have
measured; not written by hand. Figures are medians of repeats, with the lowest and the highest in
brackets. What is compared was measured in turn in one run, each case in a process of its own, on a
machine that did nothing else; "others" is how many cores did something else meanwhile, at worst. A
token counts once, although both directions read it.
"""


def main(command: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("docs/performance"))
    parser.add_argument("--out", type=Path, default=Path("docs/performance.md"))
    given = parser.parse_args(command)
    files = read_all(given.folder)
    if not files:
        parser.exit(2, f"{given.folder}: no results; run make bench first\n")
    draw(files, given.out.with_suffix(""))
    write_text(given.out, page(files, given.out.stem))
    print(f"{given.out}: made from {', '.join(files)}")


def read_all(folder: Path) -> Files:
    """The files that are there."""
    paths = {name: folder / f"{name}.json" for name in NAMES}
    return {name: read_bench(path) for name, path in paths.items() if path.exists()}


def draw(files: Files, folder: Path) -> None:
    """Draw what there is to draw."""
    if "training" in files:
        draw_training(files["training"], folder / "training.svg")
    if "time_to_quality" in files:
        draw_quality(files["time_to_quality"].curves, folder / "time_to_quality.svg")
    if "growth" in files:
        draw_growth(files["growth"], folder / "growth.svg")


def page(files: Files, pictures: str) -> str:
    """The whole page."""
    sections = (
        _targets(files),
        _training(files, pictures),
        _quality(files, pictures),
        _growth(files, pictures),
        _using(files),
        _circumstances(files),
    )
    lines = [HEAD, *_warnings(files), *(line for section in sections for line in section)]
    return "\n".join(lines) + "\n"


def _warnings(files: Files) -> Iterator[str]:
    for name, found in files.items():
        if found.busy:
            yield f"**`{name}` was measured while others were busy: it is worth little.**\n"
    if not any(found.machine.bf16_units for found in files.values()):
        yield "This processor has no bf16 units, so what needs them was not measured.\n"


def _targets(files: Files) -> Iterator[str]:
    yield "## At a glance\n"
    yield "| what | goal | measured | |"
    yield "|---|---|---|---|"
    for target in TARGETS:
        yield _target_row(target, files.get(target.bench))


def _target_row(target: Target, file: BenchFile | None) -> str:
    found = None if file is None else target.find(file)
    if file is None or found is None:
        return f"| {target.what} | {target.bound} | {NOT_MEASURED} | |"
    value = f"{shown(found.value)} {target.bound.unit}"
    if found.lowest != found.highest:
        value += f" ({shown(found.lowest)} to {shown(found.highest)})"
    verdict = "reached" if target.bound.holds(found) else "**not reached**"
    return f"| {target.what} | {target.bound} | {value} | {BUSY if file.busy else verdict} |"


def _training(files: Files, pictures: str) -> Iterator[str]:
    yield "\n## Pre-training\n"
    if "training" not in files:
        yield NOT_MEASURED
        return
    found = files["training"]
    yield "| | tokens/s | × plain | memory, MB | others, cores |"
    yield "|---|---|---|---|---|"
    for one in found.figures:
        against = ratio(one, found.figure(PLAIN))
        times = "" if against is None else f"{against.value:.1f}"
        memory = f"{one.peak_megabytes:,.0f}"
        yield f"| {one.name} | {_spread(one)} | {times} | {memory} | {one.cores_of_others:.2f} |"
    yield f"\n![tokens a second]({pictures}/training.svg)"


def _quality(files: Files, pictures: str) -> Iterator[str]:
    yield "\n## Time to quality\n"
    if "time_to_quality" not in files:
        yield NOT_MEASURED
        return
    found = files["time_to_quality"]
    plain = found.curves[0]
    yield textwrap.fill(
        f"After {plain.seconds[-1]:,.0f} s of training the plain implementation is at perplexity "
        f"{plain.perplexity[-1]:,.1f} ({plain.predicted:,} held-out words a direction, the same "
        "vocabulary for both). Seconds until ours is as good, a seed each:",
        100,
    )
    yield ""
    yield "| | seconds | tokens | perplexity |"
    yield "|---|---|---|---|"
    for one in found.curves:
        reached = f"{one.seconds[-1]:,.1f} | {one.tokens[-1]:,} | {one.perplexity[-1]:,.1f}"
        yield f"| {one.name} | {reached} |"
    yield f"\n![perplexity against seconds]({pictures}/time_to_quality.svg)"


def _growth(files: Files, pictures: str) -> Iterator[str]:
    yield "\n## How speed changes with size\n"
    if "growth" not in files:
        yield NOT_MEASURED
        return
    for name, title in SCALES.items():
        figures = files["growth"].scale(name)
        if figures:
            yield f"| {title} | {figures[0].unit} | memory, MB | others, cores |"
            yield "|---|---|---|---|"
            yield from (f"| {one.at:,g} | {_rest(one)} |" for one in figures)
            yield ""
    yield f"![growth]({pictures}/growth.svg)"


def _using(files: Files) -> Iterator[str]:
    yield "\n## In use\n"
    if "using" not in files:
        yield NOT_MEASURED
        return
    yield textwrap.fill(
        "With the biLM of the news classifier that comes with the package (words, 2 × 128 cells "
        "per direction, 37,122 words), the default model of 0.1. The general model `default` also "
        "reads characters, has 2 × 256 cells, and is "
        "[slower](experiments.md#speed-of-the-two-shipped-models).",
        100,
    )
    yield "\n| | | memory, MB | others, cores |"
    yield "|---|---|---|---|"
    for one in files["using"].figures:
        name = one.name if one.at is None else f"{one.name} of {one.at:,g} MB"
        yield f"| {name}, {one.unit} | {_rest(one)} |"


def _circumstances(files: Files) -> Iterator[str]:
    yield "\n## How it was measured\n"
    for name in NAMES:
        yield f"- {_circumstance(files[name])}" if name in files else f"- {name}: {NOT_MEASURED}"


def _circumstance(found: BenchFile) -> str:
    machine = found.machine
    units = "with" if machine.bf16_units else "without"
    return (
        f"`{found.command}` at commit {found.commit}, {found.finished} UTC: {machine.processor}, "
        f"{machine.cores} cores, {units} bf16 units, {machine.gigabytes:,g} GB, {machine.system}, "
        f"Python {machine.python}, torch {machine.torch}; others took "
        f"{found.cores_of_others_before:.2f} cores before."
    )


def _rest(one: Figure) -> str:
    return f"{_spread(one)} | {one.peak_megabytes:,.0f} | {one.cores_of_others:.2f}"


def _spread(one: Figure) -> str:
    if len(one.values) == 1:
        return shown(one.median)
    return f"{shown(one.median)} ({shown(one.lowest)} to {shown(one.highest)})"


if __name__ == "__main__":
    main()

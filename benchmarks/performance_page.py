"""Makes docs/performance.md and its pictures from what the benchmarks have written.

    python benchmarks/performance_page.py [--folder docs/performance] [--out docs/performance.md]

What has not been measured says so; nothing on the page comes from anywhere else.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench_files import BenchFile, Figure, read_bench, shown
from elmo.files import write_text
from performance_plots import SCALES, draw_growth, draw_quality, draw_training
from performance_targets import TARGETS, Target, ratio
from training import PLAIN

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
    yield "## What is to be reached\n"
    yield "| what | to reach | measured | |"
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
    yield "| | | memory, MB | others, cores |"
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

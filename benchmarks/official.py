"""Official ELMo models of the three published sizes: our speed, and that of two other programs.

    python benchmarks/official.py --folder build/official [--sizes small] [--repeats 5]

The others are a plain step-by-step implementation (step_by_step.py) and simple_elmo from PyPI,
which gets an environment of its own in the folder (--environment to use another). Weights are
random, of a fixed seed; sentences are those of about 30 words of the AG News test file; each repeat
begins with nothing remembered. All programs are measured in turn, repeat by repeat. It fails if
they do not agree, or if the machine has other work to do (--allow-busy to try it all the same: the
figures are then worth nothing).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from elmo.runtime import keep_freed_memory
from machine_load import ALLOWED, Usage, cores_busy
from official_programs import Program, Words, Worker, environment, ours, plain
from official_setting import SIZES, make_model, some_sentences

AGREEMENT = 1e-4
COMPARED = 32
"""Sentences that are compared number by number."""
LEAST_SENTENCES = 128
"""Read in a repeat: one of a few sentences would be too short to measure, and all its words new."""


@dataclass(frozen=True)
class Figure:
    """Tokens a second of a program, and who else was there."""

    size: str
    batch: int
    program: str
    median: float
    lowest: float
    highest: float
    cores_of_others: float


@dataclass(frozen=True)
class Deviation:
    """How far bf16 is from fp32 in one layer."""

    size: str
    layer: int
    mean_cosine: float
    lowest_cosine: float
    largest_difference: float


def main() -> None:
    """Make the models, measure, print tables; a JSON file keeps the figures."""
    given = _arguments()
    keep_freed_memory()
    torch.set_num_threads(given.threads)
    before = cores_busy()
    print(_machine(given.threads, before))
    if before > ALLOWED and not given.allow_busy:
        sys.exit(f"others keep {before:.2f} cores busy; wait until they are done (or --allow-busy)")
    python = None if given.without_simple_elmo else environment(_environment_folder(given))
    figures: list[Figure] = []
    deviations: list[Deviation] = []
    for size in given.sizes:
        make_model(given.folder / size, size)
        if "bf16" in given.precisions:
            deviations += compare_precisions(size, given.folder / size)
        for batch in given.batches:
            print(f"{size}, batch {batch}", flush=True)
            figures += measure(given, size, batch, python)
    tell(figures, deviations)
    content = {"figures": list(map(asdict, figures)), "deviations": list(map(asdict, deviations))}
    (given.folder / "official.json").write_text(json.dumps(content, indent=1))
    worst = max((figure.cores_of_others for figure in figures), default=0.0)
    if worst > ALLOWED and not given.allow_busy:
        sys.exit(f"others took up to {worst:.2f} cores meanwhile: these figures are worth nothing")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="models, environment, figures")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument(
        "--batches", nargs="*", type=int, default=[1, 32, 128], help="none: only how far bf16 is"
    )
    parser.add_argument("--rounds", type=int, default=4, help="batches a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"]
    )
    parser.add_argument("--environment", type=Path, help="one that holds simple_elmo, or shall")
    parser.add_argument("--without-simple-elmo", action="store_true")
    parser.add_argument("--allow-busy", action="store_true")
    return parser.parse_args()


def _environment_folder(given: argparse.Namespace) -> Path:
    return given.environment or given.folder / "environment"


def measure(given: argparse.Namespace, size: str, batch: int, python: Path | None) -> list[Figure]:
    """All programs in turn, repeat by repeat; the first turn is not counted."""
    folder = given.folder / size
    sentences = some_sentences(max(LEAST_SENTENCES, batch * given.rounds))
    programs = [ours("ours fp32", folder, batch, "fp32")]
    programs.append(ours("ours fp32, no cache", folder, batch, "fp32", most_words=0))
    programs.append(plain("step by step fp32", folder, batch, torch.float32))
    if "bf16" in given.precisions:
        programs.append(ours("ours bf16", folder, batch, "bf16"))
        programs.append(plain("step by step bf16", folder, batch, torch.bfloat16))
    worker = None if python is None else Worker(python, folder, batch)
    if worker is not None:
        programs.append(Program("simple_elmo", worker.encode, worker.layers, worker.pid))
    agree(programs, sentences[: min(batch, COMPARED)])
    seconds: dict[str, list[float]] = {program.name: [] for program in programs}
    busy: dict[str, float] = dict.fromkeys(seconds, 0.0)
    for turn in range(given.repeats + 1):
        for program in programs:
            others = [] if program.pid is None else [program.pid]
            before = Usage.now(others)
            took = program.encode(sentences)
            if turn:
                seconds[program.name].append(took)
                seen = before.cores_of_others(Usage.now(others))
                busy[program.name] = max(busy[program.name], seen)
    if worker is not None:
        worker.close()
    tokens = sum(map(len, sentences))
    return [
        _figure(size, batch, name, [tokens / one for one in times], busy[name])
        for name, times in seconds.items()
    ]


def _figure(size: str, batch: int, name: str, speeds: list[float], busy: float) -> Figure:
    return Figure(size, batch, name, statistics.median(speeds), min(speeds), max(speeds), busy)


def agree(programs: Sequence[Program], sentences: Sequence[Words]) -> None:
    """Make sure that all programs in fp32 compute the same."""
    exact = [program for program in programs if "bf16" not in program.name]
    wanted = exact[0].layers(sentences)
    for program in exact[1:]:
        pairs = zip(wanted, program.layers(sentences), strict=True)
        gap = max(float(np.abs(one - other).max()) for one, other in pairs)
        print(f"  {exact[0].name} and {program.name}: largest difference {gap:.1e}", flush=True)
        if not gap <= AGREEMENT:
            sys.exit(f"{program.name} does not agree: {gap:.1e} is more than {AGREEMENT:.0e}")


def compare_precisions(size: str, folder: Path) -> list[Deviation]:
    """How far our bf16 is from our fp32, layer by layer."""
    sentences = some_sentences(COMPARED)
    exact, coarse = (
        np.concatenate(ours("", folder, COMPARED, kind).layers(sentences), axis=1)
        for kind in ("fp32", "bf16")
    )
    found: list[Deviation] = []
    for layer, (one, other) in enumerate(zip(exact, coarse, strict=True)):
        sizes = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = (one * other).sum(axis=1) / sizes
        gap = float(np.abs(one - other).max())
        found.append(Deviation(size, layer, float(cosines.mean()), float(cosines.min()), gap))
    return found


def tell(figures: Sequence[Figure], deviations: Sequence[Deviation]) -> None:
    """Print the tables."""
    if figures:
        tell_speeds(figures)
    if deviations:
        tell_deviations(deviations)


def tell_speeds(figures: Sequence[Figure]) -> None:
    """Print how fast each program is."""
    theirs = {(one.size, one.batch): one for one in figures if one.program == "simple_elmo"}
    print("\n| model | batch | program | tokens/s | lowest to highest | × simple_elmo | others |")
    print("|---|---|---|---|---|---|---|")
    for one in figures:
        other = theirs.get((one.size, one.batch))
        ratio = "" if other is None else f"{one.median / other.median:.2f}"
        spread = f"{one.lowest:,.0f} to {one.highest:,.0f}"
        print(
            f"| {one.size} | {one.batch} | {one.program} | {one.median:,.0f} | {spread} "
            f"| {ratio} | {one.cores_of_others:.2f} cores |"
        )


def tell_deviations(deviations: Sequence[Deviation]) -> None:
    """Print how far bf16 is from fp32."""
    print("\n| model | layer | mean cosine of bf16 and fp32 | lowest | largest difference |")
    print("|---|---|---|---|---|")
    for two in deviations:
        print(
            f"| {two.size} | {two.layer} | {two.mean_cosine:.6f} | {two.lowest_cosine:.6f} | "
            f"{two.largest_difference:.4f} |"
        )


def _machine(threads: int, busy: float) -> str:
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {threads} threads, torch "
        f"{torch.__version__}, Python {platform.python_version()}; others take {busy:.2f} cores"
    )


if __name__ == "__main__":
    main()

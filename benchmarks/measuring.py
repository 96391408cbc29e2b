"""Cases measured in turn, each in a process of its own, on a machine that does nothing else.

A machine's speed drifts, so cases are measured A B C, A B C, …, and what is compared was measured
in one run. A process of its own gives each the same start, and tells the memory that it took.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from bench_files import (
    BenchFile,
    Curve,
    Figure,
    Machine,
    command_line,
    commit,
    now,
    shown,
    write_bench,
)
from elmo.study.jobs import end_with_parent
from machine_load import ALLOWED, Usage, cores_busy

TRIES = 5
"""So often a case is measured if others are busy meanwhile; then we give up."""
LOOKS = 40
"""Of some seconds each, in which a machine may come to rest before the next try."""
BUSY_LOOP = "while True: pass"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Case(Generic[T]):
    """Something to be measured."""

    name: str
    unit: str
    work: Callable[..., T]
    arguments: tuple[Any, ...] = ()
    at: float | None = None
    """Where on its scale, if it is a case of growth."""
    one_core_taken: bool = False
    """Measured beside a process that takes all of a core it can get."""


class Alone(NamedTuple):
    """What a process gave, and the most memory it took."""

    value: Any
    peak_megabytes: float


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What one measurement of a case gave, and who else was there."""

    value: T
    peak_megabytes: float
    cores_of_others: float


def flags(about: str | None, source: str = "ag_news") -> argparse.ArgumentParser:
    """The flags that all benchmarks have."""
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement of speed")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--source", default=source, help="the text")
    parser.add_argument(
        "--folder", type=Path, default=Path("docs/performance"), help="for the results"
    )
    parser.add_argument(
        "--scratch", type=Path, default=Path("build/bench"), help="for what is made on the way"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="measure on a busy machine; the result says so"
    )
    return parser


def refuse_busy(*, anyway: bool) -> float:
    """How many cores others take; if they are too many, nothing is measured."""
    busy = cores_busy()
    if busy > ALLOWED and not anyway:
        sys.exit(
            f"others keep {busy:.2f} cores busy ({ALLOWED:.2f} are allowed): figures would be "
            "worth nothing. Wait until they are done, or use --anyway to see that it works"
        )
    return busy


def in_turn(cases: Sequence[Case[float]], repeats: int, *, anyway: bool) -> tuple[Figure, ...]:
    """Measure all cases once, then all once more, and so on."""
    found: list[list[Outcome[float]]] = [[] for _ in cases]
    for turn in range(repeats):
        for case, outcomes in zip(cases, found, strict=True):
            outcome = calmly(case, anyway=anyway)
            outcomes.append(outcome)
            _say(f"{turn + 1}/{repeats} {_title(case)}: {shown(outcome.value)} {case.unit}")
    return tuple(_figure(case, outcomes) for case, outcomes in zip(cases, found, strict=True))


def calmly(case: Case[T], *, anyway: bool) -> Outcome[T]:
    """Measure a case, again if others were busy meanwhile."""
    for _ in range(TRIES):
        outcome = _measured(case)
        if anyway or outcome.cores_of_others <= ALLOWED:
            return outcome
        _say(f"{_title(case)}: others took {outcome.cores_of_others:.2f} cores; once more")
        _wait_for_rest()
    sys.exit(f"{_title(case)}: others were busy {TRIES} times in a row; nothing was written")


def _wait_for_rest() -> None:
    """Hours of measurements must not be lost to a minute in which somebody else is busy."""
    for _ in range(LOOKS):
        if cores_busy() <= ALLOWED:
            return


def write_found(
    name: str,
    folder: Path,
    before: float,
    figures: Sequence[Figure],
    curves: Sequence[Curve] = (),
) -> None:
    """Write the file of a benchmark, marked if the machine was busy."""
    worst = max([before, *(one.cores_of_others for one in figures)])
    found = BenchFile(
        name=name,
        command=command_line(),
        commit=commit(),
        finished=now(),
        machine=Machine.this(),
        cores_of_others_before=before,
        busy=worst > ALLOWED,
        figures=tuple(figures),
        curves=tuple(curves),
    )
    _say(f"{write_bench(folder, found)}: {len(figures)} figures, others took {worst:.2f} cores")


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Alone:
    """Call a function where nothing has been done before."""
    spawn = multiprocessing.get_context("spawn")
    # A killed benchmark leaves nobody behind who would disturb the next one.
    with ProcessPoolExecutor(1, spawn, initializer=end_with_parent) as pool:
        return pool.submit(in_this_process, work, *arguments).result()


def in_this_process(work: Callable[..., Any], *arguments: Any) -> Alone:
    """Call a function; tell the most memory that this process has had, or one that it started."""
    value = work(*arguments)
    # Of ourselves, getrusage would tell the peak of the process from which we were forked.
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (own,) = [int(line.split()[1]) for line in status if line.startswith("VmHWM")]
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return Alone(value, max(own, started) * 1024 / 1e6)


@contextmanager
def one_core_taken() -> Generator[subprocess.Popen[bytes]]:
    """Let another process take a core."""
    other = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
    try:
        yield other
    finally:
        other.kill()
        other.wait()


def _measured(case: Case[T]) -> Outcome[T]:
    before = Usage.now()
    # The other process ends, and is counted as ours, before we look how busy others were.
    with one_core_taken() if case.one_core_taken else nullcontext():
        value, peak = in_own_process(case.work, *case.arguments)
    return Outcome(value, peak, before.cores_of_others(Usage.now()))


def _figure(case: Case[float], outcomes: Sequence[Outcome[float]]) -> Figure:
    return Figure.of(
        case.name,
        case.unit,
        [one.value for one in outcomes],
        peak_megabytes=max(one.peak_megabytes for one in outcomes),
        cores_of_others=max(one.cores_of_others for one in outcomes),
        at=case.at,
    )


def _title(case: Case[Any]) -> str:
    return case.name if case.at is None else f"{case.name} {case.at:,g}"


def _say(line: str) -> None:
    print(line, flush=True)

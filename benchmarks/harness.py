"""Cases measured in turn, each in a process of its own, on a machine that does nothing else.

A machine's speed drifts, so cases are measured A B C, A B C, …, and what is compared was measured
in one run. A process of its own gives each the same start, and tells the memory that it took.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from elmo.config import from_json, to_json
from elmo.files import read_json, sha256, write_json
from elmo.runtime import machine_memory, processor_name
from elmo.study.pool import end_with_parent
from elmo.text.corpus import LEXICON, ShardWriter, write_manifest
from elmo.text.vocabulary import END, SPECIAL_WORDS, START, Vocabulary

# Random text whose words are as frequent as Zipf's law says, of any vocabulary and length.


def zipf(words: int) -> np.ndarray:
    """How frequent each word is."""
    chances = 1 / np.arange(1, words - len(SPECIAL_WORDS) + 1)
    return np.concatenate([chances, np.zeros(len(SPECIAL_WORDS))]) / chances.sum()


def vocabulary(words: int) -> Vocabulary:
    """Words of the frequencies of the text."""
    names = (*SPECIAL_WORDS, *(f"word{rank}" for rank in range(words - len(SPECIAL_WORDS))))
    return Vocabulary(names, tuple(words // (rank + 1) + 1 for rank in range(words)))


def write_zipf_corpus(folder: Path, words: int, length: int, tokens: int) -> Path:
    """A prepared corpus of documents of one length, nothing held out; the same every time."""
    random = np.random.default_rng(0)
    documents = max(1, tokens // length)
    drawn = random.choice(words, (documents, length), p=zipf(words)) + len(SPECIAL_WORDS)
    writer = ShardWriter(folder / "train")
    for row in drawn.tolist():
        writer.add([START, *row, END])
    writer.close()
    vocabulary(words).save(folder / LEXICON)
    write_manifest(folder, {**writer.hashes, LEXICON: sha256(folder / LEXICON)})
    return folder


# What a benchmark found, as a JSON file: figures, and the machine, load, commit and command.


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a case showed, repeat by repeat."""

    name: str
    unit: str
    values: tuple[float, ...]
    median: float
    lowest: float
    highest: float
    peak_megabytes: float
    """The most memory that a repeat took."""
    cores_of_others: float
    """How many cores did something else, at worst."""
    at: float | None = None
    """Where on its scale, if it is a figure of growth."""

    @classmethod
    def of(
        cls,
        name: str,
        unit: str,
        values: Sequence[float],
        *,
        peak_megabytes: float = 0.0,
        cores_of_others: float = 0.0,
        at: float | None = None,
    ) -> Figure:
        """Sum up some repeats."""
        return cls(
            name=name,
            unit=unit,
            values=tuple(values),
            median=statistics.median(values),
            lowest=min(values),
            highest=max(values),
            peak_megabytes=peak_megabytes,
            cores_of_others=cores_of_others,
            at=at,
        )


@dataclass(frozen=True, kw_only=True)
class Curve:
    """How a model got better: perplexity of held-out text after so much training."""

    name: str
    seconds: tuple[float, ...]
    """Of training alone."""
    tokens: tuple[int, ...]
    perplexity: tuple[float, ...]
    predicted: int
    """Held-out words, boundaries included, that each direction was asked for."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where it was measured."""

    processor: str
    cores: int
    gigabytes: float
    bf16_units: bool
    system: str
    python: str
    torch: str

    @classmethod
    def this(cls) -> Machine:
        """The machine we are on."""
        # Here, since every process that measures reads this file, and not all of them need torch.
        import torch

        from elmo.runtime import has_bf16_units

        return cls(
            processor=processor_name(),
            cores=len(os.sched_getaffinity(0)),
            gigabytes=round(machine_memory() / 1e9, 1),
            bf16_units=has_bf16_units(torch.device("cpu")),
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
            torch=str(torch.__version__),
        )


@dataclass(frozen=True, kw_only=True)
class BenchFile:
    """All that one benchmark found."""

    name: str
    command: str
    commit: str
    finished: str
    """Date and time in UTC."""
    machine: Machine
    cores_of_others_before: float
    busy: bool
    """Others took more than is allowed, and it was measured anyway: figures are worth little."""
    figures: tuple[Figure, ...]
    curves: tuple[Curve, ...] = ()

    def figure(self, name: str, at: float | None = None) -> Figure | None:
        """The figure of that name, if it was measured."""
        found = (one for one in self.figures if one.name == name and one.at == at)
        return next(found, None)

    def scale(self, name: str) -> list[Figure]:
        """The figures of growth along a scale, in its order."""
        found = [one for one in self.figures if one.name == name and one.at is not None]
        return sorted(found, key=lambda one: one.at or 0.0)


def write_bench(folder: Path, found: BenchFile) -> Path:
    """Write it to NAME.json in a folder."""
    path = folder / f"{found.name}.json"
    write_json(path, to_json(found))
    return path


def read_bench(path: Path) -> BenchFile:
    """Read what was written; anything else is refused."""
    return from_json(BenchFile, read_json(path), str(path))


def shown(value: float) -> str:
    """A number for people: three digits, or all that stand before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def command_line() -> str:
    """How this script was called, wherever it lies."""
    script, *flags = sys.argv
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *flags])


def commit() -> str:
    """The version that is measured; "-dirty" behind it where files have been changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    here = Path(__file__).parent
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def now() -> str:
    """Date and time, to the minute."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M}"


# How busy a machine is with other work: before a measurement, and while it runs (Linux only).


TICKS = os.sysconf("SC_CLK_TCK")
IDLE_COLUMNS = (3, 4)
"""Of the line `cpu` in /proc/stat: idle, and waiting for a disk."""
ALLOWED = 0.15
"""Cores that others may take; more, and figures are not worth keeping."""


@dataclass(frozen=True)
class Usage:
    """Processor time, in seconds of a core."""

    at: float
    all: float
    """Of everything that runs on the machine, or was kept from running by its host."""
    ours: float
    """Of the processes that measure, and of those they have started and seen end."""

    @classmethod
    def now(cls, others: Iterable[int] = ()) -> Usage:
        """The time used so far, by this process and others that work for it."""
        columns = [int(one) for one in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        busy = sum(value for place, value in enumerate(columns) if place not in IDLE_COLUMNS)
        ours = sum(_seconds_of(pid) for pid in (os.getpid(), *others))
        return cls(time.monotonic(), busy / TICKS, ours)

    def cores_of_others(self, later: Usage) -> float:
        """How many cores, on average, did something else until later."""
        elapsed = max(1e-9, later.at - self.at)
        return max(0.0, (later.all - self.all) - (later.ours - self.ours)) / elapsed


def cores_busy(seconds: float = 3.0) -> float:
    """How many cores others take while we wait."""
    before = Usage.now()
    time.sleep(seconds)
    return before.cores_of_others(Usage.now())


def _seconds_of(pid: int) -> float:
    # The name in brackets may hold anything, so fields are counted from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS  # its own, and that of its children that ended


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

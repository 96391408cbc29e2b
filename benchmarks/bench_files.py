"""What a benchmark found, as a JSON file: figures, and the machine, load, commit and command."""

from __future__ import annotations

import os
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from elmo.config import from_json, to_json
from elmo.files import read_json, write_json
from elmo.runtime import machine_memory
from elmo.study.results import processor


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

        from elmo.training.optim import has_bf16_units

        return cls(
            processor=processor(),
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

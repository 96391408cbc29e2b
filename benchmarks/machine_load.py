"""How busy a machine is with other work: before a measurement, and while it runs (Linux only)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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

"""What a report must tell of where its figures were made: versions, machine, time."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from elmo.memory import machine_memory
from elmo.study.results import Named

PACKAGES = ("elmo", "torch", "numpy", "scikit-learn", "gensim")


def versions() -> tuple[Named, ...]:
    """Python's, and those of the packages that compute something."""
    found = [Named(name="Python", value=platform.python_version())]
    for package in PACKAGES:
        try:
            found.append(Named(name=package, value=version(package)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def machine() -> str:
    """Processor, cores and memory."""
    cores = len(os.sched_getaffinity(0))
    memory = machine_memory() / 2**30
    unit = "core" if cores == 1 else "cores"
    return f"{processor()}, {cores} {unit}, {memory:.0f} GB, {platform.system()}"


def processor() -> str:
    """The model of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

"""Freed memory is used again instead of being asked for anew; how much there is, is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elmo import runtime as memory

FAULTS = """
import resource, sys
import torch
from elmo.runtime import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    assert keep_freed_memory()
for _ in range(20):
    torch.ones(10_000_000)
before = faults()
for _ in range(5):
    torch.ones(10_000_000)
print(faults() - before)
"""


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only the GNU C library is set")
def test_a_tensor_takes_the_place_of_one_that_was_freed() -> None:
    pages = 10_000_000 * 4 // 4096
    assert faults("kept") < pages / 10
    assert faults("given back") > pages


def test_the_machines_memory_is_what_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_GROUP_LIMIT", Path("/nowhere"))
    lines = Path("/proc/meminfo").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal"))
    assert memory.machine_memory() == 1024 * kilobytes


@pytest.mark.parametrize(("limit", "found"), [("4096\n", 4096), ("max\n", None)])
def test_a_limit_of_the_group_of_processes_counts(
    limit: str, found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_GROUP_LIMIT", tmp_path / "none")
    whole = memory.machine_memory()
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(memory, "_GROUP_LIMIT", tmp_path / "memory.max")
    assert memory.machine_memory() == (found or whole)

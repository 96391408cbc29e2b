"""Freed memory is used again instead of being asked for anew, page by page."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from elmo.memory import keep_freed_memory

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

"""A sample of the attacks of docs/robustness.md; all of them with `make soak`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faults.conftest import SOAK

ROOT = Path(__file__).parents[2]


def test_attacks_end_in_a_clear_error_or_a_right_result() -> None:
    which = ["--jobs", "--loopback"] if SOAK else ["--quick", "--sample", "60"]
    # A process of its own: its children are forked, which only a process without threads may do.
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.attacks", *which],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""Benchmarks are scripts beside the package, not modules of it: put their folder on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

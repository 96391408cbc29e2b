"""What tests compare with lies beside the model's tests; small models want one thread."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "language"), str(TESTS / "bilm")]

"""What tests compare with lies beside them and beside the model's; small models want one thread."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bilm")]

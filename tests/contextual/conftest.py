"""What tests compare with lies beside the model's tests; small models want one thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "language"), str(TESTS / "bilm")]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread while the tests of a module run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

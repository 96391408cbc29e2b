"""What the tests of the biLM share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread_a_direction(one_thread: None) -> Iterator[None]:
    """Two threads, so that the directions are computed at the same time, as they are in use."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)
